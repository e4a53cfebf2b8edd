"""Compiled functions as C programs, beside the programs themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both, same_bits

pytestmark = [compiles, has_fma, pytest.mark.host]


def test_a_chain_and_a_copy(tmp_path: Path) -> None:
    x, y = tinyt.randn(5, 7), tinyt.randn(7)
    for have, want in run_both(
        tmp_path, lambda x, y: ((x.exp() + y).relu() * 2, x.t().contiguous()), x, y
    ):
        assert same_bits(have, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool", "uint8"])
def test_conversions(tmp_path: Path, dtype: str) -> None:
    x = tinyt.randn(40).abs().to(getattr(tinyt, dtype))
    for have, want in run_both(tmp_path, lambda x: (x.float() * 2, (x.float() + 1).to(x.dtype)), x):
        assert same_bits(have, want)
