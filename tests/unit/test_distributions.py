"""`tinyt.distributions` against SciPy, by moments of draws, and by rules that all families keep."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from distribution_samples import FAMILIES, Family, by_name, make, tensors
from tinyt import Tensor
from tinyt import distributions as D

every_family = pytest.mark.parametrize("family", FAMILIES, ids=str)
known_to_scipy = pytest.mark.parametrize("family", [f for f in FAMILIES if f.scipy], ids=str)
DRAWS = 100_000


def frozen(family: Family) -> list[Any]:
    """SciPy's distribution of each entry of the batch."""
    assert family.scipy is not None
    size = len(family.values)
    each = [
        {k: v[i] if isinstance(v, np.ndarray) and v.ndim else v for k, v in family.params.items()}
        for i in range(size)
    ]
    return [family.scipy(**params) for params in each]


# ---- against SciPy


@known_to_scipy
def test_log_prob(family: Family) -> None:
    d, _ = make(tinyt, family)
    want = [s.logpdf(x) for s, x in zip(frozen(family), family.values, strict=True)]
    np.testing.assert_allclose(d.log_prob(tinyt.tensor(family.values)).numpy(), want, rtol=1e-11)


@known_to_scipy
def test_cdf_and_its_inverse(family: Family) -> None:
    d, _ = make(tinyt, family)
    value = tinyt.tensor(family.values)
    try:
        cdf = d.cdf(value)
    except NotImplementedError:
        return
    want = [s.cdf(x) for s, x in zip(frozen(family), family.values, strict=True)]
    np.testing.assert_allclose(cdf.numpy(), want, rtol=1e-11, atol=1e-15)
    try:
        back = d.icdf(cdf)
    except NotImplementedError:
        return
    np.testing.assert_allclose(back.numpy(), family.values, rtol=1e-7, atol=1e-12)


@known_to_scipy
@pytest.mark.parametrize("name", ["mean", "variance", "entropy"])
def test_facts(family: Family, name: str) -> None:
    if family.name in ("VonMises", "Cauchy") and name == "variance":
        pytest.skip("circular, or infinite, where SciPy has another one")
    d, _ = make(tinyt, family)
    try:
        got = d.entropy() if name == "entropy" else getattr(d, name)
    except NotImplementedError:
        return
    want = [getattr(s, {"variance": "var"}.get(name, name))() for s in frozen(family)]
    rtol = 1e-6 if name == "entropy" and family.name in ("Poisson", "Geometric") else 1e-9
    np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=1e-12)


# ---- draws


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.sampled], ids=str)
def test_moments_of_draws(family: Family) -> None:
    """Mean and variance within five standard errors; that of the variance from the draws."""
    d, _ = make(tinyt, family)
    tinyt.manual_seed(11)
    x = d.sample((DRAWS,)).numpy()
    assert np.isfinite(x).all()
    mean, variance = d.mean.numpy(), d.variance.numpy()
    away = x - mean
    slack = 5 / math.sqrt(DRAWS)
    assert (np.abs(away.mean(0)) <= slack * np.sqrt(variance) + 1e-12).all()
    spread = (away**2).std(0)
    assert (np.abs((away**2).mean(0) - variance) <= slack * spread + 1e-12).all()


@every_family
def test_draws_lie_in_the_support(family: Family) -> None:
    d, _ = make(tinyt, family)
    tinyt.manual_seed(12)
    x = d.sample((50,))
    assert d.support.check(x).all()
    assert d.log_prob(x).isfinite().all()
    tinyt.manual_seed(12)
    np.testing.assert_array_equal(d.sample((50,)).numpy(), x.numpy())


def test_draws_of_compound_distributions() -> None:
    tinyt.manual_seed(13)
    loc = tinyt.tensor([[-2.0, 1.0], [0.0, 5.0]])
    mixture = D.MixtureSameFamily(D.Categorical(tinyt.tensor([0.3, 0.7])), D.Normal(loc, 0.5))
    x = mixture.sample((DRAWS,))
    assert x.shape == (DRAWS, 2)
    slack = 5 * mixture.variance.sqrt() / math.sqrt(DRAWS)
    assert ((x.mean(0) - mixture.mean).abs() < slack).all()
    lkj = D.LKJCholesky(4, 1.5).sample((DRAWS,))
    correlations = lkj @ lkj.mT
    # Each correlation r has (1 + r) / 2 of Beta(b, b), b = concentration + (dim - 2) / 2.
    variance = 1 / (2 * 2.5 + 1)
    for i in range(4):
        for j in range(i):
            r = correlations[:, i, j]
            assert abs(r.mean().item()) < 5 * math.sqrt(variance / DRAWS)
            assert abs(r.square().mean().item() - variance) < 0.005
    wishart = D.Wishart(tinyt.tensor(5.0), tinyt.eye(2) * 0.5).sample((DRAWS,))
    np.testing.assert_allclose(wishart.mean(0).numpy(), 2.5 * np.eye(2), atol=0.03)
    logistic = D.LogisticNormal(tinyt.zeros(2), tinyt.ones(2)).sample((100,))
    np.testing.assert_allclose(logistic.sum(-1).numpy(), 1, rtol=1e-6)
    indices = D.Categorical(tinyt.tensor([0.1, 0.0, 0.9])).sample((DRAWS,))
    assert abs((indices == 2).double().mean().item() - 0.9) < 5 * math.sqrt(0.09 / DRAWS)
    assert not (indices == 1).any()


# ---- gradients of draws

PATHWISE = [f for f in FAMILIES if f.name not in ("OneHotCategoricalStraightThrough", "Wishart")]


@pytest.mark.parametrize("family", PATHWISE, ids=str)
def test_gradients_of_draws(family: Family) -> None:
    """d E[f(x)] / dp by differences of E[f] of draws from one seed, where these move smoothly."""
    d, given_ = make(tinyt, family, grad=True)
    if not d.has_rsample:
        with pytest.raises(NotImplementedError):
            d.rsample()
        return
    smooth = family.name not in (
        "Gamma", "Chi2", "InverseGamma", "Beta", "Dirichlet", "StudentT", "FisherSnedecor",
    )  # fmt: skip
    leaves = {k: v for k, v in given_.items() if isinstance(v, Tensor)}

    def total(params: dict[str, Any]) -> Tensor:
        tinyt.manual_seed(14)
        made = getattr(D, family.name)(**{**family_numbers(family), **params}, validate_args=False)
        return made.rsample((7,)).sin().sum()

    grads = tinyt.autograd.grad(total(leaves), list(leaves.values()))
    for (name, x), grad in zip(leaves.items(), grads, strict=True):
        assert grad.isfinite().all()
        assert grad.abs().sum().item() > 0
        if not smooth or name in ("covariance_matrix", "precision_matrix"):
            continue
        flat = x.detach().reshape(-1)
        for i in range(flat.numel()):
            step = 1e-6 * max(1.0, abs(flat[i].item()))
            values = []
            for sign in (1, -1):
                moved = flat.clone()
                moved[i] += sign * step
                plain = {k: v.detach() for k, v in leaves.items()}
                values.append(total({**plain, name: moved.reshape(x.shape)}).item())
            slope = (values[0] - values[1]) / (2 * step)
            assert grad.reshape(-1)[i].item() == pytest.approx(slope, rel=1e-4, abs=1e-6)


def family_numbers(family: Family) -> dict[str, Any]:
    return {k: v for k, v in family.params.items() if not isinstance(v, np.ndarray)}


def test_straight_through_gradient_is_that_of_the_probabilities() -> None:
    logits = tinyt.zeros(4, requires_grad=True)
    d = D.OneHotCategoricalStraightThrough(logits=logits)
    x = d.rsample()
    assert sorted(x.tolist()) == [0, 0, 0, 1]
    weights = tinyt.arange(4.0)
    (got,) = tinyt.autograd.grad((x * weights).sum(), logits)
    (want,) = tinyt.autograd.grad((logits.softmax(-1) * weights).sum(), logits)
    assert got.tolist() == want.tolist()


# ---- rules


@every_family
def test_log_probs_of_a_discrete_support_add_up(family: Family) -> None:
    d, _ = make(tinyt, family)
    if not d.has_enumerate_support or "enumerate_support" in family.without:
        return
    values = d.enumerate_support()
    np.testing.assert_allclose(d.log_prob(values).exp().sum(0).numpy(), 1, rtol=1e-12)
    few = d.enumerate_support(expand=False)
    assert few.shape[1 : 1 + len(d.batch_shape)] == (1,) * len(d.batch_shape)


@every_family
def test_expanding_shares_memory_and_checks(family: Family) -> None:
    d, _ = make(tinyt, family)
    wide = d.expand((4, *d.batch_shape))
    assert wide.batch_shape == (4, *d.batch_shape)
    assert wide.expand((2, 4, *d.batch_shape)).sample().shape[:2] == (2, 4)

    class Mine(getattr(D, family.name)):  # type: ignore[misc]
        def __init__(self, x: Any) -> None:
            super().__init__(**tensors(tinyt, family.params))

    with pytest.raises(NotImplementedError, match=r"custom \.expand\(\)"):
        Mine(1).expand((4, *d.batch_shape))


@every_family
def test_numbers_and_halves(family: Family) -> None:
    """Float32 and float16 parameters give values of their dtype."""
    for dtype in (tinyt.float32, tinyt.float16):
        if dtype is tinyt.float16 and family.name in (
            "MultivariateNormal", "LowRankMultivariateNormal", "Wishart", "LKJCholesky",
            "GeneralizedPareto",
        ):  # fmt: skip
            continue
        given_ = {
            k: v.to(dtype) if isinstance(v, Tensor) and v.is_floating_point() else v
            for k, v in tensors(tinyt, family.params).items()
        }
        d = getattr(D, family.name)(**given_, validate_args=False)
        drawn = d.sample((3,))
        assert drawn.dtype in (dtype, tinyt.int64)
        assert d.log_prob(drawn).dtype is dtype


def test_batches_of_no_distribution() -> None:
    d = D.Normal(tinyt.zeros(0, 3), tinyt.ones(3))
    assert d.sample((2,)).shape == (2, 0, 3)
    assert d.log_prob(tinyt.zeros(0, 3)).shape == (0, 3)
    assert D.Gamma(tinyt.zeros(0), 1.0).rsample().shape == (0,)
    assert D.MultivariateNormal(tinyt.zeros(0, 2), tinyt.eye(2)).sample().shape == (0, 2)


@given(
    shape=st.lists(st.integers(0, 3), max_size=3),
    batch=st.lists(st.integers(0, 3), max_size=2),
)
def test_shapes_of_draws(shape: list[int], batch: list[int]) -> None:
    loc = tinyt.zeros(tuple(batch)).t() if len(batch) == 2 else tinyt.zeros(tuple(batch))
    for d in (D.Normal(loc, 1.0), D.Poisson(loc + 1), D.Beta(loc + 1, 1.0)):
        x = d.sample(shape)
        assert x.shape == (*shape, *loc.shape)
        assert d.log_prob(x).shape == x.shape


def test_values_that_are_not_numbers() -> None:
    nan, inf = math.nan, math.inf
    d = D.Normal(0.0, 1.0)
    with pytest.raises(ValueError, match=r"Real\(\)"):
        d.log_prob(tinyt.tensor(nan))
    assert d.log_prob(tinyt.tensor(inf)).item() == -inf
    with pytest.raises(ValueError, match=r"GreaterThan\(lower_bound=0.0\)"):
        D.Gamma(nan, 1.0)
    off = D.Normal(0.0, 1.0, validate_args=False)
    assert math.isnan(off.log_prob(tinyt.tensor(nan)).item())


def test_a_lazy_parameter_is_computed_once_and_has_a_gradient() -> None:
    probs = tinyt.tensor([0.2, 0.8], requires_grad=True)
    d = D.Bernoulli(probs=probs)
    assert "logits" not in vars(d)
    with tinyt.no_grad():
        logits = d.logits
    assert logits.requires_grad
    assert d.logits is logits


def test_tails_keep_their_digits() -> None:
    """Where a sum of probabilities would be 0 or 1 already."""
    d = D.Normal(tinyt.tensor(0.0, dtype=tinyt.float64), 1.0)
    assert d.icdf(tinyt.tensor(1e-300, dtype=tinyt.float64)).item() == pytest.approx(-37.0471)
    assert d.cdf(tinyt.tensor(-30.0, dtype=tinyt.float64)).item() == pytest.approx(4.9067e-198)
    e = D.Exponential(tinyt.tensor(1.0, dtype=tinyt.float64))
    assert e.cdf(tinyt.tensor(1e-20, dtype=tinyt.float64)).item() == 1e-20


def test_kumaraswamy_mode() -> None:
    """Where the derivative of the density is 0; PyTorch's is NaN."""
    shape = tinyt.tensor([3.0, 0.5], dtype=tinyt.float64)
    d = D.Kumaraswamy(shape, 4.0, validate_args=False)
    mode = d.mode.requires_grad_()
    (slope,) = tinyt.autograd.grad(d.log_prob(mode)[0], mode)
    assert abs(slope[0].item()) < 1e-12
    assert math.isnan(mode[1].item())


def test_register_kl() -> None:
    class First(D.Normal):
        pass

    class Second(First):
        pass

    before = dict(D.kl._KL_REGISTRY)
    try:
        D.register_kl(First, D.Normal)(lambda p, q: tinyt.tensor(1.0))
        p, q = Second(0.0, 1.0), First(0.0, 1.0)
        assert D.kl_divergence(p, q).item() == 1
        assert D.kl_divergence(D.Normal(0.0, 1.0), q).item() == 0
        D.register_kl(D.Normal, First)(lambda p, q: tinyt.tensor(2.0))
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            D.kl_divergence(p, q)
        with pytest.raises(TypeError, match="Distribution subclass"):
            D.register_kl(int, D.Normal)
    finally:
        D.kl._KL_REGISTRY.clear()
        D.kl._KL_REGISTRY.update(before)
        D.kl._chosen.clear()


def test_divergences_are_means_of_log_ratios() -> None:
    """By draws, of pairs of different kinds: within five standard errors."""
    tinyt.manual_seed(15)
    half = tinyt.tensor([0.4], dtype=tinyt.float64)
    pairs = [
        (D.Normal(half, 1.0), D.Laplace(half * 0, 2.0)),
        (D.Beta(half + 2, 3.0), D.Normal(half, 0.5)),
        (D.Gamma(half + 2, 3.0), D.Gumbel(half, 1.0)),
        (D.Uniform(half * 0, half), D.Beta(half + 1, 2.0)),
        (D.ContinuousBernoulli(half), D.Exponential(half + 1)),
        (D.Pareto(half, half + 4), D.Gamma(half + 2, 3.0)),
        (D.Bernoulli(half), D.Poisson(half)),
    ]
    for p, q in pairs:
        x = p.sample((DRAWS,))
        ratio = p.log_prob(x) - q.log_prob(x)
        error = ratio.std(0) / math.sqrt(DRAWS)
        assert ((ratio.mean(0) - D.kl_divergence(p, q)).abs() < 5 * error).all(), (p, q)


# ---- the package


def test_it_is_loaded_when_it_is_asked_for() -> None:
    code = (
        "import sys, tinyt; assert 'tinyt.distributions' not in sys.modules; "
        "tinyt.distributions.Normal; assert 'scipy' not in sys.modules; "
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_modules_of_pytorch_can_be_imported() -> None:
    code = (
        "from tinyt.distributions.normal import Normal; "
        "from tinyt.distributions.studentT import StudentT; "
        "from tinyt.distributions.utils import broadcast_all, _standard_normal, lazy_property; "
        "import tinyt.distributions.kl, tinyt.distributions.beta; "
        "from tinyt.distributions.relaxed_bernoulli import LogitRelaxedBernoulli; "
        "from tinyt.distributions.exp_family import ExponentialFamily"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_distributions_can_be_pickled() -> None:
    for name in ("Normal", "LogNormal", "Gamma", "Categorical", "Weibull"):
        d, _ = make(tinyt, by_name(name))
        copy = pickle.loads(pickle.dumps(d))
        value = tinyt.tensor(by_name(name).values)
        assert copy.log_prob(value).tolist() == d.log_prob(value).tolist()
