"""Other distributions than the uniform and the normal one, and choices by probability.

Each is made from one uniform or normal value an element; the stream and its rules are in
:mod:`tinyt.ops.random.draws`.
"""

from __future__ import annotations

import math
from typing import Any

from tinyt import _tensor
from tinyt._autograd import zero_gradient
from tinyt._core import is_recording
from tinyt.dtypes import float32, float64
from tinyt.ops.common import has_float64, to_dtype, write_out
from tinyt.ops.random.draws import draw, draw_into, need_floats, working_dtype
from tinyt.random import Generator
from tinyt.tensor import Tensor, method, prim


@method
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fills with values of density lambd exp(-lambd x), all positive."""
    need_floats("exponential_", self)
    if not lambd > 0:
        raise RuntimeError(f"exponential_: lambd must be positive, got {lambd}")
    # In place of log(1) = 0: half the distance from 1 to the next smaller number.
    least = 2.0**-54 if self.dtype is float64 else 2.0**-25

    def invert(u: Tensor) -> Tensor:
        return prim.where(prim.eq(u, 0.0), least, -prim.log1p(-u)) / lambd

    return draw_into(self, prim.uniform, generator, invert)


@method
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fills with the number of trials until the first success: 1, 2, ... with (1 - p)^(k-1) p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: p must be in (0, 1), got {p}")
    return draw_into(
        self,
        prim.uniform,
        generator,
        lambda u: prim.floor(prim.log1p(-u) / math.log1p(-float(p))) + 1.0,
    )


@method
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fills with values of density sigma / (pi ((x - median)² + sigma²))."""
    need_floats("cauchy_", self)
    if not sigma > 0:
        raise RuntimeError(f"cauchy_: sigma must be positive, got {sigma}")

    def invert(u: Tensor) -> Tensor:
        # tan(pi (u - 1/2)); at u = 0 it would be infinite.
        angle = prim.where(prim.eq(u, 0.0), 2.0**-25, u) * math.pi
        return median - sigma * (prim.cos(angle) / prim.sin(angle))

    return draw_into(self, prim.uniform, generator, invert)


@method
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Fills with values whose logarithm is normal with this mean and standard deviation."""
    need_floats("log_normal_", self)
    if not std > 0:
        raise RuntimeError(f"log_normal_: std must be positive, got {std}")
    return draw_into(self, prim.normal, generator, lambda z: prim.exp(z * std + mean))


# ---- choices


def _probabilities(op: str, p: Tensor | float) -> Any:
    """Probabilities off the tape; RuntimeError outside [0, 1]."""
    if isinstance(p, Tensor):
        p = p.detach()
        if is_recording() or not p.numel():
            return p
        low, high = p.amin().item(), p.amax().item()
    else:
        low = high = p
    if not (low >= 0 and high <= 1):
        raise RuntimeError(f"{op}: p must be in [0, 1], got [{low}, {high}]")
    return p


@method
def bernoulli(
    input: Tensor,
    p: float | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Ones with the probabilities in ``input`` (or all with ``p``), else zeros."""
    if p is None:
        need_floats("bernoulli", input)
    chance = _probabilities("bernoulli", input if p is None else p)
    hits = draw(
        prim.uniform,
        tuple(input.shape),
        working_dtype(input.dtype),
        generator,
        lambda u: to_dtype(prim.lt(u, chance), input.dtype),
    )
    return write_out(out, zero_gradient(hits, input))


@method
def bernoulli_(
    self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None
) -> Tensor:
    """Fills with ones of probability ``p``, else zeros."""
    chance = _probabilities("bernoulli_", p)
    return draw_into(self, prim.uniform, generator, lambda u: prim.lt(u, chance), float32)


@method
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn by the weights of each row [..., n]; int64 [..., num_samples].

    Drawn in float64, by the CPU where the device has none: the same indices everywhere.
    """
    if input.dim() not in (1, 2):
        raise RuntimeError(f"multinomial: weights must be 1-d or 2-d, got {tuple(input.shape)}")
    need_floats("multinomial", input)
    categories = input.shape[-1]
    if num_samples < 1 or (not replacement and num_samples > categories):
        raise RuntimeError(
            f"multinomial: cannot draw {num_samples} of {categories} categories "
            f"{'with' if replacement else 'without'} replacement"
        )
    if not has_float64(input.device):
        with _tensor.device("cpu"):
            weights = input.detach().cpu()
            drawn = multinomial(weights, num_samples, replacement, generator=generator)
        return write_out(out, drawn.to(input.device))
    weights = prim.cast(input.detach(), float64)
    _check_weights(weights)
    if replacement:
        return write_out(out, _with_replacement(weights, num_samples, generator))

    def first(u: Tensor) -> Tensor:
        # The smallest of exponential clocks with the weights as rates.
        order = prim.sort(-prim.log1p(-u) / weights, -1)[1]
        return prim.slice(order, -1, 0, num_samples)

    return write_out(out, draw(prim.uniform, tuple(input.shape), float64, generator, first))


def _check_weights(weights: Tensor) -> None:
    if is_recording() or not weights.numel():
        return
    total = prim.amin(prim.sum(weights, (-1,), False), (), False).item()
    if not (prim.amin(weights, (), False).item() >= 0 and 0 < total < math.inf):
        raise RuntimeError("multinomial: weights must be finite, not negative and not all zero")


def _with_replacement(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """For each uniform value the category whose part of [0, 1) holds it."""
    edges = prim.cumsum(weights, -1)
    # By their own last value, so that the last category with a weight ends at exactly 1.
    edges = edges / prim.slice(edges, -1, edges.shape[-1] - 1, edges.shape[-1])
    size = (*weights.shape[:-1], count)
    return draw(prim.uniform, size, float64, generator, lambda u: prim.searchsorted(edges, u, True))


EXPORTS: dict[str, Any] = {f.__name__: f for f in (bernoulli, multinomial)}
