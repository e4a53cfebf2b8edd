"""Pooling layers."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from typing import Any

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.tensor import Tensor

Sizes = int | tuple[int, ...]


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
