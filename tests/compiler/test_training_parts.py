"""Parts of training steps: what comes from state, and what tells recordings apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from flow import bits
from tinyt import Tensor, nn, optim
from tinyt.compile import compile
from tinyt.compiler.compare import difference


def test_the_cumulative_average_of_batch_norm() -> None:
    def train(compiled: bool) -> Any:
        tinyt.manual_seed(0)
        net = nn.BatchNorm1d(3, momentum=None)

        def step(x: Tensor) -> Tensor:
            return net(x).detach()

        run = compile(step) if compiled else step
        batches = [tinyt.randn(4, 3) for _ in range(6)]
        found = [bits(run(x)) for x in batches]
        if compiled:
            assert run.cache_info().currsize == 1
        means = np.mean([x.numpy().mean(0) for x in batches], axis=0)
        np.testing.assert_allclose(net.running_mean.numpy(), means, rtol=1e-5, atol=1e-6)
        return found, bits(dict(net.state_dict()))

    assert train(True) == train(False)


@pytest.mark.parametrize("option", ["nesterov", "maximize"])
def test_recordings_of_optimisers_that_differ_in_an_option_differ(option: str) -> None:
    """Also where what is recorded reads and writes the same tensors."""
    w = nn.Parameter(tinyt.ones(3))
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compile(step)
    for value in (False, True):
        optimizer.param_groups[0][option] = value
        run(tinyt.ones(3))
    one, other = (entry.capture for entry in run.entries)
    assert "was SGD" in str(difference(one, other))
    assert difference(one, one) is None
