"""Removes copies, and casts that change nothing: to the dtype that is there, or by way of one that
holds every value.
"""

from __future__ import annotations

from math import frexp
from typing import TYPE_CHECKING

from tinyt.compiler.passes.edit import uses_of, walk
from tinyt.compiler.passes.views import StridedView, is_dense
from tinyt.dtypes import ALL, finfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt._tensor import dtype
    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit


def run(graph: Graph) -> Graph:
    """The graph without copies and casts that have no effect."""
    uses = uses_of(graph)
    places: dict[int, StridedView] = {}

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        x, made = node.inputs[0], node.outputs[0]
        if edit.values[x].dtype is not edit.values[made].dtype:
            return _shorter(edit, node)
        # Several readers of scattered memory are slower than a copy and readers of that.
        if uses[made] > 1 and not is_dense(edit, x, places):
            return None
        return (x,) if edit.take(made, x) else None

    return walk(graph, rule, ("copy", "cast"))


def _shorter(edit: Edit, node: Node) -> Sequence[int] | None:
    """A cast by way of another dtype."""
    (x,), (made,) = node.inputs, node.outputs
    have, want = edit.values[x].dtype, edit.values[made].dtype
    before = edit.maker(x, "cast")
    if before is None:
        return None
    x = before.inputs[0]
    if not skips(edit.values[x].dtype, have, want) or edit.is_weak(x):
        return None
    if edit.values[x].dtype is want:
        return (x,) if edit.take(made, x) else None
    if not edit.may_read(x):
        return None
    return (edit.add("cast", (x,), (want.number,), edit.values[made].shape, want),)


def skips(first: dtype, by: dtype, last: dtype) -> bool:
    """Whether a cast by way of another dtype is the direct one, for all values."""
    if not holds(by, first):
        return False
    # Out of its range, an integer is not made of a float as it is of an integer.
    return last.is_floating_point or last.is_complex or holds(last, first)


def holds(wide: dtype, narrow: dtype) -> bool:
    """Whether a dtype has every value of another one."""
    if wide is narrow or narrow is ALL[0]:
        return True
    if narrow.is_complex and not wide.is_complex:
        return False
    (bits, exponent), (other_bits, other_exponent) = _range(wide), _range(narrow)
    if _is_float(narrow):
        return _is_float(wide) and bits >= other_bits and exponent >= other_exponent
    if not _is_float(wide) and wide.is_signed < narrow.is_signed:
        return False
    return bits >= other_bits and exponent >= other_exponent


def _is_float(t: dtype) -> bool:
    return t.is_floating_point or t.is_complex


def _range(t: dtype) -> tuple[int, int]:
    """How many bits a whole number may have (of a complex dtype: a part), and the largest power
    of 2."""
    if _is_float(t):
        facts = finfo(t)
        return 2 - frexp(facts.eps)[1], frexp(facts.max)[1]
    bits = 1 if t is ALL[0] else 8 * t.itemsize - t.is_signed
    return bits, bits
