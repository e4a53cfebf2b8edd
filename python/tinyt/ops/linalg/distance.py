"""Distances and similarities of vectors, and the losses made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.ops.common import to_dtype, wide, wide_together, write_out
from tinyt.ops.elementwise.bounded import clamp_min
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.ops.nn.loss import Flag, reduced, reduction_of
from tinyt.ops.reduce.reductions import norm
from tinyt.tensor import Tensor, prim

Distance = Callable[[Tensor, Tensor], Tensor]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along ``dim``; the operands broadcast."""
    if not (x1.dtype.is_floating_point or x2.dtype.is_floating_point):
        raise DTypeError(
            f"cosine_similarity: needs floats, got {x1.dtype.name} and {x2.dtype.name}"
        )
    shape = broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
    dtype, both = wide_together(x1, x2)
    unit1, unit2 = (_unit(prim.expand(x, shape), dim, eps) for x in both)
    return to_dtype(prim.sum(unit1 * unit2, (dim,), False), dtype)


def _unit(x: Tensor, dim: int, eps: float) -> Tensor:
    """x divided by its length, at least ``eps``; the gradient passes that limit."""
    length = prim.copy(norm(x, 2.0, dim, True))
    length.detach()._assign(clamp_min(length.detach(), eps))
    return x / length


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension."""
    dtype, (x1, x2) = wide_together(x1, x2)
    found = norm(x1 - x2 + eps, p, -1, keepdim)
    return to_dtype(found, dtype)


def normalize(
    input: Tensor,
    p: float = 2.0,
    dim: int = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """Input divided by its p-norm along ``dim``, at least ``eps``."""
    x = wide(input)
    return write_out(out, to_dtype(x / clamp_min(norm(x, p, dim, True), eps), input.dtype))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1: [N, D], [N, D], [N]."""
    op = "cosine_embedding_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    rank = target.dim()
    if rank > 1 or input1.dim() != rank + 1 or input2.dim() != rank + 1:
        raise ShapeError(
            f"{op}: expected [N, D], [N, D], [N] or [D], [D], [], got {tuple(input1.shape)}, "
            f"{tuple(input2.shape)}, {tuple(target.shape)}"
        )
    dims = (rank,)
    dtype, (input1, input2) = wide_together(input1, input2)
    # PyTorch adds 1e-12 to the squares instead of limiting the lengths.
    square1, square2 = (prim.sum(x * x, dims, False) + 1e-12 for x in (input1, input2))
    cosine = prim.sum(input1 * input2, dims, False) / prim.sqrt(square1 * square2)
    alike = prim.where(prim.eq(target, 1), 1.0 - cosine, 0.0)
    apart = prim.where(prim.eq(target, -1), clamp_min(cosine - margin, 0.0), 0.0)
    return reduced(alike + apart, reduction, dtype=dtype)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - t (x1 - x2)): target 1 wants x1 the larger, -1 x2."""
    op = "margin_ranking_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise ShapeError(
            f"{op}: all inputs must have one number of dimensions, got {tuple(input1.shape)}, "
            f"{tuple(input2.shape)}, {tuple(target.shape)}"
        )
    dtype, (input1, input2, target) = wide_together(input1, input2, target)
    losses = clamp_min(target * (input2 - input1) + margin, 0.0)
    return reduced(losses, reduction, dtype=dtype)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm distance.

    ``swap`` takes d(positive, negative) where it is smaller (Balntas et al., 2016).
    """
    op = "triplet_margin_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    dtype, wide_ones = wide_together(anchor, positive, negative)
    loss = _triplet(op, tuple(wide_ones), distance, margin, swap, reduction)
    return to_dtype(loss, dtype)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with any distance; by default :func:`pairwise_distance`."""
    op = "triplet_margin_with_distance_loss"
    reduction = reduction_of(op, None, None, reduction)
    distance = distance_function or pairwise_distance
    return _triplet(op, (anchor, positive, negative), distance, margin, swap, reduction)


def _triplet(
    op: str,
    triplet: tuple[Tensor, Tensor, Tensor],
    distance: Distance,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    anchor, positive, negative = triplet
    if margin <= 0:
        raise ValueError(f"{op}: margin must be positive, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            f"{op}: all inputs must have one number of dimensions, got {tuple(anchor.shape)}, "
            f"{tuple(positive.shape)}, {tuple(negative.shape)}"
        )
    dtype, (near, far) = wide_together(distance(anchor, positive), distance(anchor, negative))
    if swap:
        far = prim.minimum(far, wide(distance(positive, negative)))
    losses = clamp_min(near - far + margin, 0.0)
    return reduced(losses, reduction, dtype=dtype)


# In PyTorch these are functions of the package too; the rest is in `nn.functional` alone.
EXPORTS: dict[str, Any] = {f.__name__: f for f in (cosine_similarity, pairwise_distance)}
# PyTorch's functions of the package by the names of these losses have another order of arguments.
FUNCTIONAL: dict[str, Any] = {
    f.__name__: f
    for f in (
        normalize, cosine_embedding_loss, margin_ranking_loss, triplet_margin_loss,
        triplet_margin_with_distance_loss,
    )
}  # fmt: skip
