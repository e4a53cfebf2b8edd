"""Gradients at the ends of domains, far out and at NaN: closed forms, mpmath where it cancels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tinyt
from tinyt.nn import functional as F

INF, NAN = math.inf, math.nan
HALVES = [tinyt.float16, tinyt.bfloat16]


def gradients(function: Callable[..., Any], *values: Any, dtype: Any = tinyt.float32) -> list[Any]:
    """Those of the sum of the results to every argument, as float64 arrays."""
    leaves = [tinyt.tensor(v, dtype=dtype).requires_grad_() for v in values]
    function(*leaves).sum().backward()
    return [x.grad.double().numpy() for x in leaves]


def gradient(function: Callable[..., Any], values: Any, dtype: Any = tinyt.float32) -> Any:
    return gradients(function, values, dtype=dtype)[0]


def exact(function: Callable[[Any], Any], values: list[float]) -> list[float]:
    """A function of mpmath at 60 digits."""
    with mpmath.workdps(60):
        return [float(function(mpmath.mpf(v))) for v in values]


# ---- arctangent of two arguments


def test_atan2_has_no_slope_at_the_origin() -> None:
    for a in (0.0, -0.0):
        for b in (0.0, -0.0):
            assert [g.tolist() for g in gradients(tinyt.atan2, [a], [b])] == [[0.0], [0.0]]


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-20, 1.0, 1e18, 1e20, 1e37])
def test_atan2_where_squares_leave_the_range(scale: float) -> None:
    a, b = np.float32(3 * scale), np.float32(-4 * scale)
    square = float(a) ** 2 + float(b) ** 2
    got = gradients(tinyt.atan2, [a], [b])
    with np.errstate(over="ignore"):
        want = [np.float32(float(b) / square), np.float32(-float(a) / square)]
    np.testing.assert_allclose(np.concatenate(got), want, rtol=3e-6)


# ---- binary cross-entropy

LOGITS = [-100.0, -80.0, -20.0, -9.0, -1.5, 0.0, 1.5, 9.0, 20.0, 80.0, 100.0]


@pytest.mark.parametrize("target", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("factor", [None, 3.0])
@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64, *HALVES])
def test_cross_entropy_of_confident_logits(target: float, factor: Any, dtype: Any) -> None:
    """Targets 0 at x = -20 have 2.06e-9 of gradient, not 0; and targets 1 at 20 the negative."""
    p = 1.0 if factor is None else factor
    weight = None if factor is None else tinyt.tensor([factor], dtype=dtype)

    def loss(x: Any) -> Any:
        goals = tinyt.full_like(x, target)
        return F.binary_cross_entropy_with_logits(x, goals, reduction="none", pos_weight=weight)

    def value(x: Any) -> Any:
        return p * target * mpmath.log1p(mpmath.exp(-x)) + (1 - target) * mpmath.log1p(
            mpmath.exp(x)
        )

    def slope(x: Any) -> Any:
        return (1 - target) / (1 + mpmath.exp(-x)) - p * target / (1 + mpmath.exp(x))

    x = tinyt.tensor(LOGITS, dtype=dtype)
    unit = float(tinyt.finfo(dtype).eps)
    least = float(tinyt.finfo(dtype).smallest_normal)
    for got, want in (
        (loss(x).double().numpy(), exact(value, LOGITS)),
        (gradient(loss, LOGITS, dtype), exact(slope, LOGITS)),
    ):
        np.testing.assert_allclose(got, want, rtol=4 * unit, atol=least)


def test_cross_entropy_has_second_derivatives_and_those_of_targets() -> None:
    x = tinyt.tensor([-20.0, 0.0, 3.0], dtype=tinyt.float64).requires_grad_()
    t = tinyt.tensor([0.0, 0.5, 1.0], dtype=tinyt.float64).requires_grad_()
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="sum")
    to_x, to_t = tinyt.autograd.grad(loss, (x, t), create_graph=True)
    np.testing.assert_array_equal(to_t.detach().numpy(), [20.0, 0.0, -3.0])
    second, mixed = tinyt.autograd.grad(to_x.sum(), (x, t))
    want = exact(lambda v: mpmath.exp(v) / (1 + mpmath.exp(v)) ** 2, [-20.0, 0.0, 3.0])
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-14)
    np.testing.assert_array_equal(mixed.numpy(), [-1.0, -1.0, -1.0])


def test_cross_entropy_of_certain_probabilities() -> None:
    """The divisor of the gradient is at least 1e-12, as in PyTorch."""
    got = gradient(
        lambda x: F.binary_cross_entropy(x, tinyt.tensor([0.0, 1.0, 0.0, 1.0]), reduction="none"),
        [0.0, 1.0, 1.0, 0.0],
    )
    np.testing.assert_allclose(got, [0.0, 0.0, 1e12, -1e12], rtol=1e-6)


# ---- what a NaN, or an infinity, does to others


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64, *HALVES])
@pytest.mark.parametrize("size", [1, 67])
def test_relu_lets_the_gradient_of_a_nan_through(dtype: Any, size: int) -> None:
    values = [NAN, -1.0, -0.0, 0.0, 2.0, INF, -INF] * size
    want = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0] * size
    np.testing.assert_array_equal(gradient(F.relu, values, dtype), want)


def test_relu_lets_it_through_in_second_derivatives() -> None:
    x = tinyt.tensor([NAN, -1.0, 2.0]).requires_grad_()
    (g,) = tinyt.autograd.grad((F.relu(x) * 3).sum(), x, create_graph=True)
    np.testing.assert_array_equal(g.detach().numpy(), [3.0, 0.0, 3.0])


PIECEWISE: dict[str, Callable[[Any], Any]] = {
    "elu": F.elu,
    "celu": F.celu,
    "selu": F.selu,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "silu": F.silu,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "sigmoid": tinyt.sigmoid,
    "tanh": tinyt.tanh,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "logit": lambda x: tinyt.logit(x, eps=0.2),
}


@pytest.mark.parametrize("name", sorted(PIECEWISE))
def test_activations_do_not_hide_a_nan(name: str) -> None:
    got = gradient(PIECEWISE[name], [NAN, 0.5])
    assert math.isnan(got[0])
    assert math.isfinite(got[1])


@pytest.mark.parametrize("function", [tinyt.max, tinyt.min, tinyt.amax, tinyt.amin])
def test_extremes_of_nans_share_the_gradient(function: Callable[..., Any]) -> None:
    np.testing.assert_array_equal(gradient(function, [1.0, NAN, 3.0, NAN]), [0.0, 0.5, 0.0, 0.5])
    np.testing.assert_array_equal(gradient(function, [2.0, 2.0]), [0.5, 0.5])


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_robust_losses_of_an_infinite_distance(reduction: str) -> None:
    zeros = tinyt.zeros(4)
    values = [INF, -INF, 1e30, 0.5]
    for loss, inner in (
        (lambda x: F.smooth_l1_loss(x, zeros, reduction=reduction), 0.5),
        (lambda x: F.huber_loss(x, zeros, reduction=reduction, delta=1.0), 0.5),
        (lambda x: F.smooth_l1_loss(x, zeros, reduction=reduction, beta=0.0), 1.0),
    ):
        np.testing.assert_array_equal(gradient(loss, values), [1.0, -1.0, 1.0, inner])


# ---- near zero, and far out


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (tinyt.float32, [0.0, 1e-45, 1e-40, 1e-30, 1e-10, 1e-3, 0.1, 0.2499, 0.2501, 0.7, 30.25]),
        (tinyt.float64, [0.0, 5e-324, 1e-310, 1e-200, 1e-10, 1e-3, 0.1, 0.2499, 0.2501, 0.7, 9.1]),
    ],
)
def test_sinc_near_zero(dtype: Any, values: list[float]) -> None:
    x = tinyt.tensor(values, dtype=dtype).double().numpy().tolist()

    def slope(v: Any) -> Any:
        if v == 0:
            return mpmath.mpf(0)
        a = mpmath.pi * v
        return (mpmath.cos(a) - mpmath.sin(a) / a) / v

    with mpmath.workdps(700):
        want = [float(slope(mpmath.mpf(v))) for v in x]
    got = gradient(tinyt.sinc, x, dtype)
    info = np.finfo(np.float32 if dtype is tinyt.float32 else np.float64)
    np.testing.assert_allclose(got, want, rtol=40 * info.eps, atol=4 * info.smallest_subnormal)
    # Values keep their bits.
    leaf = tinyt.tensor(x, dtype=dtype).requires_grad_()
    np.testing.assert_array_equal(
        tinyt.sinc(leaf).detach().numpy(), tinyt.sinc(leaf.detach()).numpy()
    )


def test_logit_at_the_ends() -> None:
    got = gradient(tinyt.logit, [0.0, 1.0, 0.25])
    np.testing.assert_allclose(got, [INF, INF, 16 / 3], rtol=1e-6)
    got = gradient(tinyt.logit, [-0.5, 1.5, NAN])
    assert np.isnan(got).all()


def test_expm1_far_below_zero() -> None:
    values = [-1.5, -20.0, -50.0, -80.0]
    np.testing.assert_allclose(gradient(tinyt.expm1, values), np.exp(values), rtol=1e-6)


def test_mish_far_out() -> None:
    np.testing.assert_array_equal(gradient(F.mish, [3e38, INF, -3e38]), [1.0, 1.0, 0.0])
