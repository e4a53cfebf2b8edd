"""Softmax and normalisations as C, with the CPU's bits."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both, same_bits
from tinyt.tensor import prim

pytestmark = [compiles, has_fma, pytest.mark.host]

FLOATS = ["float32", "float64", "float16", "bfloat16"]


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> tinyt.Tensor:
    x = tinyt.randn(shape, generator=tinyt.Generator().manual_seed(seed))
    return (x * 3 + 1).to(getattr(tinyt, dtype))


def check(folder: Path, function, *args: tinyt.Tensor, uses: str) -> None:
    """Bits of all results, and that a function is in the program's text."""
    for i, (have, want) in enumerate(run_both(folder, function, *args)):
        assert same_bits(have, want), (i, want.shape, want.dtype, (have - want).abs().max())
    assert uses in (folder / "program.c").read_text(encoding="utf-8")


SOFTMAX = [
    ((), 0), ((1,), 0), ((7,), 0), ((3, 700), 1), ((2, 9000), 1), ((40, 33), 0), ((33, 64), 0),
    ((2, 20, 17), 1), ((0, 4), 1), ((4, 0), 1), ((5, 1), 1), ((3, 5000, 2), 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax(tmp_path: Path, op: str, dtype: str) -> None:
    args = [values(s, dtype, i) for i, (s, _) in enumerate(SOFTMAX)]
    apply = getattr(prim, op)

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [apply(x, dim) for x, (_, dim) in zip(args, SOFTMAX, strict=True)]

    check(tmp_path, function, *args, uses=f"tt_{op}_f")


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_of_odd_numbers(tmp_path: Path, op: str) -> None:
    x = values((12, 40), "float32")
    x[1, 3] = float("nan")
    x[2, 3] = float("inf")
    x[3, 3] = -float("inf")
    x[4] = -float("inf")
    x[5] *= 60
    x[6] = 3
    apply = getattr(prim, op)
    check(
        tmp_path, lambda x: (apply(x, 1), apply(x, 0), apply(x.t()[::2], 0), apply(x[:, :1], 1)),
        x, uses=f"tt_{op}_f",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_backward(tmp_path: Path, op: str, dtype: str) -> None:
    shapes = SOFTMAX
    y = [getattr(prim, op)(values(s, dtype, i), d) for i, (s, d) in enumerate(shapes)]
    g = [values(s, dtype, 90 + i) for i, (s, _) in enumerate(shapes)]
    apply = getattr(prim, f"{op}_backward")

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        n = len(shapes)
        return [apply(args[i], args[n + i], dim) for i, (_, dim) in enumerate(shapes)]

    check(tmp_path, function, *g, *y, uses=f"tt_{op}_backward_f")


ROWS = [((4, 7), 1), ((3, 5, 40), 2), ((2, 5000), 1), ((3, 9000), 1), ((300, 24), 1), ((3, 8), 1),
        ((6,), 1), ((0, 5), 1), ((70, 2000), 1)]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("center", [True, False])
def test_layer_norm(tmp_path: Path, dtype: str, center: bool) -> None:
    args = [values(s, dtype, i) for i, (s, _) in enumerate(ROWS)]
    parts = [values(s[len(s) - d :], dtype, 50 + i) for i, (s, d) in enumerate(ROWS)]
    none = tinyt.zeros(())

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i, (_, dims) in enumerate(ROWS):
            x, w = args[i], args[len(ROWS) + i]
            found += prim.layer_norm(x, w, w, dims, center, 1e-5)
            found += prim.layer_norm(x, none, none, dims, center, 1e-3)
        return found

    check(tmp_path, function, *args, *parts, uses="tt_layer_norm_f")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("center", [True, False])
def test_layer_norm_backward(tmp_path: Path, dtype: str, center: bool) -> None:
    none = tinyt.zeros(())
    given = []
    for i, (s, d) in enumerate(ROWS):
        x = values(s, dtype, i)
        _, mean, scale = prim.layer_norm(x, none, none, d, center, 1e-5)
        given += [values(s, dtype, 30 + i), x, mean, scale, values(s[len(s) - d :], dtype, 60 + i)]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i, (_, dims) in enumerate(ROWS):
            g, x, mean, scale, w = args[5 * i : 5 * i + 5]
            found += prim.layer_norm_backward(g, x, mean, scale, w, dims, center, True, True)
            found += prim.layer_norm_backward(g, x, mean, scale, none, dims, center, True, False)
            found += prim.layer_norm_backward(g, x, mean, scale, w, dims, center, False, True)
        return [y for y in found if y.numel()]

    check(tmp_path, function, *given, uses="tt_layer_norm_backward_f")


CHANNELS = [(4, 3), (300, 5), (2, 3, 16), (5, 4, 3, 3), (3, 6, 20, 20), (1, 2, 5000), (7, 300, 2),
            (3, 4, 1), (6, 40)]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm(tmp_path: Path, dtype: str) -> None:
    args = []
    for i, s in enumerate(CHANNELS):
        parts = [values((s[1],), dtype, 10 * i + k) for k in range(3)]
        args += [values(s, dtype, i), *parts, parts[0].abs()]
    none = tinyt.zeros(())

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i in range(len(CHANNELS)):
            x, w, b, mean, var = args[5 * i : 5 * i + 5]
            found += prim.batch_norm(x, w, b, none, none, 1e-5)
            found += prim.batch_norm(x, none, none, mean, var, 1e-3)
            found += prim.batch_norm(x, w, none, mean, var, 1e-3)
        return found

    check(tmp_path, function, *args, uses="tt_scale_channels_f")


@pytest.mark.parametrize("dtype", FLOATS)
def test_batch_norm_backward(tmp_path: Path, dtype: str) -> None:
    none, args = tinyt.zeros(()), []
    for i, s in enumerate(CHANNELS):
        x = values(s, dtype, i)
        _, mean, scale, _ = prim.batch_norm(x, none, none, none, none, 1e-5)
        args += [values(s, dtype, 70 + i), x, mean, scale, values((s[1],), dtype, 30 + i)]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i in range(len(CHANNELS)):
            g, x, mean, scale, w = args[5 * i : 5 * i + 5]
            found += prim.batch_norm_backward(g, x, mean, scale, w, True, True)
            found += prim.batch_norm_backward(g, x, mean, scale, none, True, True)
            found += prim.batch_norm_backward(g, x, mean, scale, w, False, True)
            found += prim.batch_norm_backward(g, x, mean, scale, none, False, False)[1:]
        return found

    check(tmp_path, function, *args, uses="tt_channels_input_f")


GROUPS = [((4, 6), 2), ((3, 6, 16), 3), ((2, 8, 3, 3), 2), ((3, 6, 20, 20), 2), ((2, 4, 5000), 1),
          ((7, 30, 2), 30)]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_norm(tmp_path: Path, dtype: str) -> None:
    none, args = tinyt.zeros(()), []
    for i, (s, _) in enumerate(GROUPS):
        args += [values(s, dtype, i), *(values((s[1],), dtype, 10 * i + k) for k in range(2))]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i, (_, groups) in enumerate(GROUPS):
            x, w, b = args[3 * i : 3 * i + 3]
            found += prim.group_norm(x, w, b, groups, 1e-5)
            found += prim.group_norm(x, none, none, groups, 1e-5)
        return found

    check(tmp_path, function, *args, uses="tt_rows_stats_f")


@pytest.mark.parametrize("dtype", FLOATS)
def test_group_norm_backward(tmp_path: Path, dtype: str) -> None:
    none, args = tinyt.zeros(()), []
    for i, (s, groups) in enumerate(GROUPS):
        x = values(s, dtype, i)
        _, mean, scale = prim.group_norm(x, none, none, groups, 1e-5)
        args += [values(s, dtype, 70 + i), x, mean, scale, values((s[1],), dtype, 30 + i)]

    def function(*args: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i, (_, groups) in enumerate(GROUPS):
            g, x, mean, scale, w = args[5 * i : 5 * i + 5]
            found += prim.group_norm_backward(g, x, mean, scale, w, groups, True)
            found += prim.group_norm_backward(g, x, mean, scale, none, groups, True)
            found += prim.group_norm_backward(g, x, mean, scale, w, groups, False)[1:]
        return found

    check(tmp_path, function, *args, uses="tt_group_sums_few_f")
