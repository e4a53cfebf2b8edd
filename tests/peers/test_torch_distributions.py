"""`tinyt.distributions` and PyTorch's: every family, in float64, to rounding."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions

import tinyt
from distribution_samples import FAMILIES, Family, by_name, make, tensors
from sampling import to_numpy

every_family = pytest.mark.parametrize("family", FAMILIES, ids=str)

# What differs from PyTorch on purpose.
KNOWN = {
    ("Kumaraswamy", "mode"): "PyTorch takes logarithms of negative numbers: NaN everywhere",
}
# PyTorch has polynomials of I0 and I1 to seven digits.
ROUGH = {"VonMises": 1e-4}


@pytest.fixture(autouse=True)
def _checked_and_double_by_default() -> Iterator[None]:
    """PyTorch makes constants of the default dtype inside some families; where it has compiled
    something before, its checks are off."""
    torch.distributions.Distribution.set_default_validate_args(True)
    before = torch.get_default_dtype()
    for tt in (tinyt, torch):
        tt.set_default_dtype(tt.float64)
    yield
    tinyt.set_default_dtype(tinyt.float32)
    torch.set_default_dtype(before)


def close(got: Any, want: Any, rtol: float = 1e-9) -> None:
    assert tuple(got.shape) == tuple(want.shape)
    np.testing.assert_allclose(to_numpy(got.detach()), want.detach().numpy(), rtol=rtol, atol=1e-12)


def asked(d: Any, name: str) -> Any:
    """A property or the result of a method without arguments, or the class of its error."""
    try:
        value = getattr(d, name)
        return value() if callable(value) else value
    except Exception as error:
        return type(error)


@every_family
def test_log_prob_and_its_gradients(family: Family) -> None:
    found = []
    for tt in (tinyt, torch):
        d, given = make(tt, family, grad=True)
        value = tt.tensor(family.values)
        if value.dtype is tt.float64:
            value.requires_grad_()
        log_prob = d.log_prob(value)
        weights = tt.arange(1.0, log_prob.numel() + 1, dtype=tt.float64)
        leaves = [x for x in (*given.values(), value) if getattr(x, "requires_grad", False)]
        flat = (log_prob.reshape(-1) * weights).sum()
        grads = tt.autograd.grad(flat, leaves, allow_unused=True)
        found.append((log_prob, [g if g is not None else tt.zeros(()) for g in grads]))
    (got, got_grads), (want, want_grads) = found
    close(got, want, ROUGH.get(family.name, 1e-9))
    for a, b in zip(got_grads, want_grads, strict=True):
        if family.name == "GeneralizedPareto":
            # PyTorch has no gradient of a concentration of 0, which is the second.
            a, b = a[::2], b[::2]
        close(a, b, ROUGH.get(family.name, 1e-8))


@every_family
@pytest.mark.parametrize(
    "name", ["mean", "mode", "variance", "stddev", "entropy", "perplexity", "enumerate_support"]
)
def test_facts(family: Family, name: str) -> None:
    if (family.name, name) in KNOWN:
        pytest.skip("differs on purpose")
    (ours, _), (theirs, _) = make(tinyt, family), make(torch, family)
    got, want = asked(ours, name), asked(theirs, name)
    if isinstance(want, type):
        assert isinstance(got, type)
        assert issubclass(got, want)
        return
    close(got, want, ROUGH.get(family.name, 1e-8))


@every_family
def test_cdf_and_icdf(family: Family) -> None:
    (ours, _), (theirs, _) = make(tinyt, family), make(torch, family)
    probability = np.array([0.05, 0.4, 0.97])
    for name, at in (("cdf", family.values), ("icdf", probability)):
        try:
            want = getattr(theirs, name)(torch.tensor(at))
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                getattr(ours, name)(tinyt.tensor(at))
            continue
        close(getattr(ours, name)(tinyt.tensor(at)), want, 1e-8)


@every_family
@pytest.mark.filterwarnings("ignore:Singular sample")  # PyTorch, of draws that are not
def test_shapes(family: Family) -> None:
    (ours, _), (theirs, _) = make(tinyt, family), make(torch, family)
    for new in (lambda d: d, lambda d: d.expand((2, *d.batch_shape))):
        a, b = new(ours), new(theirs)
        assert tuple(a.batch_shape) == tuple(b.batch_shape)
        assert tuple(a.event_shape) == tuple(b.event_shape)
        # PyTorch's draws of an index need at least one.
        for shape in (
            (),
            (4,),
            (2, 3),
            *(((0,),) if "ateg" not in family.name and family.name != "Multinomial" else ()),
        ):
            got, want = a.sample(tinyt.Size(shape)), b.sample(torch.Size(shape))
            assert tuple(got.shape) == tuple(want.shape)
            assert str(got.dtype).rpartition(".")[2] == str(want.dtype).rpartition(".")[2]
        value = family.values
        log_probs = a.log_prob(tinyt.tensor(value)), b.log_prob(torch.tensor(value))
        close(*log_probs, ROUGH.get(family.name, 1e-9))
        assert type(a) is type(ours)
        assert bool(a.has_rsample) == bool(b.has_rsample)
        assert bool(a.has_enumerate_support) == bool(b.has_enumerate_support)


@every_family
def test_repr_and_constraints(family: Family) -> None:
    (ours, _), (theirs, _) = make(tinyt, family), make(torch, family)
    if family.name not in ("Wishart",):
        assert repr(ours).replace("tinyt.", "torch.") == repr(theirs)
    assert repr(ours.support).replace("tinyt.", "torch.") == repr(theirs.support)
    a, b = ours.arg_constraints, theirs.arg_constraints
    assert {k: repr(v) for k, v in a.items()} == {k: repr(v) for k, v in b.items()}


@pytest.mark.parametrize("name", torch.distributions.__all__)
def test_every_name_and_signature(name: str) -> None:
    ours, theirs = getattr(tinyt.distributions, name), getattr(torch.distributions, name)
    if inspect.isclass(theirs):
        got, want = (list(inspect.signature(c.__init__).parameters) for c in (ours, theirs))
        assert got == want
        for attribute in vars(theirs):
            assert attribute.startswith("_") or hasattr(ours, attribute), attribute


# ---- rsample, of the same draws


@pytest.mark.parametrize("name", ["Gamma", "Beta", "Dirichlet"])
def test_implicit_gradients_are_those_of_the_same_draw(name: str) -> None:
    family = by_name(name)
    tinyt.manual_seed(7)
    d, given = make(tinyt, family, grad=True)
    x = d.rsample((50,))
    weights = np.cos(np.arange(x.numel())).reshape(x.shape)
    grads = tinyt.autograd.grad((x * tinyt.tensor(weights)).sum(), list(given.values()))
    drawn = torch.tensor(to_numpy(x.detach()))
    c = [torch.tensor(v) for v in family.params.values()]
    g = torch.tensor(weights)
    if name == "Gamma":
        slope = torch._standard_gamma_grad(c[0].expand(drawn.shape), drawn * c[1])
        wants = [(g * slope / c[1]).sum(0), (-g * drawn / c[1]).sum(0)]
    else:
        both = torch.stack(c, -1) if name == "Beta" else c[0]
        whole = torch.stack([drawn, 1 - drawn], -1) if name == "Beta" else drawn
        up = torch.stack([g, torch.zeros_like(g)], -1) if name == "Beta" else g
        total = both.sum(-1, True).expand(whole.shape)
        slope = torch._dirichlet_grad(whole, both.expand(whole.shape).contiguous(), total)
        found = (slope * (up - (whole * up).sum(-1, True))).sum(0)
        wants = [found[..., 0], found[..., 1]] if name == "Beta" else [found]
    for got, want in zip(grads, wants, strict=True):
        # PyTorch's are approximations.
        np.testing.assert_allclose(to_numpy(got), want.numpy(), rtol=5e-3, atol=5e-3)


# ---- errors


def both_raise(call: Any, kind: type[Exception] = ValueError) -> None:
    """The same class of error with the same text, but for the name of the library."""
    texts = []
    for tt in (tinyt, torch):
        with pytest.raises(kind) as error:
            call(tt, tt.distributions)
        texts.append(str(error.value).replace("tinyt.", "torch."))
    assert texts[0] == texts[1]


ERRORS: dict[str, Any] = {
    "scale": lambda t, D: D.Normal(t.tensor([-1.0, 1]), t.tensor([-1.0, 1])),
    "loc": lambda t, D: D.Normal(t.tensor([math.nan]), t.tensor([1.0])),
    "shape": lambda t, D: D.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
    "no tensor": lambda t, D: D.Normal(t.zeros(3), 1.0).log_prob(1.0),
    "support": lambda t, D: D.Exponential(t.ones(2)).log_prob(t.tensor([-1.0, 2])),
    "none": lambda t, D: D.Bernoulli(),
    "both": lambda t, D: D.Bernoulli(probs=0.5, logits=0.0),
    "uniform": lambda t, D: D.Uniform(1.0, 0.0),
    "0-d": lambda t, D: D.Categorical(t.tensor(0.4)),
    "0-d logits": lambda t, D: D.Categorical(logits=t.tensor(0.4)),
    "dirichlet": lambda t, D: D.Dirichlet(t.tensor(1.0)),
    "mvn none": lambda t, D: D.MultivariateNormal(t.zeros(2)),
    "mvn singular": lambda t, D: D.MultivariateNormal(t.zeros(2), t.zeros(2, 2)),
    "mvn 0-d": lambda t, D: D.MultivariateNormal(t.tensor(0.0), t.eye(2)),
    "mvn 1-d": lambda t, D: D.MultivariateNormal(t.zeros(2), t.ones(2)),
    "independent": lambda t, D: D.Independent(D.Normal(t.zeros(3), 1.0), 2),
    "mixture": lambda t, D: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(t.zeros(3), 1.0)),
    "components": lambda t, D: D.MixtureSameFamily(D.Categorical(t.ones(3)), 3),
    "count": lambda t, D: D.MixtureSameFamily(D.Categorical(t.ones(4)), D.Normal(t.zeros(3), 1.0)),
    "transforms": lambda t, D: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
    "a transform": lambda t, D: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]),
    "wishart df": lambda t, D: D.Wishart(t.tensor(1.0), t.eye(2)),
    "lkj": lambda t, D: D.LKJCholesky(1),
    "factor": lambda t, D: D.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2)),
    "factor 1-d": lambda t, D: D.LowRankMultivariateNormal(t.zeros(2), t.ones(2), t.ones(2)),
    "diag": lambda t, D: D.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3)),
    "gamma": lambda t, D: D.Gamma(t.zeros(2), t.ones(2)),
    "geometric": lambda t, D: D.Geometric(0.0),
    "text": lambda t, D: D.Normal("a", 1.0),
    "cdf": lambda t, D: D.Normal(0.0, 1.0).cdf("a"),
    "one hot": lambda t, D: D.OneHotCategorical(t.ones(3)).log_prob(t.ones(3)),
    "cache": lambda t, D: D.ExpTransform(cache_size=2),
    "reshape": lambda t, D: D.ReshapeTransform((2, 3), (5,)),
    "stick": lambda t, D: D.StickBreakingTransform().forward_shape(()),
    "corr": lambda t, D: D.CorrCholeskyTransform().forward_shape((4,)),
    "square": lambda t, D: D.CorrCholeskyTransform().inverse_shape((4, 3)),
    "few": lambda t, D: D.ReshapeTransform((2, 3), (6,)).forward_shape((3,)),
    "mismatch": lambda t, D: D.ReshapeTransform((2, 3), (6,)).forward_shape((3, 4)),
    "dependent": lambda t, D: D.constraints.dependent.check(t.ones(2)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    both_raise(ERRORS[name])


ABSENT: dict[str, Any] = {
    "mean": lambda t, D: D.Distribution(validate_args=False).mean,
    "cdf": lambda t, D: D.Poisson(1.0).cdf(t.tensor(1.0)),
    "rsample": lambda t, D: D.Poisson(1.0).rsample(),
    "enumerate": lambda t, D: D.Poisson(1.0).enumerate_support(),
    "counts": lambda t, D: D.Multinomial(t.tensor([3, 4]), t.tensor([0.2, 0.8])),
    "dependent": lambda t, D: D.biject_to(D.constraints.dependent),
    "lower triangular": lambda t, D: D.biject_to(D.constraints.lower_triangular),
    "trials": lambda t, D: D.Binomial(t.tensor([3, 4]), t.tensor([0.2, 0.8])).enumerate_support(),
    "kl": lambda t, D: D.kl_divergence(D.Pareto(1.0, 2.0), D.StudentT(2.0)),
    "sign": lambda t, D: D.AbsTransform().sign,
    "jacobian": lambda t, D: D.SoftmaxTransform().log_abs_det_jacobian(t.ones(2), t.ones(2)),
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_not_implemented(name: str) -> None:
    both_raise(ABSENT[name], NotImplementedError)


def test_sample_n_warns() -> None:
    for tt in (tinyt, torch):
        with pytest.warns(FutureWarning, match="sample_n"):
            assert tuple(tt.distributions.Normal(0.0, 1.0).sample_n(3).shape) == (3,)


def test_validation_can_be_turned_off() -> None:
    for tt in (tinyt, torch):
        D = tt.distributions
        assert math.isnan(D.Normal(0.0, -1.0, validate_args=False).log_prob(tt.tensor(0.0)).item())
        D.Distribution.set_default_validate_args(False)
        try:
            D.Normal(0.0, -1.0)
        finally:
            D.Distribution.set_default_validate_args(True)
        with pytest.raises(ValueError, match=r"^$|True or False"):
            D.Distribution.set_default_validate_args(3)


# ---- divergences


def _registered() -> list[tuple[str, str]]:
    return sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)


MORE: dict[str, dict[str, Any]] = {
    "Beta": {"concentration1": np.array([0.7, 1.0, 4.0]), "concentration0": np.array([2.0, 1, 3])},
    "Uniform": {"low": np.array([-1.0, 0.0, 0.2]), "high": np.array([1.5, 1.0, 0.9])},
    "Pareto": {"scale": np.array([0.1, 0.5, 2.0]), "alpha": np.array([0.8, 2.5, 3.0])},
    "Categorical": {"probs": np.array([[0.2, 0.8, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])},
    "OneHotCategorical": {"probs": np.full((3, 4), 0.25)},
    "Bernoulli": {"probs": np.array([0.0, 0.3, 1.0])},
    "Binomial": {"total_count": np.array([3.0, 7.0, 2.0]), "probs": np.array([0.1, 0.5, 0.8])},
    "Dirichlet": {"concentration": np.array([[1.3, 1.0, 0.5], [3.0, 1.0, 1.0]])},
    "MultivariateNormal": {"loc": np.ones((2, 3)), "scale_tril": np.tril(np.ones((3, 3)))},
    "LowRankMultivariateNormal": {
        "loc": np.zeros(3), "cov_factor": np.ones((2, 3, 1)), "cov_diag": np.array([1.0, 2, 3]),
    },
}  # fmt: skip


@pytest.mark.parametrize(("p", "q"), _registered())
def test_kl_divergence(p: str, q: str) -> None:
    skipped = {"ExponentialFamily", "TransformedDistribution", "Independent"}
    if {p, q} & skipped:
        pytest.skip("tested by itself")
    pairs = [(p, q, by_name(p).params, MORE.get(q, by_name(q).params))]
    pairs.append((p, q, MORE.get(p, by_name(p).params), by_name(q).params))
    for left, right, a, b in pairs:
        if (left, right) == ("Binomial", "Binomial"):
            # Of other counts only more trials than q's have a divergence.
            a = {**a, "total_count": np.array([9.0, 7.0, 7.0])}
        found = []
        for tt in (tinyt, torch):
            D = tt.distributions
            x = getattr(D, left)(**tensors(tt, a, grad=True))
            y = getattr(D, right)(**tensors(tt, b))
            found.append(D.kl_divergence(x, y))
        got, want = found
        if {left, right} == {"ContinuousBernoulli", "Uniform"}:
            # PyTorch's is infinite where both have the support [0, 1].
            got, want = got[::2], want[::2]
        # An infinite one has PyTorch's p's shape alone.
        if not np.isinf(want.detach().numpy()).all():
            close(got, want, 1e-8)
        else:
            assert np.isinf(to_numpy(got.detach())).all()


def test_kl_divergence_of_compound_distributions() -> None:
    found = []
    for tt in (tinyt, torch):
        D = tt.distributions
        loc = tt.arange(6.0, dtype=tt.float64).reshape(2, 3)
        a, b = D.Normal(loc, 1.0), D.Normal(0.0 * loc, 2.0 + loc)
        found.append(
            [
                D.kl_divergence(D.Independent(a, 1), D.Independent(b, 1)),
                D.kl_divergence(D.LogNormal(loc, 1.0), D.LogNormal(0.0 * loc, 2.0)),
                D.kl.kl_divergence(D.Chi2(loc + 1), D.Chi2(loc + 2)),
                D.kl._KL_REGISTRY[D.ExponentialFamily, D.ExponentialFamily](a, b),
                D.kl._KL_REGISTRY[D.ExponentialFamily, D.ExponentialFamily](
                    D.Dirichlet(loc + 1), D.Dirichlet(loc + 2)
                ),
                D.ExponentialFamily.entropy(D.Gamma(loc + 1, loc + 2)),
            ]
        )
    for got, want in zip(*found, strict=True):
        close(got, want, 1e-8)
    for tt in (tinyt, torch):
        D = tt.distributions
        with pytest.raises(NotImplementedError):
            D.kl_divergence(D.LogNormal(0.0, 1.0), D.HalfNormal(1.0))
        with pytest.raises(NotImplementedError):
            D.kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(0.5))


def test_compound_distributions() -> None:
    found = []
    for tt in (tinyt, torch):
        D = tt.distributions
        loc = tt.arange(6.0, dtype=tt.float64).reshape(2, 3) / 3
        mixture = D.MixtureSameFamily(D.Categorical(tt.ones(3, dtype=tt.float64)), D.Normal(loc, 1))
        vector = D.MixtureSameFamily(
            D.Categorical(tt.tensor([0.3, 0.7], dtype=tt.float64)),
            D.Independent(D.Normal(loc, 0.5), 1),
        )
        flow = D.TransformedDistribution(
            D.Normal(loc, 1.0),
            [D.AffineTransform(1.0, -2.0), D.SigmoidTransform(), D.AffineTransform(loc, 0.5)],
        )
        stick = D.TransformedDistribution(D.Normal(loc, 1.0), D.StickBreakingTransform())
        at = loc + 0.25
        point = tt.full((2, 4), 0.25, dtype=tt.float64)
        found.append(
            [
                mixture.log_prob(at[0, :2]), mixture.cdf(at[0, :2]), mixture.mean, mixture.variance,
                mixture.expand((4, 2)).log_prob(at[0, :2]),
                vector.log_prob(at), vector.mean, vector.variance,
                vector.expand((5,)).log_prob(at[0]),
                flow.log_prob(at), flow.cdf(at), flow.icdf(tt.full((2, 3), 0.3, dtype=tt.float64)),
                flow.expand((4, 2, 3)).log_prob(at),
                stick.log_prob(point), stick.expand((3, 2)).log_prob(point),
            ]
        )  # fmt: skip
        if tt is tinyt:  # PyTorch's needs the mixture's batch to be that of the components
            assert tuple(mixture.sample((5,)).shape) == (5, 2)
        assert tuple(vector.sample((5, 2)).shape) == (5, 2, 3)
        assert tuple(stick.rsample((5,)).shape) == (5, 2, 4)
        assert tuple(vector.expand((4,)).sample().shape) == (4, 3)
    for got, want in zip(*found, strict=True):
        close(got, want, 1e-9)
