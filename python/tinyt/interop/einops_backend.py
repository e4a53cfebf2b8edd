"""What einops does with tensors of tinyt. Defining the class adds it to einops' backends."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from einops._backends import AbstractBackend

import tinyt
from tinyt import Tensor


class TinytBackend(AbstractBackend):  # type: ignore[misc]
    """The operations that einops is made of."""

    framework_name = "tinyt"

    def is_appropriate_type(self, tensor: object) -> bool:
        """True for tensors of tinyt."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """A tensor over the array; one that requires grad where it is floating."""
        made = tinyt.from_numpy(x)
        return made.requires_grad_() if made.is_floating_point() else made

    def to_numpy(self, x: Tensor) -> Any:
        """An array over the tensor."""
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """The integers from ``start`` to ``stop``, without it."""
        return tinyt.arange(start, stop)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        """min, max, sum, mean, prod, any or all over the axes."""
        name = {"min": "amin", "max": "amax"}.get(operation, operation)
        if name == "prod":  # takes one axis at a time
            for axis in sorted(axes, reverse=True):
                x = x.prod(dim=axis)
            return x
        reduced: Tensor = getattr(x, name)(dim=tuple(axes))
        return reduced

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """The axes in another order, as a view."""
        return x.permute(tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """The tensors along a new first axis."""
        return tinyt.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """A new axis of length one."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """New axes of the lengths given by their positions, as a view."""
        lengths = [-1] * n_axes
        for position, length in pos2len.items():
            x = x.unsqueeze(position)
            lengths[position] = length
        return x.expand(lengths)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        """The tensor, repeated along its axes."""
        return x.repeat(tuple(repeats))

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        """The tensors one after another along an axis."""
        return tinyt.cat(tensors, dim=axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Whether there is a mean of its elements."""
        return x.is_floating_point()

    def layers(self) -> ModuleType:
        """The module with einops' layers."""
        return import_module(f"{__package__}.einops")

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """`tinyt.einsum`."""
        return tinyt.einsum(pattern, *x)
