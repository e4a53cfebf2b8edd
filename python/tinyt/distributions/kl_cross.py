"""Kullback-Leibler divergences of two kinds of distributions.

KL(p || q) is the cross-entropy, minus the mean of ``log q(x)`` over x of p, less the entropy of p.
Of q's density the mean needs few facts of p: the mean and the variance, E[log x], or E[exp(-t x)].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import tinyt
from tinyt import Tensor
from tinyt.distributions.bernoulli import Bernoulli, ContinuousBernoulli
from tinyt.distributions.counts import Binomial, Poisson
from tinyt.distributions.distribution import Distribution
from tinyt.distributions.gamma import Beta, Gamma
from tinyt.distributions.kl import register_kl
from tinyt.distributions.location_scale import Gumbel, Laplace, Uniform
from tinyt.distributions.normal import Normal
from tinyt.distributions.utils import euler_constant
from tinyt.distributions.waiting import Exponential, Pareto

inf = math.inf


# ---- E[log x]


@singledispatch
def mean_log(p: Any) -> Tensor:
    """E[log x] of a family of positive values."""
    raise NotImplementedError


@mean_log.register
def _beta_mean_log(p: Beta) -> Tensor:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@mean_log.register
def _exponential_mean_log(p: Exponential) -> Tensor:
    return -euler_constant - p.rate.log()


@mean_log.register
def _pareto_mean_log(p: Pareto) -> Tensor:
    return p.scale.log() + p.alpha.reciprocal()


@mean_log.register
def _uniform_mean_log(p: Uniform) -> Tensor:
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


# ---- E[exp(-t x)]


@singledispatch
def laplace_transform(p: Any, t: Tensor) -> Tensor:
    """E[exp(-t x)]."""
    raise NotImplementedError


@laplace_transform.register
def _exponential_laplace_transform(p: Exponential, t: Tensor) -> Tensor:
    return p.rate / (p.rate + t)


@laplace_transform.register
def _gamma_laplace_transform(p: Gamma, t: Tensor) -> Tensor:
    return (-p.concentration * (t / p.rate).log1p()).exp()


@laplace_transform.register
def _normal_laplace_transform(p: Normal, t: Tensor) -> Tensor:
    return (0.5 * (p.scale * t).square() - p.loc * t).exp()


@laplace_transform.register
def _uniform_laplace_transform(p: Uniform, t: Tensor) -> Tensor:
    return ((-p.low * t).exp() - (-p.high * t).exp()) / (t * (p.high - p.low))


# ---- cross-entropies, by q


def to_bounded(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    """q continuous Bernoulli."""
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def to_exponential(p: Distribution, q: Exponential) -> Tensor:
    """q exponential."""
    return q.rate * p.mean - q.rate.log()


def to_gamma(p: Distribution, q: Gamma) -> Tensor:
    """q gamma."""
    c = q.concentration
    return c.lgamma() - c * q.rate.log() - (c - 1) * mean_log(p) + q.rate * p.mean


def to_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    """q Gumbel."""
    t = q.scale.reciprocal()
    tail = (q.loc * t).exp() * laplace_transform(p, t)
    return q.scale.log() + (p.mean - q.loc) * t + tail


def to_normal(p: Distribution, q: Normal) -> Tensor:
    """q normal."""
    square = p.variance + (p.mean - q.loc).square()
    return q.scale.log() + 0.5 * math.log(2 * math.pi) + 0.5 * square / q.scale.square()


def to_uniform(p: Any, q: Uniform) -> Tensor:
    """q uniform over an interval with all of p's values in [0, 1]."""
    inside = (q.low <= 0) & (q.high >= 1)
    return tinyt.where(inside, (q.high - q.low).log(), inf)


def to_beta(p: Uniform, q: Beta) -> Tensor:
    """q beta."""
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    mean_log_rest = _mean_log_between(1 - p.high, 1 - p.low)
    return log_beta - (a - 1) * mean_log(p) - (b - 1) * mean_log_rest


def to_pareto(p: Distribution, q: Pareto) -> Tensor:
    """q Pareto."""
    return (q.alpha + 1) * mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


def to_laplace(p: Normal, q: Laplace) -> Tensor:
    """q Laplace, of a normal p."""
    away = p.loc - q.loc
    z = away / (p.scale * math.sqrt(2))
    spread = p.scale * math.sqrt(2 / math.pi) * (-z.square()).exp() + away * z.erf()
    return (2 * q.scale).log() + spread / q.scale


def to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    """q Poisson, of values 0 and 1."""
    return q.rate - p.probs * q.rate.log()


# ---- the table

Cross = Callable[[Any, Any], Tensor]
Condition = Callable[[Any, Any], Tensor]


def _register(
    p_kinds: tuple[type[Distribution], ...],
    q_kind: type[Distribution],
    cross: Cross,
    outside: Condition | None = None,
) -> None:
    """Registers the cross-entropy less the entropy; infinite where p has values outside of q."""

    def kl(p: Any, q: Any) -> Tensor:
        value: Tensor = cross(p, q) - p.entropy()
        return value if outside is None else tinyt.where(outside(p, q), inf, value)

    for kind in p_kinds:
        register_kl(kind, q_kind)(kl)


def _register_infinite(kinds: dict[type[Distribution], tuple[type[Distribution], ...]]) -> None:
    """Registers infinity for pairs of which p has values where q has none."""

    def kl(p: Any, q: Any) -> Tensor:
        shape = tinyt.broadcast_shapes(p.batch_shape, q.batch_shape)
        return tinyt.full(shape, inf, dtype=p.mean.dtype, device=p.mean.device)

    for p_kind, q_kinds in kinds.items():
        for q_kind in q_kinds:
            register_kl(p_kind, q_kind)(kl)


def _below_zero(p: Uniform, q: Any) -> Tensor:
    return p.low < 0


def _off_unit(p: Uniform, q: Any) -> Tensor:
    return (p.low < 0) | (p.high > 1)


_register((Bernoulli,), Poisson, to_poisson)
_register((Beta,), ContinuousBernoulli, to_bounded)
_register((Beta, ContinuousBernoulli, Gamma, Pareto), Exponential, to_exponential)
_register((Beta, Exponential, Pareto), Gamma, to_gamma)
_register((Exponential, Gamma, Normal, Uniform), Gumbel, to_gumbel)
_register(
    (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    Normal,
    to_normal,
)
_register((Beta, ContinuousBernoulli), Uniform, to_uniform)
_register((Normal,), Laplace, to_laplace)
_register((Uniform,), Beta, to_beta, _off_unit)
_register((Uniform,), ContinuousBernoulli, to_bounded, _off_unit)
_register((Uniform,), Exponential, to_exponential, _below_zero)
_register((Uniform,), Gamma, to_gamma, _below_zero)
_register((Uniform,), Pareto, to_pareto, lambda p, q: p.low < q.scale)

_BOUNDED = (Beta, ContinuousBernoulli, Uniform)
_register_infinite(
    {
        Beta: (Pareto,),
        ContinuousBernoulli: (Pareto,),
        Exponential: (*_BOUNDED, Pareto),
        Gamma: (*_BOUNDED, Pareto),
        Gumbel: (*_BOUNDED, Exponential, Gamma, Pareto),
        Laplace: (*_BOUNDED, Exponential, Gamma, Pareto),
        Normal: (*_BOUNDED, Exponential, Gamma, Pareto),
        Pareto: _BOUNDED,
        Poisson: (Bernoulli, Binomial),
    }
)
