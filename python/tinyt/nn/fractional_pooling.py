"""Layers of fractional max pooling (Graham 2014)."""

# (forward is described by the class.)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tinyt.nn.module import Module
from tinyt.ops.common import tuple_of
from tinyt.ops.nn import fractional_pooling
from tinyt.tensor import Tensor

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class FractionalMaxPoolNd(Module):
    """The maximum over windows that begin at steps of random sizes.

    Exactly one of `output_size` and `output_ratio` is given.

    Args:
        kernel_size: size of the window, one for all axes or one each.
        output_size: how many windows there are along an axis.
        output_ratio: that number over the size of the input, between 0 and 1.
        return_indices: whether the positions of the maxima are returned too.
        _random_samples: draws from [0, 1) (N, C, axes) in place of new ones at every call.

    Raises:
        ValueError: for a window without elements, a ratio outside of (0, 1), both or none given.
    """

    __constants__: ClassVar[list[str]] = [
        "kernel_size",
        "return_indices",
        "output_size",
        "output_ratio",
    ]

    _spatial: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: int | tuple[int, ...],
        output_size: int | tuple[int, ...] | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, n = type(self).__name__, self._spatial
        self.kernel_size = tuple_of(name, "kernel_size", kernel_size, n)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = (
            None if output_size is None else tuple_of(name, "output_size", output_size, n)
        )
        self.output_ratio: tuple[float, ...] | None = None
        if output_ratio is not None:
            given = output_ratio if isinstance(output_ratio, tuple) else (output_ratio,) * n
            self.output_ratio = given
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return self._function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(FractionalMaxPoolNd):
    """Fractional maxima of (N, C, H, W) or (C, H, W); arguments as in
    `FractionalMaxPoolNd`."""

    _spatial = 2
    _function = staticmethod(fractional_pooling.fractional_max_pool2d)


class FractionalMaxPool3d(FractionalMaxPoolNd):
    """Fractional maxima of (N, C, T, H, W) or (C, T, H, W); arguments as in
    `FractionalMaxPoolNd`."""

    _spatial = 3
    _function = staticmethod(fractional_pooling.fractional_max_pool3d)
