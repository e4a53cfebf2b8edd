"""`SparseAdam`: Adam for sparse gradients, which there are none of."""

from __future__ import annotations

from tinyt.absent import refusing_class

__all__ = ["SparseAdam"]

SparseAdam = refusing_class(
    "optim", "SparseAdam", "gradients are dense, those of embeddings too; use optim.Adam"
)
