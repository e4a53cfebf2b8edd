"""Lets a product of matrices add what is added to it while its sums are in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.passes.edit import SCALARS, uses_of, walk
from tinyt.dtypes import float32, float64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

# What makes these may run in a region with the sum instead.
_FUSES = SCALARS | {"cast", "copy", "reshape"}


def run(graph: Graph) -> Graph:
    """The graph with `matmul_add` for sums of a product that nothing else reads."""
    uses = uses_of(graph)

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        for product, addend in (node.inputs[::-1], node.inputs):
            made = edit.maker(product, "matmul")
            if made is None or uses[product] != 1 or not _fits(edit, product, addend):
                continue
            if _waits(edit, made, product):
                shape, t, *_ = edit.values[product]
                return (edit.add("matmul_add", (*made.inputs, addend), (), shape, t),)
        return None

    return walk(graph, rule, ("add",))


def _fits(edit: Edit, product: int, addend: int) -> bool:
    """Whether the kernel adds it itself: to each element of one matrix, or one row to all rows."""
    shape, t, *_ = edit.values[product]
    added = edit.values[addend]
    if t not in (float32, float64) or added.dtype != t:
        return False
    maker = edit.makers[edit.root(addend)]
    if maker is not None and maker.op in _FUSES:
        return False
    return len(shape) == 2 and added.shape in (shape, shape[1:])


def _waits(edit: Edit, made: Node, product: int) -> bool:
    """Whether the product may run here: its operands are not kept for longer, or no more of them
    than it takes itself."""
    late = {edit.root(v) for v in made.inputs if not edit.may_read(v)}
    if any([edit.crosses(v) for v in made.inputs]):
        return False
    if late and edit.nodes[-1] is not made and sum(map(edit.nbytes, late)) > edit.nbytes(product):
        return False
    for v in late:
        edit.keep(v)
    return True
