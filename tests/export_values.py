"""Values that tests of exported C share, and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tinyt
from c_program import run_both, same_bits

FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*FLOATS, "bool", "uint8", "int8", "int16", "int32", "int64"]


def values(dtype: str, *shape: int, special: bool = True) -> tinyt.Tensor:
    """Random values with ties; of floats zeros of both signs, infinities and NaN, too."""
    t = getattr(tinyt, dtype)
    x = (tinyt.randn(shape) * 4).round()
    if not t.is_floating_point:
        return (x.abs() * 9 if dtype == "uint8" else x * 9).to(t)
    u = tinyt.rand(shape)
    x = x * tinyt.where(u < 0.3, -0.37, 1.0)
    for k, value in enumerate((float("nan"), float("inf"), float("-inf"), -0.0) if special else ()):
        x = tinyt.where((u > 0.9 + 0.025 * k) & (u < 0.925 + 0.025 * k), value, x)
    return x.to(t)


def check(
    folder: Path,
    names: list[str],
    function: Callable[..., Any],
    *args: tinyt.Tensor,
    within: float = 0,
) -> None:
    """The C has the program's bits, or is so near to it, relatively; and it has functions of
    templates that begin so."""
    for k, (have, want) in enumerate(run_both(folder, function, *args)):
        if within:
            np.testing.assert_allclose(have.numpy(), want.numpy(), within, 0)
        else:
            assert same_bits(have, want), (k, have, want)
    text = (folder / "program.c").read_text(encoding="utf-8")
    for name in names:
        assert f"static void {name}_" in text or f"static int {name}_" in text, name
