"""Sampling an image at given coordinates, and the coordinates of an affine map.

Coordinates are relative: -1 and 1 are the outer edges of the first and last element, or with
``align_corners`` their centres. The last dimension of a grid holds them innermost first: (x, y) or
(x, y, z). Source: Jaderberg et al. 2015, "Spatial transformer networks".
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tinyt import _tensor
from tinyt._autograd import zero_gradient
from tinyt._core import DTypeError, ShapeError
from tinyt.dtypes import int64
from tinyt.ops.common import in_float32, need_tensor
from tinyt.ops.linalg.products import public_matmul
from tinyt.ops.nn.resample import cubic_weights
from tinyt.ops.nn.windows import check_positions
from tinyt.tensor import Tensor, prim

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")


def _reflect(at: Tensor, size: int, align: bool) -> Tensor:
    """``at`` mirrored at the borders as often as needed."""
    low, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
    if span == 0:
        return at * 0.0
    distance = prim.abs(at - low)
    rest = prim.remainder(distance, span)
    odd = prim.remainder(prim.floor(distance / span), 2.0) != 0
    return prim.where(odd, span - rest, rest) + low


def _bounded(at: Tensor, size: int, padding_mode: str, align: bool) -> Tensor:
    """Positions as the padding mode sees them; outside stays outside for zeros."""
    if padding_mode == "zeros":
        return at
    if padding_mode == "reflection":
        at = _reflect(at, size, align)
    # Constant, and so without a gradient, at the edges too: PyTorch's convention.
    last = float(size - 1)
    return prim.where(at <= 0.0, 0.0, prim.where(at >= last, last, at))


class _Planes:
    """Looks up elements of [N, C, *S] at one whole position per dimension, zero outside."""

    def __init__(self, x: Tensor) -> None:
        self.sizes = tuple(x.shape[2:])
        self.lead = tuple(x.shape[:2])
        count = 1
        for n in self.sizes:
            count *= n
        self.flat = prim.reshape(x, (*self.lead, count))

    def at(self, position: Sequence[Tensor], weight: Tensor | None) -> Tensor:
        """[N, C, *grid]: the elements, times ``weight`` [N, *grid]."""
        index: Any = None
        inside: Any = None
        for whole, n in zip(position, self.sizes, strict=True):
            i = prim.cast(whole, int64)
            there = prim.logical_and(i >= 0, i < n)
            i = prim.minimum(prim.maximum(i, 0), n - 1)
            index = i if index is None else index * n + i
            inside = there if inside is None else prim.logical_and(inside, there)
        shape = tuple(index.shape)
        total = index.numel()
        wide = (shape[0], self.lead[1], total // max(shape[0], 1))
        picked = prim.gather(
            self.flat, prim.expand(prim.reshape(index, (wide[0], 1, wide[2])), wide), 2
        )
        picked = prim.reshape(picked, (shape[0], self.lead[1], *shape[1:]))
        column = (shape[0], 1, *shape[1:])
        if weight is not None:
            picked = picked * prim.reshape(weight, column)
        return prim.where(prim.reshape(inside, column), picked, 0.0)


def _check_grid(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"grid_sample: mode must be one of {MODES}, got {mode!r}")
    if padding_mode not in PADDING_MODES:
        raise ValueError(
            f"grid_sample: padding_mode must be one of {PADDING_MODES}, got {padding_mode!r}"
        )
    rank = need_tensor("grid_sample", input).dim()
    fits = rank in (4, 5) and need_tensor("grid_sample", grid).dim() == rank
    if not fits or grid.shape[-1] != rank - 2 or grid.shape[0] != input.shape[0]:
        raise ShapeError(
            f"grid_sample: input {tuple(input.shape)} needs a grid of the same rank and batch with "
            f"one coordinate for each dimension, got {tuple(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise ShapeError(f"grid_sample: the input has no elements, got {tuple(input.shape)}")
    if mode == "bicubic" and rank == 5:
        raise NotImplementedError("grid_sample: mode 'bicubic' is for input of rank 4, got 5")
    if input.dtype is not grid.dtype or not input.dtype.is_floating_point:
        raise DTypeError(
            f"grid_sample: input and grid must have one float dtype, got {input.dtype} and "
            f"{grid.dtype}"
        )


@in_float32
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Samples [N, C, *S] at ``grid`` [N, *G, len(S)]: [N, C, *G].

    Args:
        input: the images (two dimensions S) or volumes (three).
        grid: relative coordinates, innermost first.
        mode: "bilinear" (of volumes: trilinear), "nearest", or "bicubic" (images only).
        padding_mode: what lies outside: "zeros", "border" (the edge) or "reflection".
        align_corners: whether -1 and 1 are the centres of the corner elements.
    """
    _check_grid(input, grid, mode, padding_mode)
    align = bool(align_corners)
    planes = _Planes(input)
    positions = []
    for d, n in enumerate(planes.sizes):
        last = len(planes.sizes) - 1 - d
        at = prim.slice(grid, grid.dim() - 1, last, last + 1)
        at = prim.reshape(at, tuple(grid.shape[:-1]))
        positions.append((at + 1.0) * ((n - 1) / 2) if align else ((at + 1.0) * n - 1.0) * 0.5)
    if mode == "bicubic":
        return _bicubic(planes, positions, padding_mode, align)
    positions = [
        _bounded(at, n, padding_mode, align) for at, n in zip(positions, planes.sizes, strict=True)
    ]
    if mode == "nearest":
        return zero_gradient(planes.at([prim.round(at) for at in positions], None), grid)
    sides = []
    for at in positions:
        first = prim.floor(at)
        part = at - first
        sides.append(((first, 1.0 - part), (first + 1.0, part)))
    return _weighted_sum(planes, itertools.product(*sides))


def _weighted_sum(planes: _Planes, corners: Any) -> Tensor:
    """The sum over corners, each a (position, weight) for every dimension."""
    total: Any = None
    for corner in corners:
        weight = corner[0][1]
        for _, factor in corner[1:]:
            weight = weight * factor
        term = planes.at([position for position, _ in corner], weight)
        total = term if total is None else total + term
    return total  # type: ignore[no-any-return]


def _bicubic(
    planes: _Planes, positions: Sequence[Tensor], padding_mode: str, align: bool
) -> Tensor:
    """Sixteen neighbours, each moved inside on its own."""
    sides = []
    for at, n in zip(positions, planes.sizes, strict=True):
        first = prim.floor(at)
        weights = cubic_weights(at - first)
        sides.append(
            [
                (_bounded(first + float(k - 1), n, padding_mode, align), w)
                for k, w in enumerate(weights)
            ]
        )
    return _weighted_sum(planes, itertools.product(*sides))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` that maps output coordinates by theta [N, d, d + 1].

    ``size`` is the output's, [N, C, *S] with d sizes S (2 or 3). Result [N, *S, d].
    """
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(f"affine_grid: size must have 4 or 5 entries, got {tuple(size)}")
    shape = tuple(need_tensor("affine_grid", theta).shape)
    if len(shape) != 3 or shape[1:] != (n, n + 1) or min(size) <= 0:
        raise ValueError(
            f"affine_grid: a positive size {tuple(size)} needs theta of shape (N, {n}, {n + 1}), "
            f"got {shape}"
        )
    if not theta.dtype.is_floating_point:
        raise ValueError(f"affine_grid: theta must be of a float dtype, got {theta.dtype}")
    if shape[0] != size[0]:
        raise ShapeError(f"affine_grid: theta {shape} is not for a batch of {size[0]}")
    sizes = tuple(size)[2:]
    check_positions("affine_grid", sizes)
    columns = []
    for d in reversed(range(n)):
        m = sizes[d]
        if align_corners:
            points = [2 * i / (m - 1) - 1 if m > 1 else 0.0 for i in range(m)]
        else:
            points = [(2 * i + 1) / m - 1 for i in range(m)]
        line = _tensor.from_data(points, theta.dtype)
        line = prim.reshape(line, tuple(m if k == d else 1 for k in range(n)))
        columns.append(prim.reshape(prim.expand(line, sizes), (-1, 1)))
    columns.append(prim.fill(tuple(columns[0].shape), theta.dtype, 1.0, 1))
    base = prim.cat(tuple(columns), 1)
    places = public_matmul(base, prim.permute(theta, (0, 2, 1)))
    return prim.reshape(places, (size[0], *sizes, n))


EXPORTS: dict[str, Any] = {}
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Any] = {f.__name__: f for f in (grid_sample, affine_grid)}
