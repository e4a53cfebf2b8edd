"""Concatenations, paddings and parts of them.

A part of a concatenation is a part of one of its operands; neighbouring parts joined are one part.
What is written into parts of a padded value, as the gradient of several slices is, until nothing is
left of the padding, is a concatenation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tinyt.compiler.passes.edit import uses_of, walk
from tinyt.compiler.passes.views import contiguous

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

_OPS = ("cat", "pad", "slice", "update")


class Piece(NamedTuple):
    """From `start` to `end` along a dimension: a value, or (-1) one number, as `fill` makes it."""

    start: int
    end: int
    value: int
    number: float = 0.0


# What a value is made up of, and along which dimension.
Row = tuple[int, tuple[Piece, ...]]


def run(graph: Graph) -> Graph:
    """The graph without joining and parting that cancel."""
    uses = uses_of(graph)
    parted = _only_parted(graph, uses)
    rows: dict[int, Row] = {}

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        found = None
        if node.op == "slice":
            found = _part(edit, node, rows, parted)
        elif node.op == "pad":
            _note_pad(edit, node, rows)
        elif node.op == "cat":
            found = _joined(edit, node, uses)
            if found is None:
                _note_cat(edit, node, rows)
        else:
            found = _updated(edit, node, rows, uses)
        if found is not None:
            for v in node.inputs:
                uses[v] -= 1
            uses.extend([1] * (len(edit.values) - len(uses)))
        return found

    return walk(graph, rule, _OPS)


def _size(edit: Edit, value: int, dim: int) -> int:
    return edit.values[value].shape[dim]


def _note_cat(edit: Edit, node: Node, rows: dict[int, Row]) -> None:
    dim, at, pieces = node.attrs[0], 0, []
    for v in node.inputs:
        pieces.append(Piece(at, at + _size(edit, v, dim), v))
        at = pieces[-1].end
    rows[node.outputs[0]] = dim, tuple(pieces)


def _note_pad(edit: Edit, node: Node, rows: dict[int, Row]) -> None:
    """Of one dimension, by nothing negative."""
    pads, number = node.attrs
    padded = [d for d in range(len(pads) // 2) if pads[2 * d] or pads[2 * d + 1]]
    if len(padded) != 1 or min(pads) < 0:
        return
    dim = padded[0]
    start = pads[2 * dim]
    end = start + _size(edit, node.inputs[0], dim)
    all_ = _size(edit, node.outputs[0], dim)
    pieces = (
        Piece(0, start, -1, number),
        Piece(start, end, node.inputs[0]),
        Piece(end, all_, -1, number),
    )
    rows[node.outputs[0]] = dim, tuple(p for p in pieces if p.start < p.end)


def _only_parted(graph: Graph, uses: list[int]) -> frozenset[int]:
    """Values of which nothing but slices are read."""
    slices: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == "slice":
            slices[node.inputs[0]] = slices.get(node.inputs[0], 0) + 1
    return frozenset(v for v, count in slices.items() if count == uses[v])


def _part(
    edit: Edit, node: Node, rows: dict[int, Row], parted: frozenset[int]
) -> Sequence[int] | None:
    """A slice of one piece."""
    row = rows.get(node.inputs[0])
    dim, start, end, step = node.attrs
    if row is None or row[0] != dim or start >= end:
        return None
    piece = next((p for p in row[1] if p.start <= start and end <= p.end), None)
    if piece is None:
        return None
    shape, t, *_ = edit.values[node.outputs[0]]
    if piece.value < 0:
        return (_filled(edit, piece.number, shape, t, edit.device_of(node)),)
    whole = node.inputs[0] if node.inputs[0] in parted else None
    if not edit.take(node.outputs[0], piece.value, whole):
        return None
    if (piece.start, piece.end, step) == (start, end, 1):
        return (piece.value,)
    attrs = (dim, start - piece.start, end - piece.start, step)
    return (edit.add("slice", (piece.value,), attrs, shape, t),)


def _filled(edit: Edit, number: float, shape: tuple[int, ...], t: object, device: int) -> int:
    whole = 0 if t.is_floating_point or t.is_complex else int(number)  # type: ignore[attr-defined]
    one = edit.add("fill", (), ((), t.number, number, whole, 0.0, device), (), t)  # type: ignore
    return edit.add("expand", (one,), (shape,), shape, t)  # type: ignore


def _joined(edit: Edit, node: Node, uses: list[int]) -> Sequence[int] | None:
    """A concatenation with its neighbouring parts joined, and without one of one operand, of
    nothing, or inside another."""
    dim, made = node.attrs[0], node.outputs[0]
    shape, t, *_ = edit.values[made]
    inputs: list[int] = []
    for v in node.inputs:
        inner = edit.maker(v, "cat")
        if inner is not None and inner.attrs[0] == dim and uses[v] == 1:
            inputs += inner.inputs
        else:
            inputs.append(v)
    inputs = [v for v in inputs if _size(edit, v, dim)] or inputs[:1]
    merged: list[tuple[int, int, int]] = []  # value, start and end of a part; end 0: all of it
    for v in inputs:
        part = edit.maker(v, "slice")
        if part is None or part.attrs[0] != dim or part.attrs[3] != 1:
            merged.append((v, 0, 0))
            continue
        (x,), (_, start, end, _) = part.inputs, part.attrs
        if merged and merged[-1][0] == x and merged[-1][2] == start > 0:
            start = merged.pop()[1]
        merged.append((x, start, end))
    if len(merged) == len(node.inputs) and len(merged) > 1:
        return None
    values = []
    for x, start, end in merged:
        if end and (start, end) != (0, _size(edit, x, dim)):
            size = [*edit.values[x].shape]
            size[dim] = end - start
            values.append(edit.add("slice", (x,), (dim, start, end, 1), size, t))
        else:
            values.append(x)
    if len(values) == 1:
        return (values[0],) if edit.take(made, values[0]) else None
    if not all(edit.may_read(v) for v in values):
        return None
    return (edit.add("cat", values, (dim,), shape, t),)


def _updated(edit: Edit, node: Node, rows: dict[int, Row], uses: list[int]) -> Sequence[int] | None:
    """A write of all; a second one of the same part; one that leaves nothing of the padding."""
    base, value = node.inputs
    made = node.outputs[0]
    shape, t, *_ = edit.values[made]
    size, strides, offset = node.attrs
    steps = tuple([s if n > 1 else 0 for n, s in zip(size, strides, strict=True)])
    dense = contiguous(shape)
    if 0 in shape or 0 in size:
        return None
    if size == shape and steps == dense:
        return (value,) if edit.take(made, value) else None
    inner = edit.maker(base, "update")
    if inner is not None and inner.attrs == node.attrs and uses[base] == 1:
        return (edit.add("update", (inner.inputs[0], value), node.attrs, shape, t),)
    if len(size) != len(shape):
        return None
    cut = [d for d, (n, m) in enumerate(zip(size, shape, strict=True)) if n != m]
    if len(cut) != 1:
        return None
    dim = cut[0]
    if any(a != b for d, (a, b) in enumerate(zip(steps, dense, strict=True)) if d != dim):
        return None
    if offset % dense[dim] or (size[dim] > 1 and steps[dim] != dense[dim]):
        return None
    start = offset // dense[dim]
    return _slab(edit, node, rows, uses[base] == 1, dim, start)


def _slab(
    edit: Edit, node: Node, rows: dict[int, Row], only: bool, dim: int, start: int
) -> Sequence[int] | None:
    """A write of a part of one dimension. ``only``: nothing else reads what it writes into."""
    base, value = node.inputs
    made = node.outputs[0]
    end = start + _size(edit, value, dim)
    row = rows.get(base)
    if row is None or row[0] != dim or end > _size(edit, base, dim):
        return None
    pieces = []
    for p in row[1]:
        if p.start < start < p.end or p.start < end < p.end:
            if p.value >= 0:
                return None
            pieces += [p._replace(end=min(p.end, start)), p._replace(start=max(p.start, end))]
        elif p.end <= start or p.start >= end:
            pieces.append(p)
    pieces = sorted([p for p in pieces if p.start < p.end] + [Piece(start, end, value)])
    rows[made] = dim, tuple(pieces)
    if not only or any(p.value < 0 for p in pieces):
        return None
    values = [p.value for p in pieces]
    # They are kept until now in the place of what they are written into.
    held = {
        root: edit.nbytes(root) for v in values if not edit.may_read(v) for root in [edit.root(v)]
    }
    if any(edit.crosses(v) for v in values) or sum(held.values()) > edit.nbytes(made):
        return None
    for v in values:
        edit.keep(v)
    shape, t, *_ = edit.values[made]
    return (edit.add("cat", values, (dim,), shape, t),)
