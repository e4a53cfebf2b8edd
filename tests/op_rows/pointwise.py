"""Binary functions of floats and of integers' bits, and the ternary ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import ALL, FLOATS, NUMBERS, Op, Rng, b, bad, f, i
from op_rows.binary import binary, three
from sampling import S, Sample, draw
from tinyt.testing.reference import elementwise as ref

NOT_ZERO = (0.3, 4)
TENSORS: dict[str, Any] = {"scalars": ()}  # PyTorch takes no numbers here
FLOATING: dict[str, Any] = TENSORS | {"dtypes": FLOATS}
INTEGER: dict[str, Any] = {"dtypes": ("int64",), "grad": False}


def not_for_floats(name: str) -> tuple[Any, ...]:
    return (bad(RuntimeError, rf"{name}.*float32", f(2), f(2)),)


def not_for_integers(name: str) -> tuple[Any, ...]:
    return (bad(RuntimeError, rf"{name}.*int64", i(2), i(2)),)


def between(rng: Rng, dtype: str) -> list[Sample]:
    """Two tensors and a weight: a number, one of each shape, or a tensor that broadcasts."""
    found = []
    for s in ((4, 5), (0,), (67,), ()):
        start, end = draw(rng, s, dtype), draw(rng, s, dtype)
        found += [
            S(start, end, 0.3),
            S(start, end, 0.8),
            S(start, end, draw(rng, s, dtype, (0, 1))),
        ]
    return [*found, S(draw(rng, (2, 3), dtype), draw(rng, (3,), dtype), draw(rng, (2, 1), dtype))]


def bounds(rng: Rng, dtype: str) -> list[Sample]:
    found = [
        S(draw(rng, s, dtype, (-9, 9)), **k)
        for s in ((), (0,), (3,), (67,), (2, 0, 3), (2, 3, 4))
        for k in ({"min": -2}, {"max": 3}, {"min": -2, "max": 3}, {"min": 4, "max": 1})
    ]
    wide = draw(rng, (4, 5), dtype, (-9, 9))
    low, high = draw(rng, (5,), dtype, (-5, 0)), draw(rng, (4, 1), dtype, (0, 5))
    return [*found, S(wide, low, high), S(wide, min=low), S(wide, max=high), S(wide, high, low)]


POINTWISE = [
    binary(
        "fmod",
        np.fmod,
        (-9, 9),
        NOT_ZERO,
        int_b=(1, 5),
        more=(bad(RuntimeError, "fmod.*zero", i(2) + 1, i(2)),),
    ),
    binary("fmax", np.fmax, dtypes=ALL, inplace=False, **TENSORS),
    binary("fmin", np.fmin, dtypes=ALL, inplace=False, **TENSORS),
    binary(
        "atan2",
        lambda y, x: np.arctan2(np.float64(y), np.float64(x)),
        (0.2, 4),
        ulp=2,
        result="float",
        **TENSORS,
    ),
    binary("hypot", np.hypot, NOT_ZERO, ulp=2, more=not_for_integers("hypot"), **FLOATING),
    binary(
        "copysign",
        lambda x, y: np.copysign(np.float64(x), np.float64(y)),
        NOT_ZERO,
        int_b=(1, 4),
        result="float",
        dtypes=ALL,
    ),
    # In float64 alone: a reference cannot see the dtype of the floats it gets.
    binary(
        "nextafter",
        np.nextafter,
        grad=False,
        dtypes=("float64",),
        scalars=(),
        more=not_for_integers("nextafter"),
    ),
    binary(
        "heaviside",
        ref.heaviside,
        (-3, 3),
        dtypes=ALL,
        grad=False,
        more=(bad(RuntimeError, "heaviside.*float32.*int64", f(2), i(2)),),
        **TENSORS,
    ),
    binary(
        "xlogy", ref.xlogy, (0.3, 4), (0.1, 5), scalars=(2, 0.5), ulp=3, result="float", scale=1
    ),
    binary(
        "special_xlog1py",
        ref.xlog1py,
        (0.3, 4),
        (-0.9, 5),
        scalars=(2, 0.5),
        call="special.xlog1py",
        ulp=3,
        result="float",
        scale=1,
        method=False,
        inplace=False,
        errors=(),
    ),
    binary(
        "logaddexp",
        np.logaddexp,
        inplace=False,
        ulp=2,
        scale=1,
        more=not_for_integers("logaddexp"),
        **FLOATING,
    ),
    binary(
        "logaddexp2",
        np.logaddexp2,
        inplace=False,
        ulp=2,
        scale=1,
        more=not_for_integers("logaddexp2"),
        **FLOATING,
    ),
    binary(
        "ldexp",
        lambda x, n: x * 2.0 ** np.float64(n),
        int_b=(-3, 9),
        ulp=2,
        result="float",
        **TENSORS,
    ),
    binary(
        "float_power",
        lambda x, y: np.float64(x) ** np.float64(y),
        (0.2, 3),
        (-2, 3),
        ulp=4,
        result="float64",
        dtypes=NUMBERS,
        int_b=(0, 4),
    ),
    binary(
        "bitwise_left_shift",
        ref.bitwise_left_shift,
        (-40, 40),
        (0, 9),
        more=not_for_floats("bitwise_left_shift"),
        **INTEGER | {"scalars": (1, 6)},
    ),
    binary(
        "bitwise_right_shift",
        ref.bitwise_right_shift,
        (-4000, 4000),
        (0, 9),
        more=not_for_floats("bitwise_right_shift"),
        **INTEGER | {"scalars": (1, 6)},
    ),
    binary("gcd", np.gcd, (-90, 90), (-90, 90), more=not_for_floats("gcd"), **INTEGER | TENSORS),
    binary("lcm", np.lcm, (-90, 90), (-90, 90), more=not_for_floats("lcm"), **INTEGER | TENSORS),
    Op(
        "clamp",
        bounds,
        ref.clamp,
        inplace=True,
        out=True,
        errors=(
            bad(RuntimeError, r"clamp.*(min|max)", f(2)),
            bad(RuntimeError, r"clamp.*\(2, 3\).*\(4,\)", f(2, 3), f(4), f(2, 1)),
        ),
    ),
    Op(
        "lerp",
        between,
        ref.lerp,
        dtypes=FLOATS,
        ulp=4,
        scale=10,
        inplace=True,
        out=True,
        errors=(
            bad(RuntimeError, r"lerp.*int64", i(2), i(2), 0.5),
            bad(RuntimeError, r"lerp.*end.*int64.*float32", f(2), i(2), 0.5),
        ),
    ),
    Op(
        "addcmul",
        three((-4, 4)),
        ref.addcmul,
        dtypes=FLOATS,
        ulp=4,
        scale=40,
        inplace=True,
        out=True,
        errors=(bad(RuntimeError, r"addcmul.*bool", b(2), b(2), b(2)),),
    ),
    Op(
        "addcdiv",
        three((0.3, 4)),
        ref.addcdiv,
        dtypes=FLOATS,
        ulp=4,
        scale=40,
        inplace=True,
        out=True,
        errors=(bad(RuntimeError, r"addcdiv.*int64", f(2), i(2), i(2)),),
    ),
]
