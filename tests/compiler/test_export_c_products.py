"""Products in exported programs, beside float64's."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both

pytestmark = [compiles, has_fma, pytest.mark.host]

# (shape of a, shape of b, whether b is transposed)
SHAPES = [
    ((1, 1), (1, 1), False),
    ((1, 40), (40, 70), False),
    ((1, 70), (40, 70), True),
    ((3, 70), (40, 70), True),
    ((5, 3), (3, 17), False),
    ((6, 16), (16, 16), False),
    ((13, 33), (33, 50), False),
    ((13, 33), (50, 33), True),
    ((7, 2500), (2500, 20), False),
    ((4, 0), (0, 5), False),
    ((0, 4), (4, 5), False),
    ((2, 3, 5, 8), (2, 3, 8, 9), False),
    ((2, 3, 5, 8), (3, 8, 9), False),
    ((4, 1, 6, 7), (1, 5, 9, 7), True),
    ((2, 3, 4, 6), (6, 5), False),
    ((2, 1, 6), (6, 5), False),
]


def bound(want: tinyt.Tensor, k: int) -> float:
    eps = 2.0**-24 if want.dtype is tinyt.float32 else 2.0**-53
    return 4 * eps * (k**0.5 + 4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(tmp_path: Path, dtype: str) -> None:
    tinyt.manual_seed(0)
    t = getattr(tinyt, dtype)
    pairs = [(tinyt.randn(a).to(t), tinyt.randn(b).to(t), turned) for a, b, turned in SHAPES]

    def all_of(*given: tinyt.Tensor) -> list[tinyt.Tensor]:
        return [
            given[2 * i] @ (given[2 * i + 1].mT if turned else given[2 * i + 1])
            for i, (_, _, turned) in enumerate(pairs)
        ]

    given = [x for a, b, _ in pairs for x in (a, b)]
    found = run_both(tmp_path, all_of, *given)
    for (have, want), (a, b, turned) in zip(found, pairs, strict=True):
        right = b.mT if turned else b
        exact = a.double() @ right.double()
        scale = a.double().abs() @ right.double().abs()
        assert have.shape == want.shape
        error = (have.double() - exact).abs()
        assert bool((error <= bound(have, a.shape[-1]) * scale).all()), (a.shape, b.shape)


def test_addends_layers_and_transposed_rows(tmp_path: Path) -> None:
    tinyt.manual_seed(1)
    x, w, b = tinyt.randn(20, 30), tinyt.randn(18, 30), tinyt.randn(18)
    c = tinyt.randn(20, 18)

    def layers(x: tinyt.Tensor, w: tinyt.Tensor, b: tinyt.Tensor, c: tinyt.Tensor) -> object:
        return (
            tinyt.nn.functional.linear(x, w, b),
            tinyt.nn.functional.linear(x[:1], w, b).relu(),
            tinyt.addmm(c, x, w.t()),
            tinyt.nn.functional.linear(x.view(4, 5, 30), w),
            (c.t() @ x).exp(),
            x.t() @ c,
        )

    for have, want in run_both(tmp_path, layers, x, w, b, c):
        tinyt.testing.assert_close(have, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "int32"])
def test_other_dtypes(tmp_path: Path, dtype: str) -> None:
    tinyt.manual_seed(2)
    t = getattr(tinyt, dtype)
    a, b = (tinyt.randn(9, 20) * 4).to(t), (tinyt.randn(20, 11) * 4).to(t)
    for have, want in run_both(tmp_path, lambda a, b: (a @ b, a[:1] @ b), a, b):
        if t.is_floating_point:
            tinyt.testing.assert_close(have, want)
        else:
            assert bool((have == want).all())
