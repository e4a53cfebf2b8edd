"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from op_rows import FLOATS, NUMBERS, Bad, Op, Rng, Samples, b, bad, dim_errors, f, i, quiet
from sampling import S, Sample, Shape, draw, special_values
from tinyt.testing.reference import activation as ref
from tinyt.testing.reference import loss

SHAPES: tuple[Shape, ...] = ((), (0,), (67,), (2, 0, 3), (4, 5))


def act_samples(
    *variants: dict[str, Any], domain: tuple[float, float] = (-4, 4), special: bool = True
) -> Samples:
    """Every shape with the defaults, one with each variant of the arguments, special values."""

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        found = [S(draw(rng, shape, dtype, domain)) for shape in SHAPES]
        found += [S(draw(rng, (4, 5), dtype, domain), **kwargs) for kwargs in variants]
        if special and dtype in FLOATS:
            found.append(S(special_values(dtype), grad=False))
        return found

    return samples


def act(
    name: str,
    *variants: dict[str, Any],
    errors: tuple[Bad, ...] | None = None,
    domain: tuple[float, float] = (-4, 4),
    special: bool = True,
    **facts: Any,
) -> Op:
    """A row of `nn.functional`; by default it refuses integers."""
    if errors is None:
        errors = (bad(RuntimeError, rf"{name}.*int64", i(3)),)
    facts = {"dtypes": FLOATS, "ulp": 4, "method": False, "call": f"nn.functional.{name}"} | facts
    samples = act_samples(*variants, domain=domain, special=special)
    return Op(name, samples, quiet(getattr(ref, name)), errors=errors, **facts)


def prelu_samples(rng: Rng, dtype: str) -> list[Sample]:
    pairs: list[tuple[Shape, Shape]] = [
        ((4, 5), (1,)),
        ((4, 5), (5,)),
        ((2, 3, 4), (3,)),
        ((6,), ()),
        ((6,), (1,)),
        ((), (1,)),
        ((0, 3), (3,)),
    ]
    return [S(draw(rng, x, dtype), draw(rng, w, dtype, (-1, 2))) for x, w in pairs]


def along(name: str, shapes: list[tuple[Shape, int]], **facts: Any) -> Op:
    samples = lambda rng, dt: [S(draw(rng, s, dt), d) for s, d in shapes]  # noqa: E731
    reference: Callable[..., Any] = getattr(loss if name == "softmin" else ref, name)
    return Op(name, samples, reference, f"nn.functional.{name}", FLOATS, method=False, **facts)


ACTIVATION = [
    act("gelu", scale=4, special=False, out=True),
    Op(
        "gelu_tanh",
        lambda rng, dt: [S(draw(rng, s, dt), approximate="tanh") for s in SHAPES],
        ref.gelu,
        call="nn.functional.gelu",
        dtypes=FLOATS,
        ulp=4,
        scale=4,
        method=False,
        errors=(bad(RuntimeError, r"gelu.*'fast'", f(2), approximate="fast"),),
    ),
    act("silu", domain=(-20, 20), special=False),
    act("mish", domain=(-15, 30), special=False, ulp=8),
    act("elu", {"alpha": 0.5}, {"alpha": -1.5}),
    act(
        "celu",
        {"alpha": 0.5},
        errors=(
            bad(RuntimeError, r"celu.*int64", i(3)),
            bad(RuntimeError, r"celu.*alpha.*0", f(3), alpha=0.0),
        ),
    ),
    act("selu"),
    act("leaky_relu", {"negative_slope": 0.3}, {"negative_slope": -1.0}),
    Op(
        "prelu",
        prelu_samples,
        ref.prelu,
        dtypes=FLOATS,
        ulp=1,
        errors=(
            bad(RuntimeError, r"prelu.*5.*\(2, 5\).*2", f(2, 5), f(2)),
            bad(RuntimeError, r"prelu.*\(1, 1\)", f(2, 5), f(1, 1)),
            bad(RuntimeError, r"prelu.*float32.*float64", f(2), np.ones(1)),
        ),
    ),
    act(
        "rrelu",
        {"lower": 0.1, "upper": 0.2},
        errors=(
            bad(RuntimeError, r"rrelu.*int64", i(3)),
            bad(RuntimeError, r"rrelu.*2.*1", f(3), 2.0, 1.0),
        ),
    ),
    Op(
        "threshold",
        lambda rng, dt: [S(draw(rng, s, dt), 0.5, 2) for s in SHAPES],
        ref.threshold,
        call="threshold",
        dtypes=NUMBERS,
        out=True,
        ulp=1,
        method=False,
    ),
    act(
        "hardtanh",
        {"min_val": -2, "max_val": 0.5},
        dtypes=NUMBERS,
        errors=(
            bad(ValueError, r"hardtanh.*2.*1", f(2), 2.0, 1.0),
            bad(RuntimeError, r"hardtanh.*bool", b(2)),
        ),
    ),
    act("relu6", dtypes=NUMBERS, domain=(-9, 9), errors=()),
    act("hardsigmoid", scale=1),
    act("hardswish", scale=4, special=False),
    act("hardshrink", {"lambd": 1.5}, method=True, call="hardshrink", out=True),
    act(
        "softshrink",
        {"lambd": 1.5},
        {"lambd": 0},
        errors=(bad(RuntimeError, r"softshrink.*-1", f(2), -1.0),),
        scale=1,
        out=True,
    ),
    act("softplus", {"beta": 2}, {"beta": 0.5, "threshold": 1}, domain=(-20, 30), out=True),
    act("logsigmoid", domain=(-30, 30), out=True),
    act("softsign", dtypes=NUMBERS, result="float", errors=()),
    act("tanhshrink", dtypes=NUMBERS, result="float", errors=(), scale=4),
    along(
        "glu",
        [((6,), 0), ((3, 4), -1), ((2, 3, 5), 0), ((0, 4), 1), ((3, 0), 1)],
        ulp=4,
        errors=(
            bad(RuntimeError, r"glu.*\(2, 3\)", f(2, 3), 1),
            bad(RuntimeError, r"glu.*\(\)", f(), 0),
            bad(IndexError, r"glu.*2\b", f(2, 4), 2),
        ),
    ),
    along(
        "softmin",
        [((5,), 0), ((3, 7), 1), ((0, 3), 1)],
        ulp=12,
        errors=dim_errors("soft(max|min)"),
    ),
]
