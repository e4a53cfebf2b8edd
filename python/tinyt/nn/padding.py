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


class _ConstantPadNd(_Pad):
    __constants__: ClassVar[list[str]] = ["padding", "value"]

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _CircularPadNd(_Pad):
    __constants__: ClassVar[list[str]] = ["padding"]

    mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"{type(self).__name__}: expected a {self.dims + 1}-d or {self.dims + 2}-d input, "
                f"got shape {tuple(input.shape)}"
            )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with ``value``."""

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads the last two dimensions with ``value``."""

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads the last three dimensions with ``value``."""

    dims = 3


class _ZeroPad(Module):
    """Pads with zeros; a base before the class of constant padding."""

    padding: tuple[int, ...]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pads the last dimension with zeros."""

    dims = 1


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pads the last two dimensions with zeros."""

    dims = 2


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pads the last three dimensions with zeros."""

    dims = 3


class _ReflectionPadNd(_Pad):
    __constants__: ClassVar[list[str]] = ["padding"]

    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with what lies behind its edge elements, mirrored."""

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads the last two dimensions with what lies behind their edge elements, mirrored."""

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads the last three dimensions with what lies behind their edge elements, mirrored."""

    dims = 3


class _ReplicationPadNd(_Pad):
    __constants__: ClassVar[list[str]] = ["padding"]

    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with its edge elements."""

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads the last two dimensions with their edge elements."""

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads the last three dimensions with their edge elements."""

    dims = 3


class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with elements from its other end."""

    dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads the last two dimensions with elements from their other ends."""

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads the last three dimensions with elements from their other ends."""

    dims = 3
