"""Binary and ternary elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from op_rows import (
    ALL,
    FLOATS,
    Bad,
    Op,
    Rng,
    Samples,
    b,
    bad,
    f,
    i,
    quiet,
)
from sampling import (
    BIG,
    BROADCASTS,
    Array,
    S,
    Sample,
    draw,
)
from tinyt.testing.reference import elementwise as ref


def binary_samples(
    domain_a: tuple[float, float],
    domain_b: tuple[float, float],
    scalars: tuple[Any, ...],
    int_b: tuple[float, float] | None = None,
) -> Samples:
    def samples(rng: Rng, dtype: str) -> list[Sample]:
        second = int_b if int_b and dtype == "int64" else domain_b
        found = [
            S(draw(rng, sa, dtype, domain_a), draw(rng, sb, dtype, second))
            for sa, sb in (*BROADCASTS, (BIG, BIG), (BIG, ()))
        ]
        found += [
            S(draw(rng, (2, 3), dtype, domain_a), k)
            for k in scalars
            if dtype in FLOATS or isinstance(k, int)
        ]
        return [Sample(s.args, s.kwargs, s.args[0].size < 100) for s in found]

    return samples


def clash(name: str, make: Callable[..., Array], *more: Bad) -> tuple[Bad, ...]:
    """Shapes that do not broadcast."""
    return (
        bad(RuntimeError, rf"{name}.*\(2, 3\).*\(4,\)", make(2, 3), make(4)),
        bad(RuntimeError, rf"{name}.*\(2, 1, 3\).*\(4, 2\)", make(2, 1, 3), make(4, 2)),
        *more,
    )


def binary(
    name: str,
    reference: Callable[..., Any],
    a: tuple[float, float] = (-4, 4),
    b: tuple[float, float] = (-4, 4),
    *,
    scalars: tuple[Any, ...] = (2, 0.5, -3),
    int_b: tuple[float, float] | None = None,
    more: tuple[Bad, ...] = (),
    **facts: Any,
) -> Op:
    made = f if set(facts.get("dtypes", FLOATS)) & set(FLOATS) else i
    facts = {"inplace": True, "out": True, "errors": clash(name, made, *more)} | facts
    return Op(name, binary_samples(a, b, scalars, int_b), quiet(reference), **facts)


def with_kwargs(samples: Samples, **kwargs: Any) -> Samples:
    return lambda rng, dt: [Sample(s.args, kwargs, s.grad) for s in samples(rng, dt)]


def three(domain: tuple[float, float]) -> Samples:
    """A tensor and two more that are multiplied or divided."""
    return lambda rng, dt: [
        S(draw(rng, s, dt), draw(rng, s[-1:], dt), draw(rng, s, dt, domain), value=v)
        for s in ((4, 5), (0,), (67,), ())
        for v in (1, 0.5)
    ]


COMPARE: dict[str, Any] = {"dtypes": ALL, "result": "bool", "grad": False, "inplace": False}
BITS: dict[str, Any] = {"dtypes": ("int64", "bool"), "grad": False, "scalars": (1, 6)}
INTEGERS = (-4, 4)
NOT_ZERO = (0.3, 4)
ARITH = binary_samples((-9, 9), NOT_ZERO, (2, 0.5, -3), (1, 5))

BINARY = [
    binary("add", ref.add, dtypes=ALL),
    Op(
        "add_alpha",
        with_kwargs(binary_samples(INTEGERS, INTEGERS, ()), alpha=3),
        ref.add,
        call="add",
        ulp=1,
        scale="abs",
        method=False,
    ),
    binary("sub", np.subtract, more=(bad(RuntimeError, r"sub.*bool", b(2), b(2)),)),
    binary("mul", np.multiply, dtypes=ALL),
    binary(
        "div",
        ref.div,
        (-9, 9),
        NOT_ZERO,
        int_b=(1, 5),
        result="float",
        ulp=0,
        more=(bad(RuntimeError, r"div.*'up'", f(2), f(2), rounding_mode="up"),),
    ),
    Op("div_trunc", with_kwargs(ARITH, rounding_mode="trunc"), ref.div, call="div", method=False),
    Op("div_floor", with_kwargs(ARITH, rounding_mode="floor"), ref.div, call="div", method=False),
    binary(
        "floor_divide",
        ref.floor_divide,
        (-9, 9),
        NOT_ZERO,
        int_b=(1, 5),
        grad=False,
        more=(bad(RuntimeError, r"floor_divide.*zero", i(2) + 1, i(2)),),
    ),
    binary(
        "remainder",
        np.remainder,
        (-9, 9),
        NOT_ZERO,
        int_b=(1, 5),
        more=(bad(RuntimeError, r"remainder.*zero", i(2) + 1, i(2)),),
    ),
    binary(
        "pow",
        ref.pow,
        (0.2, 3),
        (-2, 3),
        int_b=(0, 4),
        scalars=(2, 3, 0.5, 0, 0.3),
        ulp=4,
        more=(bad(RuntimeError, r"pow.*negative", i(2) + 2, -1),),
    ),
    binary("maximum", np.maximum, dtypes=ALL, scalars=(), inplace=False),
    binary("minimum", np.minimum, dtypes=ALL, scalars=(), inplace=False),
    binary("eq", np.equal, INTEGERS, INTEGERS, **COMPARE),
    binary("ne", np.not_equal, INTEGERS, INTEGERS, **COMPARE),
    binary("lt", np.less, **COMPARE),
    binary("le", np.less_equal, **COMPARE),
    binary("gt", np.greater, **COMPARE),
    binary("ge", np.greater_equal, **COMPARE),
    binary("logical_and", np.logical_and, **COMPARE | {"scalars": ()}),
    binary("logical_or", np.logical_or, **COMPARE | {"scalars": ()}),
    binary("logical_xor", np.logical_xor, **COMPARE | {"scalars": ()}),
    binary(
        "bitwise_and",
        np.bitwise_and,
        **BITS,
        more=(bad(RuntimeError, r"bitwise_and.*float32", f(2), f(2)),),
    ),
    binary(
        "bitwise_or",
        np.bitwise_or,
        **BITS,
        more=(bad(RuntimeError, r"bitwise_or.*float32", f(2), f(2)),),
    ),
    binary(
        "bitwise_xor",
        np.bitwise_xor,
        **BITS,
        more=(bad(RuntimeError, r"bitwise_xor.*float32", f(2), f(2)),),
    ),
    Op(
        "where",
        lambda rng, dt: [
            S(draw(rng, s, "bool"), draw(rng, sa, dt), draw(rng, sb, dt))
            for s, sa, sb in [
                ((), (), ()),
                ((3,), (3,), (3,)),
                ((2, 3), (), (3,)),
                ((4, 1), (1, 5), (4, 5)),
                ((0,), (1,), (0,)),
                ((67,), (67,), (67,)),
            ]
        ],
        np.where,
        dtypes=ALL,
        method=False,
        errors=(
            bad(RuntimeError, r"where.*\(2,\).*\(3,\)", b(2), f(3), f(3)),
            bad(RuntimeError, r"where.*bool.*float32", f(2), f(2), f(2)),
        ),
    ),
    binary(
        "rsub", lambda a, b: np.subtract(b, a), inplace=False, out=False, errors=(), method=False
    ),
    Op(
        "isclose",
        lambda rng, dt: [
            S(x := draw(rng, (9,), dt), x + np.array([0, 1, 0] * 3, dt)),
            S(draw(rng, (4, 1), dt), draw(rng, (5,), dt), atol=1.0),
        ],
        lambda a, b, atol=1e-8: np.isclose(a, b, 1e-5, atol),
        dtypes=FLOATS,
        result="bool",
        grad=False,
    ),
]
