"""Attention by hand on a CUDA device, against float64 of NumPy: at the edges of its blocks, with
all kinds of masks, however operands lie. Run by `tests/unit/test_cuda.py` in a process of its own,
on the stand-in; or by hand where there is a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tinyt
from attention_samples import (
    DTYPES,
    ERRORS,
    SCORE_ERROR,
    SIZES,
    drawn,
    exact,
    expected,
    kept_apart,
    operands_of,
)
from device_cases import same
from tinyt.tensor import prim


@pytest.fixture(scope="session")
def place() -> tinyt.device:
    place = tinyt.device("cuda:0")
    tinyt.empty(1, device=place)
    return place


def attend(
    place: tinyt.device,
    operands: list[tinyt.Tensor],
    mask: tinyt.Tensor | None,
    is_causal: bool,
    scale: float,
    layout: Callable[[tinyt.Tensor], tinyt.Tensor] = lambda x: x,
) -> list[tinyt.Tensor]:
    q, k, v = (layout(x.to(place)) for x in operands)
    on = tinyt.zeros((), device=place) if mask is None else layout(mask.to(place))
    return list(prim.attention(q, k, v, on, is_causal, scale))


def check(
    place: tinyt.device,
    operands: list[tinyt.Tensor],
    mask: tinyt.Tensor | None = None,
    is_causal: bool = False,
    scale: float = 0.25,
) -> list[tinyt.Tensor]:
    got, sums = attend(place, operands, mask, is_causal, scale)
    arrays = [exact(x) for x in operands]
    of_mask = None
    if mask is not None:
        of_mask = mask.numpy() if mask.dtype is tinyt.bool else exact(mask)
    want, want_sums = expected(*arrays, of_mask, is_causal, scale)
    dtype = str(operands[0].dtype).removeprefix("tinyt.")
    assert got.dtype is operands[0].dtype
    assert sums.dtype is tinyt.float32
    norms = [np.linalg.norm(x, axis=-1).max(initial=1) for x in arrays[:2]]
    of_score = SCORE_ERROR * max(8.0, abs(scale) * norms[0] * norms[1])
    error = (ERRORS[dtype] + of_score) * np.abs(arrays[2]).max()
    np.testing.assert_allclose(exact(got), want, rtol=0, atol=error)
    none = np.isneginf(want_sums)
    assert np.array_equal(exact(sums) == -np.inf, none)
    assert (exact(got)[none] == 0).all()
    np.testing.assert_allclose(exact(sums)[~none], want_sums[~none], rtol=0, atol=of_score)
    return [got, sums]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_size(place, dtype, is_causal, size):
    check(place, operands_of(dtype, *size), None, is_causal)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_masks_of_any_kind(place, dtype):
    """Bool, the operands' dtype or another; of each score, or repeated; queries that see no key."""
    operands = operands_of(dtype, 2, 2, 1, 33, 70, 24, 24)
    draw = np.random.default_rng(4)
    for shape in ((2, 2, 33, 70), (2, 1, 1, 70), (1, 2, 33, 1)):
        allowed = draw.random(shape) < 0.6
        allowed[..., : shape[2] // 3, :] = False
        check(place, operands, tinyt.from_numpy(allowed))
        check(place, operands, tinyt.from_numpy(allowed), True)
    added = np.where(draw.random((1, 2, 33, 70)) < 0.6, draw.normal(size=(1, 2, 33, 70)), -np.inf)
    added[..., :40] = -np.inf  # a whole block of keys, and then some
    for of in {dtype, "float32", "float64", "bfloat16"}:
        check(place, operands, tinyt.from_numpy(added).to(getattr(tinyt, of)), scale=0.2)
        check(place, operands, tinyt.from_numpy(added).to(getattr(tinyt, of)), True, 0.2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_keys_are_parts_that_are_joined(place, dtype):
    """Few queries, as when tokens are generated one by one."""
    check(place, operands_of(dtype, 1, 2, 1, 1, 1100, 64, 64))
    operands = operands_of(dtype, 1, 2, 2, 3, 700, 40, 24)
    allowed = np.random.default_rng(5).random((1, 1, 3, 700)) < 0.5
    allowed[..., 1, :] = False
    allowed[..., 2, :600] = False  # of one part alone
    check(place, operands, tinyt.from_numpy(allowed))
    check(place, operands, tinyt.from_numpy(allowed), True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_scores(place, dtype):
    """Exponentials of them would be infinite: float16 has none beyond 65504."""
    operands = operands_of(dtype, 1, 1, 1, 20, 150, 32, 16, size=60.0)
    check(place, operands, scale=1.0)
    check(place, operands, scale=-1.0, is_causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_layout(place, dtype):
    operands = operands_of(dtype, 2, 4, 2, 9, 70, 24, 24)
    mask = drawn(6, (2, 4, 9, 70), dtype)
    want = check(place, operands, mask, True)
    for layout in (
        kept_apart,
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.mT.contiguous().mT,
        lambda x: x.flip((-1, -2)).flip((-1, -2)),
    ):
        for one, other in zip(attend(place, operands, mask, True, 0.25, layout), want, strict=True):
            same(one, other.cpu())
    wide = [x[:, :1].expand(-1, 4, -1, -1) for x in operands]
    for one, other in zip(
        attend(place, wide, None, False, 0.25),
        attend(place, [x.contiguous() for x in wide], None, False, 0.25),
        strict=True,
    ):
        same(one, other.cpu())


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(place, dtype):
    """NaN of a query is all that this gets; of a key, what those get that may see it."""
    q, k, v = operands_of(dtype, 1, 1, 1, 40, 40, 16, 16)
    q[0, 0, 3, 2] = float("nan")
    k[0, 0, 30, 5] = float("nan")
    got, sums = (exact(x)[0, 0] for x in attend(place, [q, k, v], None, True, 0.25))
    is_nan = (np.arange(40) == 3) | (np.arange(40) >= 30)
    assert np.array_equal(np.isnan(sums), is_nan)
    assert np.array_equal(np.isnan(got), np.repeat(is_nan[:, None], 16, 1))


def test_none_at_all(place):
    """No batch, queries, keys, features or results; more features than kernels by hand have."""
    for sizes in (
        (0, 2, 1, 3, 4, 8, 8),
        (1, 0, 0, 3, 4, 8, 8),
        (1, 2, 1, 0, 4, 8, 8),
        (1, 2, 1, 3, 0, 8, 8),
        (1, 2, 1, 3, 4, 0, 8),
        (1, 2, 1, 3, 4, 8, 0),
        (1, 2, 1, 9, 10, 130, 8),
        (1, 1, 1, 9, 10, 8, 136),
    ):
        operands = operands_of("float32", *sizes)
        want = prim.attention(*operands, tinyt.zeros(()), False, 0.25)
        for one, other in zip(attend(place, operands, None, False, 0.25), want, strict=True):
            tinyt.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5)


def test_gradients_of_scores_far_apart(place):
    """They make the same scores, bit for bit: by other ones, a weight would be infinite."""
    given = [x.to(place) for x in operands_of("float32", 1, 1, 1, 20, 70, 8, 8)]
    given[0] *= 1e10
    q, k, v = (x.requires_grad_() for x in given)
    out = tinyt.nn.functional.scaled_dot_product_attention(q, k, v)
    out.backward(tinyt.ones_like(out))
    first = (exact(q.detach())[0, 0] @ exact(k.detach())[0, 0].T).argmax(1)
    assert np.array_equal(exact(out.detach())[0, 0], exact(v.detach())[0, 0][first])
    counts = np.bincount(first, minlength=70)
    assert np.array_equal(exact(v.grad)[0, 0], np.repeat(counts[:, None], 8, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients(place, dtype):
    """Which need the sums."""
    operands = operands_of(dtype, 1, 2, 1, 20, 70, 16, 16)
    results = []
    for at in (place, "cpu"):
        given = [x.to(at).detach().requires_grad_() for x in operands]
        out = tinyt.nn.functional.scaled_dot_product_attention(
            *given, is_causal=True, enable_gqa=True
        )
        out.backward(tinyt.ones_like(out))
        results.append([x.grad.cpu() for x in given])
    for one, other in zip(*results, strict=True):
        error = max(ERRORS[dtype], 2.0**-18) * 8
        tinyt.testing.assert_close(one, other, rtol=error, atol=error)
