"""Draws whose parameters are tensors: their distributions, their stream, their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor
from tinyt.tensor import prim

N = 40_000
Draw = Callable[[Tensor], Tensor]

ONE: dict[str, tuple[Draw, float]] = {
    "gamma": (tinyt._standard_gamma, 2.5),
    "dirichlet": (tinyt._sample_dirichlet, 0.7),
    "poisson": (tinyt.poisson, 3.0),
    "poisson, large": (tinyt.poisson, 200.0),
    "binomial": (lambda x: tinyt.binomial(x, tinyt.full_like(x, 0.3)), 20.0),
    "von mises": (tinyt._sample_von_mises, 2.0),
}
one = pytest.mark.parametrize("name", ONE)


def many(value: float, dtype: Any = tinyt.float64) -> Tensor:
    return tinyt.full((N,), value, dtype=dtype)


def assert_continuous(x: Tensor, cdf: Any) -> None:
    """Kolmogorov and Smirnov's test: once in ten thousand seeds it fails, and the seed is fixed."""
    assert stats.kstest(x.numpy(), cdf).pvalue > 1e-4


def assert_discrete(x: Tensor, pmf: Any) -> None:
    """Pearson's test of the counts, rare ones together."""
    values = x.numpy().astype(int)
    assert (values >= 0).all()
    seen = np.bincount(values)
    want = pmf(np.arange(len(seen))) * N
    common = want > 5
    rest = [seen[~common].sum(), N - want[common].sum()]
    pairs = [*zip(seen[common], want[common], strict=True)]
    if rest[1] > 5:
        pairs.append((rest[0], rest[1]))
    if len(pairs) == 1:  # one value has all of it
        assert seen[common].sum() == N
        return
    observed, expected = (np.array(side, float) for side in zip(*pairs, strict=True))
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize("alpha", [1e-2, 0.3, 0.999, 1.0, 1.5, 30.0, 1e4])
def test_gamma(alpha: float) -> None:
    tinyt.manual_seed(1)
    assert_continuous(tinyt._standard_gamma(many(alpha)), stats.gamma(alpha).cdf)


@pytest.mark.parametrize("rate", [0.01, 1.0, 9.99, 10.0, 42.5, 1000.0])
def test_poisson(rate: float) -> None:
    tinyt.manual_seed(2)
    assert_discrete(tinyt.poisson(many(rate)), stats.poisson(rate).pmf)


@pytest.mark.parametrize(
    ("count", "p"),
    [(1, 0.5), (9, 0.1), (9, 0.9), (25, 0.4), (30, 0.5), (200, 0.7), (5000, 0.01), (3, 1.0)],
)
def test_binomial(count: int, p: float) -> None:
    tinyt.manual_seed(3)
    assert_discrete(tinyt.binomial(many(count), many(p)), stats.binom(count, p).pmf)


@pytest.mark.parametrize("k", [1e-3, 0.5, 4.0, 300.0, 2e6])
def test_von_mises(k: float) -> None:
    tinyt.manual_seed(4)
    cdf = stats.vonmises(k).cdf if k < 1e6 else stats.norm(0, k**-0.5).cdf
    assert_continuous(tinyt._sample_von_mises(many(k)), cdf)


def test_dirichlet() -> None:
    tinyt.manual_seed(5)
    alpha = np.array([0.2, 1.0, 7.0])
    x = tinyt._sample_dirichlet(tinyt.tensor(alpha).expand(N, 3))
    np.testing.assert_allclose(x.sum(-1).numpy(), 1, rtol=1e-15)
    for i, a in enumerate(alpha):
        assert_continuous(x[:, i], stats.beta(a, alpha.sum() - a).cdf)
    # Concentrations of which every gamma-distributed value is below the smallest number.
    corners = tinyt._sample_dirichlet(tinyt.full((N, 2), 1e-5))
    assert not corners.isnan().any()
    assert abs(corners[:, 0].mean().item() - 0.5) < 5 * 0.5 / math.sqrt(N)
    long = tinyt._sample_dirichlet(tinyt.ones(2, 5000, dtype=tinyt.float64))
    np.testing.assert_allclose(long.sum(-1).numpy(), 1, rtol=1e-12)


@one
def test_the_same_for_any_number_of_threads_and_layout(name: str) -> None:
    draw, value = ONE[name]
    shape = (300, 401)
    found = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            tinyt.manual_seed(6)
            found.append(draw(tinyt.full(shape, value)))
    tinyt.manual_seed(6)
    found.append(draw(tinyt.full(shape[::-1], value).t()))
    for other in found[1:]:
        assert_same_bits(found[0], other)


@one
def test_draws_take_counters_and_are_independent(name: str) -> None:
    draw, value = ONE[name]
    x = tinyt.full((5, 4), value, dtype=tinyt.float64)
    tinyt.manual_seed(7)
    first, second = draw(x), draw(x)
    assert tinyt.get_rng_state().tolist()[1] == 10
    assert not (first == second).all()
    tinyt.manual_seed(7)
    assert_same_bits(draw(x), first)


@one
def test_a_program_draws_as_eager_does(name: str) -> None:
    draw, value = ONE[name]
    x = tinyt.full((3, 70), value)

    def step(x: Tensor) -> Tensor:
        return draw(x) * 2 + draw(x + 1)

    compiled = tinyt.compile(step)
    tinyt.manual_seed(8)
    want = [step(x) for _ in range(3)]
    tinyt.manual_seed(8)
    for w in want:
        assert_same_bits(compiled(x), w)


@one
@given(shape=st.lists(st.integers(0, 3), max_size=3), dtype=st.sampled_from(["float16", "float32"]))
def test_shapes_and_dtypes(name: str, shape: list[int], dtype: str) -> None:
    if name == "dirichlet" and not shape:
        shape = [2]
    draw, value = ONE[name]
    x = tinyt.full(tuple(shape), value, dtype=getattr(tinyt, dtype))
    found = draw(x)
    assert found.shape == x.shape
    assert found.dtype is x.dtype
    assert not found.isnan().any()


def test_edges() -> None:
    inf, nan = math.inf, math.nan
    x = tinyt._standard_gamma(tinyt.tensor([0.0, -1.0, inf, nan]))
    np.testing.assert_array_equal(x.numpy(), [0, nan, inf, nan])
    x = tinyt.poisson(tinyt.tensor([0.0, nan, inf]))
    np.testing.assert_array_equal(x.numpy(), [0, nan, nan])
    ends = tinyt.tensor([0.0, 1.0, nan, 1.5])
    x = tinyt.binomial(tinyt.tensor([5.0, 5.0, 5.0, 5.0]), ends)
    np.testing.assert_array_equal(x.numpy(), [0, 5, nan, nan])
    for huge in (1e30, 1e300):
        h = tinyt.full((100,), huge, dtype=tinyt.float64)
        for drawn in (tinyt._standard_gamma(h), tinyt.poisson(h), tinyt.binomial(h, h * 0 + 0.5)):
            assert drawn.isfinite().all()


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"poisson.*non-negative"):
        tinyt.poisson(tinyt.tensor([-1.0]))
    with pytest.raises(RuntimeError, match=r"binomial.*negative"):
        tinyt.binomial(tinyt.tensor([-1.0]), tinyt.tensor([0.5]))
    for call in (tinyt.poisson, tinyt._standard_gamma, tinyt._sample_dirichlet):
        with pytest.raises(RuntimeError, match="int64"):
            call(tinyt.tensor([1]))
    with pytest.raises(RuntimeError, match="dirichlet"):
        tinyt._sample_dirichlet(tinyt.tensor(1.0))
    with pytest.raises(RuntimeError, match="broadcast"):
        tinyt.binomial(tinyt.ones(2), tinyt.ones(3))


# ---- gradients: how a value moves with a parameter while its probability stays


def quantile_slope(family: Any, a: float, x: np.ndarray) -> np.ndarray:
    """Central differences of SciPy's quantile at a fixed probability."""
    h = 1e-4 * a
    p = family(a).cdf(x)
    return (family(a + h).ppf(p) - family(a - h).ppf(p)) / (2 * h)


@pytest.mark.parametrize("a", [0.05, 0.6, 1.0, 5.0, 40.0, 70.0, 900.0])
def test_gamma_gradient(a: float) -> None:
    tinyt.manual_seed(9)
    alpha = tinyt.full((200,), a, dtype=tinyt.float64, requires_grad=True)
    x = tinyt._standard_gamma(alpha)
    (got,) = tinyt.autograd.grad(x.sum(), alpha)
    value = x.detach().numpy()
    kept = (value > 1e-100) & (stats.gamma(a).cdf(value) < 0.999)
    want = quantile_slope(stats.gamma, a, value[kept])
    np.testing.assert_allclose(got.numpy()[kept], want, rtol=2e-5)


@pytest.mark.parametrize(("a", "b"), [(0.1, 0.4), (1.0, 1.0), (3.0, 0.5), (40.0, 70.0)])
def test_dirichlet_gradient(a: float, b: float) -> None:
    """Of two entries it is a beta distribution's: each concentration moves the quantile."""
    tinyt.manual_seed(10)
    c = tinyt.tensor([a, b], dtype=tinyt.float64).expand(100, 2).clone().requires_grad_()
    x = tinyt._sample_dirichlet(c)
    (got,) = tinyt.autograd.grad(x[:, 0].sum(), c)
    value = x.detach().numpy()[:, 0]
    kept = (value > 1e-3) & (value < 0.999)
    want = [
        quantile_slope(lambda s: stats.beta(s, b), a, value[kept]),
        quantile_slope(lambda s: stats.beta(a, s), b, value[kept]),
    ]
    np.testing.assert_allclose(got.numpy()[kept], np.stack(want, -1), rtol=1e-4)


def test_no_gradient_of_counts() -> None:
    rate = tinyt.full((3,), 2.0, requires_grad=True)
    assert tinyt.autograd.grad(tinyt.poisson(rate).sum(), rate)[0].tolist() == [0, 0, 0]


def test_incomplete_gamma_moves_with_both_arguments() -> None:
    """Closed forms: P(1, x) = 1 - exp(-x); and differences for the first argument."""
    a = tinyt.tensor([0.4, 1.0, 3.0, 90.0], dtype=tinyt.float64, requires_grad=True)
    x = tinyt.tensor([0.3, 2.0, 5.0, 85.0], dtype=tinyt.float64, requires_grad=True)
    assert tinyt.autograd.gradcheck(tinyt.igamma, (a, x), eps=1e-5, atol=1e-7, rtol=1e-6)
    assert tinyt.autograd.gradcheck(tinyt.igammac, (a, x), eps=1e-5, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("function", [prim.gammainc, prim.gammaincc])
def test_incomplete_gamma_against_many_digits(function: Any) -> None:
    """Relative to the value, in both tails and where the methods meet."""
    mp = pytest.importorskip("mpmath")
    with mp.workdps(40):
        for a in (1e-3, 0.2, 0.99, 2.0, 8.0, 50.0, 64.0, 300.0):
            for r in (1e-8, 0.1, 0.5, 0.9, 1.0, 1.1, 1.9, 3.0):
                x = a * r
                lower = (0, x) if function is prim.gammainc else (x, mp.inf)
                want = mp.gammainc(mp.mpf(a), *map(mp.mpf, lower), regularized=True)
                if want < 1e-290:
                    continue
                got = function(*(tinyt.tensor(v, dtype=tinyt.float64) for v in (a, x))).item()
                assert abs(got / want - 1) < 1e-13, (a, x)


def test_incomplete_gamma_at_the_ends() -> None:
    inf, nan = math.inf, math.nan
    a = tinyt.tensor([0.0, 0.0, 2.0, 2.0, inf, inf, -1.0, 1.0, nan], dtype=tinyt.float64)
    x = tinyt.tensor([1.0, 0.0, 0.0, inf, 1.0, inf, 1.0, -1.0, 1.0], dtype=tinyt.float64)
    lower = [1, nan, 0, 1, 0, nan, nan, nan, nan]
    np.testing.assert_array_equal(tinyt.igamma(a, x).numpy(), lower)
    np.testing.assert_array_equal(tinyt.igammac(a, x).numpy(), 1 - np.array(lower))


def test_normal_quantiles_in_the_tails() -> None:
    """Against SciPy down to the smallest number."""
    from scipy import special

    p = np.concatenate([np.logspace(-323, -0.01, 500), 1 - np.logspace(-16, -1, 50)])
    np.testing.assert_allclose(
        tinyt.special.ndtri(tinyt.tensor(p)).numpy(), special.ndtri(p), rtol=1e-14, atol=1e-15
    )
    z = np.concatenate([-np.logspace(-3, 7, 300), np.linspace(-40, 9, 300)])
    np.testing.assert_allclose(
        tinyt.special.log_ndtr(tinyt.tensor(z)).numpy(), special.log_ndtr(z), rtol=1e-13
    )
    ends = tinyt.special.ndtri(tinyt.tensor([0.0, 1.0, 0.5, -0.1, 1.1, math.nan]))
    np.testing.assert_array_equal(
        ends.numpy(), [-math.inf, math.inf, 0, math.nan, math.nan, math.nan]
    )
