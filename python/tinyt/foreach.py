"""`torch._foreach_add_` and its like: one operation on every tensor of a list.

They are loops over the operations of single tensors, with those operations' gradients, dtypes and
errors. A function gives a tuple of results; one whose name ends in ``_`` writes into the tensors of
its first list, which it returns. A second operand is a number for all tensors, a list of a number
for each, a 0-d tensor for all, or a list of a tensor for each.

>>> import tinyt
>>> tinyt._foreach_mul([tinyt.ones(1), tinyt.ones(2)], [2.0, 3.0])
(tensor([2.]), tensor([3., 3.]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any

from tinyt import ops
from tinyt.tensor import Tensor

__all__ = ["EXPORTS"]

Tensors = Sequence[Tensor]
# One tensor's part of a call: the tensor and its operands; in place where a method says so.
_Step = Callable[..., Any]

# Operations of one tensor; each has a form in place.
_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1"),
    *("floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round"),
    *("rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
# Names of the second operand, as PyTorch's forms have them.
_OTHER = ("other", "scalar", "scalars", "exponent")
_WEIGHT = ("weight", "weights")
_VALUE = ("value", "scalars")


def _list(name: str, tensors: Any) -> list[Tensor]:
    """The tensors of a first or further list."""
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(x, Tensor) for x in tensors):
        raise TypeError(f"{name}: expected a list of tensors, got {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError(f"{name}: a list must have at least one tensor")
    return list(tensors)


def _like(name: str, tensors: list[Tensor], others: Any) -> list[Tensor]:
    """A further list of tensors, as long as the first."""
    found = _list(name, others)
    if len(found) != len(tensors):
        raise RuntimeError(
            f"{name}: lists must have the same number of tensors, got {len(tensors)} and "
            f"{len(found)}"
        )
    return found


def _each(name: str, tensors: list[Tensor], operand: Any) -> list[Any]:
    """The operand of each tensor."""
    if isinstance(operand, Number):
        return [operand] * len(tensors)
    if isinstance(operand, Tensor):
        if operand.dim() != 0:
            raise RuntimeError(
                f"{name}: a tensor for all must have no dimensions, got shape "
                f"{tuple(operand.shape)}"
            )
        return [operand] * len(tensors)
    if not isinstance(operand, (list, tuple)):
        raise TypeError(
            f"{name}: expected a number, a tensor or a list of either, got {type(operand).__name__}"
        )
    if len(operand) != len(tensors):
        raise RuntimeError(
            f"{name}: lists must have the same number of elements, got {len(tensors)} tensors and "
            f"{len(operand)} operands"
        )
    return list(operand)


def _scalars(name: str, tensors: list[Tensor], value: Any) -> list[Any]:
    """The factor of each tensor: numbers, which may lie in one tensor."""
    if isinstance(value, Tensor):
        value = value.tolist()
    return _each(name, tensors, value)


def _take(name: str, given: Any, options: dict[str, Any], names: Sequence[str]) -> Any:
    """An operand by position or by one of its names."""
    for key in names:
        if given is None and key in options:
            given = options.pop(key)
    if given is None or options:
        wrong = f"unexpected {sorted(options)}" if options else f"missing {names[0]}"
        raise TypeError(f"{name}: {wrong}")
    return given


def _pair(name: str, step: _Step, has_alpha: bool) -> Callable[..., tuple[Any, ...]]:
    """A function of a list and a second operand."""

    def function(self: Any, other: Any = None, **options: Any) -> tuple[Any, ...]:
        scale = {"alpha": options.pop("alpha")} if has_alpha and "alpha" in options else {}
        other = _take(name, other, options, _OTHER)
        if name == "_foreach_pow" and isinstance(self, Number):
            base: Any = self
            return tuple(ops.pow(base, x) for x in _list(name, other))
        tensors = _list(name, self)
        operands = _each(name, tensors, other)
        if scale and not isinstance(operands[0], Tensor):
            raise TypeError(f"{name}: alpha goes with tensors, not with numbers")
        return tuple(step(x, y, **scale) for x, y in zip(tensors, operands, strict=True))

    return function


def _triple(name: str, step: _Step) -> Callable[..., tuple[Any, ...]]:
    """A function of three lists and the factors of a product or quotient."""

    def function(
        self: Any, tensor1: Any, tensor2: Any, value: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        value = 1 if value is None and not options else _take(name, value, options, _VALUE)
        tensors = _list(name, self)
        first, second = (_like(name, tensors, given) for given in (tensor1, tensor2))
        factors = _scalars(name, tensors, value)
        entries = zip(tensors, first, second, factors, strict=True)
        return tuple(step(x, a, b, value=factor) for x, a, b, factor in entries)

    return function


def _blend(name: str, step: _Step) -> Callable[..., tuple[Any, ...]]:
    """`lerp` of two lists."""

    def function(self: Any, tensors1: Any, weight: Any = None, **options: Any) -> tuple[Any, ...]:
        weight = _take(name, weight, options, _WEIGHT)
        tensors = _list(name, self)
        ends, weights = _like(name, tensors, tensors1), _each(name, tensors, weight)
        return tuple(step(x, y, w) for x, y, w in zip(tensors, ends, weights, strict=True))

    return function


def _alone(name: str, step: _Step) -> Callable[..., tuple[Any, ...]]:
    """A function of one list, with options that all tensors share."""

    def function(self: Any, *shared: Any, **options: Any) -> tuple[Any, ...]:
        return tuple(step(x, *shared, **options) for x in _list(name, self))

    return function


def _with(name: str, step: _Step) -> Callable[..., tuple[Any, ...]]:
    """A function of two lists of tensors, with options that all share."""

    def function(self: Any, other: Any, *shared: Any, **options: Any) -> tuple[Any, ...]:
        tensors = _list(name, self)
        others = _like(name, tensors, other)
        pairs = zip(tensors, others, strict=True)
        return tuple(step(x, y, *shared, **options) for x, y in pairs)

    return function


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The first list as the result."""

    def written(self: Any, *args: Any, **options: Any) -> Any:
        function(self, *args, **options)
        return self

    return written


def _at_least(x: Tensor, other: Any) -> Tensor:
    return x.clamp(min=other)


def _at_most(x: Tensor, other: Any) -> Tensor:
    return x.clamp(max=other)


def _at_least_(x: Tensor, other: Any) -> Tensor:
    return x.clamp_(min=other)


def _at_most_(x: Tensor, other: Any) -> Tensor:
    return x.clamp_(max=other)


def _norm(x: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    found: Tensor = (
        ops.EXPORTS["norm"](x, ord, dtype=dtype) if dtype else ops.EXPORTS["norm"](x, ord)
    )
    return found


def _powsum(x: Tensor, ord: Any = 2, dtype: Any = None) -> Tensor:
    return x.abs().pow(ord).sum(dtype=dtype)


def _copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return x.copy_(source)


def _made(name: str, function: Callable[..., Any], doc: str) -> tuple[str, Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return name, function


def _rows() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """(name without the prefix, how a list is gone through, what it does to a tensor)."""
    for op in _UNARY:
        yield op, lambda name, step: _alone(name, step), op
    for op in ("add", "sub"):
        yield op, lambda name, step: _pair(name, step, has_alpha=True), op
    for op in ("mul", "div", "pow"):
        yield op, lambda name, step: _pair(name, step, has_alpha=False), op
    for op in ("addcmul", "addcdiv"):
        yield op, _triple, op
    yield "lerp", _blend, "lerp"


_ZERO = "Zeros for every tensor, in place."
_COPY = "The elements of a second list, written into the tensors of the first."


def _table() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}

    def add(op: str, kind: Callable[..., Any], step: _Step, step_: _Step | None) -> None:
        name = f"_foreach_{op}"
        table.update([_made(name, kind(name, step), f"`{op}` of every tensor.")])
        if step_ is not None:
            function = _in_place(kind(f"{name}_", step_))
            table.update([_made(f"{name}_", function, f"`{op}` of every tensor, in place.")])

    for op, kind, method in _rows():
        add(op, kind, getattr(Tensor, method), getattr(Tensor, f"{method}_"))
    for ops_of, step, step_ in (
        (("maximum", "clamp_min"), _at_least, _at_least_),
        (("minimum", "clamp_max"), _at_most, _at_most_),
    ):
        for op in ops_of:
            add(op, lambda name, step: _pair(name, step, has_alpha=False), step, step_)
    add("clone", _alone, Tensor.clone, None)
    add("max", _alone, Tensor.max, None)
    add("mm", _with, Tensor.mm, None)
    add("norm", _alone, _norm, None)
    add("powsum", _alone, _powsum, None)
    zero = _in_place(_alone("_foreach_zero_", Tensor.zero_))
    copy = _in_place(_with("_foreach_copy_", _copy))
    table.update([_made("_foreach_zero_", zero, _ZERO), _made("_foreach_copy_", copy, _COPY)])
    return table


EXPORTS: dict[str, Any] = _table()
