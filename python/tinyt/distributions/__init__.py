"""Probability distributions under PyTorch's names: draws, densities, entropies, divergences.

A distribution is made from tensors of parameters, one distribution for each entry of their
broadcast shape. ``sample`` draws, ``rsample`` draws with gradients with respect to the parameters,
``log_prob`` and ``entropy`` are tensor code with gradients; all of it can be compiled.

>>> import tinyt
>>> policy = Categorical(logits=tinyt.zeros(2, 3))
>>> policy.log_prob(tinyt.tensor([0, 2]))
tensor([-1.0986, -1.0986])
"""

from __future__ import annotations

import sys

from tinyt.distributions import (
    bernoulli,
    categorical,
    constraint_registry,
    constraints,
    counts,
    distribution,
    gamma,
    independent,
    kl,
    location_scale,
    matrix,
    mixture_same_family,
    multivariate_normal,
    normal,
    relaxed,
    transformed_distribution,
    transforms,
    utils,
    von_mises,
    waiting,
)
from tinyt.distributions.bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from tinyt.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from tinyt.distributions.constraint_registry import biject_to, transform_to
from tinyt.distributions.counts import Binomial, NegativeBinomial, Poisson
from tinyt.distributions.distribution import Distribution, ExponentialFamily
from tinyt.distributions.gamma import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from tinyt.distributions.independent import Independent
from tinyt.distributions.kl import kl_divergence, register_kl
from tinyt.distributions.location_scale import Cauchy, Gumbel, HalfCauchy, Laplace, Uniform
from tinyt.distributions.matrix import LKJCholesky, Wishart
from tinyt.distributions.mixture_same_family import MixtureSameFamily
from tinyt.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from tinyt.distributions.normal import HalfNormal, LogisticNormal, LogNormal, Normal
from tinyt.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from tinyt.distributions.transformed_distribution import TransformedDistribution
from tinyt.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from tinyt.distributions.von_mises import VonMises
from tinyt.distributions.waiting import Exponential, GeneralizedPareto, Kumaraswamy, Pareto, Weibull

# Modules of PyTorch's package that are part of a family's file here: programs import from them.
_MODULES = {
    "beta": gamma,
    "binomial": counts,
    "cauchy": location_scale,
    "chi2": gamma,
    "continuous_bernoulli": bernoulli,
    "dirichlet": gamma,
    "exp_family": distribution,
    "exponential": waiting,
    "fishersnedecor": gamma,
    "generalized_pareto": waiting,
    "geometric": bernoulli,
    "gumbel": location_scale,
    "half_cauchy": location_scale,
    "half_normal": normal,
    "inverse_gamma": gamma,
    "kumaraswamy": waiting,
    "laplace": location_scale,
    "lkj_cholesky": matrix,
    "log_normal": normal,
    "logistic_normal": normal,
    "lowrank_multivariate_normal": multivariate_normal,
    "multinomial": categorical,
    "negative_binomial": counts,
    "one_hot_categorical": categorical,
    "pareto": waiting,
    "poisson": counts,
    "relaxed_bernoulli": relaxed,
    "relaxed_categorical": relaxed,
    "studentT": gamma,
    "uniform": location_scale,
    "weibull": waiting,
    "wishart": matrix,
}
for _name, _module in _MODULES.items():
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraint_registry", "constraints",
    "identity_transform", "independent", "kl", "kl_divergence", "mixture_same_family",
    "register_kl", "transform_to", "transformed_distribution", "transforms", "utils", "von_mises",
]  # fmt: skip
