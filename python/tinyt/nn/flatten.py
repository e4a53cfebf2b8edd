"""Layers that change only the shape."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class Unflatten(Module):
    """One dimension as several, of the sizes `unflattened_size` (one may be -1)."""

    __constants__: ClassVar[list[str]] = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input: Any) -> None:
        if not isinstance(input, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(input).__name__}"
            )
        for i, size in enumerate(input):
            if not hasattr(size, "__index__"):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {i}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Flatten(Module):
    """Joins the dimensions `start_dim` to `end_dim` into one; by default all but the batch."""

    __constants__: ClassVar[list[str]] = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
