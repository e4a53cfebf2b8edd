"""Unary elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from op_rows import (
    ALL,
    FLOATS,
    NUMBERS,
    Bad,
    Op,
    Rng,
    Samples,
    b,
    bad,
    cases,
    f,
    in_float64,
    quiet,
)
from sampling import (
    BIG,
    SHAPES,
    S,
    Sample,
    draw,
    special_values,
)
from tinyt.testing.reference import elementwise as ref
from tinyt.testing.reference import special


def unary_samples(domain: tuple[float, float], special: bool = True) -> Samples:
    def samples(rng: Rng, dtype: str) -> list[Sample]:
        found = [S(draw(rng, shape, dtype, domain)) for shape in SHAPES]
        found.append(S(draw(rng, BIG, dtype, domain), grad=False))
        if special and dtype in FLOATS:
            found.append(S(special_values(dtype), grad=False))
        return found

    return samples


def unary(
    name: str,
    reference: Callable[..., Any],
    domain: tuple[float, float] = (-4, 4),
    *,
    special: bool = True,
    **facts: Any,
) -> Op:
    facts = {"ulp": 2, "inplace": True, "out": True, "dtypes": ALL, "result": "float"} | facts
    function = in_float64(reference) if facts["result"] == "float" else reference
    return Op(name, unary_samples(domain, special), quiet(function), **facts)


EXACT: dict[str, Any] = {"ulp": 0, "result": "same", "dtypes": NUMBERS}
TEST: dict[str, Any] = {
    "ulp": 0,
    "result": "bool",
    "dtypes": ALL,
    "grad": False,
    "inplace": False,
    "out": False,
}


def no_bool(name: str) -> tuple[Bad, ...]:
    return (bad(RuntimeError, rf"{name}.*bool", b(2)),)


UNARY = [
    unary("abs", np.abs, **EXACT),
    unary("neg", np.negative, **EXACT, errors=no_bool("neg")),
    unary("sign", ref.sign, **EXACT),
    unary("square", np.square, **EXACT),
    unary("relu", ref.relu, **EXACT | {"out": False}, errors=no_bool("relu")),
    unary("floor", np.floor, (-9, 9), **EXACT),
    unary("ceil", np.ceil, (-9, 9), **EXACT),
    unary("round", np.round, (-9, 9), **EXACT),
    unary("trunc", np.trunc, (-9, 9), **EXACT),
    unary("exp", np.exp, (-20, 20)),
    unary("expm1", np.expm1, (-2, 5)),
    unary("log", np.log, (0.01, 9)),
    unary("log1p", np.log1p, (-0.9, 5)),
    unary("sqrt", np.sqrt, (0.01, 9), ulp=0),
    unary("rsqrt", ref.rsqrt, (0.01, 9)),
    unary("reciprocal", ref.reciprocal, (0.1, 9), ulp=0),
    unary("sin", np.sin, (-30, 30)),
    unary("cos", np.cos, (-30, 30)),
    unary("tanh", np.tanh),
    unary("sigmoid", ref.sigmoid, (-20, 20)),
    unary("erf", special.erf, (-3, 3)),
    unary(
        "bitwise_not",
        np.invert,
        **EXACT | {"dtypes": ("int64", "bool"), "grad": False},
        errors=(bad(RuntimeError, r"bitwise_not.*float32", f(2)),),
    ),
    unary("logical_not", np.logical_not, **TEST),
    unary("isnan", np.isnan, **TEST),
    unary("isinf", np.isinf, **TEST),
    unary("isfinite", np.isfinite, **TEST),
    Op("clamp_min", cases(((4, 5), -1), ((), 2), ((0,), 1)), np.maximum, inplace=True),
    Op("clamp_max", cases(((4, 5), -1), ((), 2), ((0,), 1)), np.minimum, inplace=True),
]
