"""Layers that change only the shape."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class Flatten(Module):
    """Joins the dimensions `start_dim` to `end_dim` into one; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
