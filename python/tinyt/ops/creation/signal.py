"""Windows of signal processing: weights that fall towards both ends (Harris 1978, "On the use of
windows for harmonic analysis with the discrete Fourier transform"; Kaiser & Schafer 1980).

With ``x = n / N`` for n = 0, 1, ..., N is the length of a periodic window, and one less than that
of a symmetric one. They are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt._tensor import dtype as DType
from tinyt.dtypes import float64, get_default_dtype
from tinyt.ops.common import Placement, in_float64, placed, to_dtype
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _window(
    op: str,
    length: int,
    periodic: bool,
    weights: Callable[[Tensor], Tensor],
    dtype: DType | None,
    place: Placement,
) -> Tensor:
    """The weights at ``n / N``, of a length."""
    if length < 0:
        raise RuntimeError(f"{op}: window_length must not be negative, got {length}")
    target = get_default_dtype() if dtype is None else dtype
    if not (target.is_floating_point or target.is_complex):
        raise RuntimeError(f"{op}: needs a floating-point dtype, got {target.name}")
    if length <= 1:
        return placed(op, prim.fill((length,), target, 1.0, 1), place)
    last = length if periodic else length - 1

    def made() -> Tensor:
        x = prim.iota(length, float64, 0.0, 1.0, 0, 1) / last
        return to_dtype(weights(x), target)

    return placed(op, in_float64(made), place)


def _turned(x: Tensor, turns: int = 1) -> Tensor:
    return prim.cos(x * (2 * turns * math.pi))


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``0.5 - 0.5 cos(2 pi x)``."""
    return _window(
        "hann_window", window_length, periodic, lambda x: 0.5 - 0.5 * _turned(x), dtype, place
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``alpha - beta cos(2 pi x)``."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        lambda x: alpha - beta * _turned(x),
        dtype,
        place,
    )


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x)``."""
    return _window(
        "blackman_window",
        window_length,
        periodic,
        lambda x: 0.42 - 0.5 * _turned(x) + 0.08 * _turned(x, 2),
        dtype,
        place,
    )


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``1 - |2 x - 1|``."""
    return _window(
        "bartlett_window", window_length, periodic, lambda x: 1 - (2 * x - 1).abs(), dtype, place
    )


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``i0(beta sqrt(1 - (2 x - 1)^2)) / i0(beta)``."""

    def weights(x: Tensor) -> Tensor:
        height = prim.sqrt((1 - (2 * x - 1) ** 2).clamp(min=0.0)) * beta
        return prim.i0(height) / prim.i0(prim.fill((), float64, float(beta), 0))

    return _window("kaiser_window", window_length, periodic, weights, dtype, place)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (hann_window, hamming_window, blackman_window, bartlett_window, kaiser_window)
}
