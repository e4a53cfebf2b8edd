"""A step of a program as those see it who write it in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from tinyt import _core
from tinyt.compiler.export.kernels import copy_kernel, run_kernel
from tinyt.compiler.export.source import Memory, bits_type, c_type, sizes
from tinyt.compiler.export.values import Value, broadcast, merged
from tinyt.compiler.graph.graph import OPS
from tinyt.compiler.passes.views import contiguous
from tinyt.ops.common import OP_TABLE

if TYPE_CHECKING:
    from tinyt._tensor import dtype
    from tinyt.compiler.export.source import Source

_ATTRIBUTES = {
    row["name"]: [word.partition(":")[0] for word in row["attributes"].split()] for row in OP_TABLE
}


class Call:
    """A call of an op: its operands, results and attributes, and where its text goes.

    ``x`` are the inputs, ``y`` the outputs, which are dense. ``attrs`` has the attributes by the
    names of the op table. ``take``: a piece of memory of so many bytes for the length of the step.
    """

    def __init__(
        self,
        out: Source,
        op: str,
        compute: dtype,
        attrs: Sequence[Any],
        x: Sequence[Value],
        y: Sequence[Value],
        take: Callable[[int], int],
        fault: Callable[[str], int],
    ) -> None:
        self.out, self.op, self.compute, self._take, self._fault = out, op, compute, take, fault
        self.draw: tuple[int, int] | None = None  # generator, and how far into its counters
        self.numbers: tuple[int, ...] = ()  # of a step that is no row of the op table
        self.attrs = dict(zip(_ATTRIBUTES.get(op, ()), attrs, strict=True))
        self.x, self.y = list(x), list(y)

    def scratch(self, shape: Sequence[int], t: dtype) -> Value:
        """A dense value in memory for the length of the step."""
        piece = self._take(max(1, prod(shape)) * t.itemsize)
        return Value(shape, contiguous(tuple(shape)), t, Memory(piece, 0, c_type(t)))

    def scratch_bytes(self, nbytes: int, type_: str) -> Memory:
        """Memory for the length of the step as an expression: elements of a type of C."""
        return Memory(self._take(max(1, nbytes)), 0, type_)

    def dense(self, value: Value, t: dtype | None = None) -> Value:
        """A value whose elements lie one after another, in dtype ``t`` if given: itself, or a copy
        that is made now."""
        t = value.dtype if t is None else t
        if value.is_dense and t is value.dtype:
            return value
        made = self.scratch(value.shape, t)
        self.cast(value, made)
        return made

    def cast(self, x: Value, y: Value) -> None:
        """Writes a value into a dense one that it broadcasts to, converted to its dtype."""
        self.kernel(copy_kernel(y.shape, x.dtype, y.dtype), [x], [y])

    def copy(self, x: Value, y: Value) -> None:
        """Copies elements, wherever both lie."""
        if y.numel == 0:
            return
        if x.dtype is not y.dtype:
            x = self.dense(x, y.dtype)
        if x.is_dense and y.is_dense and x.shape == y.shape:
            self.out.call("memmove", y, x, y.numel * y.dtype.itemsize)
            return
        shape, (a, b) = merged(y.shape, [broadcast(x, y.shape), y.stride])
        places = x.as_bits(), sizes(a), y.as_bits(), sizes(b)
        self.run("copy", "tt_copy_T", *places, sizes(shape), len(shape), T=bits_type(y.dtype))

    def kernel(
        self, kernel: _core.FusedKernel, loads: Sequence[Value], stores: Sequence[Value]
    ) -> None:
        """Calls a fused kernel."""
        run_kernel(self.out, kernel, loads, stores, self.dense)

    def run(self, template: str, function: str, *arguments: object, **types: str) -> None:
        """Calls a function of a template, whose types are given by their letters."""
        self.out.call(self.out.use(template, function, **types), *arguments)

    def check(self, template: str, function: str, what: str, *arguments: object, **t: str) -> None:
        """The same of a function that returns 0, or something else where it finds values that the
        op cannot take: then the run ends, and returns the number of that text."""
        name = self.out.use(template, function, **t)
        code = self._fault(f"{self.op}: {what}")
        text = f"if ({name}({', '.join(map(str, arguments))}) != 0) return {code};"
        self.out.statements.append(text)

    def elementwise(
        self, op: str, inputs: Sequence[Value], y: Value, compute: dtype | None = None
    ) -> None:
        """Calls a scalar op, in the dtype of its result unless another one is given."""
        operands = [(i, v.numel == 1) for i, v in enumerate(inputs)]
        row = (op, compute or y.dtype, y.dtype, False, operands)
        types = [v.dtype for v in inputs]
        self.kernel(_core.FusedKernel(list(y.shape), 0, types, [row], [len(inputs)]), inputs, [y])


Emit = Callable[[Call], None]
EMITTERS: dict[str, Emit] = {}


def emit_scalar(call: Call) -> None:
    """Writes a call of a scalar op; one that divides integers looks for a divisor of 0 first."""
    if "value_error" in OPS[call.op]["flags"] and not call.compute.is_floating_point:
        divisor = call.dense(call.x[1])
        if call.y[0].numel:
            zero, t = "division by zero", c_type(divisor.dtype)
            call.check("zeros", "tt_has_zero_T", zero, divisor, divisor.numel, T=t)
    call.elementwise(call.op, call.x, call.y[0], call.compute)


F = TypeVar("F", bound=Emit)


def emits(*ops: str) -> Callable[[F], F]:
    """Registers the function that writes calls of these ops."""

    def register(emit: F) -> F:
        for op in ops:
            EMITTERS[op] = emit
        return emit

    return register
