"""Normalisation by the neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from typing import ClassVar

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.ops import cat, cumsum
from tinyt.tensor import Tensor


class LocalResponseNorm(Module):
    """x / (k + alpha mean(x^2))^beta, the mean over neighbouring channels of (N, C, *sizes).

    Args:
        size: how many channels count.
        alpha: weight of the mean.
        beta: the exponent.
        k: added to the mean.
    """

    __constants__: ClassVar[list[str]] = ["size", "alpha", "beta", "k"]

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """x / (k + alpha / size * sum(x^2))^beta, the sum over channels c - size/2 to c + size/2.

    Shape: (N, C, H, W). As in PyTorch the square of the first channel stays in the sums of all
    channels whose window has left it behind: `LocalResponseNorm` does not have this.

    Args:
        size: how many channels count.
        alpha: weight of the mean.
        beta: the exponent.
        k: added to the mean.

    Raises:
        ValueError: for an input of another rank.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = int((self.size - 1) / 2 + 1)
        channels = input.shape[1]
        squares = input * input
        below = cumsum(squares, 1)  # of channels 0 to c
        last = [min(c + reach, channels) - 1 for c in range(channels)]
        sums = below[:, last]
        if channels > reach + 1:
            # Windows that begin behind channel 1 lose what is before them but for the first.
            left = below[:, 1 : channels - reach] - squares[:, :1]
            sums = cat([sums[:, : reach + 1], sums[:, reach + 1 :] - left], 1)
        scale = sums * (self.alpha / self.size) + self.k
        out: Tensor = input * scale ** (-self.beta)
        return out

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
