"""Layers that rearrange pixels and channels: shuffles, Fold and Unfold."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tinyt.nn.functional import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from tinyt.nn.module import Module
from tinyt.tensor import Tensor

Size = int | Sequence[int]


class PixelShuffle(Module):
    """Channels as pixels: ``[..., c r², h, w]`` becomes ``[..., c, h r, w r]``."""

    __constants__: ClassVar[list[str]] = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Pixels as channels: ``[..., c, h r, w r]`` becomes ``[..., c r², h, w]``."""

    __constants__: ClassVar[list[str]] = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels of ``groups`` groups, taken one from each in turn."""

    __constants__: ClassVar[list[str]] = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class _Blocks(Module):
    """The geometry of sliding blocks."""

    def __init__(self, kernel_size: Size, dilation: Size, padding: Size, stride: Size) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Unfold(_Blocks):
    """Sliding blocks of an image ``[n, c, h, w]`` as columns ``[n, c kh kw, blocks]``."""

    __constants__: ClassVar[list[str]] = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        return unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Blocks):
    """Columns added up into an image, where :class:`Unfold` takes them from."""

    __constants__: ClassVar[list[str]] = [
        "output_size",
        "kernel_size",
        "dilation",
        "padding",
        "stride",
    ]

    def __init__(
        self,
        output_size: Size,
        kernel_size: Size,
        dilation: Size = 1,
        padding: Size = 0,
        stride: Size = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
