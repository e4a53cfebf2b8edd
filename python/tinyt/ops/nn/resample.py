"""Interpolation: every output position is a weighted sum of input positions along each dimension.

The weights follow from sizes alone, so they are lists made in Python and kept; the sums are the
primitive ``resample``. Positions and weights are computed in the precision that PyTorch takes,
float32 for float32 and narrower, so that both pick the same neighbours.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from tinyt import _tensor
from tinyt._core import DTypeError, ShapeError
from tinyt.dtypes import float64
from tinyt.ops.autocast import in_full
from tinyt.ops.common import need_tensor, remembered
from tinyt.ops.nn.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from tinyt.ops.nn.windows import check_positions, weight_dtype
from tinyt.tensor import Tensor, prim

# For each mode the number of spatial dimensions it is for; none: 1 to 3.
MODES = {
    "nearest": None,
    "nearest-exact": None,
    "area": None,
    "linear": 1,
    "bilinear": 2,
    "bicubic": 2,
    "trilinear": 3,
}
AREAS = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
# Keys, "Cubic convolution interpolation", 1981: the parameter a of the kernel.
CUBIC, CUBIC_ANTIALIASED = -0.75, -0.5

Rows = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]  # taps, index, weight


def _rounded(values: Any, single: bool) -> Sequence[float]:
    return array("f", values) if single else list(values)


def _scale(n: int, m: int, align: bool, factor: float | None, single: bool) -> float:
    """Input positions for one output position; ``factor`` counts where it was given."""
    if align:
        step = (n - 1) / (m - 1) if m > 1 else 0.0
    else:
        step = 1 / factor if factor is not None and factor > 0 else n / m
    return _rounded([step], single)[0]


def _positions(m: int, scale: float, align: bool, single: bool) -> Sequence[float]:
    """Where the centres of the output's elements lie in the input."""
    if align:
        return _rounded([scale * i for i in range(m)], single)
    return _rounded([v - 0.5 for v in _rounded([scale * (i + 0.5) for i in range(m)], single)],
                    single)  # fmt: skip


@remembered
def _nearest(n: int, m: int, exact: bool, factor: float | None, single: bool) -> Rows:
    scale = _scale(n, m, False, factor, single)
    at = _rounded([scale * (i + 0.5 if exact else i) for i in range(m)], single)
    return (1,) * m, tuple(min(math.floor(v), n - 1) for v in at), (1.0,) * m


@remembered
def _linear(n: int, m: int, align: bool, factor: float | None, single: bool) -> Rows:
    if n == m:
        return (1,) * m, tuple(range(m)), (1.0,) * m
    index: list[int] = []
    weights: list[float] = []
    for v in _positions(m, _scale(n, m, align, factor, single), align, single):
        left = min(math.floor(max(v, 0.0)), n - 1)
        part = min(max(v - left, 0.0), 1.0)
        index += [left, min(left + 1, n - 1)]
        weights += [1.0 - part, part]
    return (2,) * m, tuple(index), tuple(weights)


def _near(x: Any, a: float) -> Any:
    """The cubic kernel for |x| <= 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _far(x: Any, a: float) -> Any:
    """The cubic kernel for 1 <= |x| <= 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def cubic_weights(t: Any) -> tuple[Any, Any, Any, Any]:
    """The weights of four neighbours, for a point (or a tensor of points) t after the second."""
    return _far(t + 1, CUBIC), _near(t, CUBIC), _near(1 - t, CUBIC), _far(2 - t, CUBIC)


@remembered
def _cubic(n: int, m: int, align: bool, factor: float | None, single: bool) -> Rows:
    index: list[int] = []
    weights: list[float] = []
    for v in _positions(m, _scale(n, m, align, factor, single), align, single):
        left = min(math.floor(v), n - 1)
        t = min(max(v - left, 0.0), 1.0)
        index += [min(max(left + k, 0), n - 1) for k in (-1, 0, 1, 2)]
        weights += cubic_weights(t)
    return (4,) * m, tuple(index), tuple(weights)


def _triangle(x: float) -> float:
    return max(1.0 - abs(x), 0.0)


def _bump(x: float) -> float:
    x = abs(x)
    return _near(x, CUBIC_ANTIALIASED) if x < 1 else _far(x, CUBIC_ANTIALIASED) if x < 2 else 0.0


@remembered
def _antialiased(
    n: int, m: int, align: bool, factor: float | None, single: bool, cubic: bool
) -> Rows:
    """The kernel is widened by the scale when the output is smaller; weights sum to one."""
    kernel: Callable[[float], float] = _bump if cubic else _triangle
    scale = _scale(n, m, align, factor, single)
    wide = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * wide
    taps: list[int] = []
    index: list[int] = []
    weights: list[float] = []
    for i in range(m):
        centre = scale * (i + 0.5)
        first = max(int(centre - support + 0.5), 0)
        last = min(int(centre + support + 0.5), n)
        found = [kernel((j - centre + 0.5) / wide) for j in range(first, last)]
        total = sum(found)
        taps.append(last - first)
        index += range(first, last)
        weights += [w / total if total else w for w in found]
    return tuple(taps), tuple(index), tuple(weights)


def _rows(mode: str, n: int, m: int, align: bool, factor: float | None, x: Tensor,
          antialias: bool) -> Rows:  # fmt: skip
    single = x.dtype is not float64
    if mode.startswith("nearest"):
        return _nearest(n, m, mode == "nearest-exact", factor, single)
    if antialias:
        return _antialiased(n, m, align, factor, single, mode == "bicubic")
    return (_cubic if mode == "bicubic" else _linear)(n, m, align, factor, single)


def _sizes(
    x: Tensor, size: Any, scale_factor: Any, recompute: bool
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The output's size, and the scales that positions follow (None: the ratio of the sizes)."""
    n = x.dim() - 2
    if (size is None) == (scale_factor is None):
        both = "only one of" if size is not None else "either"
        raise ValueError(f"interpolate: {both} size or scale_factor should be defined")
    given = scale_factor if size is None else size
    values: tuple[Any, ...] = (given,) * n if isinstance(given, (int, float)) else tuple(given)
    if len(values) != n:
        raise ValueError(
            f"interpolate: size or scale_factor needs {n} entries for input {tuple(x.shape)}, "
            f"got {values}"
        )
    if size is not None:
        if recompute:
            raise ValueError(
                "interpolate: recompute_scale_factor is not meaningful with an explicit size"
            )
        wanted: tuple[int, ...] = values
    else:
        wanted = tuple(
            math.floor(length * float(v)) for length, v in zip(x.shape[2:], values, strict=True)
        )
    if min(wanted) <= 0 or 0 in x.shape[1:]:
        raise ShapeError(
            f"interpolate: sizes must be positive, got input {tuple(x.shape)} and output {wanted}"
        )
    check_positions("interpolate", wanted)
    known = size is not None or recompute
    return wanted, (None,) * n if known else tuple(float(v) for v in values)


def _check_mode(x: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode not in MODES:
        raise NotImplementedError(f"interpolate: mode must be one of {list(MODES)}, got {mode!r}")
    n = x.dim() - 2
    if n not in (1, 2, 3) or MODES[mode] not in (None, n):
        raise NotImplementedError(
            f"interpolate: mode {mode!r} is not for input of rank {x.dim()}, got {tuple(x.shape)}"
        )
    smooth = MODES[mode] is not None
    if align_corners is not None and not smooth:
        raise ValueError(
            f"interpolate: align_corners is for the modes linear, bilinear, bicubic and trilinear, "
            f"got {mode!r}"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: antialias is for bilinear and bicubic, got {mode!r}")
    if mode != "nearest" and mode != "nearest-exact" and not x.dtype.is_floating_point:
        raise DTypeError(f"interpolate: mode {mode!r} is not defined for dtype {x.dtype}")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resizes the last 1 to 3 dimensions of [N, C, *S].

    Args:
        input: the tensor.
        size: the output's size, one for all dimensions or one each; or
        scale_factor: output size over input size, rounded down.
        mode: "nearest", "nearest-exact", "area", "linear" (1-D), "bilinear", "bicubic" (2-D) or
            "trilinear" (3-D).
        align_corners: whether the centres of the corner elements, and not their outer edges, fall
            together.
        recompute_scale_factor: whether positions follow the ratio of the sizes, as they do with
            ``size``, and not the scale as given.
        antialias: whether a smaller output averages over all that it covers (bilinear, bicubic).
    """
    x = need_tensor("interpolate", input)
    _check_mode(x, mode, align_corners, antialias)
    recompute = bool(recompute_scale_factor) or (mode == "area" and size is None)
    wanted, factors = _sizes(x, size, scale_factor, recompute)
    if mode == "area":
        return AREAS[len(wanted) - 1](in_full(x) if len(wanted) == 3 else x, wanted)
    rows = [
        _rows(mode, n, m, bool(align_corners), factor, x, antialias)
        for n, m, factor in zip(x.shape[2:], wanted, factors, strict=True)
    ]
    taps, index, weights = (
        tuple(v for part in column for v in part) for column in zip(*rows, strict=True)
    )
    return prim.resample(x, _tensor.from_data(weights, weight_dtype(x)), wanted, taps, index)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The old name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with mode "nearest"."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)


EXPORTS: dict[str, Any] = {}
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Any] = {
    f.__name__: f for f in (interpolate, upsample, upsample_nearest, upsample_bilinear)
}
