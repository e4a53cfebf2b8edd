"""Gradients of attention by hand on a CUDA device, against float64: at the edges of its blocks,
with all kinds of masks, however operands lie. Run by `tests/unit/test_cuda.py` in a process of its
own, on the stand-in; or by hand where there is a GPU."""

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
    Array,
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


def masked(scores: Array, mask: Array | None, is_causal: bool) -> Array:
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    seen = np.tri(*scores.shape[2:], dtype=bool)
    return np.where(seen, scores, -np.inf) if is_causal else scores


def by_formula(
    operands: list[Array], mask: Array | None, is_causal: bool, scale: float
) -> tuple[list[Array], list[Array]]:
    """Gradients of queries, keys and values; and sums of the absolute values that each is made of,
    which errors are in the proportion of."""
    q, k, v, g = operands
    batch, groups, times = q.shape[0], k.shape[1], q.shape[1] // k.shape[1]
    k, v = np.repeat(k, times, 1), np.repeat(v, times, 1)
    out, sums = expected(*operands[:3], mask, is_causal, scale)
    none = np.isneginf(sums)[..., None]
    scores = masked(scale * (q @ k.swapaxes(2, 3)), mask, is_causal)
    weights = np.where(none, 0, np.exp(scores - np.where(none, 0, sums[..., None])))
    slopes = weights * (g @ v.swapaxes(2, 3) - (g * out).sum(3, keepdims=True))
    sizes = weights * (abs(g) @ abs(v).swapaxes(2, 3) + (abs(g) * abs(out)).sum(3, keepdims=True))

    def of_group(x: Array) -> Array:
        return x.reshape(batch, groups, times, *x.shape[2:]).sum(2)

    made, most = (
        [
            scale * (s @ keys),
            of_group(scale * (s.swapaxes(2, 3) @ queries)),
            of_group(weights.swapaxes(2, 3) @ gradients),
        ]
        for s, keys, queries, gradients in ((slopes, k, q, g), (sizes, abs(k), abs(q), abs(g)))
    )
    return made, [np.abs(x) for x in most]


def gradients(
    place: tinyt.device,
    operands: list[tinyt.Tensor],
    mask: tinyt.Tensor | None,
    is_causal: bool,
    scale: float,
    layout: Callable[[tinyt.Tensor], tinyt.Tensor] = lambda x: x,
) -> list[tinyt.Tensor]:
    """Of queries, keys and values, by operands and the gradient of results."""
    q, k, v, g = (layout(x.to(place)) for x in operands)
    on = tinyt.zeros((), device=place) if mask is None else layout(mask.to(place))
    out, sums = prim.attention(q, k, v, on, is_causal, scale)
    return list(prim.attention_backward(g, q, k, v, on, out, sums, is_causal, scale))


def with_gradient(operands: list[tinyt.Tensor]) -> list[tinyt.Tensor]:
    q, _, v = operands
    dtype = str(q.dtype).removeprefix("tinyt.")
    return [*operands, drawn(7, (*q.shape[:3], v.shape[3]), dtype)]


def check(
    place: tinyt.device,
    operands: list[tinyt.Tensor],
    mask: tinyt.Tensor | None = None,
    is_causal: bool = False,
    scale: float = 0.25,
) -> list[tinyt.Tensor]:
    """Errors: a few roundings to the dtype of each product of a sum, and those of scores, which
    weights are off by."""
    operands = with_gradient(operands)
    made = gradients(place, operands, mask, is_causal, scale)
    arrays = [exact(x) for x in operands]
    of_mask = None
    if mask is not None:
        of_mask = mask.numpy() if mask.dtype is tinyt.bool else exact(mask)
    want, most = by_formula(arrays, of_mask, is_causal, scale)
    dtype = str(operands[0].dtype).removeprefix("tinyt.")
    norms = [np.linalg.norm(x, axis=-1).max(initial=1) for x in arrays[:2]]
    of_score = SCORE_ERROR * max(8.0, abs(scale) * norms[0] * norms[1])
    least = {"float16": 2.0**-18}.get(dtype, 1e-30)  # weights and slopes have a smallest one
    for one, other, size in zip(made, want, most, strict=True):
        assert one.dtype is operands[0].dtype
        error = (ERRORS[dtype] + 4 * of_score) * size + least
        assert (abs(exact(one) - other) <= error).all()
    return made


def test_the_formula_is_pytorch() -> None:
    """What all others are compared with."""
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(3)
    shapes = ((2, 4, 7, 5), (2, 2, 9, 5), (2, 2, 9, 6), (2, 4, 7, 6))
    operands = [draw.normal(size=shape) for shape in shapes]
    allowed = draw.random((2, 1, 7, 9)) < 0.6
    allowed[..., 0] = True
    added = draw.normal(size=(1, 4, 7, 9))
    for mask, is_causal in ((None, True), (None, False), (allowed, False), (added, False)):
        *given, g = (torch.tensor(x) for x in operands)
        given = [x.requires_grad_() for x in given]
        of_mask = None if mask is None else torch.from_numpy(mask)
        out = torch.nn.functional.scaled_dot_product_attention(
            *given, attn_mask=of_mask, is_causal=is_causal, scale=0.3, enable_gqa=True
        )
        want = torch.autograd.grad(out, given, g)
        made, _ = by_formula(operands, mask, is_causal, 0.3)
        for one, other in zip(made, want, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("size", [*SIZES, (1, 6, 2, 40, 200, 72, 72)], ids=str)
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
    added[..., :40] = -np.inf
    for of in {dtype, "float32", "float64"}:
        check(place, operands, tinyt.from_numpy(added).to(getattr(tinyt, of)), scale=0.2)
        check(place, operands, tinyt.from_numpy(added).to(getattr(tinyt, of)), True, 0.2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_of_one_and_many_of_the_other(place, dtype):
    check(place, operands_of(dtype, 1, 2, 1, 1, 700, 64, 64))
    check(place, operands_of(dtype, 1, 2, 1, 300, 2, 40, 24), None, True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_some_hundreds(place, dtype):
    operands = operands_of(dtype, 1, 2, 1, 70, 90, 32, 16, size=8.0)
    check(place, operands, scale=1.0)
    check(place, operands, scale=-1.0, is_causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_repeat_and_do_not_depend_on_layout(place, dtype):
    operands = operands_of(dtype, 2, 4, 2, 9, 70, 24, 24)
    mask = drawn(6, (2, 4, 9, 70), dtype)
    want = check(place, operands, mask, True)
    operands = with_gradient(operands)
    for layout in (
        lambda x: x,
        kept_apart,
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.mT.contiguous().mT,
        lambda x: x.flip((-1, -2)).flip((-1, -2)),
    ):
        got = gradients(place, operands, mask, True, 0.25, layout)
        for one, other in zip(got, want, strict=True):
            same(one, other.cpu())


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(place, dtype):
    """What gets NaN as a result gives it to all that it may see; nobody else has one."""
    operands = with_gradient(operands_of(dtype, 1, 1, 1, 40, 200, 16, 16))
    operands[0][0, 0, 3, 2] = float("nan")
    allowed = np.ones((1, 1, 40, 200), bool)
    allowed[..., 100:] = False
    got = gradients(place, operands, tinyt.from_numpy(allowed), False, 0.25)
    of_query, of_key, of_value = (np.isnan(exact(x)[0, 0]) for x in got)
    assert np.array_equal(of_query, np.repeat(np.arange(40)[:, None] == 3, 16, 1))
    assert of_key.all()
    assert of_value.all()


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
        operands = with_gradient(operands_of("float32", *sizes))
        want = gradients(tinyt.device("cpu"), operands, None, False, 0.25)
        for one, other in zip(gradients(place, operands, None, False, 0.25), want, strict=True):
            tinyt.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-5)
