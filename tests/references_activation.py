"""Activation functions from their definitions, in NumPy and float64."""

from __future__ import annotations

import math

import numpy as np

from references import erf, sigmoid, softmax

Array = np.ndarray


def rectified(x: Array, negative: Array) -> Array:
    """x where positive, else `negative`; a NaN stays."""
    return np.where(x > 0, x, negative)


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def elu(x: Array, alpha: float = 1.0) -> Array:
    return rectified(x, alpha * np.expm1(x))


def celu(x: Array, alpha: float = 1.0) -> Array:
    return rectified(x, alpha * np.expm1(x / alpha))


def selu(x: Array) -> Array:
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    return rectified(x, x * negative_slope)


def prelu(x: Array, weight: Array) -> Array:
    if weight.size > 1:
        weight = weight.reshape([-1 if d == 1 else 1 for d in range(x.ndim)])
    return rectified(x, x * weight.reshape(() if weight.size == 1 else weight.shape))


def rrelu(x: Array, lower: float = 1 / 8, upper: float = 1 / 3) -> Array:
    return rectified(x, x * (lower + upper) / 2)


def threshold(x: Array, threshold: float, value: float) -> Array:
    return np.where(x <= threshold, np.asarray(value, x.dtype), x)


def hardtanh(x: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    return np.clip(x, min_val, max_val).astype(x.dtype)


def relu6(x: Array) -> Array:
    return hardtanh(x, 0, 6)


def hardsigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


def hardswish(x: Array) -> Array:
    return x * hardsigmoid(x)


def hardshrink(x: Array, lambd: float = 0.5) -> Array:
    return np.where((x >= -lambd) & (x <= lambd), 0.0, x)


def softshrink(x: Array, lambd: float = 0.5) -> Array:
    return np.sign(x) * np.maximum(np.abs(x) - lambd, 0)


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


def logsigmoid(x: Array) -> Array:
    return -np.logaddexp(0, -x)


def mish(x: Array) -> Array:
    return x * np.tanh(np.logaddexp(0, x))


def softsign(x: Array) -> Array:
    return x / (1 + np.abs(x))


def tanhshrink(x: Array) -> Array:
    return x - np.tanh(x)


def glu(x: Array, dim: int = -1) -> Array:
    a, b = np.split(x, 2, axis=dim)
    return a * sigmoid(b)


def softmin(x: Array, dim: int) -> Array:
    return softmax(-x, dim)
