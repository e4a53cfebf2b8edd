"""Dropout: how often, to what value, whole channels, in place, and which words of the stream."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tinyt
from sampling import assert_same_bits
from tinyt import nn
from tinyt.nn import functional as F

N = 200_000
P_VALUE = 1e-3


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_elements_are_dropped_with_probability_p(p: float) -> None:
    tinyt.manual_seed(3)
    kept = F.dropout(tinyt.ones(N), p, True).numpy()
    np.testing.assert_array_equal(np.unique(kept), np.array([0, 1 / (1 - p)], np.float32))
    assert stats.binomtest(int((kept == 0).sum()), N, p).pvalue > P_VALUE


@pytest.mark.parametrize("p", [0.2, 0.6])
def test_alpha_dropout_keeps_mean_and_variance(p: float) -> None:
    tinyt.manual_seed(3)
    out = F.alpha_dropout(tinyt.randn(N, dtype=tinyt.float64), p, True).numpy()
    assert abs(out.mean()) < 5 / math.sqrt(N)
    assert abs(out.var() - 1) < 10 / math.sqrt(N)
    # A dropped element has one value: -alpha of SELU, moved and scaled as all others.
    a = 1 / math.sqrt((1.7580993408473766**2 * p + 1) * (1 - p))
    dropped = np.isclose(out, a * 1.7580993408473766 * (p - 1), rtol=1e-6)
    assert stats.binomtest(int(dropped.sum()), N, p).pvalue > P_VALUE


CHANNELS = [
    ("feature_dropout", (20, 30), (1, 1)),
    ("feature_dropout", (20, 30, 5), (1, 1, 5)),
    ("feature_alpha_dropout", (20, 30, 5, 2), (1, 1, 5, 2)),
    ("dropout1d", (20, 30, 5), (1, 1, 5)),
    ("dropout1d", (600, 5), (1, 5)),
    ("dropout2d", (20, 30, 5, 2), (1, 1, 5, 2)),
    ("dropout3d", (20, 30, 5, 2, 3), (1, 1, 5, 2, 3)),
    ("dropout3d", (600, 5, 2, 3), (1, 5, 2, 3)),
]


@pytest.mark.parametrize(("name", "shape", "channel"), CHANNELS)
def test_whole_channels(name: str, shape: tuple[int, ...], channel: tuple[int, ...]) -> None:
    tinyt.manual_seed(1)
    function = getattr(F, name, None) or getattr(tinyt, name)
    out = function(tinyt.ones(shape), 0.5, True)
    first = out[tuple(slice(0, 1) if n != 1 else slice(None) for n in channel)]
    assert tuple(first.shape) != shape or first.numel() == 600
    one = out.numpy().reshape(600, -1)
    assert bool((one == one[:, :1]).all())
    low = int((one[:, 0] < one.max()).sum())
    assert stats.binomtest(low, 600, 0.5).pvalue > P_VALUE
    # One draw a channel: 600 of them take 150 counters.
    assert tinyt.get_rng_state().tolist() == [1, 150]


IN_PLACE = ["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str) -> None:
    """Same draws, same values, same gradients as the form that is not."""
    leaves, outputs = [], []
    for suffix in ("", "_"):
        tinyt.manual_seed(2)
        leaf = tinyt.randn(4, 6, 3).requires_grad_()
        x = leaf * 1
        out = getattr(tinyt, name + suffix)(x, 0.4, True)
        assert (out is x) == (suffix == "_")
        (out * out).sum().backward()
        leaves.append(leaf.grad)
        outputs.append(out.detach())
    assert_same_bits(*outputs)
    assert_same_bits(*leaves)


def test_inplace_argument() -> None:
    for function, shape in (
        (F.dropout, (8,)),
        (F.alpha_dropout, (8,)),
        (F.dropout1d, (3, 4)),
        (F.dropout2d, (2, 3, 4, 4)),
        (F.dropout3d, (3, 2, 4, 4)),
    ):
        x = tinyt.ones(shape)
        assert function(x, 0.5, True, True) is x
        assert not tinyt.equal(x, tinyt.ones(shape))
    layer: Any = nn.Dropout(0.5, inplace=True)
    x = tinyt.ones(5)
    assert layer(x) is x
    assert layer.eval()(x) is x


def test_gradient_is_the_noise() -> None:
    x = tinyt.ones(1000, requires_grad=True)
    out = F.dropout(x, 0.3)
    out.sum().backward()
    assert_same_bits(x.grad, out.detach())


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16, tinyt.float64])
def test_dtype_stays(dtype: tinyt.dtype) -> None:
    for function in (F.dropout, F.alpha_dropout):
        assert function(tinyt.ones(9, dtype=dtype), 0.5, True).dtype is dtype


def test_wrong_shapes() -> None:
    for function, x in (
        (F.dropout1d, tinyt.ones(3)),
        (F.feature_alpha_dropout, tinyt.ones(3)),
    ):
        with pytest.raises(RuntimeError, match=r"\(3,\)"):
            function(x, 0.5, True)
    with pytest.raises(RuntimeError, match=r"dropout: .*int64"):
        F.dropout(tinyt.arange(3))
    with pytest.warns(UserWarning, match=r"dropout2d.*\(2, 3, 4\)"):
        F.dropout2d(tinyt.ones(2, 3, 4), 0.0)
    with pytest.warns(UserWarning, match=r"dropout3d.*\(2, 3, 4\)"):
        F.dropout3d(tinyt.ones(2, 3, 4), 0.0)
