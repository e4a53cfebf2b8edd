"""Fused rows of the op table against their composites."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from fused_samples import ACTIVATIONS, CALLS
from sampling import flat
from tinyt import _core, decompositions
from tinyt.tensor import prim

FUSED = [row["name"] for row in _core.op_table() if "fused" in row["flags"]]


def test_every_fused_row_has_a_composite() -> None:
    assert sorted(FUSED) == sorted(decompositions.table())


SHAPES = [(3, 7), (2, 5, 33), (1, 1), (4, 5000), (0, 3), (300, 3)]


@pytest.mark.parametrize("name", sorted(decompositions.table()))
@pytest.mark.parametrize("shape", SHAPES)
def test_fused_equals_its_composite(name: str, shape: tuple[int, ...], rng: Any) -> None:
    x = tinyt.tensor(rng.standard_normal(shape) * 4)
    for args in CALLS[name](x, rng):
        fused, composed = getattr(prim, name)(*args), decompositions.table()[name](*args)
        for got, want in zip(flat(fused), flat(composed), strict=True):
            np.testing.assert_allclose(
                got.numpy(force=True), want.numpy(force=True), rtol=1e-12, atol=1e-12
            )


WITH_GRADIENT = [
    "matmul_add",
    "linear",
    "softmax",
    "softmax_nll",
    "attention",
    "lstm",
    "log_softmax",
    "layer_norm",
    "group_norm",
    "batch_norm",
    "leaky_relu",
    "elu",
    "sigmoid_nll",
    "nansum",
    "norm",
    "var",
    "logsumexp",
]


@pytest.mark.parametrize("name", [*WITH_GRADIENT, "softplus", *ACTIVATIONS])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_of_fused_equals_its_composites(
    name: str, shape: tuple[int, ...], rng: Any
) -> None:
    data = tinyt.tensor(rng.standard_normal(shape) * 4)
    for args in CALLS[name](data, rng):
        seed = None
        gradients = []
        for function in (getattr(prim, name), decompositions.table()[name]):
            leaves = [
                a.detach().clone().requires_grad_(a.is_floating_point())
                if isinstance(a, tinyt.Tensor)
                else a
                for a in args
            ]
            out = next(flat(function(*leaves)))
            if seed is None:
                seed = tinyt.tensor(np.asarray(rng.standard_normal(out.shape)))
            out.backward(seed)
            gradients.append([a.grad for a in leaves if isinstance(a, tinyt.Tensor) and a.dim()])
        for got, want in zip(*gradients, strict=True):
            if got is not None:  # class weights and indices get none
                np.testing.assert_allclose(
                    got.numpy(force=True), want.numpy(force=True), rtol=1e-9, atol=1e-11
                )


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "hardswish", "logsigmoid"])
def test_activations_far_from_zero(name: str, dtype: tinyt.dtype) -> None:
    """Nothing overflows in the composites, either."""
    x = tinyt.tensor([np.inf, -np.inf, np.nan, 1e30, -1e30, 60, -60], dtype=dtype)
    table = decompositions.table()
    for row, args in ((name, (x,)), (f"{name}_backward", (tinyt.ones_like(x), x))):
        want = getattr(prim, row)(*args)
        np.testing.assert_allclose(table[row](*args).numpy(force=True), want.numpy(force=True))
