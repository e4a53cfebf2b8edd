"""`GradScaler`: the dtypes that it scales to, and when it steps, shrinks and grows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tinyt

LIBRARIES = tinyt, torch


@pytest.mark.parametrize("shape", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_scaled(dtype: str, shape: tuple[int, ...]) -> None:
    """A loss of float16 is scaled beyond the numbers of float16 where it is one number."""

    def scaled(lib: Any) -> tuple[str, Any]:
        x = lib.full(shape, 2, dtype=getattr(lib, dtype))
        y = lib.amp.GradScaler("cpu").scale(x)
        return str(y.dtype).split(".")[-1], y.tolist()

    assert scaled(tinyt) == scaled(torch)


def test_steps() -> None:
    def steps(lib: Any) -> list[Any]:
        net = lib.nn.Linear(1, 1, bias=False)
        with lib.no_grad():
            net.weight.fill_(0.5)
        optimizer = lib.optim.SGD(net.parameters(), lr=0.25)
        scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        found = []
        for value in (1.0, 2.0, 1.0, math.inf, 3.0, math.nan, 1.0, 1.0, -math.inf, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale(net(lib.tensor([[value]])).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append((scaler.state_dict(), net.weight.item()))
        return found

    assert steps(tinyt) == steps(torch)
