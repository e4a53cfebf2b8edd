"""A recorded graph as Python objects over the core's flat arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinyt.dtypes import ALL

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt._tensor import dtype
    from tinyt.tensor import Tensor


@dataclass(slots=True)
class Value:
    """One edge: shape, dtype and the node that makes it (-1: an input)."""

    shape: tuple[int, ...]
    dtype: dtype
    node: int


@dataclass(slots=True)
class Node:
    """One op: its attributes, and the numbers of the values it reads and makes."""

    op: str
    attrs: tuple[Any, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(slots=True)
class Graph:
    """Nodes in program order. ``inputs`` and ``writes`` pair value numbers with tensors."""

    nodes: list[Node]
    values: list[Value]
    inputs: list[tuple[int, Tensor]]
    outputs: list[int]
    writes: list[tuple[int, Tensor]]

    @classmethod
    def from_core(cls, graph: _core.Graph) -> Graph:
        """Reads a finished recording."""
        return cls(
            [Node(*row) for row in graph.nodes()],
            [Value(shape, ALL[number], node) for shape, number, node in graph.values()],
            graph.inputs(),
            graph.outputs(),
            graph.writes(),
        )

    def verify(self) -> None:
        """Checks that every value is made before it is read, once; RuntimeError otherwise."""
        known = {number for number, _ in self.inputs}
        for i, node in enumerate(self.nodes):
            for value in node.inputs:
                if value not in known:
                    raise RuntimeError(f"graph: node {i} ({node.op}) reads %{value} too early")
            for value in node.outputs:
                if value in known or self.values[value].node != i:
                    raise RuntimeError(f"graph: node {i} ({node.op}) remakes %{value}")
                known.add(value)
        for value in [*self.outputs, *(number for number, _ in self.writes)]:
            if value not in known:
                raise RuntimeError(f"graph: %{value} is returned or written but never made")

    def __str__(self) -> str:
        lines = [f"%{number} = input {self._type(number)}" for number, _ in self.inputs]
        for node in self.nodes:
            made = ", ".join(f"%{v}" for v in node.outputs)
            read = ", ".join(f"%{v}" for v in node.inputs)
            attrs = f" {node.attrs}" if node.attrs else ""
            lines.append(f"{made} = {node.op}({read}){attrs} {self._type(node.outputs[0])}")
        lines += [f"write %{v} to {tuple(t.shape)}" for v, t in self.writes]
        lines.append("return " + ", ".join(f"%{v}" for v in self.outputs))
        return "\n".join(lines)

    def _type(self, number: int) -> str:
        value = self.values[number]
        return f"{value.dtype.name}{list(value.shape)}"
