"""Writes graphs as text (docs/graph-text.md), which `tinyt.compiler.parse` reads."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tinyt import _core
from tinyt._tensor import number_of_device
from tinyt.compiler.graph.literals import attribute_text, elements_text
from tinyt.dtypes import ALL, uint8
from tinyt.ops.common import OP_TABLE
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.compiler.graph.graph import Graph, Input, Node, Output
    from tinyt.tensor import Tensor

VERSION = 1
HEAD = f"tinyt graph {VERSION}"
# What an argument of a part of control flow is, in the order of control_flow.h, and how many
# numbers follow.
SOURCES = {"none": 0, "whole": 1, "slice": 1, "carry": 2, "next": 2}
# The names of the parts of each node of control flow.
PARTS = {
    "scan": ("body",),
    "cond": ("when_false", "when_true"),
    "while_loop": ("condition", "body"),
}


def attributes_of(row: Any) -> list[tuple[str, str, str]]:
    """(name, kind, default or "") of each attribute of a row of the op table."""
    found = []
    for word in row["attributes"].split():
        name, _, rest = word.partition(":")
        kind, _, default = rest.partition("=")
        found.append((name, kind, default))
    return found


# Steps of optimisers: the names of their rows, by what nodes are called, in the order of the rules.
STEPS = dict(_core.step_names())
_STEP = [
    *(("condition", "b", "0"), ("count", "i", ""), ("states", "i", ""), ("maximize", "b", "0")),
    *(("nesterov", "b", "0"), ("decoupled", "b", "0"), ("first", "I", "")),
]
ATTRIBUTES = {row["name"]: attributes_of(row) for row in OP_TABLE} | dict.fromkeys(
    STEPS.values(), _STEP
)
# Numbers that are read anew at every run (SymbolicScalars): what they come of, and what must hold.
SOURCES_OF_NUMBERS = ("given", "item", "int", "real")
_FIRST_SOURCE = 5
COMPUTED = (
    *("add", "sub", "mul", "floordiv", "mod", "to_real"),
    *("real_add", "real_sub", "real_mul", "real_div", "real_pow", "real_neg", "real_abs"),
)
TESTS = ("lt", "le", "eq", "ne", "gt", "ge", "is")


def numbers_of_step(rule: int, attrs: Sequence[Any]) -> list[int]:
    """What the core makes a step of."""
    *numbers, first = attrs
    return [rule, *map(int, numbers), len(first), *first]


def text_of(graph: Graph, inline: int) -> str:
    """The text of a graph; see `Graph.text`."""
    known = {_memory(x): name for name, x in tensors_of(graph, inline).items()}
    names = {id(x): known[_memory(x)] for x in _named(graph, inline)}
    by_storage = {x._storage_id: known[_memory(x)] for x in _named(graph, inline)}
    lines = [*_live(graph, by_storage), *_Writer(graph, names).lines("")]
    return "\n".join([HEAD, *lines, ""])


def tensors_of(graph: Graph, inline: int) -> dict[str, Tensor]:
    """The tensors that the text refers to by name, those of parts of control flow, too."""
    found: dict[object, Tensor] = {}
    for x in _named(graph, inline):
        found.setdefault(_memory(x), x)
    return {f"t{i}": x for i, x in enumerate(found.values())}


def _memory(x: Tensor) -> object:
    """The memory of a captured tensor, and how it is seen."""
    return x._storage_id, tuple(x.shape), x.dtype


def _named(graph: Graph, inline: int) -> Iterator[Tensor]:
    written = {w.target._storage_id for w in graph.writes if w.target is not None}
    items = {x._storage_id: x for x in graph.core.number_parts()[2]}
    written |= items.keys()
    for item in graph.inputs:
        x = item.tensor
        if x is None or item.weak or item.live:
            continue
        items.pop(x._storage_id, None)
        if x.numel() > inline or x._storage_id in written:
            yield x
    for x in items.values():  # which no node reads
        yield prim.as_strided(x.detach(), (x._storage_elements,), (1,), 0)
    for parts in graph.inside.values():
        for part in parts:
            yield from _named(part, inline)


class _Writer:
    """The lines of a graph, whose values are numbered in the order in which they appear."""

    def __init__(self, graph: Graph, names: dict[int, str]) -> None:
        self.graph, self.names = graph, names
        self.numbers: dict[int, int] = {}
        self._cells = {x.data_ptr(): i for i, x in graph.core.number_parts()[3]}
        if graph.sizes is not None:
            raise NotImplementedError(
                "text: a graph whose sizes are symbolic has no text yet; write the graph that was "
                "recorded"
            )

    def lines(self, indent: str) -> list[str]:
        graph, split = self.graph, self.graph.split_point.node
        inputs = list(graph.inputs)
        later = _first_later_input(graph)
        lines = [self._input(item) for item in inputs[:later]]
        for i in range(len(graph.nodes)):
            if i == split:
                lines += self._split(inputs[later:])
            lines += self._node(i)
        if split == len(graph.nodes):
            lines += self._split(inputs[later:])
        for write in graph.writes:
            target = self._target(write.target, write.argument)
            lines.append(f"write {self._read(write.value)} to {target}")
        lines.append(f"return {', '.join(map(self._output, graph.outputs))}".rstrip())
        return [indent + line for line in lines]

    def _split(self, inputs: Iterable[Input]) -> list[str]:
        return [f"split {self.graph.split_point.output}", *map(self._input, inputs)]

    def _input(self, item: Input) -> str:
        made, kind = self._made(item.value), self._type(item.value)
        x = item.tensor
        if x is None:
            return f"{made} = argument {item.argument} : {kind}"
        if item.live:
            return f"{made} = cell {self._cells[x.data_ptr()]} : {kind}"
        if id(x) in self.names:
            return f'{made} = tensor "{self.names[id(x)]}" : {kind}'
        if item.weak:
            return f"{made} = number {elements_text(x, attribute_text)[0]} : {kind}"
        elements = elements_text(x)
        return f"{made} = constant [{', '.join(elements)}] : {kind}"

    def _node(self, number: int) -> list[str]:
        graph, node = self.graph, self.graph.nodes[number]
        operands = [self._read(v) for v in node.inputs]
        parts = graph.parts(number)
        op = STEPS.get(node.op, node.op)
        if node.op in STEPS:
            operands += _attributes(op, [*node.attrs[1:7], node.attrs[8:]])
        elif op in ATTRIBUTES:
            operands += _attributes(op, node.attrs)
        elif parts:
            attributes, heads = _flow(node, len(parts))
            operands += attributes
        else:
            raise NotImplementedError(
                f"text: {node.op} has no text: it is no row of the op table, but a custom operation"
            )
        made = ", ".join([self._made(v) for v in node.outputs])
        kinds = ", ".join([self._type(v) for v in node.outputs])
        line = f"{made} = {op}({', '.join(operands)}) : {kinds}"
        if not parts:
            return [line]
        lines = [f"{line} {{"]
        for part, head in zip(parts, heads, strict=True):
            inner = _Writer(part, self.names).lines("    ")
            lines += [f"  {head} {{", *inner, "  }"]
        return [*lines, "}"]

    def _target(self, target: Tensor | None, argument: int) -> str:
        for item in self.graph.inputs:
            x = item.tensor
            if item.argument == argument and (
                x is None
                or (target is not None and x._storage_id == target._storage_id and not item.weak)
            ):
                return self._read(item.value)
        raise ValueError("text: the graph writes to memory that is none of its inputs")

    def _output(self, output: Output) -> str:
        value, (shape, stride, offset) = output.value, output[1:]
        dense = _is_dense(shape, stride, offset) and shape == self.graph.values[value].shape
        if dense:
            return self._read(value)
        return f"{self._read(value)} as ({_ints(shape)}, {_ints(stride)}, {offset})"

    def _made(self, value: int) -> str:
        self.numbers[value] = len(self.numbers)
        return self._read(value)

    def _read(self, value: int) -> str:
        return f"%{self.numbers[value]}"

    def _type(self, value: int) -> str:
        shape, t, _, device = self.graph.values[value]
        return f"{t.name}{_ints(shape)}{'' if device == CPU else f' {device_text(device)}'}"


CPU = number_of_device("cpu")


_DEVICE_TEXTS: dict[int, str] = {}


def device_text(number: int) -> str:
    """As in ``@cuda:0``."""
    if number not in _DEVICE_TEXTS:
        here: Tensor = prim.fill((0,), uint8.number, 0.0, 0, 0.0, number)
        _DEVICE_TEXTS[number] = f"@{here.device}"
    return _DEVICE_TEXTS[number]


def _first_later_input(graph: Graph) -> int:
    """The first input of what runs after the split point alone: an argument."""
    first = graph.split_point.argument
    later = [i for i, x in enumerate(graph.inputs) if 0 <= first <= x.argument]
    return later[0] if later else len(graph.inputs)


def _live(graph: Graph, names: dict[int, str]) -> Iterator[str]:
    """The numbers that are read anew, and what must hold of them."""
    _, rows, items, _, guards = graph.core.number_parts()
    for number, (op, left, right, bits) in enumerate(rows):
        is_real = op in (5, 6, 8) or op >= 14
        value = attribute_text(struct.unpack("<d", struct.pack("<q", bits))[0])
        text = value if is_real else str(bits)
        if op >= 9:
            places = [str(x) for x in (left, right) if x >= 0]
            source = f"{COMPUTED[op - 9]}({', '.join(places)})"
        else:
            source = SOURCES_OF_NUMBERS[op - _FIRST_SOURCE]
            if source == "given":
                source += f"({left})"
            elif source == "item":
                x = items[left]
                source += f'("{names[x._storage_id]}", {x.storage_offset()})'
        yield f"live {number} = {source} : {text}"
    for test, outcome, left, right in guards:
        yield f"hold {left} {TESTS[test]} {right} {'true' if outcome else 'false'}"


def _attributes(op: str, attrs: Sequence[Any]) -> list[str]:
    found = []
    for (name, kind, default), value in zip(ATTRIBUTES[op], attrs, strict=True):
        text = _attribute(kind, value)
        if text != default_text(kind, default):
            found.append(f"{name}={text}")
    return found


def default_text(kind: str, default: str) -> str:
    """How a default of the op table is written; "" where an attribute must be given."""
    if kind == "d":
        return device_text(CPU)
    if not default or kind == "I":
        return ""
    return _attribute(kind, float(default) if kind == "f" else int(default))


def _attribute(kind: str, value: Any) -> str:
    if kind == "I":
        return _ints(value)
    if kind == "b":
        return "true" if value else "false"
    if kind == "f":
        return attribute_text(value)
    if kind == "t":
        name: str = ALL[value].name
        return name
    return device_text(value) if kind == "d" else str(value)


def _ints(values: Iterable[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _is_dense(shape: Sequence[int], stride: Sequence[int], offset: int) -> bool:
    expected = 1
    for n, step in zip(reversed(shape), reversed(stride), strict=True):
        if step != expected:
            return False
        expected *= max(n, 1)
    return offset == 0


def _flow(node: Node, parts: int) -> tuple[list[str], list[str]]:
    """The attributes of a node of control flow, and the heads of its parts."""
    numbers = iter(node.attrs)
    names = PARTS[node.op]
    heads: list[str] = []
    attributes: list[str] = []
    if node.op == "scan":
        steps, is_reversed = next(numbers), next(numbers)
        attributes += [f"steps={steps}", f"reversed={'true' if is_reversed else 'false'}"]
        heads.append(_head(names[0], numbers))
        attributes += [f"finals={_list(numbers)}", f"stacks={_list(numbers)}"]
    elif node.op == "cond":
        heads += [f"{_head(names[i], numbers)} results {_list(numbers)}" for i in range(parts)]
    else:
        attributes.append(f"carries={_list(numbers)}")
        heads += [_head(names[i], numbers) for i in range(parts)]
    return attributes, heads


def _list(numbers: Iterator[int]) -> str:
    return _ints([next(numbers) for _ in range(next(numbers))])


def _head(name: str, numbers: Iterator[int]) -> str:
    """As in ``body(carry 0 1, slice 2) draws [0, 16, 4]``."""
    kinds = list(SOURCES)
    sources = []
    for _ in range(next(numbers)):
        kind, *places = (next(numbers) for _ in range(3))
        word = kinds[kind]
        sources.append(" ".join([word, *map(str, places[: SOURCES[word]])]))
    draws = [next(numbers) for _ in range(3 * next(numbers))]
    return f"{name}({', '.join(sources)})" + (f" draws {_ints(draws)}" if draws else "")
