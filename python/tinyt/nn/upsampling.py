"""Resizing layers."""

# ruff: noqa: D102
# (forward and extra_repr are described by the class.)

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class Upsample(Module):
    """Resizes the last dimensions of (N, C, *sizes), as `interpolate`.

    Args:
        size: the output's size, one for all dimensions or one each; or
        scale_factor: output size over input size.
        mode: "nearest", "linear" (one dimension), "bilinear", "bicubic" (two) or "trilinear".
        align_corners: whether the centres of the corner elements fall together.
        recompute_scale_factor: whether positions follow the ratio of the sizes.
    """

    __constants__: ClassVar[list[str]] = [
        "size",
        "scale_factor",
        "mode",
        "align_corners",
        "name",
        "recompute_scale_factor",
    ]

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: float | tuple[float, ...] | None
        if isinstance(scale_factor, (int, float)):
            self.scale_factor = float(scale_factor)
        else:
            self.scale_factor = tuple(float(v) for v in scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images with mode "nearest"; arguments as there."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images with mode "bilinear" and aligned corners; arguments as there."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
