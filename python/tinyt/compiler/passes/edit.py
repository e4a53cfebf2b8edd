"""What passes share: one walk over a graph in program order that makes its nodes anew.

A value may take another's place only where neither memory nor later runs would tell (`Edit.take`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tinyt.compiler.graph.graph import OPS, Graph, Node, Value

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt._tensor import dtype
    from tinyt.compiler.graph.graph import Input

SCALARS = frozenset(name for name, row in OPS.items() if row["kind"] == "scalar")


def with_flag(flag: str) -> frozenset[str]:
    """The ops that have it in their row."""
    return frozenset(name for name, row in OPS.items() if flag in row["flags"])


VIEWS = with_flag("view")
CPU = 0  # as the attribute of an op that makes a tensor
# Where an op has that attribute.
_AT = {
    name: [word.partition(":")[0] for word in row["attributes"].split()].index("device")
    for name, row in OPS.items()
    if " device:d" in f" {row['attributes']}"
}
REARRANGING = VIEWS - {"view_as_real", "view_as_complex"}  # of the same elements
RANDOM = with_flag("random")
FAULTING = with_flag("value_error")

# A value of at most that many bytes may be kept longer than the recorded function would.
_SMALL = 4096

# The numbers of Python's that a pass may look for without more ado (SizeGuards of size_guards.h).
SPECIAL = (0, 1)

Pass = Callable[[Graph], Graph]
# Of a node: the values that take the places of its outputs, or None.
Rule = Callable[["Edit", Node], "Sequence[int] | None"]


class Edit:
    """A graph that is being made of another one. ``at``: the node of the old graph that the walk is
    at; ``makers``: of each value the node that makes it, or None."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = list(graph.values)
        self.nodes: list[Node] = []
        self.makers: list[Node | None] = [None] * len(self.values)
        self.by: dict[int, int] = {}
        self.at = 0
        self.split_point = graph.split_point.node
        self._values_before = 0  # of the first part
        self.inputs = {item.value: item for item in graph.inputs}
        self._roots: list[int] = [-1] * len(self.values)
        self._last: list[int] | None = None
        self._pinned: set[int] | None = None
        self._borrowed: list[tuple[_core.Graph, int]] = []
        self._added: list[Input] = []

    def add(
        self, op: str, inputs: Sequence[int], attrs: tuple[Any, ...], shape: Sequence[int], t: dtype
    ) -> int:
        """A new node; returns its value."""
        value = self.reserve(shape, t)
        self.append(op, inputs, attrs, (value,))
        return value

    def reserve(self, shape: Sequence[int], t: dtype) -> int:
        """A new value."""
        self.values.append(Value(tuple(shape), t, -1))
        self.makers.append(None)
        self._roots.append(-1)
        self._lasts().append(self.at)  # where it comes to be
        return len(self.values) - 1

    def append(
        self, op: str, inputs: Sequence[int], attrs: tuple[Any, ...], outputs: Sequence[int]
    ) -> None:
        """A new node that makes reserved values."""
        self._place(Node(op, attrs, tuple(inputs), tuple(outputs)))

    def add_input(self, item: Input, device: int = CPU) -> int:
        """What new nodes read from outside, an input of another graph; returns its value."""
        assert item.tensor is not None
        value = self.reserve(tuple(item.tensor.shape), item.tensor.dtype)
        self.values[value] = self.values[value]._replace(device=device)
        self._added.append(item._replace(value=value))
        self.inputs[value] = self._added[-1]
        return value

    def borrow(
        self, lender: _core.Graph, node: Node, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """A new node that does what a node of another recording does, no row of the op table."""
        self._borrowed.append((lender, node.origin))
        origin = -1 - len(self.graph.borrowed) - len(self._borrowed)
        self._place(Node(node.op, node.attrs, tuple(inputs), tuple(outputs), origin))

    def withdraw(self, count: int) -> None:
        """Removes the nodes after the first `count` ones, which nothing reads."""
        for node in self.nodes[count:]:
            for v in node.outputs:
                self.makers[v], self._roots[v] = None, -1
        del self.nodes[count:]

    def _append(self, node: Node) -> None:
        for v in node.outputs:
            self.makers[v] = node
        self.nodes.append(node)

    def _place(self, node: Node) -> None:
        device = self.device_of(node)
        for v in node.outputs if device != CPU else ():
            self.values[v] = self.values[v]._replace(device=device)
        self._append(node)

    def device_of(self, node: Node) -> int:
        """Where it makes its values."""
        if node.op in _AT:
            return int(node.attrs[_AT[node.op]])
        if node.op not in OPS and node.origin >= 0:
            return self.values[node.outputs[0]].device  # as it was recorded
        return next((at for v in node.inputs if (at := self.values[v].device) != CPU), CPU)

    def maker(self, value: int, op: str) -> Node | None:
        """The node that makes a value, where it is of that op."""
        node = self.makers[value]
        return node if node is not None and node.op == op else None

    def root(self, value: int) -> int:
        """The value whose memory a value lies in: of views, what they are views of."""
        path = []
        while (found := self._roots[value]) < 0:
            node = self.makers[value]
            if node is None or node.op not in VIEWS:
                found = self._roots[value] = value
                break
            path.append(value)
            value = node.inputs[0]
        for view in path:
            self._roots[view] = found
        return found

    def may_read(self, value: int) -> bool:
        """Whether a new node here may read a value that the old one did not: its memory is not
        kept longer for that."""
        root = self.root(value)
        if self._lasts()[root] >= self.at:
            return True
        if self.crosses(value):
            return False
        return root in self.inputs or self.nbytes(root) <= _SMALL

    def crosses(self, value: int) -> bool:
        """Whether what runs later would need the memory of a value only for a new node here. The
        caller might have written to it meanwhile."""
        root = self.root(value)
        if self.at < self.split_point or self.split_point < 0 or self._lasts()[root] >= self.at:
            return False
        if root < len(self.graph.values):
            return self.graph.values[root].node < self.split_point
        return root < self._values_before

    def nbytes(self, value: int) -> int:
        """Of a dense value."""
        shape, t, *_ = self.values[value]
        return prod(shape) * t.itemsize

    def hold_number(self, value: int) -> None:
        """Notes that what is made depends on a value, if that is one of Python's numbers: more than
        on its being one of `SPECIAL`."""
        if self.graph.sizes is not None and self.is_weak(value):
            self.graph.sizes.hold_number(value)

    def is_weak(self, value: int) -> bool:
        """Whether it is a number of Python's, which counts for less in promotion."""
        item = self.inputs.get(value)
        return item is not None and (item.weak or item.live)

    def keep(self, value: int) -> None:
        """Notes that a new node here reads a value."""
        root = self.root(value)
        self._lasts()[root] = max(self._lasts()[root], self.at)

    def take(self, old: int, new: int, saved: int | None = None) -> bool:
        """Whether ``new``, which has the same bits, may stand for ``old``, and if so notes it.

        Not where promotion or a device would tell them apart. Nor where memory would be kept longer
        than it was, unless that of ``old`` is saved, or of another value that nothing reads then.
        Nor where a run's results are kept, or arguments, for a backward pass that would find them
        written to when it had values of its own.
        """
        root, was = self.root(new), self.root(old)
        if self.is_weak(old) != self.is_weak(new):
            return False
        if self.values[old].device != self.values[new].device:
            return False
        if root == was:
            return True
        if self.split_point >= 0 and (
            root in self.inputs or root in self._returned() or was in self._returned()
        ):
            return False
        last = self._lasts()
        if last[old] == len(self.graph.nodes) and (
            root in self.inputs or self.nbytes(root) != self.nbytes(old)
        ):
            return False  # a result needs memory of its own
        end = max(last[root], last[was])
        if root not in self.inputs and last[root] < end and self.nbytes(root) > _SMALL:
            saved = old if saved is None and was == old else saved
            if saved is None or self.nbytes(root) > self.nbytes(saved) or last[root] < self.at:
                return False
        last[root] = end
        return True

    def succeed(self, old: int, new: int) -> None:
        """Notes that a value that is made here, in memory of its own, stands for ``old``."""
        last = self._lasts()
        root = self.root(new)
        last[root] = max(last[root], last[self.root(old)])

    def _returned(self) -> set[int]:
        """The memory of the results of the first part."""
        if self._pinned is None:
            outputs = self.graph.outputs[: self.graph.split_point.output]
            self._pinned = {_old_root(self.graph, o.value) for o in outputs}
        return self._pinned

    def _lasts(self) -> list[int]:
        """The last node of the old graph that reads the memory of each value."""
        if self._last is None:
            graph, end = self.graph, len(self.graph.nodes)
            last = [-1] * len(graph.values)
            for output in graph.outputs:
                last[output.value] = end
            for write in graph.writes:
                last[write.value] = end
            for i in range(end - 1, -1, -1):
                node = graph.nodes[i]
                used = i
                if node.op in VIEWS:
                    used = max(used, last[node.outputs[0]])
                for v in node.inputs:
                    if last[v] < used:
                        last[v] = used
            self._last = last
        return self._last

    def run(self, rule: Rule, ops: Collection[str]) -> Graph:
        """Asks the rule about every node of these ops."""
        graph, by, nodes, makers = self.graph, self.by, self.nodes, self.makers
        first_later = graph.split_point.node
        split_point = self.split_point
        for i, node in enumerate(graph.nodes):
            self.at = i
            if i == first_later:
                split_point, self._values_before = len(nodes), len(self.values)
            op, attrs, inputs, outputs, origin = node
            if by:
                read = tuple([by.get(v, v) for v in inputs])
                if read != inputs:
                    node = Node(op, attrs, read, outputs, origin)
            found = rule(self, node) if op in ops else None
            if found is None:
                for v in outputs:
                    makers[v] = node
                nodes.append(node)
            else:
                by.update(zip(outputs, found, strict=True))
        if first_later == len(graph.nodes):
            split_point = len(nodes)
        if not by and len(nodes) == len(graph.nodes):
            return graph
        return self._graph(split_point)

    def _graph(self, split_point: int) -> Graph:
        by, old, values = self.by, self.graph, self.values
        for v in by:
            values[v] = values[v]._replace(node=-1)
        for i, node in enumerate(self.nodes):
            for v in node.outputs:
                shape, t, made_by, device = values[v]
                if made_by != i:
                    values[v] = Value(shape, t, i, device)
        return old._replace(
            nodes=self.nodes,
            values=values,
            outputs=[o._replace(value=by[o.value]) if o.value in by else o for o in old.outputs],
            writes=[w._replace(value=by[w.value]) if w.value in by else w for w in old.writes],
            split_point=old.split_point._replace(node=split_point),
            borrowed=(*old.borrowed, *self._borrowed),
            inputs=[*old.inputs, *self._added] if self._added else old.inputs,
        )


def _old_root(graph: Graph, value: int) -> int:
    while (node := graph.values[value].node) >= 0 and graph.nodes[node].op in VIEWS:
        value = graph.nodes[node].inputs[0]
    return value


def on_device(node: Node, recorded: int, device: int) -> tuple[Any, ...]:
    """Attributes of a node that was recorded on one device, where it makes its values on another
    one."""
    at = _AT.get(node.op)
    if at is None or node.op == "to_device" or node.attrs[at] != recorded:
        return node.attrs
    return (*node.attrs[:at], device, *node.attrs[at + 1 :])


def walk(graph: Graph, rule: Rule, ops: Collection[str]) -> Graph:
    """The graph with a rule applied to every node of these ops; itself where nothing changes."""
    if not any([node.op in ops for node in graph.nodes]):
        return graph
    return Edit(graph).run(rule, ops)


def uses_of(graph: Graph) -> list[int]:
    """How often each value is read, returned or written."""
    uses = [0] * len(graph.values)
    for node in graph.nodes:
        for v in node.inputs:
            uses[v] += 1
    for output in graph.outputs:
        uses[output.value] += 1
    for write in graph.writes:
        uses[write.value] += 1
    return uses
