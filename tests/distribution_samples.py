"""The families of `tinyt.distributions`, one row each: parameters, values, SciPy's name for them.

`unit/test_distributions*.py` walks it against SciPy, `peers/test_torch_distributions.py` against
PyTorch. It knows nothing about the library under test: `make` builds a row with either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

Array = np.ndarray


@dataclass(frozen=True)
class Family:
    """Float64 parameters (arrays; other values are passed as they are) and values of the support.

    `scipy`: the frozen distribution of one entry's parameters. `sampled`: whether the mean and
    variance of draws are compared (they exist, and are finite).
    """

    name: str
    params: dict[str, Any]
    values: Any
    scipy: Callable[..., Any] | None = None
    sampled: bool = True
    without: frozenset[str] = field(default_factory=frozenset)
    label: str = ""

    def __str__(self) -> str:
        return self.label or self.name


def A(*values: Any) -> Array:
    return np.array(values, np.float64)


def _spd(n: int, seed: int = 0) -> Array:
    x = np.random.default_rng(seed).normal(size=(n, n))
    return x @ x.T + n * np.eye(n)


def _simplex(*shape: int, seed: int = 1) -> Array:
    x = np.random.default_rng(seed).uniform(0.2, 1.0, size=shape)
    return x / x.sum(-1, keepdims=True)


class _Logarithmic:
    """A discrete SciPy distribution under the names of a continuous one."""

    def __init__(self, frozen: Any) -> None:
        self.frozen = frozen

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frozen, "logpmf" if name == "logpdf" else name)


def _discrete(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **p: _Logarithmic(make(**p))


LOC, SCALE = A(-0.5, 0.0, 2.0), A(0.3, 1.0, 2.5)
CORR = np.linalg.cholesky(np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.5], [-0.2, 0.5, 1.0]]))
W = np.random.default_rng(3).normal(size=(3, 2))

FAMILIES: tuple[Family, ...] = (
    Family("Normal", {"loc": LOC, "scale": SCALE}, A(-1.0, 0.4, 3.0),
           lambda loc, scale: stats.norm(loc, scale)),
    Family("LogNormal", {"loc": A(-0.5, 0.0, 0.3), "scale": A(0.3, 0.5, 0.4)}, A(0.1, 1.0, 3.0),
           lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc))),
    Family("HalfNormal", {"scale": SCALE}, A(0.0, 0.4, 3.0),
           lambda scale: stats.halfnorm(scale=scale)),
    Family("LogisticNormal", {"loc": LOC, "scale": SCALE}, _simplex(4), sampled=False),
    Family("Laplace", {"loc": LOC, "scale": SCALE}, A(-1.0, 0.4, 3.0),
           lambda loc, scale: stats.laplace(loc, scale)),
    Family("Cauchy", {"loc": LOC, "scale": SCALE}, A(-1.0, 0.4, 3.0),
           lambda loc, scale: stats.cauchy(loc, scale), sampled=False),
    Family("HalfCauchy", {"scale": SCALE}, A(0.0, 0.4, 3.0),
           lambda scale: stats.halfcauchy(scale=scale), sampled=False),
    Family("Gumbel", {"loc": LOC, "scale": SCALE}, A(-1.0, 0.4, 3.0),
           lambda loc, scale: stats.gumbel_r(loc, scale)),
    Family("Uniform", {"low": LOC, "high": LOC + SCALE}, A(-0.4, 0.4, 3.0),
           lambda low, high: stats.uniform(low, high - low)),
    Family("Exponential", {"rate": SCALE}, A(0.0, 0.4, 3.0),
           lambda rate: stats.expon(scale=1 / rate)),
    Family("Weibull", {"scale": SCALE, "concentration": A(0.8, 1.0, 3.0)}, A(0.1, 0.4, 3.0),
           lambda scale, concentration: stats.weibull_min(concentration, scale=scale)),
    Family("Pareto", {"scale": SCALE, "alpha": A(5.0, 6.0, 8.0)}, A(0.4, 1.4, 3.0),
           lambda scale, alpha: stats.pareto(alpha, scale=scale)),
    Family("Kumaraswamy", {"concentration1": A(0.8, 1.0, 3.0), "concentration0": A(1.5, 1.0, 4.0)},
           A(0.1, 0.4, 0.9)),
    Family("GeneralizedPareto",
           {"loc": LOC, "scale": SCALE, "concentration": A(-0.4, 0.0, 0.2)}, A(0.1, 0.4, 3.0),
           lambda loc, scale, concentration: stats.genpareto(concentration, loc, scale)),
    Family("Bernoulli", {"probs": A(0.1, 0.5, 0.8)}, A(0.0, 1.0, 1.0),
           _discrete(lambda probs: stats.bernoulli(probs))),
    Family("Bernoulli", {"logits": A(-2.0, 0.0, 3.0)}, A(0.0, 1.0, 1.0), label="Bernoulli-logits"),
    Family("Geometric", {"probs": A(0.2, 0.5, 0.8)}, A(0.0, 1.0, 4.0),
           _discrete(lambda probs: stats.geom(probs, loc=-1))),
    Family("Geometric", {"logits": A(-1.0, 0.0, 2.0)}, A(0.0, 1.0, 4.0), label="Geometric-logits"),
    Family("ContinuousBernoulli", {"probs": A(0.1, 0.4999, 0.8)}, A(0.1, 0.4, 0.9)),
    Family("ContinuousBernoulli", {"logits": A(-2.0, 0.001, 3.0)}, A(0.1, 0.4, 0.9),
           label="ContinuousBernoulli-logits"),
    Family("Binomial", {"total_count": 7, "probs": A(0.1, 0.5, 0.8)}, A(0.0, 3.0, 7.0),
           _discrete(lambda total_count, probs: stats.binom(total_count, probs))),
    Family("Binomial", {"total_count": A(3.0, 5.0, 40.0), "logits": A(-1.0, 0.0, 2.0)},
           A(0.0, 3.0, 34.0), without=frozenset({"entropy", "enumerate_support"}),
           label="Binomial-logits"),
    Family("NegativeBinomial", {"total_count": A(0.5, 3.0, 9.0), "probs": A(0.1, 0.5, 0.8)},
           A(0.0, 3.0, 7.0),
           _discrete(lambda total_count, probs: stats.nbinom(total_count, 1 - probs))),
    Family("NegativeBinomial", {"total_count": 4, "logits": A(-1.0, 0.0, 1.0)},
           A(0.0, 3.0, 7.0), label="NegativeBinomial-logits"),
    Family("Poisson", {"rate": A(0.3, 2.0, 30.0)}, A(0.0, 3.0, 27.0),
           _discrete(lambda rate: stats.poisson(rate))),
    Family("Categorical", {"probs": _simplex(3, 4)}, np.array([0, 3, 2]), sampled=False),
    Family("Categorical", {"logits": np.log(_simplex(3, 4)) + 1}, np.array([0, 3, 2]),
           sampled=False, label="Categorical-logits"),
    Family("OneHotCategorical", {"probs": _simplex(3, 4)}, np.eye(4)[[0, 3, 2]]),
    Family("OneHotCategoricalStraightThrough", {"logits": np.log(_simplex(3, 4))},
           np.eye(4)[[0, 3, 2]]),
    Family("Multinomial", {"total_count": 5, "probs": _simplex(3, 4)},
           A([1, 0, 3, 1], [0, 5, 0, 0], [2, 1, 1, 1])),
    Family("RelaxedBernoulli", {"temperature": A(0.7), "probs": A(0.1, 0.5, 0.8)},
           A(0.1, 0.4, 0.9), sampled=False),
    Family("RelaxedOneHotCategorical", {"temperature": A(0.7), "probs": _simplex(3, 4)},
           _simplex(3, 4, seed=5), sampled=False),
    Family("VonMises", {"loc": LOC, "concentration": A(0.2, 1.0, 50.0)}, A(-1.0, 0.4, 3.0),
           lambda loc, concentration: stats.vonmises(concentration, loc), sampled=False),
    Family("Gamma", {"concentration": A(0.3, 1.0, 20.0), "rate": SCALE}, A(0.1, 0.4, 9.0),
           lambda concentration, rate: stats.gamma(concentration, scale=1 / rate)),
    Family("Chi2", {"df": A(0.6, 2.0, 20.0)}, A(0.1, 0.4, 9.0), lambda df: stats.chi2(df)),
    Family("InverseGamma", {"concentration": A(5.0, 7.0, 20.0), "rate": SCALE}, A(0.1, 0.4, 2.0),
           lambda concentration, rate: stats.invgamma(concentration, scale=rate)),
    Family("Beta", {"concentration1": A(0.3, 1.0, 20.0), "concentration0": SCALE},
           A(0.1, 0.4, 0.9), lambda concentration1, concentration0:
           stats.beta(concentration1, concentration0)),
    Family("Dirichlet", {"concentration": A([0.3, 1.0, 5.0], [2.0, 3.0, 4.0])}, _simplex(2, 3)),
    Family("StudentT", {"df": A(5.0, 7.0, 30.0), "loc": LOC, "scale": SCALE}, A(-1.0, 0.4, 3.0),
           lambda df, loc, scale: stats.t(df, loc, scale)),
    Family("FisherSnedecor", {"df1": A(0.6, 3.0, 20.0), "df2": A(9.0, 12.0, 30.0)},
           A(0.1, 0.4, 2.0), lambda df1, df2: stats.f(df1, df2)),
    Family("MultivariateNormal", {"loc": LOC, "covariance_matrix": _spd(3)}, A(-1.0, 0.4, 3.0)),
    Family("MultivariateNormal", {"loc": np.stack([LOC, SCALE]), "precision_matrix": _spd(3)},
           A(-1.0, 0.4, 3.0), label="MultivariateNormal-precision"),
    Family("MultivariateNormal", {"loc": LOC, "scale_tril": np.linalg.cholesky(
        np.stack([_spd(3), _spd(3, 1)]))}, A(-1.0, 0.4, 3.0), label="MultivariateNormal-tril"),
    Family("LowRankMultivariateNormal", {"loc": LOC, "cov_factor": W, "cov_diag": SCALE},
           A(-1.0, 0.4, 3.0)),
    Family("Wishart", {"df": A(4.0, 6.5), "covariance_matrix": _spd(3)}, _spd(3, 2)),
    Family("Wishart", {"df": A(4.0), "precision_matrix": _spd(3)}, _spd(3, 2),
           label="Wishart-precision"),
    Family("LKJCholesky", {"dim": 3, "concentration": A(0.7, 1.0, 4.0)}, CORR, sampled=False),
)  # fmt: skip


def by_name(name: str) -> Family:
    return next(f for f in FAMILIES if str(f) == name)


def tensors(tt: Any, params: dict[str, Any], grad: bool = False) -> dict[str, Any]:
    """The parameters as tensors of a library."""
    made = {k: tt.tensor(v) if isinstance(v, np.ndarray) else v for k, v in params.items()}
    for value in made.values():
        if grad and isinstance(value, tt.Tensor):
            value.requires_grad_()
    return made


def make(tt: Any, family: Family, grad: bool = False, **more: Any) -> tuple[Any, dict[str, Any]]:
    """The distribution in a library, and its parameters."""
    given = tensors(tt, family.params, grad)
    return getattr(tt.distributions, family.name)(**given, **more), given
