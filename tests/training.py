"""Training steps of small networks, for tests of whole programs."""

from __future__ import annotations

from collections.abc import Callable

import tinyt
import tinyt.nn as nn
import tinyt.nn.functional as F
from tinyt import Tensor
from tinyt.compiler.compiled import Compiled

Step = Callable[[Tensor, Tensor], Tensor]
Training = tuple[Compiled, tuple[Tensor, Tensor]]  # compiled; arguments


def training_step(model: nn.Module, lr: float = 1e-3) -> Step:
    """A classifier's, with AdamW."""
    optimizer = tinyt.optim.AdamW(model.parameters(), lr=lr)

    def step(x: Tensor, target: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def mlp() -> Training:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    return tinyt.compile(training_step(model)), (tinyt.randn(32, 64), tinyt.randint(0, 10, (32,)))


def cnn() -> Training:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 13 * 13, 10),
    )
    return tinyt.compile(training_step(model)), (
        tinyt.randn(8, 1, 28, 28),
        tinyt.randint(0, 10, (8,)),
    )


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (y.reshape(n, t, 4, width // 4).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
        return x + self.down(F.gelu(self.up(self.last(x))))


def transformer() -> Training:
    model = nn.Sequential(nn.Embedding(50, 64), Block(64), Block(64), nn.Linear(64, 50))
    x = tinyt.randint(0, 50, (2, 32))
    return tinyt.compile(training_step(model)), (x, tinyt.randint(0, 50, (64,)))
