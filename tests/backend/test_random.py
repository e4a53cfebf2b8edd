"""Random draws: known answers, how the stream advances, and the distributions.

Seeds are fixed, so a statistical test either always passes or always fails; its threshold asks for
a p-value that one honest stream in a thousand would miss.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tinyt
from sampling import assert_same_bits

MASK = 0xFFFFFFFF
P_VALUE = 1e-3
SEED = 0x0123456789ABCDEF


def philox(counter: tuple[int, int, int, int], seed: int) -> tuple[int, ...]:
    """Philox4x32-10 as its paper writes it (Salmon et al. 2011, section 3.3)."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def words(seed: int, offset: int, n: int, stream: int = 0) -> np.ndarray:
    """The 32-bit words of a draw of n elements; stream 1: the low words of 64-bit ones."""
    counters = range(offset, offset + -(-n // 4))
    blocks = [philox((c & MASK, c >> 32, 0, stream), seed) for c in counters]
    return np.array(blocks, np.uint64).reshape(-1)[:n]


def words64(seed: int, offset: int, n: int) -> np.ndarray:
    return words(seed, offset, n) << np.uint64(32) | words(seed, offset, n, 1)


def box_muller(u: np.ndarray) -> np.ndarray:
    """Standard normals from uniform draws, neighbours in pairs."""
    u, v = u.reshape(-1, 2).T
    radius = np.sqrt(-2 * np.log1p(-u))
    return np.stack([radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)], 1).reshape(-1)


def test_philox_known_answers() -> None:
    """The authors' vectors (Random123, kat_vectors), for the reference of this file."""
    answer = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox((0, 0, 0, 0), 0) == answer
    answer = (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    counter = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox(counter, 0x299F31D0A4093822) == answer


# ------------------------------------------------------------------ which words make which element


def generator_at(offset: int, seed: int = SEED) -> tinyt.Generator:
    generator = tinyt.Generator().manual_seed(seed)
    state = np.array([seed, offset], np.uint64).view(np.int64)
    generator.set_state(tinyt.from_numpy(state))
    return generator


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 255, 256, 259])
@pytest.mark.parametrize("offset", [0, 7, 2**32 - 3])
@pytest.mark.parametrize("seed", [0, SEED, 2**64 - 1])
def test_uniform_words(n: int, offset: int, seed: int) -> None:
    single = tinyt.rand(n, generator=generator_at(offset, seed))
    np.testing.assert_array_equal(
        single.numpy(force=True), (words(seed, offset, n) >> 8) * 2.0**-24
    )
    real = tinyt.rand(n, generator=generator_at(offset, seed), dtype=tinyt.float64)
    np.testing.assert_array_equal(
        real.numpy(force=True), (words64(seed, offset, n) >> np.uint64(11)) * 2.0**-53
    )


def test_normal_words() -> None:
    n = 260
    single = tinyt.randn(n, generator=generator_at(5))
    want = box_muller((words(SEED, 5, n) >> 8) * 2.0**-24)
    np.testing.assert_allclose(single.numpy(force=True), want, rtol=0, atol=3e-6)
    real = tinyt.randn(n, generator=generator_at(5), dtype=tinyt.float64)
    want = box_muller((words64(SEED, 5, n) >> np.uint64(11)) * 2.0**-53)
    np.testing.assert_allclose(real.numpy(force=True), want, rtol=0, atol=1e-14)


def test_randint_words() -> None:
    drawn = tinyt.randint(-3, 1000, (50,), generator=generator_at(9))
    bits = words64(SEED, 9, 50).astype(np.int64)
    np.testing.assert_array_equal(drawn.numpy(force=True), bits % 1003 - 3)


# ------------------------------------------------------------------ the stream


@pytest.mark.parametrize("n", [0, 1, 4, 5, 1023])
def test_a_draw_takes_a_quarter_of_its_size_in_counters(n: int) -> None:
    draws: list[Callable[..., Any]] = [
        lambda **kw: tinyt.rand(n, **kw),
        lambda **kw: tinyt.rand(n, dtype=tinyt.float64, **kw),
        lambda **kw: tinyt.randn(n, **kw),
        lambda **kw: tinyt.randint(0, 9, (n,), **kw),
        lambda **kw: tinyt.randperm(n, **kw),
    ]
    for draw in draws:
        generator = tinyt.Generator().manual_seed(1)
        draw(generator=generator)
        assert generator.get_state().tolist() == [1, math.ceil(n / 4)]


def test_shape_does_not_matter() -> None:
    flat = tinyt.randn(60, generator=generator_at(0))
    shaped = tinyt.randn(3, 4, 5, generator=generator_at(0))
    assert_same_bits(flat.view(3, 4, 5), shaped)


def test_a_long_draw_is_the_short_ones_in_a_row() -> None:
    n = 40_000
    whole = tinyt.randn(2 * n, generator=generator_at(0))
    generator = generator_at(0)
    parts = [tinyt.randn(n, generator=generator), tinyt.randn(n, generator=generator)]
    assert_same_bits(tinyt.cat(parts), whole)


def test_manual_seed_restarts_the_default_stream() -> None:
    tinyt.manual_seed(5)
    first, second = tinyt.rand(10), tinyt.rand(10)
    assert not tinyt.equal(first, second)
    tinyt.manual_seed(5)
    assert tinyt.initial_seed() == 5
    assert_same_bits(tinyt.rand(10), first)
    state = tinyt.get_rng_state()
    assert_same_bits(tinyt.rand(10), second)
    tinyt.set_rng_state(state)
    assert_same_bits(tinyt.rand(10), second)


def test_seeds_are_64_bits() -> None:
    draws = {
        tuple(tinyt.rand(4, generator=tinyt.Generator().manual_seed(seed)).tolist())
        for seed in (0, 1, 2**32, 2**63, -1, 2**64 - 2)
    }
    assert len(draws) == 6
    same = [tinyt.rand(4, generator=tinyt.Generator().manual_seed(s)) for s in (-1, 2**64 - 1)]
    assert_same_bits(*same)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="64 bits"):
            tinyt.manual_seed(seed)


# ------------------------------------------------------------------ distributions

N = 200_000


def values(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.double().numpy(force=True))


@pytest.mark.parametrize("seed", [0, 1, SEED])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_distribution(dtype: str, seed: int) -> None:
    x = values(tinyt.rand(N, generator=generator_at(0, seed), dtype=getattr(tinyt, dtype)))
    assert x.min() >= 0
    assert x.max() < 1
    assert stats.kstest(x, "uniform").pvalue > P_VALUE
    # Neighbours, words of one counter and of the next ones are independent.
    for lag in (1, 2, 4, 5):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 4 / math.sqrt(N)
    pairs, *_ = np.histogram2d(x[::2], x[1::2], bins=16, range=[[0, 1], [0, 1]])
    assert stats.chisquare(pairs.reshape(-1)).pvalue > P_VALUE


@pytest.mark.parametrize("seed", [0, 1, SEED])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_distribution(dtype: str, seed: int) -> None:
    x = values(tinyt.randn(N, generator=generator_at(0, seed), dtype=getattr(tinyt, dtype)))
    assert stats.kstest(x, "norm").pvalue > P_VALUE
    assert stats.kstest(x[::2] ** 2 + x[1::2] ** 2, "chi2", args=(2,)).pvalue > P_VALUE
    assert abs(x.mean()) < 4 / math.sqrt(N)
    assert abs(x.var() - 1) < 4 * math.sqrt(2 / N)
    assert abs(stats.skew(x)) < 4 * math.sqrt(6 / N)
    assert abs(stats.kurtosis(x)) < 4 * math.sqrt(24 / N)
    for lag in (1, 2, 4):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 4 / math.sqrt(N)


@pytest.mark.parametrize(("low", "high"), [(0, 2), (0, 10), (-7, 30), (5, 8)])
def test_randint_distribution(low: int, high: int) -> None:
    drawn = tinyt.randint(low, high, (N,), generator=generator_at(0)).numpy(force=True)
    assert drawn.dtype == np.int64
    counts = np.bincount(drawn - low, minlength=high - low)
    assert len(counts) == high - low
    assert stats.chisquare(counts).pvalue > P_VALUE


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_randperm_is_a_permutation(n: int) -> None:
    order = tinyt.randperm(n, generator=generator_at(0))
    assert sorted(order.tolist()) == list(range(n))


def test_randperm_distribution() -> None:
    generator = generator_at(0)
    counts = np.zeros((5, 5))
    for _ in range(2000):
        counts[range(5), tinyt.randperm(5, generator=generator).tolist()] += 1
    assert stats.chisquare(counts.reshape(-1)).pvalue > P_VALUE


# ------------------------------------------------------------------ distributions of their own

FILLS: dict[str, tuple[Callable[..., Any], Any]] = {
    "uniform_": (lambda x, **k: x.uniform_(-2, 3, **k), stats.uniform(-2, 5)),
    "normal_": (lambda x, **k: x.normal_(1, 3, **k), stats.norm(1, 3)),
    "exponential_": (lambda x, **k: x.exponential_(2.5, **k), stats.expon(scale=0.4)),
    "cauchy_": (lambda x, **k: x.cauchy_(1, 3, **k), stats.cauchy(1, 3)),
    "log_normal_": (
        lambda x, **k: x.log_normal_(0.3, 0.5, **k),
        stats.lognorm(0.5, 0, np.exp(0.3)),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FILLS)
def test_fill_distribution(name: str, dtype: str) -> None:
    fill, law = FILLS[name]
    generator = generator_at(0)
    x = tinyt.empty(N, dtype=getattr(tinyt, dtype))
    assert fill(x, generator=generator) is x
    assert stats.kstest(values(x), law.cdf).pvalue > P_VALUE
    assert generator.get_state().tolist()[1] == N // 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", FILLS)
def test_fill_of_halves_stays_in_range(name: str, dtype: str) -> None:
    x = values(
        FILLS[name][0](tinyt.empty(N, dtype=getattr(tinyt, dtype)), generator=generator_at(0))
    )
    assert np.isfinite(x).all() or name == "cauchy_"
    if name == "uniform_":
        assert x.min() >= -2
        assert x.max() < 3
    if name == "exponential_":
        assert x.min() > 0


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8"])
@pytest.mark.parametrize("p", [0.2, 0.7])
def test_geometric(p: float, dtype: str) -> None:
    x = values(tinyt.empty(N, dtype=getattr(tinyt, dtype)).geometric_(p, generator=generator_at(0)))
    assert x.min() == 1
    counts = np.bincount(x.astype(int))[1:9]
    chances = stats.geom.pmf(np.arange(1, 9), p)
    counts, chances = np.append(counts, N - counts.sum()), np.append(chances, 1 - chances.sum())
    assert stats.chisquare(counts, chances * N).pvalue > P_VALUE


def test_uniform_never_reaches_its_upper_bound() -> None:
    """Also where u * (b - a) + a rounds up to b."""
    x = tinyt.empty(N).uniform_(1e6, 1e6 + 0.25, generator=generator_at(0))
    assert set(x.tolist()) <= {1e6, 1e6 + 0.0625, 1e6 + 0.125, 1e6 + 0.1875}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_random_covers_the_dtype(dtype: str) -> None:
    x = (
        tinyt.empty(10_000, dtype=getattr(tinyt, dtype))
        .random_(generator=generator_at(0))
        .numpy(force=True)
    )
    largest = 1 if dtype == "bool" else np.iinfo(dtype).max
    assert x.min() >= 0
    assert x.max() > 0.99 * largest
    assert abs(x.astype(np.float64).mean() / largest - 0.5) < 0.02


def test_random_limits() -> None:
    x = tinyt.empty(1000)
    assert set(x.random_(3, generator=generator_at(0)).tolist()) == {0, 1, 2}
    assert set(x.random_(-1, 2, generator=generator_at(0)).tolist()) == {-1, 0, 1}
    assert x.random_(generator=generator_at(0)).amax().item() <= 2**24


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(replacement: bool) -> None:
    weights = np.array([1.0, 0.0, 3.0, 6.0])
    generator = generator_at(0)
    rows = tinyt.tensor(np.tile(weights, (20_000, 1)))
    drawn = rows.multinomial(2, replacement, generator=generator).numpy(force=True)
    first = np.bincount(drawn[:, 0], minlength=4)
    assert first[1] == 0
    used = weights > 0
    assert stats.chisquare(first[used], weights[used] / 10 * 20_000).pvalue > P_VALUE
    if replacement:
        second = np.bincount(drawn[:, 1], minlength=4)
        assert stats.chisquare(second[used], weights[used] / 10 * 20_000).pvalue > P_VALUE
    else:
        assert (drawn[:, 0] != drawn[:, 1]).all()
        after = drawn[drawn[:, 0] == 3, 1]  # of the others, by their weights
        counts = np.bincount(after, minlength=4)[[0, 2]]
        assert stats.chisquare(counts, np.array([0.25, 0.75]) * len(after)).pvalue > P_VALUE
    assert tinyt.multinomial(tinyt.tensor([0.0, 2.0, 0.0]), 1).tolist() == [1]


def test_bernoulli() -> None:
    p = tinyt.tensor([0.0, 0.25, 1.0]).expand(N, 3)
    x = tinyt.bernoulli(p, generator=generator_at(0)).numpy(force=True)
    assert not x[:, 0].any()
    assert x[:, 2].all()
    assert stats.binomtest(int(x[:, 1].sum()), N, 0.25).pvalue > P_VALUE
    ones = tinyt.empty(N, dtype=tinyt.int8).bernoulli_(0.1, generator=generator_at(0))
    assert stats.binomtest(int(ones.sum()), N, 0.1).pvalue > P_VALUE
    each = tinyt.zeros(3).bernoulli_(tinyt.tensor([1.0, 0.0, 1.0]))
    assert each.tolist() == [1.0, 0.0, 1.0]
    assert tinyt.zeros(4, dtype=tinyt.int64).bernoulli(1.0).tolist() == [1, 1, 1, 1]


def test_normal_overloads() -> None:
    mean, std = tinyt.tensor([[0.0], [100.0]]), tinyt.tensor([1e-3, 1.0, 0.0])
    x = tinyt.normal(mean, std, generator=generator_at(0))
    z = tinyt.randn(2, 3, generator=generator_at(0))
    assert_same_bits(x, z * std + mean)
    assert_same_bits(
        tinyt.normal(mean, 2.0, generator=generator_at(0)),
        tinyt.randn(2, 1, generator=generator_at(0)) * 2.0 + mean,
    )
    assert tinyt.normal(5.0, std).shape == (3,)
    assert tinyt.normal(0.0, 1.0, (2, 3), dtype=tinyt.float64).dtype is tinyt.float64
    with pytest.raises(TypeError, match=r"normal.*size"):
        tinyt.normal(0.0, 1.0)


def test_like_and_dtypes() -> None:
    x = tinyt.ones(2, 3, dtype=tinyt.float64)
    assert_same_bits(
        tinyt.rand_like(x, generator=generator_at(0)),
        tinyt.rand(2, 3, dtype=tinyt.float64, generator=generator_at(0)),
    )
    assert tinyt.randn_like(x, dtype=tinyt.float16).dtype is tinyt.float16
    assert tinyt.randint_like(x, 3, 9).dtype is tinyt.float64
    assert tinyt.randint(256, (5,), dtype=tinyt.uint8).dtype is tinyt.uint8
    assert tinyt.randint(low=2, high=3, size=(2,)).tolist() == [2, 2]
    assert tinyt.randint(1, size=(2,)).tolist() == [0, 0]
    assert tinyt.randperm(4, dtype=tinyt.int32).dtype is tinyt.int32


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: tinyt.rand(-1), r"rand.*-1"),
    (lambda: tinyt.rand(2, dtype=tinyt.int64), "int64"),
    (lambda: tinyt.randint(5, 3, (2,)), r"randint.*5, 3"),
    (lambda: tinyt.randint(257, (2,), dtype=tinyt.uint8), r"randint.*257.*uint8"),
    (lambda: tinyt.randint(-1, 2, (2,), dtype=tinyt.bool), r"randint.*-1.*bool"),
    (lambda: tinyt.randperm(-1), r"randperm.*-1"),
    (lambda: tinyt.normal(0.0, -1.0, (2,)), r"normal.*-1"),
    (lambda: tinyt.normal(tinyt.zeros(2), -tinyt.ones(2)), r"normal.*-1"),
    (lambda: tinyt.bernoulli(tinyt.tensor([2.0])), r"bernoulli.*2\.0"),
    (lambda: tinyt.bernoulli(tinyt.tensor([1])), r"bernoulli.*int64"),
    (lambda: tinyt.multinomial(tinyt.ones(3), 4), r"multinomial.*4 of 3"),
    (lambda: tinyt.multinomial(tinyt.zeros(3), 1), "multinomial.*zero"),
    (lambda: tinyt.multinomial(-tinyt.ones(3), 1), "multinomial.*negative"),
    (lambda: tinyt.multinomial(tinyt.ones(1, 2, 3), 1), r"multinomial.*\(1, 2, 3\)"),
    (lambda: tinyt.ones(2).uniform_(2, 1), r"uniform_.*2.*1"),
    (lambda: tinyt.ones(2).uniform_(-3e38, 3e38), r"uniform_.*float32.*3e\+38"),
    (lambda: tinyt.ones(2).normal_(0, -1), r"normal_.*-1"),
    (lambda: tinyt.ones(2).exponential_(0), r"exponential_.*0"),
    (lambda: tinyt.ones(2).geometric_(1.0), r"geometric_.*1\.0"),
    (lambda: tinyt.ones(2).cauchy_(0, -1), r"cauchy_.*-1"),
    (lambda: tinyt.ones(2).log_normal_(0, 0), r"log_normal_.*0"),
    (lambda: tinyt.ones(2).bernoulli_(1.5), r"bernoulli_.*1\.5"),
    (lambda: tinyt.ones(2).random_(5, 2), r"random_.*5, 2"),
    (lambda: tinyt.ones(2, dtype=tinyt.int64).exponential_(), r"exponential_.*int64"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_draws_leave_the_stream(call: Callable[[], Any], message: str) -> None:
    state = tinyt.get_rng_state().tolist()
    with pytest.raises(RuntimeError, match=message):
        call()
    assert tinyt.get_rng_state().tolist() == state


def test_threads_that_share_a_generator_get_counters_of_their_own() -> None:
    stream, firsts = tinyt.Generator(), list[int]()

    def make(seed: int, first: int) -> tinyt.Tensor:
        time.sleep(1e-4)  # others run between the draw's start and its end
        firsts.append(first)
        return tinyt.empty(())

    threads = [
        threading.Thread(target=lambda: [stream.draw(5, make) for _ in range(20)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(firsts) == list(range(0, 160, 2))
    assert stream.get_state()[1].item() == 160
