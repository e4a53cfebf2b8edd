"""Interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import Rng, Samples, bad, f
from op_rows.network import nn_op
from sampling import S, Sample, draw
from tinyt.testing.reference import spatial as ref

PLANES = {1: (2, 1, 5), 2: (1, 2, 4, 3), 3: (1, 1, 3, 2, 4)}
IMAGE, LINE = f(1, 1, 4, 4), f(1, 1, 4)


def resized(*rows: tuple[int, dict[str, Any]]) -> Samples:
    """Rows of (spatial dimensions, arguments)."""

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        found = [S(draw(rng, PLANES[n], dtype), **k) for n, k in rows]
        n, first = rows[0]
        found.append(S(draw(rng, (0, 2, *PLANES[n][2:]), dtype), **first))
        return found

    return samples


def with_mode(n: int, mode: str, *kinds: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return [(n, {"mode": mode} | k) for k in kinds]


EXACT = [
    row
    for mode in ("nearest", "nearest-exact")
    for n in (1, 2, 3)
    for row in with_mode(n, mode, {"size": (7, 2, 4)[:n]}, {"scale_factor": 2})
]
SMOOTH = [
    row
    for n, mode in ((1, "linear"), (2, "bilinear"), (2, "bicubic"), (3, "trilinear"))
    for align in (False, True)
    for row in with_mode(
        n,
        mode,
        {"size": (7, 2, 4)[:n], "align_corners": align},
        {"scale_factor": (1.7, 0.5, 2.0)[:n], "align_corners": align},
        {"scale_factor": 1.7, "align_corners": align, "recompute_scale_factor": True},
    )
]
AREA = [
    row
    for n in (1, 2, 3)
    for row in with_mode(n, "area", {"size": (3, 2, 1)[:n]}, {"scale_factor": 1.5})
]
SMALLER = [
    row
    for mode in ("bilinear", "bicubic")
    for row in with_mode(
        2,
        mode,
        {"size": (2, 5), "antialias": True},
        {"scale_factor": (0.6, 0.9), "antialias": True, "align_corners": True},
    )
]


def grid_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = []
    for shape, outer in (((2, 2, 3, 4), (2, 3)), ((1, 1, 2, 3, 2), (2, 1, 2))):
        n = len(shape) - 2
        for mode in ("bilinear", "nearest", "bicubic")[: 5 - n]:
            for padding in ("zeros", "border", "reflection"):
                x = draw(rng, shape, dtype)
                grid = draw(rng, (shape[0], *outer, n), dtype, (-1.6, 1.6))
                align = bool(len(found) % 2)
                extra = {"mode": mode, "padding_mode": padding, "align_corners": align}
                found.append(S(x, grid, **extra))
    return found


RESAMPLE = [
    nn_op(
        "interpolate",
        resized(*EXACT, *SMOOTH, *AREA, *SMALLER),
        ref.interpolate,
        ulp=60,
        scale=4,
        errors=(
            bad(ValueError, r"interpolate.*either", IMAGE),
            bad(ValueError, r"interpolate.*only one", IMAGE, 3, 2.0),
            bad(ValueError, r"interpolate.*3, 3, 3", IMAGE, (3, 3, 3)),
            bad(
                NotImplementedError,
                r"interpolate.*bilinear.*\(1, 1, 4\)",
                LINE,
                3,
                None,
                "bilinear",
            ),
            bad(NotImplementedError, r"interpolate.*'cubic'", IMAGE, 3, None, "cubic"),
            bad(NotImplementedError, r"interpolate.*rank 2", f(4, 4), 3),
            bad(ValueError, r"interpolate.*align_corners", IMAGE, 3, None, "nearest", True),
            bad(ValueError, r"interpolate.*antialias", IMAGE, 3, None, "nearest", antialias=True),
            bad(ValueError, r"interpolate.*recompute", IMAGE, 3, recompute_scale_factor=True),
            bad(RuntimeError, r"interpolate.*\(0, 0\)", IMAGE, 0),
            bad(RuntimeError, r"interpolate.*int64", IMAGE.astype(np.int64), 3, None, "bilinear"),
        ),
    ),
    nn_op(
        "upsample",
        resized((2, {"size": 5}), (2, {"scale_factor": 2, "mode": "bilinear"})),
        ref.interpolate,
        ulp=16,
        scale=4,
        errors=(bad(ValueError, r"upsample.*either", IMAGE),),
    ),
    nn_op(
        "upsample_nearest",
        resized((2, {"size": 5}), (1, {"scale_factor": 2})),
        ref.interpolate,
        errors=(bad(ValueError, r"upsample_nearest.*either", IMAGE),),
    ),
    nn_op(
        "upsample_bilinear",
        resized((2, {"size": 5}), (2, {"scale_factor": 2})),
        lambda x, **k: ref.interpolate(x, **k, mode="bilinear", align_corners=True),
        ulp=16,
        scale=4,
        errors=(bad(NotImplementedError, r"upsample_bilinear.*\(1, 1, 4\)", LINE, 3),),
    ),
    nn_op(
        "local_response_norm",
        lambda rng, dt: [
            S(draw(rng, shape, dt), size, **k)
            for shape in ((2, 5, 3), (1, 4, 2, 3), (1, 3, 1, 2, 2), (0, 2, 3))
            for size, k in ((2, {}), (3, {"alpha": 0.5, "beta": 0.6, "k": 2.0}))
        ],
        ref.local_response_norm,
        ulp=16,
        scale=1,
        errors=(
            bad(ValueError, r"local_response_norm.*\(2, 3\)", f(2, 3), 2),
            bad(RuntimeError, r"local_response_norm.*\b0\b", f(2, 3, 4), 0),
        ),
    ),
    nn_op(
        "grid_sample",
        grid_samples,
        ref.grid_sample,
        ulp=60,
        scale=16,
        errors=(
            bad(ValueError, r"grid_sample.*'cubic'", IMAGE, f(1, 2, 2, 2), "cubic"),
            bad(ValueError, r"grid_sample.*'wrap'", IMAGE, f(1, 2, 2, 2), padding_mode="wrap"),
            bad(RuntimeError, r"grid_sample.*\(1, 2, 2, 3\)", IMAGE, f(1, 2, 2, 3)),
            bad(RuntimeError, r"grid_sample.*\(2, 2, 2, 2\)", IMAGE, f(2, 2, 2, 2)),
            bad(RuntimeError, r"grid_sample.*\(1, 1, 0, 4\)", f(1, 1, 0, 4), f(1, 2, 2, 2)),
            bad(RuntimeError, r"grid_sample.*float64", IMAGE, f(1, 2, 2, 2).astype(np.float64)),
            bad(RuntimeError, r"bicubic", f(1, 1, 2, 2, 2), f(1, 2, 2, 2, 3), "bicubic"),
        ),
    ),
    nn_op(
        "affine_grid",
        lambda rng, dt: [
            S(draw(rng, (size[0], n, n + 1), dt), size, align_corners=align)
            for size in ((2, 1, 3, 4), (1, 2, 1, 2), (1, 1, 2, 3, 2))
            for n in (len(size) - 2,)
            for align in (False, True)
        ],
        ref.affine_grid,
        ulp=16,
        scale=8,
        errors=(
            bad(ValueError, r"affine_grid.*\(1, 3, 4\)", f(1, 3, 4), (1, 1, 2, 3)),
            bad(NotImplementedError, r"affine_grid.*\(1, 3, 4\)", f(1, 2, 3), (1, 3, 4)),
            bad(RuntimeError, r"affine_grid.*\b2\b", f(1, 2, 3), (2, 1, 3, 4)),
            bad(ValueError, r"affine_grid.*\(1, 1, 0, 4\)", f(1, 2, 3), (1, 1, 0, 4)),
            bad(ValueError, r"affine_grid.*int64", f(1, 2, 3).astype(np.int64), (1, 1, 3, 4)),
        ),
    ),
]
