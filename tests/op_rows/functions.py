"""Exponentials, trigonometric and special functions, and what is made of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from op_rows import ALL, FLOATS, NUMBERS, Op, Rng, b, bad, f, i, quiet
from op_rows.unary import EXACT, TEST, unary, unary_samples
from sampling import SHAPES, Const, S, Sample, draw, special_values
from tinyt.testing.reference import elementwise as ref
from tinyt.testing.reference import special

# Of functions with a zero inside the domain: the bound is absolute near it.
NEAR_ZERO: dict[str, Any] = {"ulp": 8, "scale": 1.0}
# PyTorch has these in torch.special alone.
SPECIAL: dict[str, Any] = {"method": False, "inplace": False}


def with_numbers(domain: tuple[float, float], key: str, *values: Any) -> Any:
    """Samples of one tensor with a keyword argument."""
    return lambda rng, dt: [
        S(draw(rng, s, dt, domain), **{key: v}) for s in SHAPES[:8] for v in values
    ]


def nan_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = [S(draw(rng, shape, dtype)) for shape in SHAPES]
    if dtype in FLOATS:
        found.append(S(special_values(dtype), nan=1.5, posinf=9.0, neginf=-7.0, grad=False))
    return found


def zeta_samples(rng: Rng, dtype: str) -> list[Sample]:
    """The order has no gradient."""
    return [
        S(k, draw(rng, shape, dtype, (0.3, 9)))
        for shape in ((), (0,), (3,), (4, 5), (67,))
        for k in (2.0, 3.5)
    ]


def gamma_samples(rng: Rng, dtype: str) -> list[Sample]:
    """PyTorch has no gradient of the first argument."""
    return [
        S(Const(draw(rng, a, dtype, (0.3, 9))), draw(rng, x, dtype, (0.3, 9)))
        for a, x in (((), ()), ((0,), (1,)), ((3,), (3,)), ((4, 1), (1, 5)), ((67,), (67,)))
    ]


FUNCTIONS = [
    unary("exp2", np.exp2, (-10, 10)),
    unary("log2", np.log2, (0.01, 9)),
    unary("log10", np.log10, (0.01, 9)),
    unary("tan", np.tan, (-1.4, 1.4), ulp=3),
    unary("asin", np.arcsin, (-0.95, 0.95)),
    unary("acos", np.arccos, (-0.95, 0.95)),
    unary("atan", np.arctan),
    unary("sinh", np.sinh, (-5, 5), ulp=3),
    unary("cosh", np.cosh, (-5, 5)),
    unary("asinh", np.arcsinh, ulp=3),
    unary("acosh", np.arccosh, (1.05, 9), ulp=3),
    unary("atanh", np.arctanh, (-0.95, 0.95), ulp=3),
    unary("erfc", special.erfc, (-3, 3), ulp=4),
    unary("erfinv", special.erfinv, (-0.9, 0.9), ulp=6),
    unary("lgamma", special.lgamma, (0.3, 9), **NEAR_ZERO),
    unary("digamma", special.digamma, (0.3, 9), **NEAR_ZERO),
    unary("i0", special.i0, (-9, 9), ulp=8, special=False),
    unary(
        "special_i0e",
        special.i0e,
        (-9, 9),
        call="special.i0e",
        ulp=10,
        special=False,
        **SPECIAL,
    ),
    unary(
        "special_i1",
        special.i1,
        (-9, 9),
        call="special.i1",
        ulp=10,
        special=False,
        **SPECIAL,
    ),
    unary(
        "special_i1e",
        special.i1e,
        (-9, 9),
        call="special.i1e",
        ulp=10,
        special=False,
        **SPECIAL,
    ),
    unary("special_ndtr", special.ndtr, (-3, 3), call="special.ndtr", ulp=16, **SPECIAL),
    unary(
        "special_entr",
        special.entr,
        (0.1, 5),
        call="special.entr",
        **NEAR_ZERO | SPECIAL | {"dtypes": FLOATS},
    ),
    Op(
        "special_zeta",
        zeta_samples,
        special.zeta,
        call="special.zeta",
        dtypes=FLOATS,
        ulp=8,
        method=False,
        out=True,
    ),
    unary(
        "special_erfcx",
        special.erfcx,
        (-2, 5),
        call="special.erfcx",
        **SPECIAL | {"ulp": 8, "special": False},
    ),
    unary(
        "special_log_ndtr",
        special.log_ndtr,
        (-4, 4),
        call="special.log_ndtr",
        **NEAR_ZERO | SPECIAL | {"special": False},
    ),
    unary(
        "special_ndtri",
        special.ndtri,
        (0.15, 0.85),
        call="special.ndtri",
        **NEAR_ZERO | SPECIAL | {"special": False, "dtypes": FLOATS},
    ),
    *(
        Op(
            name,
            gamma_samples,
            quiet(reference),
            dtypes=FLOATS,
            inplace=True,
            out=True,
            errors=(bad(RuntimeError, f"{name}.*int64", i(2), i(2)),),
            **NEAR_ZERO | {"ulp": 128},
        )
        for name, reference in (("igamma", special.gammainc), ("igammac", special.gammaincc))
    ),
    unary("sinc", np.sinc, (-3, 3), **NEAR_ZERO | {"special": False}),
    unary("logit", special.logit, (0.05, 0.95), special=False, **NEAR_ZERO | {"dtypes": FLOATS}),
    Op(
        "logit_eps",
        with_numbers((0.01, 0.99), "eps", 0.2),
        special.logit,
        call="logit",
        dtypes=FLOATS,
        method=False,
        **NEAR_ZERO,
    ),
    Op(
        "polygamma",
        lambda rng, dt: [
            S(draw(rng, s, dt, (0.4, 8)), n)
            for s in ((), (0,), (3,), (4, 5), (67,))
            for n in (0, 2, 3)
        ],
        quiet(special.polygamma),
        call=lambda tt, x, n: tt.polygamma(n, x),
        dtypes=NUMBERS,
        result="float",
        method=False,
        errors=(bad(RuntimeError, "polygamma.*-1", f(2), -1),),
        **NEAR_ZERO,
    ),
    # PyTorch's own trigamma is off by 1e-10 in float64.
    Op(
        "trigamma",
        lambda rng, dt: [S(draw(rng, s, dt, (0.4, 8)), 1) for s in SHAPES],
        special.polygamma,
        call=lambda tt, x, n: tt.polygamma(n, x),
        dtypes=("float32", "int64"),
        result="float",
        method=False,
        **NEAR_ZERO,
    ),
    Op(
        "mvlgamma",
        with_numbers((2.3, 8), "p", 1, 3),
        special.mvlgamma,
        dtypes=NUMBERS,
        result="float",
        inplace=True,
        errors=(bad(RuntimeError, "mvlgamma.*0", f(2), 0),),
        **NEAR_ZERO | {"ulp": 16},
    ),
    unary("deg2rad", np.deg2rad, (-200, 200)),
    unary("rad2deg", np.rad2deg, special=False),
    unary(
        "frac",
        lambda x: np.copysign(x - np.trunc(x), x),
        (-9, 9),
        special=False,
        **EXACT | {"dtypes": FLOATS},
        errors=(bad(RuntimeError, "frac.*int64", i(2)),),
    ),
    unary(
        "positive",
        lambda x: x,
        **EXACT | {"inplace": False, "out": False},
        errors=(bad(RuntimeError, "positive.*bool", b(2)),),
    ),
    Op(
        "round_decimals",
        with_numbers((-90, 90), "decimals", 2, -1),
        lambda x, decimals: np.round(x, decimals),
        call="round",
        dtypes=FLOATS,
        ulp=1,
        method=False,
        errors=(bad(RuntimeError, "round.*int64", i(2), decimals=1),),
    ),
    Op(
        "nan_to_num",
        nan_samples,
        quiet(ref.nan_to_num),
        dtypes=ALL,
        inplace=True,
        out=True,
    ),
    unary("signbit", np.signbit, **TEST | {"out": True, "dtypes": NUMBERS}),
    unary("isposinf", lambda x: x == math.inf, **TEST | {"out": True}),
    unary("isneginf", lambda x: x == -math.inf, **TEST | {"out": True}),
    Op(
        "frexp",
        unary_samples((-900, 900)),
        special.frexp,
        dtypes=FLOATS,
        result="reference",
        out=True,
        errors=(bad(RuntimeError, "frexp.*int64", i(2)),),
    ),
]
