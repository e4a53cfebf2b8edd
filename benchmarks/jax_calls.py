"""Compiled cases as functions under ``jax.jit``, where JAX is installed: for information.

Networks are those of `networks`, applied to arrays by the structure of their PyTorch modules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import torch
from jax import numpy as jnp

from benchmarks.case import Call, Make
from benchmarks.networks import Model, fill

LIBRARY = SimpleNamespace(
    tanh=jnp.tanh, maximum=jnp.maximum, minimum=jnp.minimum, sin=jnp.sin, cos=jnp.cos,
    clamp=jnp.clip, sigmoid=jax.nn.sigmoid, relu=jax.nn.relu, erf=jax.scipy.special.erf,
)  # fmt: skip
"""What a chain calls, by PyTorch's names."""


def waiting(function: Callable[..., Any], *arguments: Any) -> Call:
    """Calls are asynchronous: one is over when its results are there."""
    return lambda: jax.block_until_ready(function(*arguments))


def chain(make: Make, dtype: str, arrays: list[np.ndarray]) -> Call:
    return waiting(jax.jit(make(LIBRARY)), *(jnp.asarray(a, dtype) for a in arrays))


# ---- training steps


class Forward:
    """One pass of a network in training mode."""

    def __init__(self, values: dict[str, Any], buffers: dict[str, Any], bf16: bool) -> None:
        self.values, self.buffers, self.bf16 = values, dict(buffers), bf16

    def __call__(self, module: Any, x: Any, name: str = "") -> Any:
        """``name`` ends in a dot, or is empty for the network itself."""
        return getattr(self, type(module).__name__.lower())(module, x, name)

    def child(self, module: Any, name: str, x: Any, inner: str) -> Any:
        return self(getattr(module, inner), x, f"{name}{inner}.")

    def product(self, function: Callable[..., Any], x: Any, name: str, shape: Any) -> Any:
        """``function(x, weight)`` and the bias; as autocast has them, in bfloat16."""
        weight, bias = self.values[f"{name}weight"], self.values.get(f"{name}bias")
        if self.bf16:
            x, weight = x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
        y = function(x, weight)
        return y if bias is None else y + bias.astype(y.dtype).reshape(shape)

    def sequential(self, module: Any, x: Any, name: str) -> Any:
        for inner in module._modules:
            x = self.child(module, name, x, inner)
        return x

    def linear(self, _: Any, x: Any, name: str) -> Any:
        return self.product(lambda x, w: x @ w.T, x, name, -1)

    def conv2d(self, module: Any, x: Any, name: str) -> Any:
        padding = [(p, p) for p in module.padding]
        function = partial(
            jax.lax.conv_general_dilated, window_strides=module.stride, padding=padding
        )
        return self.product(function, x, name, (-1, 1, 1))

    def batchnorm2d(self, module: Any, x: Any, name: str) -> Any:
        n = x.size // x.shape[1]
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        for of, value in (("mean", mean), ("var", variance * (n / (n - 1)))):
            key = f"{name}running_{of}"
            self.buffers[key] += module.momentum * (value - self.buffers[key])
        scale = self.values[f"{name}weight"] / jnp.sqrt(variance + module.eps)
        shift = self.values[f"{name}bias"] - mean * scale
        return x * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1)

    def layernorm(self, module: Any, x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        y = centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + module.eps)
        return y * self.values[f"{name}weight"] + self.values[f"{name}bias"]

    def relu(self, _: Any, x: Any, name: str) -> Any:
        return jax.nn.relu(x)

    def gelu(self, _: Any, x: Any, name: str) -> Any:
        return jax.nn.gelu(x, approximate=False)

    def maxpool2d(self, module: Any, x: Any, name: str) -> Any:
        window = (1, 1, module.kernel_size, module.kernel_size)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def flatten(self, _: Any, x: Any, name: str) -> Any:
        return x.reshape(len(x), -1)

    def embedding(self, _: Any, x: Any, name: str) -> Any:
        return self.values[f"{name}weight"][x]

    def block(self, module: Any, x: Any, name: str) -> Any:
        """Of `networks.gpt`."""
        inner = partial(self.child, module, name)
        qkv = inner(inner(x, "norm1"), "qkv")
        q, k, v = (a.reshape(*x.shape[:2], module.heads, -1) for a in jnp.split(qkv, 3, -1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + inner(y.reshape(x.shape), "out")
        return x + inner(inner(x, "norm2"), "mlp")

    def decoder(self, module: Any, x: Any, name: str) -> Any:
        inner = partial(self.child, module, name)
        h = inner(x, "tokens") + inner(jnp.arange(x.shape[1]), "positions")
        return inner(inner(inner(h, "blocks"), "norm"), "head")


def adamw(p: Any, g: Any, first: Any, second: Any, turn: Any) -> tuple[Any, Any, Any]:
    """Loshchilov and Hutter 2019, with PyTorch's defaults and a rate of 0.001."""
    first = 0.9 * first + 0.1 * g
    second = 0.999 * second + 0.001 * g * g
    denominator = jnp.sqrt(second) / jnp.sqrt(1 - 0.999**turn) + 1e-8
    p = p * (1 - 1e-3 * 1e-2) - 1e-3 / (1 - 0.9**turn) * first / denominator
    return p, first, second


def training(model: Model, classes: int, bf16: bool, arrays: list[np.ndarray]) -> Call:
    """The step of `training.training` with AdamW; its parameters are given back to be reused."""
    network = fill(torch, model(torch))

    def loss_of(values: Any, buffers: Any, x: Any, y: Any) -> Any:
        forward = Forward(values, buffers, bf16)
        logits = forward(network, x).reshape(-1, classes).astype(jnp.float32)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y.reshape(-1, 1), 1)
        return -chosen.mean(), forward.buffers

    @partial(jax.jit, donate_argnums=0)
    def step(state: Any, x: Any, y: Any) -> Any:
        values, buffers, moments, turn = state
        outcome = jax.value_and_grad(loss_of, has_aux=True)(values, buffers, x, y)
        (loss, buffers), gradients = outcome
        turn = turn + 1
        found = {n: adamw(p, gradients[n], *moments[n], turn) for n, p in values.items()}
        values = {name: p for name, (p, *_) in found.items()}
        moments = {name: pair for name, (_, *pair) in found.items()}
        return (values, buffers, moments, turn), loss

    def arrays_of(named: Any) -> dict[str, Any]:
        return {name: jnp.array(t.detach().numpy()) for name, t in named if t.is_floating_point()}

    values = arrays_of(network.named_parameters())
    moments = {name: [jnp.zeros_like(p), jnp.zeros_like(p)] for name, p in values.items()}
    state = values, arrays_of(network.named_buffers()), moments, jnp.zeros(())
    x, y = map(jnp.asarray, arrays)

    def call() -> Any:
        nonlocal state
        state, loss = jax.block_until_ready(step(state, x, y))
        return loss

    return call


# ---- loops


def recurrent(hidden: int, arrays: list[np.ndarray]) -> Call:
    """The case of `compile.recurrent`."""

    def loss_of(xs: Any, inward: Any, across: Any, bias: Any) -> Any:
        weights = inward * inward.shape[0] ** -0.5, across * hidden**-0.5

        def cell(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x @ weights[0] + h @ weights[1] + bias, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((xs.shape[1], hidden))
        ys = jax.lax.scan(cell, (zeros, zeros), xs)[1]
        return (ys * ys).mean(), ys

    @jax.jit
    def call(*inputs: Any) -> Any:
        of = jax.value_and_grad(loss_of, argnums=(0, 1, 2, 3), has_aux=True)
        (_, ys), gradients = of(*inputs)
        return ys, *gradients

    return waiting(call, *map(jnp.asarray, arrays))
