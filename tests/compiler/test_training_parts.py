"""Parts of training steps whose numbers come from state."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinyt
from flow import bits
from tinyt import Tensor, nn
from tinyt.compile import compile


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
