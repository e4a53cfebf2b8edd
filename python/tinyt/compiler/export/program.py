"""A planned program as statements in C, over memory that is there before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tinyt.compiler.export.calls import EMITTERS, Call, emit_scalar
from tinyt.compiler.export.memory import Piece, assign
from tinyt.compiler.export.numbers import write_numbers
from tinyt.compiler.export.source import Memory, Source, c_type, placed
from tinyt.compiler.export.values import Value, pointer
from tinyt.compiler.graph.graph import OPS
from tinyt.compiler.inspect.facts import Operand, read_program
from tinyt.compiler.passes.views import contiguous
from tinyt.dtypes import ALL

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt._tensor import dtype
    from tinyt.compiler.export.sizes import Size
    from tinyt.compiler.inspect.facts import Step
    from tinyt.tensor import Tensor

# Each registers how it writes some ops.
for _family in (
    "moves",
    "indexing",
    "pooling",
    "scans",
    "products",
    "convolutions",
    "reductions",
    "norms",
    "searches",
    "draws",
    "losses",
    "attention",
    "updates",
    "factors",
):
    import_module(f"{__package__}.families.{_family}")


# Of an operand: place, first byte, shape, strides, dtype number.
Row: TypeAlias = tuple[int, int, Sequence[int], Sequence[int], int]


class Port(NamedTuple):
    """An argument or a result of the exported function."""

    name: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: dtype
    nbytes: int
    written: bool  # by the run
    text: str = ""  # that describes it, where sizes are arguments

    @property
    def elements(self) -> int:
        """Elements of memory from the first one on."""
        return self.nbytes // self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie one after another in row-major order."""
        return Value(self.shape, self.stride, self.dtype, self.name).is_dense


class Weight(NamedTuple):
    """Memory that is there before a run and after it."""

    name: str
    tensor: Tensor  # all of it, 1-d
    written: bool
    shape: tuple[int, ...] = ()  # of what is written
    number: int = -1  # of those that each run reads anew, as a learning rate
    is_fresh: bool = False  # each run writes all of it before reading any

    @property
    def is_number(self) -> bool:
        """Whether it is one of those."""
        return self.number >= 0


class Draft(NamedTuple):
    """A program whose memory has no addresses yet: its statements name pieces of it."""

    source: Source
    statements: list[str]
    pieces: list[Piece]
    inputs: list[Port]
    outputs: list[Port]
    weights: list[Weight]
    faults: list[str]
    generators: list[int]


class Exported(NamedTuple):
    """The parts of a C file."""

    source: Source
    statements: list[str]
    arena_bytes: int
    inputs: list[Port]
    outputs: list[Port]
    weights: list[Weight]
    faults: list[str]  # what a run may return, from 1 on
    generators: list[int]  # of random numbers: how many counters a run takes of each
    sizes: tuple[Size, ...] = ()  # that are arguments


def export_program(
    program: _core.Program,
    wanted: Sequence[int],
    graph: _core.Graph | None = None,
    draws: Sequence[int] = (),
) -> Exported:
    """Writes all steps; the results ``wanted``, by their numbers, are the function's outputs.
    ``graph``: what the program was planned from, for steps that are no rows of the op table;
    ``draws``: how many counters a run takes of each generator of random numbers.

    NotImplementedError where a step has no form in C.
    """
    draft = draft_program(program, wanted, graph, draws)
    offsets, total = assign(draft.pieces)
    return Exported(
        draft.source,
        placed(draft.statements, offsets),
        total,
        draft.inputs,
        draft.outputs,
        draft.weights,
        draft.faults,
        draft.generators,
    )


def draft_program(
    program: _core.Program,
    wanted: Sequence[int],
    graph: _core.Graph | None,
    draws: Sequence[int],
    into: Draft | None = None,
) -> Draft:
    """As `export_program`, before memory has addresses; ``into``: a draft whose file and texts of
    errors this one shares."""
    writer = _Writer(program, wanted, graph, into)
    draft = writer.write()._replace(generators=list(draws))
    draft.statements.extend(f"counters[{i}] += {count}u;" for i, count in enumerate(draws))
    return draft


class _Writer:
    def __init__(
        self,
        program: _core.Program,
        wanted: Sequence[int],
        graph: _core.Graph | None,
        into: Draft | None,
    ) -> None:
        self.program, self.wanted, self.graph = program, wanted, graph
        rows = [] if graph is None else graph.nodes()
        self.numbers = {  # of steps that are no rows of the op table
            step: attrs
            for step, (_, attrs, *_) in zip(program.steps_of_nodes(), rows, strict=False)
        }
        cells = [] if graph is None else graph.number_parts()[3]
        self._live = {x.data_ptr(): number for number, x in cells}
        self.facts = read_program(program, "call")
        self.out = Source() if into is None else into.source
        self.out.statements = []
        self.pieces: list[Piece] = []
        self.bases: dict[int, tuple[str, str]] = {}  # of a place: pointer, type of its elements
        self.piece_of: dict[int, int] = {}
        self.faults: list[str] = [] if into is None else into.faults
        self.step = 0

    def write(self) -> Draft:
        inputs = [self._input(i, row) for i, row in enumerate(self.program.arguments())]
        weights = self._weights()
        if self.graph is not None:
            numbers = write_numbers(self.graph, weights, self._fault, self.out.add)
            self.out.statements.extend(numbers)
        outputs = self._outputs()
        self._last_use = {
            x.place: i for i, s in enumerate(self.facts.steps) for x in (*s.inputs, *s.outputs)
        }
        for number, place in enumerate(self.facts.places):
            if place.kind in ("arena", "block", "result") and number not in self.bases:
                self._keep(number)
        draws = {step: (which, first) for step, which, first in self.program.draws()}
        for step in self.facts.steps:
            self._write_step(step, draws.get(self.step))
            self.step += 1
        for port, row in self._copied:
            self._copy_output(port, row)
        statements = self.out.statements
        return Draft(self.out, statements, self.pieces, inputs, outputs, weights, self.faults, [])

    # ---- memory

    def _input(self, number: int, row: tuple[Row, bool]) -> Port:
        (place, _, shape, stride, t), written = row
        name, kind = f"input_{number}", ALL[t]
        self.bases[place] = (name, c_type(kind))
        return Port(
            name, tuple(shape), tuple(stride), kind, self.facts.places[place].nbytes, written
        )

    def _weights(self) -> list[Weight]:
        written = {x.place: x for step in self.facts.steps for x in step.outputs}
        found: list[Weight] = []
        for place, tensor in self.program.outside():
            name = f"weight_{len(found)}"
            self.bases[place] = (name, c_type(tensor.dtype))
            seen = written.get(place)
            whole = seen is not None and seen.numel == tensor.numel()
            shape = seen.shape if seen is not None and whole else tuple(tensor.shape)
            number = self._live.get(tensor.data_ptr(), -1)
            is_fresh = seen is not None and self._is_fresh(place, tensor.numel())
            found.append(Weight(name, tensor, seen is not None, shape, number, is_fresh))
        return found

    def _is_fresh(self, place: int, numel: int) -> bool:
        """Whether the first step that uses a place writes all of it."""
        for step in self.facts.steps:
            if any(x.place == place for x in step.inputs):
                return False
            for x in step.outputs:
                if x.place == place:
                    return x.numel == numel
        return False

    def _outputs(self) -> list[Port]:
        """Results that are all of memory of their own are written there, others copied."""
        rows = self.program.results()
        ports: list[Port] = []
        self._copied: list[tuple[Port, Row]] = []
        for number in self.wanted:
            place, offset, shape, stride, t = rows[number]
            kind = ALL[t]
            port = Port(
                f"output_{len(ports)}",
                tuple(shape),
                contiguous(tuple(shape)),
                kind,
                kind.itemsize * Value(shape, stride, kind, "").numel,
                True,
            )
            ports.append(port)
            value = Value(shape, stride, kind, port.name)
            is_own = (
                place >= 0
                and self.facts.places[place].kind == "result"
                and place not in self.bases
                and value.is_dense
                and offset == 0
                and self.facts.places[place].nbytes == port.nbytes
            )
            if is_own:
                self.bases[place] = (port.name, c_type(kind))
            else:
                self._copied.append((port, rows[number]))
        return ports

    def _keep(self, number: int) -> None:
        place = self.facts.places[number]
        last = place.last
        if place.kind == "result":  # which is there to the end where the function returns it
            is_returned = any(row[0] == number for _, row in self._copied)
            last = len(self.facts.steps) if is_returned else self._last_use.get(number, -1)
        if last >= 0:
            self.piece_of[number] = self._piece(place.nbytes, max(place.first, 0), last)

    def _piece(self, nbytes: int, first: int, last: int) -> int:
        self.pieces.append(Piece(nbytes, first, last))
        return len(self.pieces) - 1

    def _take(self, nbytes: int) -> int:
        return self._piece(nbytes, self.step, self.step)

    def value(self, x: Operand) -> Value:
        """An operand of a step."""
        type_ = c_type(x.dtype)
        if x.place in self.piece_of:
            at: Memory | str = Memory(self.piece_of[x.place], x.offset, type_)
        else:
            base, own = self.bases[x.place]
            if type_ == own:
                step = x.offset // x.dtype.itemsize
                at = f"({base} + {step})" if step else base
            else:
                at = pointer(f"(unsigned char*){base} + {x.offset}", type_)
        return Value(x.shape, x.stride, x.dtype, at)

    # ---- steps

    def _write_step(self, step: Step, draw: tuple[int, int] | None) -> None:
        text = ", ".join(map(str, step.outputs))
        self.out.statements.append(f"// {self.step}: {' '.join(step.ops)}: {text}")
        x, y = [self.value(v) for v in step.inputs], [self.value(v) for v in step.outputs]
        if step.kind == "region":
            self._write_region(step, x, y)
        elif step.kind == "copy":
            self._call("copy", step.dtype, (), x, y).copy(x[0], y[0])
        elif step.kind == "op":
            self._write_op(step.ops[0], step.dtype, step.attrs, x, y, draw)
        else:
            self._write_opaque(step.ops[0], step.dtype, x, y)

    def _write_opaque(self, name: str, t: dtype, x: list[Value], y: list[Value]) -> None:
        emit = EMITTERS.get(name)
        if emit is None or self.step not in self.numbers:
            raise NotImplementedError(f"export_c: {name} has no form in C")
        call = self._call(name, t, (), x, y)
        call.numbers = self.numbers[self.step]
        emit(call)

    def _write_region(self, step: Step, x: list[Value], y: list[Value]) -> None:
        kernel = self.program.kernel(self.step)
        product = self.program.product(self.step)
        if product is not None:
            op, t, count, operand, row = product
            made = self.value(Operand(row[0], row[1], tuple(row[2]), tuple(row[3]), ALL[row[4]]))
            self._write_op(op, ALL[t], step.attrs, x[:count], [made])
            x = x[count:]
            if operand >= 0:
                x.insert(operand, made)
            y = y[: len(kernel.row_stores)]
        self._call("copy", step.dtype, (), [], []).kernel(kernel, x, y)

    def _write_op(
        self,
        op: str,
        compute: dtype,
        attrs: Sequence[object],
        x: list[Value],
        y: list[Value],
        draw: tuple[int, int] | None = None,
    ) -> None:
        emit = EMITTERS.get(op, emit_scalar if OPS[op]["kind"] == "scalar" else None)
        if emit is None:
            raise NotImplementedError(f"export_c: {op} has no form in C")
        call = self._call(op, compute, attrs, x, y)
        call.draw = draw
        made = [v if v.is_dense else call.scratch(v.shape, v.dtype) for v in y]
        call.y = list(made)
        emit(call)
        for v, have in zip(y, made, strict=True):
            if have is not v:
                call.copy(have, v)

    def _call(
        self, op: str, compute: dtype, attrs: Sequence[object], x: list[Value], y: list[Value]
    ) -> Call:
        return Call(self.out, op, compute, attrs, x, y, self._take, self._fault)

    def _fault(self, text: str) -> int:
        if text not in self.faults:
            self.faults.append(text)
        return self.faults.index(text) + 1

    def _copy_output(self, port: Port, row: Row) -> None:
        place, offset, shape, stride, t = row
        if place < 0:
            raise NotImplementedError("export_c: a result that no step makes")
        x = self.value(Operand(place, offset, tuple(shape), tuple(stride), ALL[t]))
        y = self._call("copy", ALL[t], (), [], [])
        y.copy(x, Value(shape, contiguous(tuple(shape)), ALL[t], port.name))
