"""A recorded graph as Python objects over the core's flat arrays."""

from __future__ import annotations

import struct
from array import array
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tinyt._capture import SizeGuards
from tinyt.compiler.graph.text import tensors_of, text_of
from tinyt.dtypes import ALL
from tinyt.ops.common import OP_TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt import _core
    from tinyt._tensor import dtype
    from tinyt.tensor import Tensor


# The nodes that run recordings of their own.
FLOW = frozenset({"cond", "scan", "while_loop"})


# Of the first element of a tensor.
Place: TypeAlias = int | tuple[int, int]


def place_of(x: Tensor) -> Place:
    """Where the elements of a tensor begin: of memory that the host cannot read in its storage."""
    return x.data_ptr() if x.is_cpu else (x._storage_id, x.storage_offset())


class Value(NamedTuple):
    """One edge: shape, dtype, the node that makes it (-1: an input), and where it lies, as an
    attribute of an op has that."""

    shape: tuple[int, ...]
    dtype: dtype
    node: int
    device: int = 0


class Node(NamedTuple):
    """One op: its attributes, and the numbers of the values it reads and makes.

    ``origin``: which recorded node does the same; -1: a pass made it; -2 and below: it does what
    `Graph.borrowed` has at -2 - origin.
    """

    op: str
    attrs: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: int = -1


class Input(NamedTuple):
    """A value from outside: a tensor that is there, or (None) the argument of that number.

    ``live``: the tensor holds a number that is read anew at every run; ``weak``: one of Python's
    that stays what it is.
    """

    value: int
    tensor: Tensor | None
    argument: int
    live: bool
    weak: bool


class Output(NamedTuple):
    """A returned tensor: how it lies in a dense value."""

    value: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class Write(NamedTuple):
    """The value that a tensor, or the memory of an argument, gets in the end."""

    value: int
    target: Tensor | None
    argument: int


class SplitPoint(NamedTuple):
    """The first node and output of what runs later, and its first argument; -1: all is one
    program."""

    node: int
    output: int
    argument: int = -1

    @classmethod
    def from_core(cls, graph: _core.Graph) -> SplitPoint:
        """That of a recording, in which values are numbered as they come to be: an argument of what
        runs later comes after all values of what runs first."""
        node, output = graph.split_point()
        if node < 0:
            return cls(node, output)
        last = max([v for row in graph.nodes()[:node] for v in row[3]], default=-1)
        arguments = [(value, number) for value, _, number, *_ in graph.inputs() if number >= 0]
        early = [number for value, number in arguments if value < last]
        return cls(node, output, len(early))


class Graph(NamedTuple):
    """Nodes in program order, and what goes in and comes out. The first ``recorded`` values and
    ``recorded_inputs`` are those of the recording, later ones those that passes made. ``inside``:
    what recorded nodes of control flow run. ``sizes`` notes what is asked of the sizes, if anything
    does (`noting_sizes`). ``borrowed``: nodes of other recordings, which are no rows of the op
    table, by recording and number."""

    core: _core.Graph
    nodes: list[Node]
    values: list[Value]
    inputs: list[Input]
    outputs: list[Output]
    writes: list[Write]
    split_point: SplitPoint
    recorded: int
    recorded_inputs: int
    inside: dict[int, tuple[Graph, ...]]
    sizes: SizeGuards | None = None
    borrowed: tuple[tuple[_core.Graph, int], ...] = ()

    @classmethod
    def from_core(cls, graph: _core.Graph) -> Graph:
        """Reads a finished recording."""
        values = [Value(shape, ALL[number], node, at) for shape, number, node, at in graph.values()]
        inputs = [Input(*row) for row in graph.inputs()]
        rows = graph.nodes()
        return cls(
            graph,
            [Node(*row, i) for i, row in enumerate(rows)],
            values,
            inputs,
            [Output(*row) for row in graph.outputs()],
            [Write(*row) for row in graph.writes()],
            SplitPoint.from_core(graph),
            len(values),
            len(inputs),
            {
                i: tuple(map(cls.from_core, graph.parts(i)))
                for i, row in enumerate(rows)
                if row[0] in FLOW
            },
        )

    def noting_sizes(self) -> Graph:
        """The same graph, as it was recorded, with sizes that note what is asked of them: numbers
        that compare, add up and multiply as integers do, and are none."""
        sizes = SizeGuards(self.core)
        take = sizes.take
        return self._replace(
            values=[Value(take(shape), t, node, at) for shape, t, node, at in self.values],
            nodes=[
                Node(op, take(attrs, _LETTERS.get(op, "")) if attrs else attrs, read, made, origin)
                for op, attrs, read, made, origin in self.nodes
            ],
            outputs=[
                Output(o.value, take(o.shape), take(o.stride), take((o.offset,))[0])
                for o in self.outputs
            ],
            sizes=sizes,
        )

    def to_core(self) -> _core.Graph:
        """What a program is planned from.

        Everything is checked once more, with the shapes and dtypes of every node: RuntimeError, or
        the op's own error, where a pass made something that is no graph.
        """
        added = self.inputs[self.recorded_inputs :]
        tensors = [item.tensor for item in added if item.tensor is not None]
        parts = [(i, [part.to_core() for part in of]) for i, of in self.inside.items()]
        parts += [(-2 - k, [lender]) for k, (lender, _) in enumerate(self.borrowed)]
        return self.core.rewritten(self.to_bytes(), tensors, parts)

    def to_bytes(self) -> bytes:
        """What `rewritten` of the core takes."""
        flat: list[int] = [_FORMAT, self.recorded, len(self.values) - self.recorded]
        for value in self.values[self.recorded :]:
            flat.extend((value.dtype.number, len(value.shape), *value.shape))
        added = self.inputs[self.recorded_inputs :]
        flat.extend((len(added), *(item.value for item in added)))
        flat.extend((len(self.nodes), self.split_point.node))
        for op, attrs, inputs, outputs, origin in self.nodes:
            flat.append(origin)
            if origin == -1:
                _add_op(flat, op, attrs)
            elif origin < 0:
                flat.append(self.borrowed[-2 - origin][1])
            flat.append(len(inputs))
            flat.extend(inputs)
            flat.append(len(outputs))
            flat.extend(outputs)
        for ends in (self.outputs, self.writes):
            flat.append(len(ends))
            flat.extend(end.value for end in ends)
        if self.sizes is not None:
            flat = self.sizes.keep(flat)
        return array("q", flat).tobytes()

    def run_opaque(
        self, node: Node, inputs: Sequence[Tensor], draws: Sequence[tuple[int, int]]
    ) -> tuple[Tensor, ...]:
        """The results of a node that is no row of the op table."""
        core, number = self._recorded(node)
        return core.run_opaque(number, inputs, draws)

    def is_ordered(self, node: Node) -> bool:
        """Whether a node that is no row of the op table has an effect beside its results."""
        core, number = self._recorded(node)
        return core.is_ordered(number)

    def _recorded(self, node: Node) -> tuple[_core.Graph, int]:
        """The recording that a node is of, and which node of that."""
        origin = node.origin
        return (self.core, origin) if origin >= 0 else self.borrowed[-2 - origin]

    def parts(self, node: int) -> tuple[Graph, ...]:
        """What a node of control flow runs; nothing of another one."""
        return self.inside.get(self.nodes[node].origin, ())

    def verify(self) -> None:
        """Checks that every value is made before it is read, once, in the shape and dtype that its
        op gives where that is cheap to say; RuntimeError otherwise."""
        known = bytearray(len(self.values))
        for item in self.inputs:
            known[item.value] = 1
        for i, node in enumerate(self.nodes):
            for value in node.inputs:
                if not known[value]:
                    raise RuntimeError(f"graph: node {i} ({node.op}) reads %{value} too early")
            for value in node.outputs:
                if known[value] or self.values[value].node != i:
                    raise RuntimeError(f"graph: node {i} ({node.op}) remakes %{value}")
                known[value] = 1
            if node.origin == -1:
                self._verify_types(i, node)
        for value in [o.value for o in self.outputs] + [w.value for w in self.writes]:
            if not known[value]:
                raise RuntimeError(f"graph: %{value} is returned or written but never made")
        if self.split_point.node > len(self.nodes):
            raise RuntimeError(
                f"graph: the split point is at node {self.split_point.node} of {len(self.nodes)}"
            )
        for parts in self.inside.values():
            for part in parts:
                part.verify()

    def _verify_types(self, i: int, node: Node) -> None:
        """Of a node that a pass made; the core looks at all of them again."""
        made = self.values[node.outputs[0]]
        shape: tuple[int, ...] = made.shape
        if node.op in ("reshape", "expand", "as_strided"):
            shape = node.attrs[0]
        elif node.op == "permute":
            shape = tuple(self.values[node.inputs[0]].shape[d] for d in node.attrs[0])
        if shape != made.shape:
            raise RuntimeError(f"graph: node {i} ({node.op}) makes {shape}, not {made.shape}")
        if node.op == "reshape" and prod(shape) != prod(self.values[node.inputs[0]].shape):
            raise RuntimeError(f"graph: node {i} (reshape) has another number of elements")
        if OPS[node.op]["dtype_rule"] == "first" and made.dtype is not (
            read := self.values[node.inputs[0]].dtype
        ):
            raise RuntimeError(f"graph: node {i} ({node.op}) makes {made.dtype} of {read}")

    def text(self, inline: int = 64) -> str:
        """The graph as text, which `tinyt.compiler.parse` reads (docs/graph-text.md).

        Captured tensors of at most ``inline`` elements stand in it, to the bit; larger ones, and
        those that the graph writes to, are named, and `tensors` has them.

        NotImplementedError where a node has no text: custom operations, and symbolic sizes.

        >>> import tinyt
        >>> graph = tinyt.compiler.record(lambda x: x.exp() + 1, tinyt.ones(2)).graph
        >>> print(graph.text())
        tinyt graph 1
        %0 = constant [0x1p+0, 0x1p+0] : float32[2]
        %1 = number 1 : int64[]
        %2 = exp(%0) : float32[2]
        %3 = add(%2, %1) : float32[2]
        return %3
        <BLANKLINE>
        """
        return text_of(self, inline)

    def tensors(self, inline: int = 64) -> dict[str, Tensor]:
        """The captured tensors that the text of the graph names: the memory itself.

        >>> import tinyt
        >>> list(tinyt.compiler.record(lambda x: x + 1, tinyt.ones(100)).graph.tensors())
        ['t0']
        """
        return tensors_of(self, inline)

    def __str__(self) -> str:
        lines = [f"%{item.value} = {_name(item)} {self._type(item.value)}" for item in self.inputs]
        for node in self.nodes:
            made = ", ".join(f"%{v}" for v in node.outputs)
            read = ", ".join(f"%{v}" for v in node.inputs)
            attrs = f" {node.attrs}" if node.attrs else ""
            lines.append(f"{made} = {node.op}({read}){attrs} {self._type(node.outputs[0])}")
        lines += [f"write %{w.value} to {_name(w)} {self._type(w.value)}" for w in self.writes]
        lines.append("return " + ", ".join(f"%{o.value}" for o in self.outputs))
        return "\n".join(lines)

    def _type(self, number: int) -> str:
        value = self.values[number]
        return f"{value.dtype.name}{list(value.shape)}"


_FORMAT = 1  # of what the core reads (Graph::rewritten)
OPS = {row["name"]: row for row in OP_TABLE}
_NUMBER = {name: i for i, name in enumerate(OPS)}
_KINDS = {
    name: [word.partition(":")[2][0] for word in row["attributes"].split()]
    for name, row in OPS.items()
}

_LETTERS = {name: "".join(kinds) for name, kinds in _KINDS.items()}


def _add_op(flat: list[int], op: str, attrs: tuple[Any, ...]) -> None:
    ints: list[int] = []
    floats: list[int] = []
    for kind, value in zip(_KINDS[op], attrs, strict=True):
        if kind == "f":
            floats += struct.unpack("<q", struct.pack("<d", value))
        elif kind == "I":
            ints += [len(value), *value]
        else:
            ints.append(value)
    flat.extend((_NUMBER[op], len(ints), *ints, len(floats), *floats))


def _name(item: Input | Write) -> str:
    return "input" if item.argument < 0 else f"argument {item.argument}"
