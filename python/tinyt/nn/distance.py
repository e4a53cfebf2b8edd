"""Distance layers: two tensors of vectors in, one number a pair out."""

# ruff: noqa: D102
# (forward is described by the class.)

from __future__ import annotations

from typing import ClassVar

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps over the last dimension."""

    __constants__: ClassVar[list[str]] = ["norm", "eps", "keepdim"]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """x1 · x2 / (|x1| |x2|) along `dim`, with lengths of at least `eps`."""

    __constants__: ClassVar[list[str]] = ["dim", "eps"]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
