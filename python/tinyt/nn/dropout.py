"""Dropout layers (Srivastava et al. 2014)."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class Dropout(Module):
    """In training zeroes each element with probability `p` and scales the rest by 1 / (1 - p);
    `inplace` writes the result over the input."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
