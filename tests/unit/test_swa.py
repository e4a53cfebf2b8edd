"""Averages of weights, as PyTorch's `optim.swa_utils`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn
from tinyt.optim import swa_utils

try:
    import torch
except ImportError:
    torch = None

KINDS: list[Any] = [
    lambda s: {},
    lambda s: {"multi_avg_fn": s.get_ema_multi_avg_fn(0.9)},
    lambda s: {"avg_fn": s.get_ema_avg_fn(0.8), "use_buffers": True},
    lambda s: {"avg_fn": s.get_swa_avg_fn()},
]


def network(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.BatchNorm1d(2, momentum=0.5))
    with tt.no_grad():
        net[0].weight.copy_(tt.tensor([[1.0, 2.0], [-1.0, 0.5]]))
        net[0].bias.zero_()
    return net.double()


def averaged(tt: Any, kind: Any) -> list[Any]:
    net = network(tt)
    average = tt.optim.swa_utils.AveragedModel(net, **kind(tt.optim.swa_utils))
    for step in range(4):
        x = tt.arange(6.0, dtype=tt.float64).reshape(3, 2) * (step + 1)
        net(x)
        with tt.no_grad():
            for p in net.parameters():
                p.add_(0.1 * (step + 1))
        average.update_parameters(net)
    tt.optim.swa_utils.update_bn([(x,), (x * 2,)], average)
    return [v.tolist() for v in average.state_dict().values()]


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_as_pytorch(kind: int) -> None:
    for ours, theirs in zip(
        averaged(tinyt, KINDS[kind]), averaged(torch, KINDS[kind]), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_the_mean_of_all() -> None:
    net = nn.Linear(1, 1, bias=False)
    average = swa_utils.AveragedModel(net)
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(net.weight, value)
        average.update_parameters(net)
    assert average.module.weight.item() == pytest.approx(3.0)
    assert average(tinyt.ones(1, 1)).item() == pytest.approx(3.0)
    assert average.n_averaged.item() == 3
    assert net.weight.item() == 6.0


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"decay value 1\.5"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(AssertionError, match="Only one"):
        swa_utils.AveragedModel(
            nn.ReLU(),
            avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )
