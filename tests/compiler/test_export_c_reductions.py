"""Reductions as C, with the CPU's bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both, same_bits
from tinyt.tensor import prim

pytestmark = [compiles, has_fma, pytest.mark.host]

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "bool"]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((1,), (0,)),
    ((5000,), (0,)),
    ((3, 700), (1,)),
    ((300, 5), (0,)),
    ((129, 300), (0,)),
    ((2, 260, 3), (1,)),
    ((4, 1, 6), (1,)),
    ((3, 4, 5), (0, 2)),
    ((3, 4, 5, 6), (1, 3)),
    ((3, 40, 5, 6), (0, 1)),
    ((3, 40, 1), (1,)),
    ((2, 3, 40, 5), (0, 2)),
    ((0, 3), (1,)),
    ((3, 4), ()),
]


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> tinyt.Tensor:
    """Random numbers of both signs, zeros of both among them."""
    x = tinyt.randn(shape, generator=tinyt.Generator().manual_seed(seed))
    if dtype in INTEGERS:
        return (x * 40).abs().to(tinyt.uint8).to(getattr(tinyt, dtype))
    return tinyt.where(x.abs() < 0.05, x * 0.0, x).to(getattr(tinyt, dtype))


def check(folder: Path, function: Callable[..., Any], *args: tinyt.Tensor, uses: str = "") -> None:
    """Bits of all results, and that a pattern is in the program's text."""
    for i, (have, want) in enumerate(run_both(folder, function, *args)):
        assert same_bits(have, want), (i, want.shape, want.dtype, (have - want).abs().max())
    assert re.search(uses, (folder / "program.c").read_text(encoding="utf-8"))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", ["sum", "prod", "amax", "amin"])
def test_reductions(tmp_path: Path, op: str, dtype: str) -> None:
    reduce = getattr(prim, op)
    cases = [(s, d) for s, d in SHAPES if d or op in ("sum", "prod") or not s]
    args = [values(s, dtype, i) for i, (s, _) in enumerate(cases)]
    if op == "prod" and dtype in FLOATS:
        args = [x.sign() * (x.abs() * 0.02 + 0.99) for x in args]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [
            reduce(x, d, keepdim)
            for x, (_, d) in zip(args, cases, strict=True)
            for keepdim in (False, True)
        ]

    check(tmp_path, function, *args, uses="tt_columns_")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_views(tmp_path: Path, dtype: str) -> None:
    x = values((40, 30, 20), dtype)

    def function(x: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for view in (
            x.permute(2, 0, 1),
            x[::2, 3:, ::3],
            x.transpose(1, 2),
            x[:, :1].expand(-1, 7, -1),
        ):
            for dims in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
                found += [prim.sum(view, dims, False), prim.amax(view, dims, False)]
        return found

    check(tmp_path, function, x, uses="tt_columns_")


def test_no_elements(tmp_path: Path) -> None:
    x = tinyt.zeros(3, 0, 4)
    check(
        tmp_path,
        lambda x: (
            prim.sum(x, (1,), False),
            prim.prod(x, (0, 1), True),
            prim.sum(x, (2,), False),
            prim.sum(x, (0, 1, 2), False),
        ),
        x,
    )


@pytest.mark.parametrize("op", ["sum", "prod", "amax", "amin", "nansum"])
def test_nan_and_infinities(tmp_path: Path, op: str) -> None:
    x = values((130, 70), "float32")
    x[3, 5] = x[7] = float("nan")
    x[9, 8] = float("inf")
    x[129, 9] = x[100, 8] = -float("inf")
    reduce = getattr(prim, op)
    check(tmp_path, lambda x: (reduce(x, (0,), False), reduce(x, (1,), False)), x)


def test_long_columns(tmp_path: Path) -> None:
    x, y = values((40_000, 3), "float32"), values((9000, 2), "float16")
    check(tmp_path, lambda x, y: (x.sum(0), x.prod(0), x.amax(0), y.sum(0), y.t().sum(1)), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_made_of_others(tmp_path: Path, dtype: str) -> None:
    x = values((70, 6, 50), dtype)

    def function(x: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [
            found
            for dims in ((0,), (2,), (1, 2), (0, 1, 2))
            for found in (
                prim.nansum(x, dims, False),
                *(prim.norm(x, dims, True, p) for p in (1.0, 2.0, float("inf"), -float("inf"))),
            )
        ]

    check(tmp_path, function, x)


@pytest.mark.parametrize("op", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_runs(tmp_path: Path, op: str, dtype: str) -> None:
    reduce = getattr(prim, op)
    args = [values(s, dtype) for s in ((4, 3, 70), (9, 2, 1000), (40, 3, 10, 13), (3, 2, 4096))]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = [reduce(x, (0, *range(2, x.dim())), True) for x in args]
        return [
            *found,
            reduce(args[0][:, :, 3:], (0, 2), False),
            reduce(args[1][:, :1], (0, 2), True),
        ]

    found = [x / 40 + 1 for x in args] if op == "prod" else args
    check(tmp_path, function, *found, uses="tt_runs_|bfloat16")


MOMENTS = [
    ((3, 700), (1,)), ((300, 5), (0,)), ((700, 130), (0,)), ((2, 9000), (1,)), ((9000,), (0,)),
    ((3, 4, 50, 6), (0, 2)), ((3, 4, 50), (0, 2)), ((7, 1), (1,)), ((1, 7), (0,)),
    ((3, 0, 2), (1,)), ((2, 33_000), (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments(tmp_path: Path, dtype: str) -> None:
    args = [values(s, dtype, i) + 2 for i, (s, _) in enumerate(MOMENTS)]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for x, (_, dims) in zip(args, MOMENTS, strict=True):
            found += [prim.var(x, dims, False, 1.0, False), prim.var(x, dims, True, 0.0, True)]
            found.append(prim.logsumexp(x, dims, False))
        return found

    check(tmp_path, function, *args, uses="tt_columns_spread_f")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments_of_odd_numbers(tmp_path: Path, dtype: str) -> None:
    x = values((260, 24), dtype)
    x[:, 1] = 7.0
    x[:, 2] *= 1e30
    x[:, 3] *= 1e-30
    x[100, 4] = float("nan")
    x[101, 5] = float("inf")
    x[102, 6] = -float("inf")
    x[:, 7] = -float("inf")
    x[:, 8] = float("inf")
    x[:, 9] += 1e6
    x[:130, 10] = -float("inf")
    x[7, 11], x[200, 11] = float("inf"), float("nan")
    rows = x.t().contiguous()

    def function(x: tinyt.Tensor, y: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [
            found
            for z, dims in ((x, (0,)), (y, (1,)), (x[:, :3], (0, 1)))
            for found in (
                prim.var(z, dims, False, 1.0, True),
                prim.var(z, dims, False, 1.0, False),
                prim.logsumexp(z, dims, False),
            )
        ]

    check(tmp_path, function, x, rows, uses="tt_rows_exps_f")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_squares(tmp_path: Path, dtype: str) -> None:
    args = [values(s, dtype) for s in ((3, 700), (30, 500), (), (0,), (1,))]
    check(
        tmp_path, lambda *args: prim.sum_squares([*args, args[0].t()]), *args,
        uses="tt_sum_of_squares_f",
    )  # fmt: skip
