"""Users' rewrites: where a pattern is found, its replacement is put (compiler/rewriting.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt.compiler.graph.graph import OPS, place_of
from tinyt.compiler.passes import dead
from tinyt.compiler.passes.edit import SCALARS, Edit, on_device, uses_of, with_flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt._tensor import dtype
    from tinyt.compiler.graph.graph import Graph, Node

Types = tuple[tuple[tuple[int, ...], "dtype"], ...]  # of the arguments: shape and dtype

# Their operands may come in either order: the bits are the same.
_COMMUTATIVE = with_flag("commutative")


class Shape(NamedTuple):
    """A function of tensors as a graph. The first nodes make its arguments."""

    graph: Graph
    arguments: tuple[int, ...]
    output: int

    @property
    def device(self) -> int:
        """Where it was recorded."""
        return self.graph.values[self.output].device

    def may_move(self) -> bool:
        """Whether it does the same for arguments on another device: operations of the table alone,
        which lead nowhere else, and no constants but numbers and elements beside others."""
        nodes, values = self.graph.nodes[len(self.arguments) :], self.graph.values
        constants = {item.value for item in self.graph.inputs if not item.weak}
        return not any(values[v].shape for v in constants) and all(
            node.op in SCALARS
            or (node.op in OPS and node.op != "to_device" and constants.isdisjoint(node.inputs))
            for node in nodes
        )


class Registered:
    """A pattern and what to put in its place. ``forms``: the pattern, as its samples had it; the
    shapes of others may differ."""

    forms: list[Shape]

    def at(self, types: Types) -> tuple[Shape, Shape] | None:
        """Pattern and replacement for such arguments; None where there is none."""
        raise NotImplementedError


# What `rewrite` has registered and nobody has removed.
REGISTERED: list[Registered] = []


def run(graph: Graph) -> Graph:
    """The graph with every pattern replaced that is registered."""
    for rewrite in tuple(REGISTERED):
        ops = {f.graph.nodes[f.graph.values[f.output].node].op for f in rewrite.forms}
        if any([node.op in ops for node in graph.nodes]):
            graph = _Replacing(graph, rewrite).run(ops)
    return graph


class _Replacing:
    def __init__(self, graph: Graph, rewrite: Registered) -> None:
        self._edit = Edit(graph)
        self._rewrite = rewrite
        self._uses = uses_of(graph)
        self._replaced: set[int] = set()

    def run(self, ops: set[str]) -> Graph:
        graph = self._edit.run(self._rule, ops)
        return dead.run(graph, self._replaced) if self._replaced else graph

    def _rule(self, edit: Edit, node: Node) -> Sequence[int] | None:
        for form in self._rewrite.forms:
            found = _Match(edit, form, exact=False).of(node)
            if found is None:
                continue
            given = [found[v] for v in form.arguments]
            if any(edit.is_weak(v) for v in given):
                continue
            both = self._rewrite.at(tuple([edit.values[v][:2] for v in given]))
            if both is None:
                continue
            pattern, replacement = both
            found = _Match(edit, pattern, exact=True).of(node)
            if found is not None and self._is_free(pattern, found):
                put = self._put(replacement, [found[v] for v in pattern.arguments], node)
                if put is not None:
                    made = pattern.graph.values
                    self._replaced |= {v for k, v in found.items() if made[k].node >= len(given)}
                return put
        return None

    def _is_free(self, pattern: Shape, found: dict[int, int]) -> bool:
        """Whether nothing else reads what the pattern computes on its way, nor runs in another part
        of the graph."""
        graph = self._edit.graph
        reads = uses_of(pattern.graph)
        for number, value in found.items():
            if number in pattern.arguments or pattern.graph.values[number].node < 0:
                continue
            if value >= len(graph.values):
                return False
            if number != pattern.output:
                if self._uses[value] != reads[number]:
                    return False
                if graph.values[value].node < graph.split_point.node <= self._edit.at:
                    return False
        return True

    def _put(self, new: Shape, given: list[int], node: Node) -> Sequence[int] | None:
        edit, graph, before = self._edit, new.graph, len(self._edit.nodes)
        device, recorded = edit.device_of(node), new.device
        if device != recorded and not new.may_move():
            return None
        by = dict(zip(new.arguments, given, strict=True))
        for item in graph.inputs:
            by[item.value] = edit.add_input(item, graph.values[item.value].device)
        for made in graph.nodes[len(given) :]:
            for v in made.outputs:
                by[v] = edit.reserve(graph.values[v].shape, graph.values[v].dtype)
            read, make = [by[v] for v in made.inputs], [by[v] for v in made.outputs]
            if made.op in OPS:
                edit.append(made.op, read, on_device(made, recorded, device), make)
            else:
                edit.borrow(graph.core, made, read, make)
        found = by[new.output]
        if edit.take(node.outputs[0], found):
            return (found,)
        edit.withdraw(before)
        return None


class _Match:
    """A search for a pattern, from its output backwards."""

    def __init__(self, edit: Edit, pattern: Shape, exact: bool) -> None:
        self._edit, self._pattern, self._exact = edit, pattern, exact
        self._found: dict[int, int] = {}

    def of(self, node: Node) -> dict[int, int] | None:
        """Which value each one of the pattern is, if the node makes its output."""
        if len(node.outputs) != 1:
            return None
        graph = self._pattern.graph
        last = graph.nodes[graph.values[self._pattern.output].node]
        self._found[self._pattern.output] = node.outputs[0]
        return self._found if self._same(last, node) else None

    def _same(self, want: Node, have: Node) -> bool:
        if want.op != have.op or len(want.inputs) != len(have.inputs):
            return False
        if self._exact and not _equal(self._attributes(want, have), have.attrs):
            return False
        if self._all(want.inputs, have.inputs, have):
            return True
        if want.op not in _COMMUTATIVE:
            return False
        return self._all(want.inputs, have.inputs[::-1], have)

    def _attributes(self, want: Node, have: Node) -> tuple[Any, ...]:
        """Of a node of the pattern, were it recorded where the other one is."""
        return on_device(want, self._pattern.device, self._edit.device_of(have))

    def _all(self, want: Sequence[int], have: Sequence[int], reader: Node) -> bool:
        before = dict(self._found)
        if all(self._value(w, h, reader) for w, h in zip(want, have, strict=True)):
            return True
        self._found = before
        return False

    def _value(self, want: int, have: int, reader: Node) -> bool:
        if want in self._found:
            return self._found[want] == have
        graph = self._pattern.graph
        shape, t, number, _ = graph.values[want]
        if number < 0:
            have = self._number_behind(have, reader)
        if self._exact and (shape, t) != self._edit.values[have][:2]:
            return False
        if want not in self._pattern.arguments:
            if number < 0:
                if not self._same_input(want, have):
                    return False
            else:
                maker, node = graph.nodes[number], self._edit.makers[have]
                if node is None or len(maker.outputs) != len(node.outputs):
                    return False
                if maker.outputs.index(want) != node.outputs.index(have):
                    return False
                if not self._same(maker, node):
                    return False
        self._found[want] = have
        return True

    def _number_behind(self, value: int, reader: Node) -> int:
        """Of a number that was made a tensor of its reader's dtype, as in a backward pass, the
        number: the op computes the same with it. Otherwise the value itself."""
        edit = self._edit
        node, t = edit.maker(value, "cast"), edit.values[value].dtype
        if node is None or not edit.is_weak(node.inputs[0]) or not t.is_floating_point:
            return value
        types = {edit.values[v].dtype for v in reader.inputs if not edit.is_weak(v)}
        return node.inputs[0] if types == {t} else value

    def _same_input(self, want: int, have: int) -> bool:
        """The same number, or the same memory."""
        item = self._edit.inputs.get(have)
        other = next(i for i in self._pattern.graph.inputs if i.value == want)
        if item is None or item.tensor is None or other.tensor is None or item.live:
            return False
        if not (item.weak and other.weak):
            return item.weak == other.weak and place_of(item.tensor) == place_of(other.tensor)
        # A number may depend on the shapes, too.
        return item.tensor.dtype is other.tensor.dtype and (
            not self._exact or _equal(item.tensor.item(), other.tensor.item())
        )


def _equal(a: Any, b: Any) -> bool:
    """Of numbers and tuples of them: to the bit."""
    return repr(a) == repr(b)
