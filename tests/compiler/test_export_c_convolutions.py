"""Convolutions in exported programs, beside float64's."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both
from tinyt.tensor import prim

pytestmark = [compiles, has_fma, pytest.mark.host]

# (shape of x, shape of w, stride, padding, dilation, groups)
CASES = [
    ((1, 1, 1), (1, 1, 1), [1], [0], [1], 1),
    ((2, 3, 20), (8, 3, 5), [1], [2], [1], 1),
    ((2, 3, 21), (5, 3, 4), [2], [1], [2], 1),
    ((2, 3, 9, 9), (8, 3, 3, 3), [1, 1], [1, 1], [1, 1], 1),
    ((1, 4, 30, 40), (7, 4, 3, 5), [1, 1], [0, 2], [1, 1], 1),
    ((1, 4, 12, 11), (6, 2, 3, 3), [2, 3], [1, 1], [1, 2], 2),
    ((2, 6, 10, 10), (6, 1, 3, 3), [1, 1], [1, 1], [1, 1], 6),
    ((2, 8, 7, 7), (12, 8, 1, 1), [1, 1], [0, 0], [1, 1], 1),
    ((1, 2, 5, 6, 7), (4, 2, 2, 3, 3), [1, 2, 1], [1, 0, 1], [1, 1, 2], 1),
    ((0, 2, 5), (4, 2, 3), [1], [0], [1], 1),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_convolutions_and_gradients(tmp_path: Path, dtype: str) -> None:
    tinyt.manual_seed(0)
    t = getattr(tinyt, dtype)
    given: list[tinyt.Tensor] = []
    for x, w, stride, padding, dilation, groups in CASES:
        a, b = tinyt.randn(x).to(t), tinyt.randn(w).to(t)
        y = prim.conv(a, b, stride, padding, dilation, groups)
        given += [a, b, tinyt.randn(y.shape).to(t)]

    def all_of(*given: tinyt.Tensor) -> list[tinyt.Tensor]:
        found = []
        for i, (x, w, *rest) in enumerate(CASES):
            a, b, g = given[3 * i : 3 * i + 3]
            found += [
                prim.conv(a, b, *rest),
                prim.conv_backward_input(g, b, x, *rest),
                prim.conv_backward_weight(g, a, w, *rest),
            ]
        return found

    results = run_both(tmp_path, all_of, *given)
    wide = [x.double() for x in given]
    sizes = [x.abs() for x in wide]
    for (have, want), exact, scale in zip(results, all_of(*wide), all_of(*sizes), strict=True):
        assert have.shape == want.shape
        error = (have.double() - exact).abs()
        eps = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-9}[dtype]
        assert bool((error <= 20 * eps * scale + 1e-300).all()), (have.shape, error.max())
