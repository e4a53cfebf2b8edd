"""Pooling layers."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.tensor import Tensor

Sizes = int | tuple[int, ...]
OutputSizes = int | None | tuple[int | None, ...]


class MaxPoolNd(Module):
    """The maximum over windows of the last dimensions; input (N, C, *sizes) or (C, *sizes).

    Args:
        kernel_size: size of the window, one for all axes or one each; so are the next three.
        stride: steps between windows; `kernel_size` by default.
        padding: how far windows reach beyond the ends, at most half of `kernel_size`.
        dilation: steps between the elements of a window.
        return_indices: whether the positions of the maxima are returned too.
        ceil_mode: whether windows may start inside and end outside.
    """

    __constants__: ClassVar[list[str]] = [
        "kernel_size",
        "stride",
        "padding",
        "dilation",
        "return_indices",
        "ceil_mode",
    ]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self) -> dict[str, Any]:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
        return {name: self.__dict__[name] for name in names}

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(MaxPoolNd):
    """Maximum over windows of one axis; arguments as in `MaxPoolNd`."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, **self._arguments())


class MaxPool2d(MaxPoolNd):
    """Maximum over windows of two axes; arguments as in `MaxPoolNd`."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, **self._arguments())


class MaxPool3d(MaxPoolNd):
    """Maximum over windows of three axes; arguments as in `MaxPoolNd`."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, **self._arguments())


class MaxUnpoolNd(Module):
    """Puts the results of a `MaxPoolNd` back at their indices, in zeros.

    Args:
        kernel_size: of the pool, as `stride` (by default `kernel_size`) and `padding`.
    """

    _spatial: int

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = self._one_each(kernel_size)
        self.stride = self._one_each(kernel_size if stride is None else stride)
        self.padding = self._one_each(padding)

    def _one_each(self, value: Sizes) -> tuple[int, ...]:
        return (value,) * self._spatial if isinstance(value, int) else tuple(value)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpoolNd):
    """Undoes `MaxPool1d`; arguments as in `MaxUnpoolNd`."""

    _spatial = 1

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(MaxUnpoolNd):
    """Undoes `MaxPool2d`; arguments as in `MaxUnpoolNd`."""

    _spatial = 2

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(MaxUnpoolNd):
    """Undoes `MaxPool3d`; arguments as in `MaxUnpoolNd`."""

    _spatial = 3

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


def _single(value: Sizes) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value


class AvgPoolNd(Module):
    """The average over windows of the last dimensions; input (N, C, *sizes) or (C, *sizes).

    Args:
        kernel_size: size of the window, one for all axes or one each; so are the next two.
        stride: steps between windows; `kernel_size` by default.
        padding: zeros at both ends, at most half of `kernel_size`.
        ceil_mode: whether windows may start inside and end outside.
        count_include_pad: whether the padding counts in the average.
        divisor_override: what sums are divided by, in place of the window's size.
    """

    __constants__: ClassVar[list[str]] = [
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
        "divisor_override",
    ]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _arguments(self) -> tuple[Any, ...]:
        return (self.kernel_size, self.stride, self.padding, self.ceil_mode,
                self.count_include_pad, self.divisor_override)  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(AvgPoolNd):
    """The average over windows of the last axis; input (N, C, L) or (C, L).

    Args:
        kernel_size: size of the window.
        stride: steps between windows; `kernel_size` by default.
        padding: zeros at both ends, at most half of `kernel_size`.
        ceil_mode: whether windows may start inside and end outside.
        count_include_pad: whether the padding counts in the average.
    """

    __constants__: ClassVar[list[str]] = [
        "kernel_size",
        "stride",
        "padding",
        "ceil_mode",
        "count_include_pad",
    ]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(
            _single(kernel_size),
            _single(kernel_size if stride is None else stride),
            _single(padding),
            ceil_mode,
            count_include_pad,
        )
        del self.divisor_override  # as in PyTorch, for two and three axes alone

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class AvgPool2d(AvgPoolNd):
    """Average over windows of two axes; arguments as in `AvgPoolNd`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._arguments())


class AvgPool3d(AvgPoolNd):
    """Average over windows of three axes; arguments as in `AvgPoolNd`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._arguments())


class LPPoolNd(Module):
    """The p-norm of windows of the last dimensions; input (N, C, *sizes) or (C, *sizes).

    Args:
        norm_type: p; infinity gives the maximum.
        kernel_size: size of the window, one for all axes or one each.
        stride: steps between windows; `kernel_size` by default.
        ceil_mode: whether windows may start inside and end outside.
    """

    __constants__: ClassVar[list[str]] = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(LPPoolNd):
    """Norms of windows of one axis; arguments as in `LPPoolNd`."""

    kernel_size: int

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(LPPoolNd):
    """Norms of windows of two axes; arguments as in `LPPoolNd`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool3d(LPPoolNd):
    """Norms of windows of three axes; arguments as in `LPPoolNd`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class AdaptiveAvgPoolNd(Module):
    """The average of evenly spread windows of the last dimensions.

    Args:
        output_size: windows along each axis, one for all axes or one each; None: as the input.
    """

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size: Any = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(AdaptiveAvgPoolNd):
    """Even averages along one axis; arguments as in `AdaptiveAvgPoolNd`."""

    __constants__: ClassVar[list[str]] = ["output_size"]

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(AdaptiveAvgPoolNd):
    """Even averages along two axes; arguments as in `AdaptiveAvgPoolNd`."""

    __constants__: ClassVar[list[str]] = ["output_size"]

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(AdaptiveAvgPoolNd):
    """Even averages along three axes; arguments as in `AdaptiveAvgPoolNd`."""

    __constants__: ClassVar[list[str]] = ["output_size"]

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPoolNd(AdaptiveAvgPoolNd):
    """The maximum of evenly spread windows of the last dimensions.

    Args:
        output_size: windows along each axis, one for all axes or one each; None: as the input.
        return_indices: whether the positions of the maxima are returned too.
    """

    __constants__: ClassVar[list[str]] = ["output_size", "return_indices"]

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(AdaptiveMaxPoolNd):
    """Even maxima along one axis; arguments as in `AdaptiveMaxPoolNd`."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(AdaptiveMaxPoolNd):
    """Even maxima along two axes; arguments as in `AdaptiveMaxPoolNd`."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(AdaptiveMaxPoolNd):
    """Even maxima along three axes; arguments as in `AdaptiveMaxPoolNd`."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
