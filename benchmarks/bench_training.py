"""One training step of the networks of ``tinyt train digits``, batch 64, in both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tinyt
from benchmarks.harness import compare, report


def cnn(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip


def mlp(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def step_of(lib: Any, make: Callable[[Any], Any]) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    model = make(lib)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)
    loss = lib.nn.CrossEntropyLoss()
    x = lib.from_numpy(rng.standard_normal((64, 1, 8, 8), dtype=np.float32))
    y = lib.from_numpy(rng.integers(0, 10, 64))

    def step() -> None:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()

    return step


def memory_of(step: Callable[[], None]) -> str:
    """Allocations and peak bytes of one step of a warm program."""
    step()
    before = tinyt.memory.statistics()
    tinyt.memory.reset_peak()
    step()
    after = tinyt.memory.statistics()
    count = after["allocations"] - before["allocations"]
    system = after["system_allocations"] - before["system_allocations"]
    return f"{count} allocations ({system} of the system), peak {after['peak_bytes'] / 1e6:.2f} MB"


def main() -> None:
    torch.set_num_threads(tinyt.get_num_threads())
    cases = [
        compare(f"{make.__name__} step, batch 64", step_of(tinyt, make), step_of(torch, make))
        for make in (mlp, cnn)
    ]
    report("training", cases)
    for make in (mlp, cnn):
        print(f"{make.__name__} step: {memory_of(step_of(tinyt, make))}")


if __name__ == "__main__":
    main()
