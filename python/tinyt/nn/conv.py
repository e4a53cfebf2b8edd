"""Convolution layers."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

import math
from typing import Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import empty
from tinyt.tensor import Tensor

Sizes = int | tuple[int, ...]


class ConvNd(Module):
    """Cross-correlation with zero padding over the last dimensions.

    Shapes: input (N, in_channels, *sizes) or (in_channels, *sizes); the output size along an axis
    is floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1; `weight`
    (out_channels, in_channels / groups, *kernel_size), `bias` (out_channels,), both uniform on
    ±1/sqrt(fan_in) at first.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: one size for all axes, or one each; so are stride, padding and dilation.
        stride: steps between windows.
        padding: zeros at both ends, or "valid" (none) or "same" (output as large as the input).
        dilation: steps between the elements of a window.
        groups: parts that the channels are split into, each convolved on its own.
        bias: whether a bias is added.
        padding_mode: must be "zeros".
    """

    _spatial: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._one_each("kernel_size", kernel_size)
        self.stride = self._one_each("stride", stride)
        self.padding = padding if isinstance(padding, str) else self._one_each("padding", padding)
        self.dilation = self._one_each("dilation", dilation)
        self.groups = groups
        self._check(padding_mode)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(empty((out_channels,), dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def _one_each(self, name: str, value: Sizes) -> tuple[int, ...]:
        sizes = (value,) * self._spatial if isinstance(value, int) else tuple(value)
        if len(sizes) != self._spatial:
            raise ValueError(
                f"{type(self).__name__}: {name} must be an int or {self._spatial} of them, "
                f"got {value}"
            )
        return sizes

    def _check(self, padding_mode: str) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if padding_mode != "zeros":
            raise ValueError(
                f"{type(self).__name__}: padding_mode must be 'zeros', got {padding_mode!r}"
            )
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {{'valid', 'same'}}"
                )
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        # a = sqrt(5) makes the bound gain * sqrt(3 / fan_in) equal 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _arguments(self) -> tuple[Any, ...]:
        return (self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * self._spatial:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._spatial:
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text


class Conv1d(ConvNd):
    """Convolution along one axis; arguments and shapes as in `ConvNd`."""

    _spatial = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.conv1d(input, *self._arguments())


class Conv2d(ConvNd):
    """Convolution along two axes; arguments and shapes as in `ConvNd`."""

    _spatial = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, *self._arguments())


class Conv3d(ConvNd):
    """Convolution along three axes; arguments and shapes as in `ConvNd`."""

    _spatial = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.conv3d(input, *self._arguments())
