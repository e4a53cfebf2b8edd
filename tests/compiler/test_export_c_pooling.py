"""Pools and interpolation as C, beside the programs themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
import tinyt.nn.functional as F
from c_library import compiles, has_fma
from export_values import FLOATS, check, values

pytestmark = [compiles, has_fma, pytest.mark.host]


@pytest.mark.parametrize("dtype", [*FLOATS, "uint8", "int8", "int16", "int32", "int64"])
def test_max_pool(tmp_path: Path, dtype: str) -> None:
    x, wide, line = values(dtype, 2, 3, 9, 11), values(dtype, 1, 2, 8, 75), values(dtype, 2, 2, 130)
    deep = values(dtype, 1, 2, 5, 6, 7)

    def pooled(x, wide, line, deep):
        return (
            F.max_pool2d(x, 2), F.max_pool2d(x.transpose(2, 3), 3, 2, 1),
            *F.max_pool2d(wide, (3, 2), return_indices=True), F.max_pool2d(wide, 3, 1, 1),
            F.max_pool2d(wide, 2, (2, 3), 1, dilation=2, ceil_mode=True),
            F.max_pool2d(x[0], 3, 2, ceil_mode=True), F.max_pool2d(x[:0], 2),
            *F.max_pool1d(line, 3, 2, 1, return_indices=True), F.max_pool1d(line, 70, 1),
            *F.max_pool3d(deep, 2, return_indices=True),
            F.adaptive_max_pool2d(x, (4, 3)), F.adaptive_max_pool2d(wide, 1),
        )  # fmt: skip

    check(tmp_path, ["tt_max_pool"], pooled, x, wide, line, deep)


@pytest.mark.parametrize("dtype", FLOATS)
def test_average_pool(tmp_path: Path, dtype: str) -> None:
    x, wide = values(dtype, 2, 3, 9, 11), values(dtype, 1, 2, 70, 75)
    line, deep = values(dtype, 2, 2, 130), values(dtype, 1, 2, 5, 6, 7)

    def pooled(x, wide, line, deep):
        return (
            F.avg_pool2d(x, 2), F.avg_pool2d(x.transpose(2, 3), 3, 2, 1),
            F.avg_pool2d(wide, (3, 2), count_include_pad=False, padding=1),
            F.avg_pool2d(x[0], 3, 2, ceil_mode=True), F.avg_pool2d(x[:0], 2),
            F.avg_pool1d(line, 3, 2, 1), F.avg_pool1d(line, 70, 1), F.avg_pool3d(deep, 2),
            F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_avg_pool2d(wide, 1),
            F.adaptive_avg_pool2d(wide, (1, 7)),
        )  # fmt: skip

    check(tmp_path, ["tt_resample"], pooled, x, wide, line, deep)


@pytest.mark.parametrize("dtype", FLOATS)
def test_interpolation(tmp_path: Path, dtype: str) -> None:
    x, line, deep = values(dtype, 2, 3, 5, 7), values(dtype, 2, 2, 9), values(dtype, 1, 1, 3, 4, 5)

    def resized(x, line, deep):
        return (
            F.interpolate(x, scale_factor=2, mode="nearest"),
            F.interpolate(x.transpose(2, 3), (9, 4), mode="bilinear"),
            F.interpolate(x, (9, 4), mode="bilinear", align_corners=True),
            F.interpolate(x, (12, 13), mode="bicubic"), F.interpolate(line, 20, mode="linear"),
            F.interpolate(deep, scale_factor=2, mode="trilinear"),
            F.interpolate(x, (3, 3), mode="bilinear", antialias=True),
        )  # fmt: skip

    check(tmp_path, ["tt_resample"], resized, x, line, deep)


def test_gradients_of_pools(tmp_path: Path) -> None:
    x, wide = values("float32", 2, 3, 9, 11), values("float32", 1, 2, 70, 75)

    def gradients(x, wide):
        with tinyt.enable_grad():
            x, wide = x.detach().requires_grad_(), wide.detach().requires_grad_()
            y = (
                F.max_pool2d(x, 3, 2, 1).square().sum()
                + F.avg_pool2d(x, 3, 2, 1).square().sum()
                + F.interpolate(x, (20, 4), mode="bilinear").square().sum()
                + F.adaptive_avg_pool2d(wide, (1, 2)).square().sum()
            )
            return tinyt.autograd.grad(y, (x, wide))

    check(tmp_path, ["tt_resample", "tt_reorder"], gradients, x, wide)
