"""Whole networks: PyTorch's losses over 50 steps, and flat memory over 2,000."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")


def mlp(tt: Any) -> Any:
    nn = tt.nn
    return nn.Sequential(
        nn.Linear(6, 16),
        nn.Tanh(),
        nn.LayerNorm(16),
        nn.Linear(16, 16),
        nn.ReLU(),
        nn.Linear(16, 4),
    )


def cnn(tt: Any) -> Any:
    nn = tt.nn
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, stride=2, padding=1, bias=False),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(8 * 2 * 2, 4),
    )


def transformer(tt: Any) -> Any:
    nn, functional = tt.nn, tt.nn.functional

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.norm2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            )

        def forward(self, x: Any) -> Any:
            n, length, width = x.shape
            parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
            q, k, v = (
                p.reshape(n, length, self.heads, width // self.heads).transpose(1, 2) for p in parts
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, length, width))
            return x + self.mlp(self.norm2(x))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(11, 12)
            self.position = nn.Parameter(tt.zeros(7, 12))
            self.blocks = nn.ModuleList([Block(12, 3) for _ in range(2)])
            self.head = nn.Linear(12, 11)

        def forward(self, x: Any) -> Any:
            h = self.token(x) + self.position
            for block in self.blocks:
                h = block(h)
            return self.head(h).flatten(0, 1)

    return Network()


def pictures(random: Any) -> tuple[Any, Any]:
    return random.normal(size=(8, 2, 8, 8)), random.integers(0, 4, 8)


def vectors(random: Any) -> tuple[Any, Any]:
    return random.normal(size=(16, 6)), random.integers(0, 4, 16)


def sequences(random: Any) -> tuple[Any, Any]:
    codes = random.integers(0, 11, (4, 8))
    return codes[:, :-1].copy(), codes[:, 1:].reshape(-1).copy()


MODELS: list[tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any, Any], Any]]] = [
    (
        mlp,
        vectors,
        lambda tt, p: tt.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    ),
    (cnn, pictures, lambda tt, p: tt.optim.Adam(p, lr=3e-3)),
    (transformer, sequences, lambda tt, p: tt.optim.AdamW(p, lr=3e-3, betas=(0.9, 0.98))),
]


def start(model: Any) -> dict[str, Any]:
    """The same weights for both libraries, drawn with NumPy."""
    random = np.random.default_rng(7)
    state = {}
    for name, value in model.state_dict().items():
        if value.dim() >= 2:
            state[name] = random.normal(0, 0.3, tuple(value.shape))
        else:
            state[name] = np.asarray(value.detach().numpy()).copy()
    return state


def losses(tt: Any, which: int, dtype: str, steps: int = 50) -> list[float]:
    make, batch, optimise = MODELS[which]
    model = make(tt).to(getattr(tt, dtype))
    tinyt.manual_seed(0)
    weights = {k: tt.from_numpy(np.array(v)) for k, v in start(make(tinyt)).items()}
    model.load_state_dict(weights)
    optimizer = optimise(tt, model.parameters())
    scheduler = tt.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps + 1)
    criterion = tt.nn.CrossEntropyLoss(label_smoothing=0.1)
    random, seen = np.random.default_rng(1), []
    for _ in range(steps):
        x, y = (tt.from_numpy(a) for a in batch(random))
        x = x.to(getattr(tt, dtype)) if x.is_floating_point() else x
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        tt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        seen.append(loss.item())
    return seen


@needs_torch
@pytest.mark.parametrize("which", range(3), ids=["mlp", "cnn", "transformer"])
def test_losses_in_double_precision(which: int) -> None:
    ours, theirs = losses(tinyt, which, "float64"), losses(torch, which, "float64")
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@needs_torch
@pytest.mark.parametrize("which", range(3), ids=["mlp", "cnn", "transformer"])
def test_losses_in_single_precision(which: int) -> None:
    """Rounding differs from the second step on and grows; the first ten steps agree closely."""
    ours, theirs = losses(tinyt, which, "float32"), losses(torch, which, "float32")
    np.testing.assert_allclose(ours[:10], theirs[:10], rtol=2e-5)
    np.testing.assert_allclose(ours, theirs, rtol=2e-2)


def test_two_thousand_steps_hold_no_more_memory_than_ten() -> None:
    """Without the garbage collector: what a step makes is freed by the end of the step."""
    tinyt.manual_seed(0)
    model = cnn(tinyt)
    optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = tinyt.optim.lr_scheduler.StepLR(optimizer, 100, 0.9)
    data = tinyt.utils.data.TensorDataset(tinyt.randn(64, 2, 8, 8), tinyt.randint(0, 4, (64,)))
    loader = tinyt.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    held: list[tuple[int, int, int]] = []
    objects: list[int] = []
    gc.collect()
    gc.disable()
    for _ in range(250):
        for x, y in loader:
            optimizer.zero_grad()
            loss = tinyt.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            tinyt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        del x, y, loss
        now = tinyt.memory.statistics()
        held.append((tinyt.memory.live_tensors(), now["current_bytes"], now["system_allocations"]))
        objects.append(len(gc.get_objects()))
    assert set(held[2:]) == {held[2]}
    # One list entry an epoch is this test's own.
    assert max(objects[2:]) - objects[2] < 300
