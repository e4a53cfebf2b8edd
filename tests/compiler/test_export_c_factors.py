"""Factors of matrices as C."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both, same_bits
from tinyt.tensor import prim

pytestmark = [compiles, has_fma, pytest.mark.host]

SHAPES = [(1, 1), (7, 7), (2, 3, 4, 4), (40, 40), (0, 3, 3), (2, 0, 0)]


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
def test_cholesky(tmp_path: Path, dtype: tinyt.dtype) -> None:
    tensors = []
    for shape in SHAPES:
        x = tinyt.randn(shape).to(dtype)
        tensors.append(x @ x.transpose(-1, -2) + tinyt.eye(shape[-1]).to(dtype))
    tensors[2][1, 1, 2, 2], tensors[2][0, 1, 0, 0] = -1.0, float("nan")
    tensors.append((tensors[1] + 1).t())  # arguments share no memory

    def function(*tensors: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [y for x in tensors for y in prim.cholesky(x)]

    pairs = run_both(tmp_path, function, *tensors)
    assert "tt_cholesky_f" in (tmp_path / "program.c").read_text()
    for have, want in pairs:
        assert same_bits(have, want)


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
def test_solve_triangular(tmp_path: Path, dtype: tinyt.dtype) -> None:
    pairs = []
    for shape in SHAPES:
        a = tinyt.randn(shape).to(dtype) + 3 * tinyt.eye(shape[-1]).to(dtype)
        pairs += [a, tinyt.randn(*shape[:-1], 5).to(dtype)]
    pairs += [(pairs[2] * 1).t(), tinyt.randn(100, 7).to(dtype).t()]
    pairs += [(pairs[2] * 1).expand(3, 7, 7), tinyt.randn(3, 7, 1).to(dtype)]

    def function(*tensors: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [
            tinyt.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)
            for a, b in zip(tensors[::2], tensors[1::2], strict=True)
            for upper in (False, True)
            for unit in (False, True)
        ]

    found = run_both(tmp_path, function, *pairs)
    assert "tt_substitute_f" in (tmp_path / "program.c").read_text()
    for have, want in found:
        assert same_bits(have, want)
