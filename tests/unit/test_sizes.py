"""Sizes, strides, offsets and counts near and beyond 64 bits: the right value, or a typed error
that names the operation, never a number that wrapped."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
import tinyt.nn.functional as F
from tinyt import DimError, OutOfMemoryError, ShapeError

TOP, BOTTOM = 2**63 - 1, -(2**63)
MOST = 2**59 - 1  # elements that a tensor may span, in memory or not
INTEGERS = st.sampled_from(
    [s * n for n in (0, 1, 2, 5, 2**31, 2**53, 2**60, 2**61, 2**62, TOP) for s in (1, -1)]
    + [BOTTOM]
)  # fmt: skip


def ones(*size: int) -> tinyt.Tensor:
    return tinyt.ones(*size)


def wide(*size: int) -> tinyt.Tensor:
    """One element in memory, seen as many."""
    return tinyt.ones([1] * len(size)).expand(size)


# ---- what has no value

REFUSED: list[tuple[str, type[Exception], Callable[[], Any]]] = [
    ("pad", ShapeError, lambda: F.pad(ones(5), (TOP, TOP))),
    ("pad", ShapeError, lambda: F.pad(ones(5), (TOP, -TOP))),
    ("pad", ShapeError, lambda: F.pad(ones(5), (BOTTOM, 0))),
    ("memory", OutOfMemoryError, lambda: F.pad(wide(MOST), (1, 0))),
    ("pad", ShapeError, lambda: F.pad(wide(MOST), (TOP, 0))),
    ("pad", ShapeError, lambda: F.pad(ones(1, 1, 5), (2**62, 2**62), mode="replicate")),
    ("pad", RuntimeError, lambda: F.pad(ones(1, 1, 5), (2**62, 2**62), mode="reflect")),
    ("pad", RuntimeError, lambda: F.pad(ones(1, 1, 5), (2**62, 2**62), mode="circular")),
    ("unfold", RuntimeError, lambda: ones(5).unfold(0, TOP, 1)),
    ("unfold", ShapeError, lambda: wide(MOST).unfold(0, 2, 1)),
    ("shape", ShapeError, lambda: wide(MOST + 1)),
    ("empty", ShapeError, lambda: tinyt.empty(0, MOST + 1)),
    ("eye", ShapeError, lambda: tinyt.eye(TOP, 0)),
    ("combinations", ShapeError, lambda: tinyt.combinations(ones(5), TOP)),
    ("unfold", ShapeError, lambda: F.unfold(ones(1, 1, 5, 5), 2, padding=TOP)),
    ("unfold", RuntimeError, lambda: F.unfold(ones(1, 1, 5, 5), TOP)),
    ("unfold", RuntimeError, lambda: F.unfold(ones(1, 1, 5, 5), 2, dilation=TOP)),
    ("fold", RuntimeError, lambda: F.fold(ones(1, 4, 16), TOP, 2)),
    ("repeat", ShapeError, lambda: ones(3).repeat(TOP)),
    ("repeat", ShapeError, lambda: ones(3).repeat(2**32, 2**32)),
    ("tile", ShapeError, lambda: ones(3).tile(TOP)),
    ("arange", OutOfMemoryError, lambda: tinyt.arange(TOP)),
    ("arange", TypeError, lambda: tinyt.arange(BOTTOM, TOP)),
    ("as_strided", ShapeError, lambda: ones(5).as_strided((TOP,), (1,))),
    ("as_strided", ShapeError, lambda: ones(5).as_strided((2, 2), (TOP, TOP))),
    ("as_strided", ShapeError, lambda: ones(5).as_strided((0,), (1,), TOP)),
    ("as_strided", ShapeError, lambda: ones(5).as_strided((1, 1), (1, 1), 5)),
    ("combinations", OutOfMemoryError, lambda: tinyt.combinations(ones(5), TOP, True)),
    ("combinations", OutOfMemoryError, lambda: tinyt.combinations(ones(10**5), 50_000)),
    ("randint", RuntimeError, lambda: tinyt.randint(BOTTOM - 1, TOP, (1,))),
    ("randint", RuntimeError, lambda: tinyt.randint(0, TOP + 2, (1,))),
    ("out of bounds", RuntimeError, lambda: ones(1).random_(0, 2**64)),
    ("randint", OutOfMemoryError, lambda: tinyt.randint(0, TOP, (TOP,))),
    ("elements", ShapeError, lambda: ones(1).expand(TOP, TOP)),
    ("view", ShapeError, lambda: ones(5).view(TOP, TOP)),
    ("view", ShapeError, lambda: tinyt.ones(0, MOST).view(tinyt.uint8)),
    ("reshape", ShapeError, lambda: ones(5).reshape(BOTTOM)),
    ("empty", OutOfMemoryError, lambda: tinyt.empty(2**61)),
    ("empty", ShapeError, lambda: tinyt.empty(2**32, 2**32)),
    ("zeros", ShapeError, lambda: tinyt.zeros(TOP, 0, TOP)),
    ("full", OutOfMemoryError, lambda: tinyt.full((2**60, 4), 1.0)),
    ("clone", OutOfMemoryError, lambda: wide(MOST).clone()),
    ("double", OutOfMemoryError, lambda: wide(MOST).double()),
    ("memory", OutOfMemoryError, lambda: tinyt.cat([wide(MOST)] * 2)),
    ("cat", ShapeError, lambda: tinyt.cat([wide(MOST)] * 20)),
    ("stack", ShapeError, lambda: tinyt.stack([wide(MOST)] * 20)),
    ("select", IndexError, lambda: ones(5).select(0, TOP)),
    ("narrow", RuntimeError, lambda: ones(5).narrow(0, TOP, TOP)),
    ("narrow", RuntimeError, lambda: ones(5).narrow(0, BOTTOM, 1)),
    ("flip", DimError, lambda: ones(5).flip(TOP)),
    ("cumsum", DimError, lambda: ones(5).cumsum(BOTTOM)),
    ("diag", TypeError, lambda: tinyt.diag(ones(3), TOP)),
    ("diag_embed", TypeError, lambda: tinyt.diag_embed(ones(3), BOTTOM)),
    ("eye", OutOfMemoryError, lambda: tinyt.eye(TOP)),
    ("one_hot", OutOfMemoryError, lambda: F.one_hot(tinyt.tensor([1]), TOP)),
    ("one_hot", RuntimeError, lambda: F.one_hot(tinyt.tensor([1]), -5)),
    ("one_hot", TypeError, lambda: F.one_hot(tinyt.tensor([TOP]))),
    ("repeat_interleave", ShapeError, lambda: ones(3).repeat_interleave(TOP)),
    ("repeat_interleave", ShapeError, lambda: ones(2).repeat_interleave(tinyt.tensor([TOP] * 2))),
    ("repeat_interleave", ShapeError, lambda: tinyt.repeat_interleave(tinyt.tensor([2**62] * 4))),
    ("repeat_interleave", RuntimeError,
     lambda: tinyt.repeat_interleave(tinyt.tensor([1, 2]), output_size=TOP)),
    ("split", RuntimeError, lambda: ones(5).split([TOP, TOP, 7])),
    ("split", OutOfMemoryError, lambda: wide(MOST).split(1)),
    ("chunk", OutOfMemoryError, lambda: wide(MOST).chunk(TOP)),
    ("chunk", OutOfMemoryError, lambda: ones(0).chunk(TOP)),
    ("unbind", OutOfMemoryError, lambda: wide(MOST).unbind()),
    ("einsum", ValueError, lambda: tinyt.einsum(ones(3), wide(MOST))),
    ("broadcast_shapes", ShapeError, lambda: tinyt.broadcast_shapes((3,), (BOTTOM,))),
    ("pow_", RuntimeError, lambda: tinyt.arange(3).pow_(BOTTOM)),
    ("tensor_split", OutOfMemoryError, lambda: tinyt.tensor_split(ones(5), TOP)),
    ("linspace", OutOfMemoryError, lambda: tinyt.linspace(0, 1, TOP)),
    ("logspace", OutOfMemoryError, lambda: tinyt.logspace(0, 1, 2**62)),
    ("topk", RuntimeError, lambda: ones(5).topk(TOP)),
    ("kthvalue", RuntimeError, lambda: ones(5).kthvalue(BOTTOM)),
    ("gather", IndexError, lambda: tinyt.gather(ones(5), 0, tinyt.tensor([TOP]))),
    ("bincount", OutOfMemoryError, lambda: tinyt.bincount(tinyt.tensor([1]), minlength=TOP)),
    ("embedding", IndexError, lambda: F.embedding(tinyt.tensor([BOTTOM]), ones(3, 2))),
    ("interpolate", ShapeError, lambda: F.interpolate(ones(1, 1, 5), size=TOP)),
    ("interpolate", ShapeError, lambda: F.interpolate(ones(1, 1, 5), scale_factor=1e30)),
    ("conv1d", RuntimeError, lambda: F.conv1d(ones(1, 1, 5), ones(1, 1, 2), padding=TOP)),
    ("conv1d", RuntimeError, lambda: F.conv1d(ones(1, 1, 5), ones(1, 1, 2), dilation=TOP)),
    ("conv1d", OutOfMemoryError, lambda: F.conv1d(wide(1, 1, MOST), ones(1, 1, 2), padding=1)),
    ("conv_transpose1d", TypeError,
     lambda: F.conv_transpose1d(ones(1, 1, 5), ones(1, 1, 2), stride=2**62)),
    ("max_pool1d", ShapeError, lambda: F.max_pool1d(ones(1, 1, 5), 2, dilation=TOP)),
    ("avg_pool1d", ShapeError, lambda: F.avg_pool1d(ones(1, 1, 5), TOP)),
    ("adaptive_avg_pool1d", ShapeError, lambda: F.adaptive_avg_pool1d(ones(1, 1, 5), TOP)),
    ("cross_entropy", OutOfMemoryError,
     lambda: F.cross_entropy(wide(MOST, 1), tinyt.zeros(1, dtype=tinyt.int64).expand(MOST))),
    ("outer", ShapeError, lambda: tinyt.outer(wide(2**40), wide(2**40))),
    ("elements", ShapeError, lambda: wide(2**40, 1) @ wide(1, 2**40)),
    ("elements", ShapeError, lambda: wide(2**40, 1) + wide(2**40)),
    ("multinomial", OutOfMemoryError, lambda: tinyt.multinomial(ones(3), TOP, True)),
    ("randperm", OutOfMemoryError, lambda: tinyt.randperm(2**62)),
    ("rand", ShapeError, lambda: tinyt.rand(TOP, TOP)),
    ("resize_", TypeError, lambda: ones(3).resize_((TOP, TOP))),
    ("empty", ShapeError, lambda: tinyt.nn.Linear(TOP, TOP)),
    ("empty", TypeError, lambda: tinyt.nn.LSTM(2, 2**62)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "error", "call"), REFUSED)
def test_refused(op: str, error: type[Exception], call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=op):
        call()


@pytest.mark.parametrize("lazy", [False, True], ids=["compiled", "lazy"])
def test_recorded_sizes(lazy: bool) -> None:
    """What is recorded has no memory yet, but must fit in one."""

    def far(x: tinyt.Tensor) -> tinyt.Tensor:
        return x.expand(2**61) + 1

    def inside_lazy(x: tinyt.Tensor) -> tinyt.Tensor:
        with tinyt.lazy():
            return far(x)

    call = inside_lazy if lazy else tinyt.compile(far)
    with pytest.raises((ShapeError, OutOfMemoryError), match=r"in memory|spans at most"):
        call(ones(1))


@pytest.mark.parametrize("read", [tinyt.from_numpy, tinyt.from_dlpack])
def test_arrays_that_reach_beyond(read: Callable[[Any], tinyt.Tensor]) -> None:
    far = np.lib.stride_tricks.as_strided(np.zeros(1), (3, 3), (2**61, 2**61))
    with pytest.raises(ShapeError, match="reach beyond 64 bits"):
        read(far)
    near = np.lib.stride_tricks.as_strided(np.full(1, 2.0), (2**58,), (0,))
    assert read(near)[-1].item() == 2.0


# ---- what has a value


@pytest.mark.parametrize("far", [2**62, TOP, 2**63, 10**30])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (4, 1), (2, 0, 3)])
def test_triangles_far_off(shape: tuple[int, ...], far: int) -> None:
    x = tinyt.arange(1, math.prod(shape) + 1).reshape(shape)
    none = tinyt.zeros_like(x)
    assert tinyt.equal(x.tril(far), x)
    assert tinyt.equal(x.triu(-far), x)
    assert tinyt.equal(x.triu(far), none)
    assert tinyt.equal(x.tril(-far), none)
    assert tinyt.equal(x.clone().tril_(-far), none)
    assert x.diagonal(far, -2, -1).shape[-1] == x.diagonal(-far, -2, -1).shape[-1] == 0
    rows, columns = shape[-2:]
    assert tinyt.tril_indices(rows, columns, far).shape[1] == rows * columns
    assert tinyt.triu_indices(rows, columns, far).shape[1] == 0


@given(st.integers(0, 5), st.integers(0, 5), INTEGERS)
def test_triangles(rows: int, columns: int, diagonal: int) -> None:
    x = np.ones((rows, columns), dtype=np.int64)
    near = min(max(diagonal, -10), 10)
    assert tinyt.from_numpy(x).tril(diagonal).tolist() == np.tril(x, near).tolist()
    assert tinyt.from_numpy(x).triu(diagonal).tolist() == np.triu(x, near).tolist()


@given(st.tuples(INTEGERS | st.none(), INTEGERS | st.none(), INTEGERS.filter(lambda n: n > 0)))
def test_slices(ends: tuple[Any, ...]) -> None:
    values = [0, 1, 2, 3, 4]
    assert tinyt.arange(5)[slice(*ends)].tolist() == values[slice(*ends)]


def gradient(f: Callable[[tinyt.Tensor], tinyt.Tensor], n: int) -> Any:
    x = tinyt.arange(float(n)).requires_grad_()
    f(x).sum().backward()
    assert x.grad is not None
    return x.grad.tolist()


@pytest.mark.parametrize("step", [2, 5, 2**31, 2**53, 2**59, TOP])
def test_long_steps(step: int) -> None:
    """A step that is never taken, in values, gradients and writes."""
    for start in (1, 3):
        first = [float(k == start) for k in range(5)] if start == 3 or step > 3 else None
        assert first is None or gradient(lambda x, a=start: x[a::step], 5) == first
        x = tinyt.arange(5.0)
        x[start::step] = 7.0
        expected = np.arange(5.0)
        expected[start::step] = 7.0
        assert x.tolist() == expected.tolist()
    assert gradient(lambda x: x[1:1:step], 5) == [0.0] * 5
    assert gradient(lambda x: x.unfold(0, 4, step), 5) == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert gradient(lambda x: x.as_strided((2, 1), (1, step), 1), 5) == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert ones(5).as_strided((1,), (step,)).tolist() == [1.0]
    assert ones(5).as_strided((3, 0), (1, step)).tolist() == [[], [], []]


@given(INTEGERS)
def test_rolls(shift: int) -> None:
    assert tinyt.arange(5).roll(shift).tolist() == [(k - shift) % 5 for k in range(5)]


@given(st.tuples(INTEGERS, INTEGERS, INTEGERS.filter(bool)))
def test_ranges(ends: tuple[int, int, int]) -> None:
    start, end, step = ends
    expected = range(start, end, step)
    few = (end - start) * step < 0 or 0 <= (end - start) // step < 100
    if few and (end - start) * step >= 0:
        assert tinyt.arange(start, end, step).tolist() == list(expected)
    elif (end - start) * step < 0 or (end - start) // step >= 2**58:
        with pytest.raises((RuntimeError, MemoryError, TypeError), match="arange"):
            tinyt.arange(start, end, step)


@given(INTEGERS, INTEGERS)
def test_padding(before: int, after: int) -> None:
    """Of one element seen as many, so that what is left of it fits in memory."""
    for n in (5, MOST):
        size = n + before + after
        fits = min(n, n + before, n + after, size) >= 0
        if fits and size < 100:
            assert F.pad(wide(n), (before, after)).shape == (size,)
        elif not fits or size > 2**58:
            with pytest.raises((ShapeError, OutOfMemoryError), match=r"pad|memory"):
                F.pad(wide(n), (before, after))


@given(st.lists(INTEGERS, max_size=4))
def test_expanded_shapes(size: list[int]) -> None:
    if min(size, default=0) < 0 or math.prod(n for n in size if n) > MOST:
        if -1 not in size:  # which keeps a size as it is
            with pytest.raises(ShapeError):
                tinyt.ones([1] * len(size)).expand(size)
        with pytest.raises((RuntimeError, OutOfMemoryError), match=r"empty|shape"):
            tinyt.empty(size)
        return
    x = tinyt.ones([1] * len(size)).expand(size)
    assert x.shape == tuple(size)
    assert x.numel() == math.prod(size)
    assert x.nbytes == 4 * math.prod(size)
    assert x.reshape(-1 if x.numel() else 0).numel() == x.numel()


@given(st.integers(0, 5), INTEGERS.filter(lambda n: n > 0))
def test_windows(size: int, step: int) -> None:
    found = tinyt.arange(5).unfold(0, size, step).tolist()
    assert found == [list(range(k, k + size)) for k in range(0, 5 - size + 1, step)]


@pytest.mark.parametrize("step", [2, 2**31, 2**53, TOP])
def test_blocks(step: int) -> None:
    """Blocks at a step that only the first can take."""
    x = tinyt.arange(9.0).reshape(1, 1, 3, 3)
    columns = F.unfold(x, 2, stride=step)
    assert columns.tolist() == [[[0.0], [1.0], [3.0], [4.0]]]
    back = F.fold(columns, 3, 2, stride=step)
    assert back.flatten().tolist() == [0.0, 1.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]
    assert F.unfold(x, (2, 1), dilation=(1, step)).shape == (1, 2, 6)


def test_empty_by_one_size() -> None:
    """No element, however large the other size."""
    assert tinyt.eye(MOST, 0).shape == (MOST, 0)
    assert tinyt.eye(0, MOST, dtype=tinyt.int32).dtype is tinyt.int32
    assert tinyt.empty(0, MOST).shape == (0, MOST)
    assert tinyt.empty(0, MOST).tolist() == []
    assert wide(MOST).numel() == MOST
    assert tinyt.tril_indices(TOP, 0).shape == tinyt.triu_indices(0, TOP).shape == (2, 0)
    assert ones(0).repeat(MOST).shape == (0,)
    assert ones(0).view(MOST, 0).shape == (MOST, 0)
    assert tinyt.nn.Linear(MOST, 0).weight.shape == (0, MOST)
    assert tinyt.combinations(ones(5), 2**50).shape == (0, 2**50)
    assert ones(5).split(TOP)[0].shape == (5,)
    assert len(ones(5).chunk(TOP)) == 5
    assert [len(x) for x in tinyt.tensor_split(ones(5), [BOTTOM, TOP])] == [0, 5, 0]
    assert F.max_pool1d(ones(1, 1, 5), 2, stride=TOP).tolist() == [[[1.0]]]


@pytest.mark.parametrize("replace", [False, True])
def test_combinations(replace: bool) -> None:
    pick = itertools.combinations_with_replacement if replace else itertools.combinations
    for n, r in itertools.product(range(5), range(1, 6)):
        expected = [list(row) for row in pick(range(n), r)]
        found = tinyt.combinations(tinyt.arange(n), r, replace)
        assert found.shape == (len(expected), r)
        assert found.tolist() == expected


def test_bounds_of_floats() -> None:
    """Integers as bounds of floats: differences of 64 bits and more are numbers as well."""
    drawn = ones(100).uniform_(BOTTOM, TOP)
    assert drawn.min().item() < BOTTOM / 2 < TOP / 2 < drawn.max().item()
    assert tinyt.tensor([0.25]).logit(BOTTOM).item() == pytest.approx(math.log(1 / 3))


# ---- random integers

RANGES = [
    (BOTTOM, TOP), (BOTTOM + 1, TOP), (BOTTOM, 1), (BOTTOM, 0), (-1, TOP), (-2, TOP), (0, 2**63),
    (3, 2**63), (-(2**62), 2**62), (-(2**62), 2**62 + 1), (-5, 2**62), (TOP - 1, TOP), (0, 7),
]  # fmt: skip


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_random_integers(low: int, high: int) -> None:
    """The remainders of the bits that the whole range shows, as PyTorch takes them: of 64 without
    a sign where the range is wider than 63."""
    generator = tinyt.Generator()
    bits = tinyt.randint(BOTTOM, 2**63, (500,), generator=generator.manual_seed(3)).tolist()
    assert min(bits) < BOTTOM // 2 < TOP // 2 < max(bits)
    width = high - low
    expected = [low + (b % 2**64 if width >= 2**63 else b) % width for b in bits]
    drawn = tinyt.randint(low, high, (500,), generator=generator.manual_seed(3))
    assert drawn.tolist() == expected
    zeros = tinyt.zeros(500, dtype=tinyt.int64)
    assert tinyt.equal(zeros.random_(low, high, generator=generator.manual_seed(3)), drawn)
    like = tinyt.randint_like(zeros, low, high, generator=generator.manual_seed(3))
    assert tinyt.equal(like, drawn)


# ---- Python integers of more than 64 bits

LONG: list[Callable[[int], Any]] = [
    lambda n: tinyt.empty(n),
    lambda n: tinyt.zeros((2, n)),
    lambda n: tinyt.arange(n),
    lambda n: tinyt.linspace(0, 1, n),
    lambda n: tinyt.eye(n),
    lambda n: tinyt.rand(n),
    lambda n: tinyt.randperm(n),
    lambda n: tinyt.randint(0, n + 1, (2,)),
    lambda n: tinyt.full((2,), n, dtype=tinyt.int64),
    lambda n: tinyt.tensor([n], dtype=tinyt.int64),
    lambda n: tinyt.zeros(2, dtype=tinyt.int64) + n,
    lambda n: tinyt.zeros(2, dtype=tinyt.int64).clamp(n, n),
    lambda n: ones(5).view(n),
    lambda n: ones(5).as_strided((1,), (n,)),
    lambda n: ones(5).as_strided((1,), (1,), n),
    lambda n: ones(1).expand(n),
    lambda n: ones(3).repeat(n),
    lambda n: ones(3).sum(n),
    lambda n: ones(3).unsqueeze(n),
    lambda n: ones(3)[n],
    lambda n: ones(3).select(0, n),
    lambda n: ones(3).narrow(0, n, 1),
    lambda n: ones(3).topk(n),
    lambda n: F.pad(ones(3), (n, 0)),
    lambda n: F.conv1d(ones(1, 1, 5), ones(1, 1, 2), padding=n),
    lambda n: F.conv1d(ones(1, 1, 5), ones(1, 1, 2), groups=n),
    lambda n: F.interpolate(ones(1, 1, 5), size=n),
    lambda n: F.one_hot(tinyt.tensor([0]), n),
    lambda n: F.cross_entropy(ones(2, 3), tinyt.tensor([1, 2]), ignore_index=n),
    lambda n: tinyt.bincount(tinyt.tensor([1]), minlength=n),
    lambda n: tinyt.set_num_threads(n),
    lambda n: tinyt.Generator().manual_seed(2 * n),
]


@pytest.mark.parametrize("call", LONG)
@pytest.mark.parametrize(
    "n", [2**63, -(2**63) - 1, 10**30, -(10**5000)], ids=["63", "-63", "100", "16610"]
)
def test_long_integers(call: Callable[[int], Any], n: int) -> None:
    with pytest.raises(
        (TypeError, OverflowError, RuntimeError, ValueError, IndexError, MemoryError)
    ):
        call(n)
