"""Moves elementwise ops out from between a permutation and its inverse, which cancel then: memory
is read in its own order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.passes.edit import SCALARS, uses_of, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

_MOST = 16  # nodes between the two


def run(graph: Graph) -> Graph:
    """The graph without permutations around elementwise ops of one operand."""
    uses = uses_of(graph)

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        found = _chain(edit, node, uses)
        if found is None:
            return None
        x, chain = found
        # It is kept in the place of what the chain makes.
        larger = edit.nbytes(edit.root(x)) > edit.nbytes(node.inputs[0])
        if edit.crosses(x) or (larger and not edit.may_read(x)):
            return None
        edit.keep(x)
        for inner in chain:
            wide = _operand(edit, inner)
            inputs = [x if v == wide else v for v in inner.inputs]
            t = edit.values[inner.outputs[0]].dtype
            x = edit.add(inner.op, inputs, inner.attrs, edit.values[x].shape, t)
            uses.append(1)
        return (x,)

    return walk(graph, rule, ("permute",))


def _chain(edit: Edit, node: Node, uses: list[int]) -> tuple[int, list[Node]] | None:
    """What is permuted first, and the nodes up to this permutation, which undoes that."""
    value = node.inputs[0]
    chain: list[Node] = []
    while len(chain) < _MOST:
        maker = edit.makers[value]
        if maker is None or uses[value] != 1:
            return None
        if maker.op == "permute":
            first, second = maker.attrs[0], node.attrs[0]
            inverse = [first[d] for d in second] == list(range(len(first)))
            return (maker.inputs[0], chain[::-1]) if inverse and chain else None
        wide = _operand(edit, maker)
        if wide is None:
            return None
        chain.append(maker)
        value = wide
    return None


def _operand(edit: Edit, node: Node) -> int | None:
    """The one operand of an elementwise op that is no single number."""
    if node.op not in SCALARS and node.op != "cast":
        return None
    wide = {v for v in node.inputs if edit.values[v].shape}
    return wide.pop() if len(wide) == 1 else None
