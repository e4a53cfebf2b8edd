"""Convolution layers beyond the table of layers: output sizes and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import references_spatial as ref
import tinyt
from tinyt import nn


@pytest.mark.parametrize("size", [(9, 7), (10, 8), (1, 2, 10, 7)])
def test_transposed_layer_makes_the_size_asked_for(size: tuple[int, ...]) -> None:
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    out = layer(tinyt.ones(1, 3, 5, 4), output_size=size)
    assert tuple(out.shape) == (1, 2, *size[-2:])
    # It undoes the size of a convolution with the same arguments.
    assert tuple(nn.Conv2d(2, 3, 3, stride=2, padding=1)(out).shape) == (1, 3, 5, 4)


@pytest.mark.parametrize("size", [(8, 7), (11, 7), (9,), (1, 9, 7)])
def test_transposed_layer_refuses_other_sizes(size: tuple[int, ...]) -> None:
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    with pytest.raises(ValueError, match=r"ConvTranspose2d.*output_size"):
        layer(tinyt.ones(1, 3, 5, 4), output_size=size)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Conv2d", {"groups": 0}, "groups must be a positive"),
        ("Conv2d", {"groups": 3}, "in_channels must be divisible"),
        ("Conv1d", {"kernel_size": (3, 3)}, r"Conv1d: kernel_size.*\(3, 3\)"),
        ("Conv2d", {"padding": "full"}, "'full'"),
        ("Conv2d", {"padding": "same", "stride": 2}, "strided"),
        ("Conv2d", {"padding_mode": "mirror"}, r"Conv2d: padding_mode.*'mirror'"),
        ("ConvTranspose2d", {"padding_mode": "reflect"}, r"ConvTranspose2d.*'reflect'"),
        ("ConvTranspose2d", {"groups": 4}, "out_channels must be divisible"),
    ],
)
def test_refused_arguments(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(nn, name)(4, 6, **({"kernel_size": 3} | arguments))


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16, tinyt.int32, tinyt.int64])
def test_transposed_convolution_of_other_dtypes(
    dtype: tinyt.dtype, rng: np.random.Generator
) -> None:
    """Small integers: exact in every dtype."""
    x, w = rng.integers(-3, 4, (1, 2, 4)), rng.integers(-3, 4, (2, 1, 3))
    want = tinyt.conv_transpose1d(tinyt.tensor(x).double(), tinyt.tensor(w).double(), stride=2)
    got = tinyt.conv_transpose1d(tinyt.tensor(x).to(dtype), tinyt.tensor(w).to(dtype), stride=2)
    assert got.dtype is dtype
    assert got.double().tolist() == want.tolist()


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_gradients_of_larger_planes(stride: int, groups: int, rng: np.random.Generator) -> None:
    """Cut into bands and phases: both gradients are the adjoints of the convolution, in all
    numbers of threads with the same bits."""
    shape, kernel = (2, 6, 75, 90), (6, 6 // groups, 3, 5)
    x, w, other_x, other_w = (rng.normal(size=s) for s in (shape, kernel, shape, kernel))

    def conv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return ref.conv(a, b, None, stride, 2, (1, 2), groups)

    results = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            tx, tw = (tinyt.tensor(a, requires_grad=True) for a in (x, w))
            y = tinyt.conv2d(tx, tw, None, stride, 2, (1, 2), groups)
            g = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
            y.backward(tinyt.tensor(g))
        results.append([t.detach().numpy() for t in (y, tx.grad, tw.grad)])
    for once, again in zip(*results, strict=True):
        np.testing.assert_array_equal(once, again)
    out, dx, dw = results[0]
    np.testing.assert_allclose(out, conv(x, w), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((dx * other_x).sum(), (g * conv(other_x, w)).sum(), rtol=1e-9)
    np.testing.assert_allclose((dw * other_w).sum(), (g * conv(x, other_w)).sum(), rtol=1e-9)
