"""A recorded graph as Python objects over the core's flat arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt.dtypes import ALL

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt._tensor import dtype
    from tinyt.tensor import Tensor


class Value(NamedTuple):
    """One edge: shape, dtype and the node that makes it (-1: an input)."""

    shape: tuple[int, ...]
    dtype: dtype
    node: int


class Node(NamedTuple):
    """One op: its attributes, and the numbers of the values it reads and makes."""

    op: str
    attrs: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Input(NamedTuple):
    """A value from outside: a tensor that is there, or (None) the argument of that number.

    ``live``: the tensor holds a number that is read anew at every run.
    """

    value: int
    tensor: Tensor | None
    argument: int
    live: bool


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


class Graph(NamedTuple):
    """Nodes in program order, and what goes in and comes out."""

    core: _core.Graph
    nodes: list[Node]
    values: list[Value]
    inputs: list[Input]
    outputs: list[Output]
    writes: list[Write]

    @classmethod
    def from_core(cls, graph: _core.Graph) -> Graph:
        """Reads a finished recording."""
        return cls(
            graph,
            [Node(*row) for row in graph.nodes()],
            [Value(shape, ALL[number], node) for shape, number, node in graph.values()],
            [Input(*row) for row in graph.inputs()],
            [Output(*row) for row in graph.outputs()],
            [Write(*row) for row in graph.writes()],
        )

    def verify(self) -> None:
        """Checks that every value is made before it is read, once; RuntimeError otherwise."""
        known = {item.value for item in self.inputs}
        for i, node in enumerate(self.nodes):
            for value in node.inputs:
                if value not in known:
                    raise RuntimeError(f"graph: node {i} ({node.op}) reads %{value} too early")
            for value in node.outputs:
                if value in known or self.values[value].node != i:
                    raise RuntimeError(f"graph: node {i} ({node.op}) remakes %{value}")
                known.add(value)
        for value in [o.value for o in self.outputs] + [w.value for w in self.writes]:
            if value not in known:
                raise RuntimeError(f"graph: %{value} is returned or written but never made")

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


def _name(item: Input | Write) -> str:
    return "input" if item.argument < 0 else f"argument {item.argument}"
