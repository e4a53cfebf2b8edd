"""Normalisations and their gradients: values where kernels change paths, the same bits always."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.tensor import prim

# Channels with no, little and some space; more rows than a block; odd ends of registers.
CHANNELS = [(2, 3), (129, 35), (300, 7, 2), (5, 6, 15), (5, 6, 16), (3, 4, 5, 7), (257, 2, 3)]


def standardised(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    centred = x - x.mean(axes, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)
    return centred * scale, scale


def of_input(u: Any, h: Any, scale: Any, axes: tuple[int, ...]) -> Any:
    mean = {"axis": axes, "keepdims": True}
    return scale * (u - u.mean(**mean) - h * (u * h).mean(**mean))


def check(function: Callable[..., Any], arrays: list[Any], g: Any, wanted: list[Any]) -> None:
    """Output and gradients of float64 arrays, and of float32 ones."""
    for dtype, close in (("float64", 1e-11), ("float32", 2e-4)):
        leaves = [tinyt.tensor(a.astype(dtype)).requires_grad_() for a in arrays]
        out = function(*leaves)
        out.backward(tinyt.tensor(g.astype(dtype)))
        for got, want in zip([out.detach(), *(a.grad for a in leaves)], wanted, strict=True):
            size = max(1.0, float(np.abs(want).max()))
            np.testing.assert_allclose(got.numpy(force=True), want, rtol=close, atol=close * size)


def per_channel(rng: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """x, g, weight, bias, the latter two also to be broadcast."""
    x, g = rng.standard_normal(shape) * 3 + 2, rng.standard_normal(shape)
    w, b = (rng.standard_normal(shape[1]) for _ in range(2))
    wide = (-1, *(1,) * (len(shape) - 2))
    return x, g, w, b, w.reshape(wide), b.reshape(wide)


@pytest.mark.parametrize("shape", CHANNELS)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape: tuple[int, ...], training: bool, rng: Any) -> None:
    x, g, w, b, wide_w, wide_b = per_channel(rng, shape)
    axes = tuple(d for d in range(len(shape)) if d != 1)
    mean, var = rng.standard_normal(shape[1]), rng.uniform(0.5, 2, shape[1])
    if training:
        h, scale = standardised(x, axes, 1e-3)
        dx = of_input(g * wide_w, h, scale, axes)
    else:
        scale = 1 / np.sqrt(var + 1e-3).reshape(wide_w.shape)
        h = (x - mean.reshape(wide_w.shape)) * scale
        dx = g * wide_w * scale

    def function(x: Any, w: Any, b: Any) -> Any:
        running = [tinyt.tensor(t).to(x.dtype) for t in (mean, var)]
        return tinyt.nn.functional.batch_norm(x, *running, w, b, training, eps=1e-3)

    sums = [(g * h).sum(axes), g.sum(axes)]
    check(function, [x, w, b], g, [h * wide_w + wide_b, dx, *sums])


@pytest.mark.parametrize("shape", CHANNELS)
def test_group_norm(shape: tuple[int, ...], rng: Any) -> None:
    x, g, w, b, wide_w, wide_b = per_channel(rng, shape)
    batch, channels = shape[:2]
    for groups in {1, channels} - ({channels} if len(shape) == 2 else set()):
        split = (batch, groups, -1)
        h, scale = standardised(x.reshape(split), (2,), 1e-3)
        dx = of_input((g * wide_w).reshape(split), h, scale, (2,)).reshape(shape)
        h = h.reshape(shape)
        axes = tuple(d for d in range(len(shape)) if d != 1)
        check(
            lambda x, w, b, groups=groups: tinyt.nn.functional.group_norm(x, groups, w, b, 1e-3),
            [x, w, b], g,
            [h * wide_w + wide_b, dx, (g * h).sum(axes), g.sum(axes)],
        )  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 5), (127, 33), (70, 1000), (3, 5000), (2, 12289), (1, 1)])
def test_layer_norm(shape: tuple[int, int], rng: Any) -> None:
    x, g = rng.standard_normal(shape) * 3 + 2, rng.standard_normal(shape)
    w, b = (rng.standard_normal(shape[1]) for _ in range(2))
    h, scale = standardised(x, (1,), 1e-3)
    dx = of_input(g * w, h, scale, (1,))
    check(
        lambda x, w, b: tinyt.nn.functional.layer_norm(x, shape[1:], w, b, 1e-3),
        [x, w, b], g, [h * w + b, dx, (g * h).sum(0), g.sum(0)],
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 16, 96, 256, 257, 512, 513])
def test_rows_computed_together_have_the_bits_of_one(n: int, dtype: type, rng: Any) -> None:
    x = tinyt.tensor((rng.standard_normal((37, n)) * 3 + 2).astype(dtype))
    w, b = (tinyt.tensor(rng.standard_normal(n).astype(dtype)) for _ in range(2))
    for center in (True, False):
        found = prim.layer_norm(x, w, b, 1, center, 1e-5)
        for i in range(37):
            alone = prim.layer_norm(x[i : i + 1], w, b, 1, center, 1e-5)
            for got, want in zip(found, alone, strict=True):
                np.testing.assert_array_equal(
                    got[i : i + 1].numpy(force=True), want.numpy(force=True)
                )


def test_no_rows() -> None:
    """Gradients of parameters of an empty batch are zeros."""
    functional = tinyt.nn.functional
    for x, function in (
        (tinyt.ones(0, 4), lambda x, w: functional.layer_norm(x, (4,), w)),
        (tinyt.ones(0, 4, 3), lambda x, w: functional.group_norm(x, 2, w)),
        (tinyt.ones(0, 4, 3), lambda x, w: functional.batch_norm(x, None, None, w, training=True)),
        (tinyt.ones(0, 4, 20), lambda x, w: functional.batch_norm(x, None, None, w, training=True)),
        (tinyt.ones(2, 4, 0), lambda x, w: functional.batch_norm(x, None, None, w, training=True)),
    ):
        w = tinyt.ones(4, requires_grad=True)
        function(x, w).sum().backward()
        assert w.grad.tolist() == [0.0] * 4


def test_threads_change_no_bits(rng: Any) -> None:
    """More than one block of every kind of work; strides and half precision included."""
    functional = tinyt.nn.functional
    data = {s: rng.standard_normal(s).astype("float32") for s in ((700, 300), (6, 64, 10, 30))}
    calls = [
        (lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), -1),
        (lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True), 1),
        (lambda x, w, b: functional.group_norm(x, 4, w, b), 1),
    ]

    def results() -> list[Any]:
        found = []
        for array in data.values():
            for function, dim in calls:
                for dtype in (tinyt.float32, tinyt.bfloat16):
                    leaves = [tinyt.tensor(array).to(dtype)]
                    size = array.shape[dim]
                    leaves += [tinyt.linspace(0.5, 2, size).to(dtype) for _ in range(2)]
                    for leaf in leaves:
                        leaf.requires_grad_()
                    out = function(*leaves)
                    (out * out).sum().backward()
                    found += [
                        t.float().detach().numpy(force=True)
                        for t in (out, *(a.grad for a in leaves))
                    ]
        return found

    tinyt.set_num_threads(1)
    want = results()
    for threads in (2, 3, 7):
        tinyt.set_num_threads(threads)
        for a, b in zip(results(), want, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n", [40, 9001])
def test_far_from_zero(n: int, rng: Any) -> None:
    """The mean of float32 rounds, the distances from it must not."""
    x = (4096 + rng.standard_normal((2, 3, n))).astype("float32")
    functional, t = tinyt.nn.functional, tinyt.tensor(x)
    for got, axes in (
        (functional.layer_norm(t, (n,)), (2,)),
        (functional.group_norm(t, 3), (2,)),
        (functional.batch_norm(t, None, None, training=True), (0, 2)),
    ):
        want, _ = standardised(x.astype("float64"), axes, 1e-5)
        np.testing.assert_allclose(got.numpy(force=True), want, atol=5e-4)


# Over 40 MiB results are written past the caches, in pieces that begin anywhere in a line.
FUNCTIONAL = tinyt.nn.functional
ROWS, IMAGES, LAST = (10339, 1039), (23, 5, 97, 983), slice(-33, None)
LARGE: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[slice, ...]]] = {
    "softmax": (lambda x: x.softmax(1), ROWS, (LAST,)),
    "log_softmax over columns": (lambda x: x.log_softmax(0), ROWS, (slice(None), LAST)),
    "cross_entropy": (
        lambda x: FUNCTIONAL.cross_entropy(
            x, tinyt.full((len(x),), 7, dtype=tinyt.int64), reduction="sum"
        ),
        ROWS,
        (LAST,),
    ),
    "layer_norm": (lambda x: FUNCTIONAL.layer_norm(x, (1039,)), ROWS, (LAST,)),
    "batch_norm": (
        lambda x: FUNCTIONAL.batch_norm(x, None, None, training=True),
        IMAGES,
        (slice(None), slice(3, 4)),
    ),
    "group_norm": (lambda x: FUNCTIONAL.group_norm(x, 5), IMAGES, (slice(4, 5),)),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_results_have_the_bits_of_small_ones(name: str) -> None:
    function, shape, part = LARGE[name]
    values = (tinyt.arange(math.prod(shape), dtype=tinyt.float32) % 1009).reshape(shape) / 500
    found = []
    for x in (values, values[part].contiguous()):
        leaf = x.detach().requires_grad_()
        out = function(leaf)
        out.backward(x - 1 if out.dim() else None)
        found.append((out.detach(), leaf.grad))
    (whole, of_whole), (alone, of_alone) = found
    if whole.dim():
        assert tinyt.equal(alone, whole[part])
    assert tinyt.equal(of_alone, of_whole[part])


def test_strides_change_no_bits(rng: Any) -> None:
    x = tinyt.tensor(rng.standard_normal((4, 7, 9, 8)).astype("float32"))
    w = tinyt.linspace(0.5, 2, 8)
    functional = tinyt.nn.functional
    for function in (
        lambda x: functional.batch_norm(x, None, None, w, w, training=True),
        lambda x: functional.group_norm(x, 2, w, w),
    ):
        turned = x.permute(0, 3, 1, 2)
        outputs, gradients = [], []
        for view in (turned, turned.contiguous()):
            leaf = view.detach().requires_grad_()
            out = function(leaf)
            out.backward(turned)
            outputs.append(out.detach().numpy(force=True))
            gradients.append(leaf.grad.numpy(force=True))
        np.testing.assert_array_equal(*outputs)
        np.testing.assert_array_equal(*gradients)
