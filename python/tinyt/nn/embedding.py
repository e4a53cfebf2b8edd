"""Lookup tables."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from typing import Any

from tinyt._tensor import dtype as DType
from tinyt.autograd import no_grad
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import empty
from tinyt.tensor import Tensor


class Embedding(Module):
    """Rows of a table picked by integer indices.

    Shapes: input (*) of integers, output (*, embedding_dim); `weight` (num_embeddings,
    embedding_dim), standard normal at first. The row `padding_idx` starts as zeros and gets no
    gradient.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.reset_parameters()

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """A layer around an existing (rows, columns) table, without a copy."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        layer = cls(rows, columns, padding_idx)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draws the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
