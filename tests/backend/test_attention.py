"""Attention block by block against float64 formulas written out: edges of blocks, masks, groups of
heads, few queries, threads, memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import memory
from tinyt.nn.functional import scaled_dot_product_attention as attention

# queries, keys, width of keys, width of values: one of each, tails of registers, edges of panels
# (8, 16, 32), of pieces (24, 48) and of blocks (96, 192), several blocks.
SIZES = [
    (1, 1, 1, 1),
    (9, 13, 3, 5),
    (16, 31, 8, 8),
    (33, 95, 12, 17),
    (32, 96, 16, 33),
    (97, 193, 24, 16),
    (96, 192, 40, 20),
    (49, 49, 48, 25),
    (193, 97, 7, 64),
    (250, 400, 5, 6),
    (1, 1100, 64, 250),  # few queries: parts of 8, 4, 2 and 1 registers, and a rest
    (3, 45, 70, 33),
]
RTOL = {"float32": 3e-6, "float64": 1e-13, "bfloat16": 2.0**-9}


def rounded(arrays: Any, dtype: str) -> list[np.ndarray]:
    """The arrays' values in a dtype."""
    return [tinyt.tensor(a).to(getattr(tinyt, dtype)).double().numpy(force=True) for a in arrays]


def expected(
    q: Any, k: Any, v: Any, g: Any, mask: Any = None, causal: bool = False, scale: float = 0.0
) -> tuple[np.ndarray, ...]:
    """Output and gradients, with all scores, for as many heads of keys as of queries."""
    q, k, v, g = (np.asarray(x, np.float64) for x in (q, k, v, g))
    scale = scale or 1 / math.sqrt(q.shape[-1])
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
        scores = scores + added
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(-1, keepdims=True)
    p = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    of_p = g @ np.swapaxes(v, -1, -2)
    slopes = p * (of_p - (p * of_p).sum(-1, keepdims=True))
    of_k = np.swapaxes(slopes, -1, -2) @ q * scale
    return p @ v, slopes @ k * scale, of_k, np.swapaxes(p, -1, -2) @ g


def with_gradients(arrays: Any, dtype: str, **options: Any) -> list[Any]:
    tensors = [tinyt.tensor(a).to(getattr(tinyt, dtype)) for a in arrays]
    for t in tensors[:3]:
        t.requires_grad_()
    out = attention(*tensors[:3], **options)
    out.backward(tensors[3])
    return [out.detach(), *[t.grad for t in tensors[:3]]]


def drawn(rng: Any, heads: int, groups: int, sizes: tuple[int, ...]) -> list[np.ndarray]:
    queries, keys, width, out_width = sizes
    shapes = (heads, queries, width), (groups, keys, width), (groups, keys, out_width)
    return [rng.standard_normal((2, *s)) for s in (*shapes, (heads, queries, out_width))]


def assert_close(got: list[Any], want: tuple[np.ndarray, ...], rtol: float) -> None:
    for name, a, b in zip(("out", "query", "key", "value"), got, want, strict=True):
        bound = rtol * max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(
            a.double().numpy(force=True), b, rtol=0, atol=bound, err_msg=name
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, ...], dtype: str, rng: Any) -> None:
    arrays = rounded(drawn(rng, 2, 2, sizes), dtype)
    mask = rounded([rng.standard_normal((2, 1, *sizes[:2]))], dtype)[0]
    both = {"attn_mask": mask, "is_causal": True}
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, both):
        given = {k: tinyt.tensor(v) if k == "attn_mask" else v for k, v in options.items()}
        if "attn_mask" in given:
            given["attn_mask"] = given["attn_mask"].to(getattr(tinyt, dtype))
        want = expected(*arrays, options.get("attn_mask"), "is_causal" in options)
        assert_close(with_gradients(arrays, dtype, **given), want, RTOL[dtype] * 8)


@pytest.mark.parametrize("queries", [1, 2, 4, 5, 40, 130])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_heads_that_share_keys(queries: int, causal: bool, dtype: str, rng: Any) -> None:
    """Queries of 3 x 2 heads, few (read directly) and many (blocked)."""
    arrays = rounded(drawn(rng, 6, 2, (queries, 300, 20, 12)), dtype)
    got = with_gradients(arrays, dtype, enable_gqa=True, is_causal=causal)
    repeated = [np.repeat(x, 3, axis=1) for x in arrays[1:3]]
    out, of_q, of_k, of_v = expected(arrays[0], *repeated, arrays[3], causal=causal)
    of_k, of_v = (x.reshape(2, 2, 3, *x.shape[2:]).sum(2) for x in (of_k, of_v))
    assert_close(got, (out, of_q, of_k, of_v), RTOL[dtype] * 8)


@pytest.mark.parametrize("queries", [1, 3, 70])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_masks_of_every_kind(queries: int, dtype: str, rng: Any) -> None:
    """Bool, float, of another dtype, broadcast along each dimension, transposed."""
    arrays = rounded(drawn(rng, 2, 2, (queries, 110, 8, 8)), dtype)
    for shape in [(110,), (queries, 1), (2, 1, 1, 110), (2, 2, queries, 110), (1, 1)]:
        keep, added = rng.random(shape) < 0.6, rng.standard_normal(shape).astype(np.float32)
        of_dtype = tinyt.tensor(added).to(getattr(tinyt, dtype))
        for mask in (tinyt.tensor(keep), tinyt.tensor(added), of_dtype):
            values = (
                mask.numpy(force=True)
                if mask.dtype == tinyt.bool
                else mask.double().numpy(force=True)
            )
            got = with_gradients(arrays, dtype, attn_mask=mask)
            assert_close(got, expected(*arrays, values), RTOL[dtype] * 8)
    mask = rng.random((110, queries)) < 0.6
    got = with_gradients(arrays, dtype, attn_mask=tinyt.tensor(mask).t())
    assert_close(got, expected(*arrays, mask.T), RTOL[dtype] * 8)


@pytest.mark.parametrize(("heads", "groups"), [(3, 3), (4, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masks_that_heads_share(heads: int, groups: int, dtype: str, rng: Any) -> None:
    """Several panels of queries and blocks of keys, with tails; the bits of the mask repeated."""
    queries, keys = 70, 300
    arrays = drawn(rng, heads, groups, (queries, keys, 8, 8))
    want = [arrays[0], *(np.repeat(x, heads // groups, axis=1) for x in arrays[1:3]), arrays[3]]
    for batch in (1, 2):
        shape = (batch, 1, queries, keys)
        masks = (rng.random(shape) < 0.6, rng.standard_normal(shape).astype(np.float32))
        for mask in masks:
            shared = tinyt.tensor(mask)
            whole = shared.expand(2, heads, queries, keys).clone()
            for threads in (1, 3):
                tinyt.set_num_threads(threads)
                got = with_gradients(arrays, dtype, attn_mask=shared, enable_gqa=True)
                same = with_gradients(arrays, dtype, attn_mask=whole, enable_gqa=True)
                for a, b in zip(got, same, strict=True):
                    assert_same_bits(a, b, f"{threads} threads")
            out, of_q, of_k, of_v = expected(*want, mask)
            split = (2, groups, heads // groups, keys, 8)
            of_k, of_v = (x.reshape(split).sum(2) for x in (of_k, of_v))
            assert_close(got, (out, of_q, of_k, of_v), RTOL[dtype] * 8)


@pytest.mark.parametrize("queries", [2, 45])
@pytest.mark.parametrize("scale", [0.0, -0.7, 1.0, 2.5])
def test_scale(scale: float, queries: int, rng: Any) -> None:
    q, k, v, g = drawn(rng, 2, 2, (queries, 150, 9, 7))
    out, of_q, of_k, of_v = expected(q * scale, k, v, g, scale=1.0)
    got = with_gradients([q, k, v, g], "float64", scale=scale)
    assert_close(got, (out, of_q * scale, of_k, of_v), 1e-12)
    mask = rng.random((queries, 150)) < 0.5
    out, of_q, of_k, of_v = expected(q * scale, k, v, g, mask, scale=1.0)
    got = with_gradients([q, k, v, g], "float64", scale=scale, attn_mask=tinyt.tensor(mask))
    assert_close(got, (out, of_q * scale, of_k, of_v), 1e-12)


def test_scores_far_apart(rng: Any) -> None:
    """Of scores around 1e10 the largest takes all; slopes are what rounding leaves of 0."""
    q, k, v, g = drawn(rng, 2, 2, (40, 300, 8, 5))
    got = with_gradients([q * 1e10, k, v, g], "float32")
    first = (q @ np.swapaxes(k, -1, -2)).argmax(-1)
    want = np.take_along_axis(v, first[..., None], 2).astype(np.float32)
    np.testing.assert_array_equal(got[0].numpy(force=True), want)
    assert (got[1].abs() < 1e-5).all()
    assert (got[2].abs() < 1e5).all()
    weights = first[..., None] == np.arange(300)
    of_v = np.swapaxes(weights, -1, -2).astype(np.float64) @ g
    np.testing.assert_allclose(got[3].numpy(force=True), of_v, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("queries", [2, 40])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_queries_that_see_no_key(queries: int, dtype: str, rng: Any) -> None:
    arrays = rounded(drawn(rng, 1, 1, (queries, 250, 4, 4)), dtype)
    keep = np.ones((queries, 250), bool)
    keep[1] = False
    for mask in (keep, np.where(keep, 0.0, -np.inf).astype(np.float32)):
        got = with_gradients(arrays, dtype, attn_mask=tinyt.tensor(mask))
        assert_close(got, expected(*arrays, mask), RTOL[dtype] * 8)
        assert (got[0][:, :, 1] == 0).all()
        assert (got[1][:, :, 1] == 0).all()
    # The lowest number is no -inf: all keys weigh the same.
    low = np.where(keep, 0.0, np.finfo(np.float32).min).astype(np.float32)
    out = with_gradients(arrays, "float32", attn_mask=tinyt.tensor(low))[0]
    np.testing.assert_allclose(
        out[:, :, 1].numpy(force=True), arrays[2].mean(2), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("queries", [1, 20])
def test_large_scores_and_nan(queries: int, rng: Any) -> None:
    q, k, v, g = drawn(rng, 1, 1, (queries, 230, 4, 3))
    got = with_gradients([q * 300, k, v, g], "float64")
    assert_close(got, expected(q * 300, k, v, g), 1e-9)
    q[0, 0, 0, 0] = math.nan
    out = with_gradients([q, k, v, g], "float32")[0]
    assert out[0, 0, 0].isnan().all()
    assert not out[1].isnan().any()
    assert not out[0, 0, 1:].isnan().any()


# One query; a tail of a panel; several blocks; keys wider than a block of depth.
HALVES = [(1, 200, 16, 16), (100, 200, 16, 20), (45, 500, 33, 47), (20, 70, 300, 8)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("sizes", HALVES, ids=str)
def test_halves_accumulate_in_float32(dtype: str, sizes: tuple[int, ...], rng: Any) -> None:
    arrays = rounded(drawn(rng, 2, 2, sizes), dtype)
    mask = rng.random((2, 1, *sizes[:2])) < 0.7
    eps = 2.0**-11 if dtype == "float16" else 2.0**-8
    both = {"attn_mask": mask, "is_causal": True}
    for options in ({}, {"is_causal": True}, {"attn_mask": mask}, both):
        given = {k: tinyt.tensor(v) if k == "attn_mask" else v for k, v in options.items()}
        want = expected(*arrays, options.get("attn_mask"), "is_causal" in options)
        assert_close(with_gradients(arrays, dtype, **given), want, 4 * eps)


@pytest.mark.parametrize(
    ("heads", "groups", "sizes"),
    [(1, 1, (300, 700, 24, 24)), (4, 2, (200, 130, 16, 20)), (2, 1, (3, 2500, 16, 16))],
)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_same_bits(
    heads: int, groups: int, sizes: tuple[int, ...], causal: bool, dtype: str, rng: Any
) -> None:
    """For any number of threads, for operands of any strides, and compiled."""
    arrays = drawn(rng, heads, groups, sizes)
    tensors = [tinyt.tensor(a).to(getattr(tinyt, dtype)) for a in arrays]

    def run(q: Any, k: Any, v: Any, g: Any) -> list[Any]:
        out = attention(q, k, v, is_causal=causal, enable_gqa=True)
        return [out, *tinyt.autograd.grad(out, [q, k, v], g)]

    compiled = tinyt.compile(run)
    swapped = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]
    flipped = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in tensors]
    want = None
    for threads, (*parts, g) in ((1, tensors), (2, swapped), (3, flipped), (7, tensors)):
        tinyt.set_num_threads(threads)
        parts = [p.detach().requires_grad_() for p in parts]
        want = want or [x.detach() for x in run(*parts, g)]
        for got in (run(*parts, g), compiled(*parts, g), compiled(*parts, g)):
            for a, b in zip(got, want, strict=True):
                assert_same_bits(a.detach().double(), b.double(), f"{threads} threads")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_keys_without_elements(dtype: str) -> None:
    """All scores are 0, whatever memory held before."""
    of_dtype = getattr(tinyt, dtype)
    x = tinyt.randn(1, 1, 60, 90).to(of_dtype)
    attention(x * 5, x * 5, x)
    none = tinyt.ones(1, 1, 60, 0, dtype=of_dtype)
    value = x.detach().requires_grad_()
    out = attention(none, none, value, scale=1.0)
    mean = value.detach().double().numpy(force=True).mean(2, keepdims=True)
    np.testing.assert_allclose(
        out.detach().double().numpy(force=True) - mean, 0, atol=8 * RTOL[dtype]
    )
    out.backward(tinyt.ones_like(out))
    np.testing.assert_allclose(value.grad.double().numpy(force=True), 1.0, rtol=8 * RTOL[dtype])


@pytest.mark.kernels
def test_memory_grows_with_the_length_only() -> None:
    """Forward and backward; the scores of twice the length are four times as large."""

    def peak(length: int) -> int:
        x = [tinyt.randn(1, 2, length, 8).requires_grad_() for _ in range(3)]
        memory.reset_peak(x[0].device)
        before = memory.statistics(x[0].device)["current_bytes"]
        attention(*x, is_causal=True).sum().backward()
        return memory.statistics(x[0].device)["peak_bytes"] - before

    peak(256)
    small, large = peak(3072), peak(6144)
    assert large < 2.2 * small
    assert large < 2 * 6144 * 6144 * 4 / 32


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.bfloat16])
def test_empty(dtype: Any) -> None:
    for shape in [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0), (2, 2, 20, 0)]:
        x = tinyt.ones(*shape, dtype=dtype).requires_grad_()
        attention(x, x, x).sum().backward()
        assert x.grad.shape == shape
    q, v = (
        tinyt.ones(2, 2, 20, 4, dtype=dtype).requires_grad_(),
        tinyt.ones(2, 2, 20, 0, dtype=dtype),
    )
    out = attention(q, q, v)
    out.sum().backward()
    assert out.shape == (2, 2, 20, 0)
    assert (q.grad == 0).all()
    q, none = tinyt.ones(2, 2, 3, 4).requires_grad_(), tinyt.ones(2, 2, 0, 4)
    out = attention(q, none, none)
    out.sum().backward()
    assert (out == 0).all()
    assert (q.grad == 0).all()
