"""Chains of views become one view of what lies in memory, inverse ones cancel.

Each view is known by how it lies in a dense value: shape, strides and offset. A reshape that must
copy begins a dense value of its own.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from tinyt.compiler.passes.edit import REARRANGING, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

Dims = tuple[int, ...]


class StridedView(NamedTuple):
    """How a value lies in a dense one. Dimensions of one element have stride 0."""

    root: int
    strides: Dims
    offset: int


def run(graph: Graph) -> Graph:
    """The graph with at most one view between a dense value and what reads it."""
    places: dict[int, StridedView] = {}
    known: dict[tuple[StridedView, Dims], int] = {}

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        (x,), (made,) = node.inputs, node.outputs
        shape = edit.values[made].shape
        if 0 in shape or 0 in edit.values[x].shape:
            return None
        inner = places.get(x) or StridedView(x, contiguous(edit.values[x].shape), 0)
        place = _viewed(node, inner, edit.values[x].shape, shape)
        if place is None:
            return None
        whole = edit.values[place.root].shape
        if place == (place.root, contiguous(shape), 0) and shape == whole:
            return (place.root,) if edit.take(made, place.root) else None
        first = known.get((place, shape))
        if first is not None and edit.take(made, first):
            return (first,)
        if x != place.root:
            op, attrs = _one_view(place, whole, shape)
            found = edit.add(op, (place.root,), attrs, shape, edit.values[made].dtype)
            edit.take(made, found)
        else:
            found = made
        places[found] = place
        known[place, shape] = found
        return None if found == made else (found,)

    return walk(graph, rule, REARRANGING)


def is_dense(edit: Edit, value: int, known: dict[int, StridedView]) -> bool:
    """Whether a value lies in memory as a contiguous one, whatever it is a view of. ``known``: what
    was found before, in the same walk."""
    shape = edit.values[value].shape
    return 0 in shape or _view_of(edit, value, known).strides == contiguous(shape)


def _view_of(edit: Edit, value: int, known: dict[int, StridedView]) -> StridedView:
    path: list[Node] = []
    while value not in known:
        node = edit.makers[value]
        if node is None or node.op not in REARRANGING:
            known[value] = StridedView(value, contiguous(edit.values[value].shape), 0)
            break
        path.append(node)
        value = node.inputs[0]
    for node in reversed(path):
        shape, view = edit.values[value].shape, node.outputs[0]
        found = _viewed(node, known[value], shape, edit.values[view].shape)
        known[view] = found or StridedView(view, contiguous(edit.values[view].shape), 0)
        value = view
    return known[value]


def contiguous(shape: Sequence[int]) -> Dims:
    """Row-major strides."""
    out, step = [], 1
    for n in reversed(shape):
        out.append(step if n > 1 else 0)
        step *= n
    return tuple(out[::-1])


def _viewed(node: Node, inner: StridedView, shape: Dims, to: Dims) -> StridedView | None:
    """Where a view of a value lies; None where it is a copy."""
    root, strides, offset = inner
    if node.op == "permute":
        return StridedView(root, tuple([strides[d] for d in node.attrs[0]]), offset)
    if node.op == "slice":
        dim, start, _, step = node.attrs
        moved = [*strides]
        offset += start * strides[dim]
        moved[dim] = strides[dim] * step if to[dim] > 1 else 0
        return StridedView(root, tuple(moved), offset)
    if node.op == "expand":
        added = len(to) - len(shape)
        return StridedView(root, (0,) * added + strides, offset)
    if node.op == "reshape":
        found = _reshaped(shape, strides, to)
        return None if found is None else StridedView(root, found, offset)
    # as_strided counts from the start of a dense value.
    if strides != contiguous(shape):
        return None
    steps = tuple([s if n > 1 else 0 for n, s in zip(to, node.attrs[1], strict=True)])
    return StridedView(root, steps, offset + node.attrs[2])


def _reshaped(shape: Dims, strides: Dims, to: Dims) -> Dims | None:
    """The strides of a reshape that is no copy: the same runs of elements one step apart, cut
    otherwise."""
    sizes = [(n, s) for n, s in zip(shape, strides, strict=True) if n > 1]
    out = [0] * len(to)
    left = len(to) - 1
    while sizes:
        run, step = sizes.pop()
        while sizes and sizes[-1][1] == run * step:
            run *= sizes.pop()[0]
        placed = 1
        while placed < run:
            if left < 0:
                return None
            if to[left] > 1:
                out[left] = placed * step
                placed *= to[left]
            left -= 1
        if placed != run:
            return None
    return tuple(out)


def _one_view(place: StridedView, shape: Dims, to: Dims) -> tuple[str, tuple[object, ...]]:
    """The op that makes such a view of a dense value in one step, and its attributes."""
    _, strides, offset = place
    dense = contiguous(shape)
    if offset == 0:
        if strides == contiguous(to) and prod(shape) == prod(to):
            return "reshape", (to,)
        if len(to) >= len(shape) and _expands(shape, dense, to, strides):
            return "expand", (to,)
        order = _order(shape, dense, to, strides)
        if order is not None:
            return "permute", (order,)
    found = _slice(shape, dense, to, place)
    return found or ("as_strided", (to, strides, offset))


def _expands(shape: Dims, dense: Dims, to: Dims, strides: Dims) -> bool:
    added = len(to) - len(shape)
    return not any(strides[:added]) and all(
        s == t and (n == m or n == 1)
        for n, s, m, t in zip(shape, dense, to[added:], strides[added:], strict=True)
    )


def _order(shape: Dims, dense: Dims, to: Dims, strides: Dims) -> Dims | None:
    """Which dimension each one of the view is, where all of them are there once."""
    if len(shape) != len(to):
        return None
    free = [*zip(shape, dense, range(len(shape)), strict=True)]
    out = []
    for n, s in zip(to, strides, strict=True):
        match = next((item for item in free if item[:2] == (n, s)), None)
        if match is None:
            return None
        free.remove(match)
        out.append(match[2])
    return tuple(out)


def _slice(shape: Dims, dense: Dims, to: Dims, place: StridedView) -> tuple[str, Dims] | None:
    """A part of one dimension."""
    if len(shape) != len(to):
        return None
    cut = [d for d, (n, m) in enumerate(zip(shape, to, strict=True)) if n != m]
    if len(cut) != 1:
        return None
    dim = cut[0]
    steps = [s for d, s in enumerate(place.strides) if d != dim]
    if steps != [s for d, s in enumerate(dense) if d != dim] or place.offset % dense[dim]:
        return None
    start, step = place.offset // dense[dim], max(place.strides[dim] // dense[dim], 1)
    last = start + (to[dim] - 1) * step
    if last >= shape[dim] or (to[dim] > 1 and step * dense[dim] != place.strides[dim]):
        return None
    return "slice", (dim, start, last + 1, step)
