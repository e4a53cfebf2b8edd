"""Kullback-Leibler divergences of two distributions of a kind."""

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Tensor
from tinyt._core import is_recording
from tinyt.distributions.bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from tinyt.distributions.categorical import Categorical, OneHotCategorical
from tinyt.distributions.counts import Binomial, Poisson
from tinyt.distributions.distribution import ExponentialFamily
from tinyt.distributions.gamma import Beta, Dirichlet, Gamma
from tinyt.distributions.independent import Independent
from tinyt.distributions.kl import kl_divergence, register_kl
from tinyt.distributions.location_scale import Cauchy, Gumbel, Laplace, Uniform
from tinyt.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    mahalanobis,
    matvec,
    solve_lower,
)
from tinyt.distributions.normal import HalfNormal, Normal
from tinyt.distributions.transformed_distribution import TransformedDistribution
from tinyt.distributions.utils import euler_constant, sum_rightmost
from tinyt.distributions.waiting import Exponential, Pareto
from tinyt.nn.functional import logsigmoid

inf = math.inf


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    success = p.probs * (logsigmoid(p.logits) - logsigmoid(q.logits))
    success = tinyt.where(q.probs == 0, inf, success)
    success = tinyt.where(p.probs == 0, 0.0, success)
    failure = (1 - p.probs) * (logsigmoid(-p.logits) - logsigmoid(-q.logits))
    failure = tinyt.where(q.probs == 1, inf, failure)
    return success + tinyt.where(p.probs == 1, 0.0, failure)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if not is_recording() and (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    failure = (-p.probs).log1p() - (-q.probs).log1p()
    kl = p.total_count * (p.probs * (p.logits - q.logits) + failure)
    return tinyt.where(p.total_count > q.total_count, inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = tinyt.where(q.probs == 0, inf, terms)
    return tinyt.where(p.probs == 0, 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    failure = (-p.probs).log1p() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + norms + failure


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    slopes = a.digamma() - total.digamma().unsqueeze(-1)
    return norms + ((a - b) * slopes).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log-normaliser F: F(q) - F(p) - <q - p, dF(p)>."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    own = [x.detach().requires_grad_() for x in p._natural_params]
    other = q._natural_params
    with tinyt.enable_grad():
        normalizer = p._log_normalizer(*own)
        slopes = tinyt.autograd.grad(normalizer.sum(), own, create_graph=True)
    result: Tensor = q._log_normalizer(*other) - normalizer
    for a, b, slope in zip(own, other, slopes, strict=True):
        result = result - sum_rightmost((b - a) * slope, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norms = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return norms + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    tail = ((1 + ratio).lgamma() - away).exp()
    return away - ratio.log() + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return away / q.scale + ratio * (-away / p.scale).exp() - ratio.log() - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    away = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return tinyt.where(p.scale < q.scale, inf, kl)


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return tinyt.where((q.low > p.low) | (q.high < p.high), inf, kl)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy
    distributions", 2019."""
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ---- multivariate normal distributions, of low rank or not

Multivariate = MultivariateNormal | LowRankMultivariateNormal


def _log_det(d: Multivariate) -> Tensor:
    """The logarithm of the covariance's determinant."""
    return d._log_det() if isinstance(d, LowRankMultivariateNormal) else 2 * half_log_det(d._factor)


def _trace(q: Multivariate, root: Tensor) -> Tensor:
    """tr(C^-1 R Rᵀ) of q's covariance C."""
    if isinstance(q, MultivariateNormal):
        return solve_lower(q._factor, root).square().sum((-2, -1))
    w, d, capacitance = q._small
    scaled = root / d.unsqueeze(-1)
    inside = solve_lower(capacitance, w.mT @ scaled).square().sum((-2, -1))
    return (root * scaled).sum((-2, -1)) - inside


def _distance(q: Multivariate, x: Tensor) -> Tensor:
    """xᵀ C^-1 x of q's covariance C."""
    if isinstance(q, MultivariateNormal):
        return mahalanobis(q._factor, x)
    w, d, capacitance = q._small
    return (x.square() / d).sum(-1) - mahalanobis(capacitance, matvec(w.mT, x / d))


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p: Multivariate, q: Multivariate) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two multivariate normals with different event shapes cannot be "
            f"computed: {p.event_shape} and {q.event_shape}"
        )
    if isinstance(p, MultivariateNormal):
        trace = _trace(q, p._factor)
    else:
        w, d, _ = p._small
        trace = _trace(q, w) + _trace(q, d.sqrt().diag_embed())
    distance = _distance(q, q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])
