"""Padding layers: constant, zero, reflection, replication and circular, for 1 to 3 dimensions."""

# (forward and extra_repr are described by the class.)

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tinyt.nn.functional import pad
from tinyt.nn.module import Module
from tinyt.ops.common import tuple_of
from tinyt.tensor import Tensor


class _Pad(Module):
    """Pads the last dimensions; ``padding``: one number, or (before, after) pairs, last first."""

    dims: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = tuple_of(type(self).__name__, "padding", padding, 2 * self.dims)

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"{type(self).__name__}: expected a {self.dims + 1}-d or {self.dims + 2}-d input, "
                f"got shape {tuple(input.shape)}"
            )
        return super().forward(input)


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with ``value``."""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with ``value``."""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with ``value``."""

    dims = 3


class _ZeroPad(_Pad):
    """Pads with zeros."""

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, "constant", 0.0)


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros."""

    dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros."""

    dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros."""

    dims = 3


class ReflectionPad1d(_Pad):
    """Pads the last dimension with what lies behind its edge elements, mirrored."""

    dims, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads the last two dimensions with what lies behind their edge elements, mirrored."""

    dims, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pads the last three dimensions with what lies behind their edge elements, mirrored."""

    dims, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pads the last dimension with its edge elements."""

    dims, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads the last two dimensions with their edge elements."""

    dims, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pads the last three dimensions with their edge elements."""

    dims, mode = 3, "replicate"


class CircularPad1d(_CircularPad):
    """Pads the last dimension with elements from its other end."""

    dims = 1


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions with elements from their other ends."""

    dims = 2


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions with elements from their other ends."""

    dims = 3
