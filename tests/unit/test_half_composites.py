"""Composites on halves: what lies between is float32, so that neither range nor digits are lost.

References are NumPy's in float64 on the same values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn
from tinyt.nn import functional as F

HALVES = [tinyt.float16, tinyt.bfloat16]
BOTH = pytest.mark.parametrize("dtype", HALVES, ids=["float16", "bfloat16"])


def values(x: Any) -> np.ndarray:
    return x.detach().double().numpy()


def half(array: Any, dtype: Any) -> Any:
    return tinyt.tensor(np.asarray(array, np.float64)).to(dtype)


def close(got: Any, want: Any, units: float = 1.0) -> None:
    """Within ``units`` halves of a unit in the last place, and what float32 loses."""
    eps = float(tinyt.finfo(got.dtype).eps)
    least = float(tinyt.finfo(got.dtype).smallest_normal) * eps
    np.testing.assert_allclose(values(got), want, rtol=units * 0.51 * eps, atol=least)


# ---- clipping of gradients


def parameters(arrays: list[Any], dtype: Any) -> list[Any]:
    found = []
    for a in arrays:
        grad = half(a, dtype)
        found.append(nn.Parameter(tinyt.zeros_like(grad)))
        found[-1].grad = grad
    return found


@BOTH
@pytest.mark.parametrize("scale", [3e4, 300.0, 1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, 0.5, math.inf])
def test_clipped_gradients(dtype: Any, scale: float, order: float) -> None:
    """Gradients whose squares are infinite, or 0, in float16 are scaled as any others."""
    rng = np.random.default_rng(3)
    params = parameters([rng.uniform(-1, 1, 7) * scale, rng.uniform(-1, 1, (3, 2)) * scale], dtype)
    before = np.concatenate([values(p.grad).ravel() for p in params])
    size = np.abs(before)
    norm = size.max() if order == math.inf else (size**order).sum() ** (1 / order)
    limit = norm / 5
    total = nn.utils.clip_grad_norm_(params, limit, order)
    assert total.dtype is dtype
    if norm < 6e4:
        close(total, norm)
    else:
        assert values(total) == (math.inf if dtype is tinyt.float16 else values(half(norm, dtype)))
    for p, old in zip(params, np.split(before, [7]), strict=True):
        factor = limit / (norm + 1e-6)
        close(p.grad, (old * factor).reshape(p.grad.shape), 1.01)


@BOTH
def test_clipping_leaves_small_gradients(dtype: Any) -> None:
    params = parameters([[300.0, 400.0]], dtype)
    assert values(nn.utils.get_total_norm([p.grad for p in params])) == 500
    nn.utils.clip_grad_norm_(params, 501.0)
    assert values(params[0].grad).tolist() == [300.0, 400.0]


def test_clipping_of_mixed_dtypes() -> None:
    params = parameters([[30000.0, 40000.0]], tinyt.float16) + parameters([[0.5]], tinyt.float32)
    nn.utils.clip_grad_norm_(params, 5.0)
    close(params[0].grad, [3.0, 4.0])
    np.testing.assert_allclose(values(params[1].grad), [5e-5], rtol=1e-6)


def test_compiled_clipping_gives_the_same_bits() -> None:
    grads = [half([300.0, -4000.0, 2e-7], tinyt.float16), half([9e3], tinyt.float16)]
    params = [nn.Parameter(tinyt.ones_like(g)) for g in grads]

    def clipped() -> list[Any]:
        for p in params:
            p.grad = None
        sum((p * g).float().sum() for p, g in zip(params, grads, strict=True)).backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        return [p.grad.clone() for p in params]

    eager = clipped()
    close(eager[1], [9e3 / math.hypot(300, 4000, 9e3)])
    compiled = tinyt.compile(clipped)
    for _ in range(3):
        for a, b in zip(compiled(), eager, strict=True):
            np.testing.assert_array_equal(values(a), values(b))


# ---- spread


@BOTH
def test_std_is_rounded_once(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    x = half(rng.standard_normal((64, 9)) * rng.uniform(0.5, 20, (64, 1)), dtype)
    want = values(x).std(1, ddof=1)
    got = tinyt.std(x, 1)
    np.testing.assert_array_equal(values(got), values(half(want, dtype)))
    np.testing.assert_array_equal(values(tinyt.std_mean(x, 1)[0]), values(got))


def test_std_of_large_float16() -> None:
    """The variance is infinite, its root is not."""
    x = half([60000.0, -60000.0, 30000.0], tinyt.float16)
    assert values(tinyt.var(x)) == math.inf
    close(tinyt.std(x), values(x).std(ddof=1))
    close(
        tinyt.std(half([3e-5, 5e-5, 2e-5], tinyt.float16)), np.std([3e-5, 5e-5, 2e-5], ddof=1), 40
    )
    leaf = x.clone().requires_grad_()
    tinyt.std(leaf).backward()
    away = values(x) - values(x).mean()
    close(leaf.grad, away / 2 / values(x).std(ddof=1), 2)


SCALES = [1e38, 1e30, 1e18, 1e10, 1.0, 1e-10, 1e-18, 1e-25, 1e-30, 1e-38, 1e-42]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(5, 1000), (3, 40_000), (1, 7)])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_spread_of_float32_at_any_scale(
    scale: float, shape: tuple[int, ...], columns: bool, offset: float
) -> None:
    rng = np.random.default_rng(5)
    data = ((rng.uniform(-1, 1, shape) + offset) * scale).astype(np.float32)
    exact = data.astype(np.float64)
    x = tinyt.tensor(data.T.copy() if columns else data)
    dim = 0 if columns else 1
    with np.errstate(over="ignore", under="ignore"):
        variance = exact.var(1, ddof=1).astype(np.float32)
        root = exact.std(1, ddof=1).astype(np.float32)
    np.testing.assert_allclose(tinyt.std(x, dim).numpy(), root, rtol=1e-6, atol=1.5e-45)
    np.testing.assert_allclose(tinyt.var(x, dim).numpy(), variance, rtol=1e-6, atol=1.5e-45)


def test_spread_of_equal_values_is_zero() -> None:
    for value in (1e-44, 1e-30, 0.1, 1e30, 3e38):
        x = tinyt.full((1000, 3), value)
        assert tinyt.std(x).item() == 0
        assert tinyt.var(x, 0).tolist() == [0, 0, 0]
    assert math.isnan(tinyt.var(tinyt.tensor([1e30, math.nan])).item())
    for x in (tinyt.tensor([1.0, math.inf]), tinyt.full((9,), math.inf)):
        assert math.isnan(tinyt.std(x).item())
        assert math.isnan(tinyt.var(x[:, None], 0).item())


def test_std_of_float32_keeps_its_gradient_at_small_scales() -> None:
    x = tinyt.tensor([1e-25, 3e-25, 2e-25]).requires_grad_()
    tinyt.std(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [-0.5, 0.5, 0], rtol=1e-5, atol=1e-5)


# ---- means, norms and what is made of them


@BOTH
def test_nanmean_of_large_sums(dtype: Any) -> None:
    x = half([60000.0, math.nan, 60000.0, 59000.0], dtype)
    close(tinyt.nanmean(x), np.nanmean(values(x)))
    close(tinyt.nanmean(x[None], 1, True), [[np.nanmean(values(x))]])


@BOTH
@pytest.mark.parametrize("scale", [1e4, 300.0, 1.0, 1e-3, 2e-6])
def test_normalize_and_cosine(dtype: Any, scale: float) -> None:
    rng = np.random.default_rng(6)
    x, y = (half(rng.uniform(-1, 1, (4, 33)) * scale, dtype) for _ in range(2))
    a, b = values(x), values(y)
    length = [np.sqrt((v**2).sum(1, keepdims=True)) for v in (a, b)]
    close(F.normalize(x), a / length[0], 1.01)
    unit = a / length[0], b / length[1]
    cosine = (unit[0] * unit[1]).sum(1)
    np.testing.assert_allclose(
        values(F.cosine_similarity(x, y)), cosine, rtol=0.51 * tinyt.finfo(dtype).eps, atol=1e-6
    )
    near = np.abs(a - b + 1e-6)
    for p in (2.0, 3.0, 1.0):
        want = (near**p).sum(1) ** (1 / p)
        if want.max() < 6e4:
            close(F.pairwise_distance(x, y, p), want, 1.01)


@BOTH
def test_gradient_of_cosine_similarity(dtype: Any) -> None:
    x = half([[300.0, 400.0]], dtype).requires_grad_()
    y = half([[400.0, -300.0]], dtype)
    F.cosine_similarity(x, y).sum().backward()
    close(x.grad, [[400 / 500 / 500, -300 / 500 / 500]], 2)
