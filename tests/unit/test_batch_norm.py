"""Batch norm of halves: computed in float32, a channel at a time where channels are long rows."""

from __future__ import annotations

import numpy as np
import pytest

import tinyt
from tinyt.nn import functional as F


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
@pytest.mark.parametrize("shape", [(6, 5, 4, 4), (3, 40, 17), (300, 3, 3), (4, 3, 130, 70)])
@pytest.mark.parametrize("training", [True, False])
def test_halves(
    dtype: tinyt.dtype, shape: tuple[int, ...], training: bool, rng: np.random.Generator
) -> None:
    """Rounded once, and the same bits for any number of threads."""
    x, g = (tinyt.tensor(rng.normal(size=shape)).to(dtype) for _ in range(2))
    wide_x, wide_g = x.double().numpy(), g.double().numpy()
    axes, one = (0, *range(2, len(shape))), (1, -1) + (1,) * (len(shape) - 2)
    mean, var = wide_x.mean(axes), wide_x.var(axes)
    if not training:
        mean, var = rng.normal(size=shape[1]), rng.uniform(0.5, 2, shape[1])
    scale = 1 / np.sqrt(var + 1e-5).reshape(one)
    centred = (wide_x - mean.reshape(one)) * scale
    dx = wide_g
    if training:
        dx = wide_g - wide_g.mean(axes, keepdims=True)
        dx = dx - centred * (wide_g * centred).mean(axes, keepdims=True)
    results = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            leaf = x.detach().requires_grad_()
            running = (tinyt.tensor(mean).to(dtype), tinyt.tensor(var).to(dtype))
            if not training:
                mean, var = (t.double().numpy() for t in running)
                scale = 1 / np.sqrt(var + 1e-5).reshape(one)
                centred = (wide_x - mean.reshape(one)) * scale
            y = F.batch_norm(leaf, *running, training=training)
            y.backward(g)
        assert y.dtype is dtype
        assert leaf.grad is not None
        results.append([t.detach().double().numpy() for t in (y, leaf.grad)])
    half = 2**-11 if dtype is tinyt.float16 else 2**-8  # of the last place
    for once, again, want in zip(*results, (centred, dx * scale), strict=True):
        np.testing.assert_array_equal(once, again)
        np.testing.assert_allclose(once, want, rtol=half, atol=2e-5)


@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 4), (2, 3, 700)])
def test_given_statistics_pass_the_gradient_on_whatever_is_in_the_input(
    shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    """As in PyTorch; zeros keep their signs."""
    x, g = rng.normal(size=shape), rng.normal(size=shape)
    x[0, 0], x[1, 1] = np.nan, np.inf
    g[0, 2], g[0, 0] = -0.0, np.inf
    mean, var, weight = np.array([1.0, 0.0, np.nan]), np.array([3.0, 0.0, 15.0]), rng.normal(size=3)
    leaf = tinyt.tensor(x, requires_grad=True)
    running = tinyt.tensor(mean), tinyt.tensor(var)
    y = F.batch_norm(leaf, *running, tinyt.tensor(weight), eps=1.0)
    (dx,) = tinyt.autograd.grad(y, [leaf], [tinyt.tensor(g)])
    one = (1, -1) + (1,) * (len(shape) - 2)
    want = g * weight.reshape(one) * np.array([0.5, 1.0, 0.25]).reshape(one)
    assert dx.numpy().tobytes() == want.tobytes()
