"""Convolution layers."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from tinyt._tensor import dtype as DType
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import empty
from tinyt.tensor import Tensor

Sizes = int | tuple[int, ...]
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What the layers below share: the arguments, parameters of one shape rule, the repr.

    Args are those of the layers, with one size for each axis, and `transposed`: whether it is a
    transposed convolution, whose `weight` has the inputs first.
    """

    __constants__: ClassVar[list[str]] = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]

    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...] | str,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._check()
        self._reversed_padding_repeated_twice = self._ends()
        first, second = in_channels, out_channels
        if not transposed:
            first, second = second, first
        shape = (first, second // groups, *kernel_size)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.register_parameter(
            "bias", Parameter(empty((out_channels,), dtype=dtype, device=device)) if bias else None
        )
        self.reset_parameters()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "padding_mode" not in self.__dict__:  # of old copies
            self.padding_mode = "zeros"

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if self.padding_mode not in PADDING_MODES:
            raise ValueError(
                f"{type(self).__name__}: padding_mode must be one of {PADDING_MODES}, "
                f"got {self.padding_mode!r}"
            )
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {{'valid', 'same'}}"
                )
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")

    def _ends(self) -> tuple[int, ...]:
        """The padding as `pad` takes it: both ends of the last axis first."""
        if not isinstance(self.padding, str):
            return tuple(n for n in reversed(self.padding) for _ in range(2))
        ends: list[int] = []
        for step, size in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = step * (size - 1) if self.padding == "same" else 0
            ends += [total // 2, total - total // 2]
        return tuple(ends)

    def reset_parameters(self) -> None:
        """Draws the parameters anew."""
        # a = sqrt(5) makes the bound gain * sqrt(3 / fan_in) equal 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


def _one_each(layer: Any, name: str, value: Sizes) -> tuple[int, ...]:
    """The sizes along all axes; one, in a list or not, is that of each."""
    count: int = layer._spatial
    sizes = tuple(value) if isinstance(value, Iterable) else (value,)
    sizes = sizes * count if len(sizes) == 1 else sizes
    if len(sizes) != count:
        raise ValueError(
            f"{type(layer).__name__}: {name} must be an int or {count} of them, got {value}"
        )
    return sizes


class ConvNd(_ConvNd):
    """Cross-correlation with padding over the last dimensions.

    Shapes: input (N, in_channels, *sizes) or (in_channels, *sizes); the output size along an axis
    is floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1; `weight`
    (out_channels, in_channels / groups, *kernel_size), `bias` (out_channels,), both uniform on
    ±1/sqrt(fan_in) at first.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: one size for all axes, or one each; so are stride, padding and dilation.
        stride: steps between windows.
        padding: elements at both ends, or "valid" (none) or "same" (output as large as the input).
        dilation: steps between the elements of a window.
        groups: parts that the channels are split into, each convolved on its own.
        bias: whether a bias is added.
        padding_mode: what is padded: "zeros", or as in `pad`: "reflect", "replicate", "circular".
    """

    _spatial: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

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
        each = partial(_one_each, self)
        super().__init__(
            in_channels, out_channels, each("kernel_size", kernel_size), each("stride", stride),
            padding if isinstance(padding, str) else each("padding", padding),
            each("dilation", dilation), False, (0,) * self._spatial, groups, bias, padding_mode,
            device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with these parameters; programs that have their own call it."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            ends = self._reversed_padding_repeated_twice
            input, padding = F.pad(input, ends, mode=self.padding_mode), 0
        return self._function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(ConvNd):
    """Convolution along one axis; arguments and shapes as in `ConvNd`."""

    _spatial = 1
    _function = staticmethod(F.conv1d)


class Conv2d(ConvNd):
    """Convolution along two axes; arguments and shapes as in `ConvNd`."""

    _spatial = 2
    _function = staticmethod(F.conv2d)


class Conv3d(ConvNd):
    """Convolution along three axes; arguments and shapes as in `ConvNd`."""

    _spatial = 3
    _function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions share; arguments as in `_ConvNd`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.padding_mode != "zeros":
            raise ValueError(
                f"{type(self).__name__}: padding_mode must be 'zeros', got {self.padding_mode!r}"
            )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Sequence[int] | None,
        stride: Sequence[int],
        padding: Sequence[int],
        kernel_size: Sequence[int],
        num_spatial_dims: int,
        dilation: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """What must be added for an output of that size (with or without batch and channels)."""
        if output_size is None:
            return self.output_padding
        n = num_spatial_dims
        lead = input.dim() - n
        if len(output_size) not in (n, n + lead):
            raise ValueError(
                f"{type(self).__name__}: output_size must have {n} or {n + lead} elements, "
                f"got {tuple(output_size)}"
            )
        found = []
        for d, wanted in enumerate(output_size[-n:]):
            step = 1 if dilation is None else dilation[d]
            least = (input.shape[lead + d] - 1) * stride[d] - 2 * padding[d]
            least += step * (kernel_size[d] - 1) + 1
            if not least <= wanted < least + stride[d]:
                raise ValueError(
                    f"{type(self).__name__}: output_size must be between {least} and "
                    f"{least + stride[d] - 1} at axis {d}, got {tuple(output_size)} for "
                    f"input {tuple(input.shape)}"
                )
            found.append(wanted - least)
        return tuple(found)


class ConvTransposeNd(_ConvTransposeNd):
    """Transposed convolution over the last dimensions: the gradient of `ConvNd` to its input.

    Shapes: input (N, in_channels, *sizes) or (in_channels, *sizes); the output size along an axis
    is (size - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1; `weight`
    (in_channels, out_channels / groups, *kernel_size), `bias` (out_channels,).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: one size for all axes, or one each; so are the next three and dilation.
        stride: steps between the windows that neighbouring elements are spread over.
        padding: elements cut off at both ends of the output.
        output_padding: elements more at the end, since several output sizes fit one input.
        groups: parts that the channels are split into.
        bias: whether a bias is added.
        dilation: steps between the elements of a window.
        padding_mode: must be "zeros".
    """

    _spatial: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        each = partial(_one_each, self)
        super().__init__(
            in_channels, out_channels, each("kernel_size", kernel_size), each("stride", stride),
            each("padding", padding), each("dilation", dilation), True,
            each("output_padding", output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding
        if output_size is not None:
            assert not isinstance(self.padding, str)
            extra = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, self._spatial,
                self.dilation,
            )  # fmt: skip
        return self._function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose1d(ConvTransposeNd):
    """Transposed convolution along one axis; arguments and shapes as in `ConvTransposeNd`."""

    _spatial = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(ConvTransposeNd):
    """Transposed convolution along two axes; arguments and shapes as in `ConvTransposeNd`."""

    _spatial = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(ConvTransposeNd):
    """Transposed convolution along three axes; arguments and shapes as in `ConvTransposeNd`."""

    _spatial = 3
    _function = staticmethod(F.conv_transpose3d)
