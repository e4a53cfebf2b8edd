"""Algebraic identities that keep every bit, those of -0.0, infinities and NaN too (the payload of a
NaN aside), in every dtype they are applied to.

`x + 0.0` is not among them: it makes 0.0 of -0.0; `x + -0.0` and `x - 0.0` are. Nor is `x * 1` of
complex numbers, where an infinite part makes the other one NaN.
"""

from __future__ import annotations

from math import copysign
from typing import TYPE_CHECKING, Any

from tinyt.compiler.graph.graph import OPS
from tinyt.compiler.passes.edit import SPECIAL, uses_of, walk, with_flag
from tinyt.compiler.passes.views import StridedView, is_dense

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tinyt._tensor import dtype
    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

# Twice is never; twice is once; of a value and itself the value.
INVOLUTIONS = with_flag("involution")
IDEMPOTENT = frozenset(op for op in with_flag("idempotent") if OPS[op]["inputs"] == 1)
SELF = with_flag("idempotent") - IDEMPOTENT


def _is_positive_zero(c: Any) -> bool:
    return bool(c == 0) and copysign(1.0, c) > 0


# Of (x, c): which constants c leave x as it is, where x has the dtype of the result. Floats only,
# integers only, or (None) both.
NEUTRAL: dict[str, Callable[[dtype, Any], bool]] = {
    "add": lambda t, c: c == 0 and (not t.is_floating_point or copysign(1.0, c) < 0),
    "sub": lambda t, c: _is_positive_zero(c),
    "mul": lambda t, c: c == 1,
    "div": lambda t, c: c == 1 and t.is_floating_point,
    "bitwise_or": lambda t, c: c == 0,
    "bitwise_xor": lambda t, c: c == 0,
    "bitwise_left_shift": lambda t, c: c == 0,
    "bitwise_right_shift": lambda t, c: c == 0,
}
_EITHER_SIDE = frozenset(NEUTRAL) & with_flag("commutative")
_OPS = INVOLUTIONS | IDEMPOTENT | SELF | frozenset(NEUTRAL) | {"where"}


def run(graph: Graph) -> Graph:
    """The graph without ops that change nothing."""
    uses = uses_of(graph)
    places: dict[int, StridedView] = {}
    numbers = {
        i.value: number
        for i in graph.inputs
        if i.weak and i.tensor is not None and (number := i.tensor.item()) in SPECIAL
    }

    def constant(edit: Edit, value: int) -> Any:
        """The number that a value is everywhere, where identities look for it, or None."""
        if (node := edit.makers[value]) is None:
            return numbers.get(value)
        for _ in range(4):  # as they come: a chain of any length would take its square
            if node is not None and node.op in ("expand", "reshape"):
                node = edit.makers[node.inputs[0]]
        if node is None or node.op != "fill" or node.attrs[4]:
            return None
        is_float = edit.values[value].dtype.is_floating_point
        return node.attrs[2] if is_float else node.attrs[3]

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        found = _same(edit, node, lambda v: constant(edit, v))
        made = node.outputs[0]
        if found is None or edit.values[found][:2] != edit.values[made][:2]:
            return None
        # As of a copy: several readers are slower with scattered memory.
        if uses[made] > 1 and not is_dense(edit, found, places):
            return None
        return (found,) if edit.take(made, found) else None

    return walk(graph, rule, _OPS)


def _same(edit: Edit, node: Node, constant: Callable[[int], Any]) -> int | None:
    """A value that has the same numbers as the node's, perhaps in another shape or dtype."""
    op, inputs = node.op, node.inputs
    if op in INVOLUTIONS:
        inner = edit.maker(inputs[0], op)
        return inner.inputs[0] if inner is not None else None
    if op in IDEMPOTENT:
        return inputs[0] if edit.maker(inputs[0], op) is not None else None
    if op == "where":
        if inputs[1] == inputs[2]:
            return inputs[1]
        c = constant(inputs[0])
        return None if c is None else inputs[1] if c else inputs[2]
    if op in SELF and inputs[0] == inputs[1]:
        return inputs[0]
    t = edit.values[node.outputs[0]].dtype
    if op not in NEUTRAL or t.is_complex:
        return None
    pairs = [(inputs[0], inputs[1]), (inputs[1], inputs[0])]
    for x, other in pairs if op in _EITHER_SIDE else pairs[:1]:
        c = constant(other)
        if c is not None and not isinstance(c, complex) and NEUTRAL[op](t, c):
            return x
    return None
