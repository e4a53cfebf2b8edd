"""Complex numbers: what only they have, and which rows of the other families take them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from op_rows import ALL, COMPLEX, FLOATS, NUMBERS, Op, Samples, b, bad, f, i, quiet
from sampling import BIG, SHAPES, Array, S, arrays_in, draw
from tinyt.testing.reference import elementwise, reduce

PARTS: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (67,), (4, 5), (2, 0, 3))


def numbers(*shapes: tuple[int, ...]) -> Samples:
    return lambda rng, dt: [S(draw(rng, s, dt), grad=s != BIG) for s in shapes or (*SHAPES, BIG)]


def pairs(*shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Samples:
    return lambda rng, dt: [S(draw(rng, a, dt), draw(rng, b, dt)) for a, b in shapes]


def z(*shape: int) -> Array:
    return f(*shape).astype(np.complex64)


def sgn(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.sign(x) if x.dtype != bool else x
    with np.errstate(invalid="ignore"):
        return np.where(x == 0, 0, x / np.abs(x))


def transposed(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


ONLY: dict[str, Any] = {"dtypes": COMPLEX, "grad": False, "method": False}
BROADCAST = (((), ()), ((3,), (3,)), ((4, 1), (1, 5)), ((0,), (1,)), ((67,), ()))

COMPLEX_ROWS = [
    Op(
        "view_as_real",
        numbers(*PARTS),
        elementwise.view_as_real,
        result="real",
        errors=(bad(RuntimeError, r"view_as_real.*float32", f(2)),),
        **ONLY,
    ),
    Op(
        "view_as_complex",
        lambda rng, dt: [S(draw(rng, (*s, 2), dt)) for s in PARTS],
        elementwise.view_as_complex,
        dtypes=FLOATS,
        call=lambda tt, x: tt.view_as_complex(tt.stack([x[..., 0], x[..., 1]], -1)),
        result="complex",
        grad=False,
        method=False,
    ),
    Op(
        "real",
        numbers(*PARTS),
        np.real,
        dtypes=(*NUMBERS, *COMPLEX),
        result="real",
        method=False,
    ),
    Op(
        "imag",
        numbers(*PARTS),
        np.imag,
        result="real",
        errors=(bad(RuntimeError, r"imag.*float32", f(2)),),
        **ONLY,
    ),
    Op(
        "complex",
        pairs(*BROADCAST),
        lambda a, b: a + 1j * b,
        dtypes=FLOATS,
        result="complex",
        grad=False,
        method=False,
        errors=(
            bad(RuntimeError, r"complex.*int64", i(2), i(2)),
            bad(RuntimeError, r"complex.*float32.*float64", f(2), f(2).astype(np.float64)),
            bad(RuntimeError, r"complex.*\(2,\).*\(3,\)", f(2), f(3)),
        ),
    ),
    Op(
        "polar",
        pairs(*BROADCAST),
        lambda a, b: a * np.exp(1j * b),
        dtypes=FLOATS,
        result="complex",
        ulp=4,
        grad=False,
        method=False,
        errors=(
            bad(RuntimeError, r"polar.*bool", b(2), b(2)),
            bad(RuntimeError, r"polar.*\(2,\).*\(3,\)", f(2), f(3)),
        ),
    ),
    Op("conj", numbers(*PARTS), np.conj, dtypes=(*ALL, *COMPLEX)),
    Op("conj_physical", numbers(), np.conj, dtypes=(*ALL, *COMPLEX), inplace=True, out=True),
    Op("resolve_conj", numbers((3,)), lambda x: x, dtypes=("float32", "complex64")),
    Op("resolve_neg", numbers((3,)), lambda x: x, dtypes=("float32", "complex64")),
    Op(
        "angle",
        numbers(),
        lambda x: np.angle(x if x.dtype.kind == "c" else np.asarray(x, np.float64)),
        dtypes=(*ALL, *COMPLEX),
        result="angle",
        ulp=2,
        out=True,
    ),
    Op(
        "sgn", numbers(), sgn, dtypes=(*ALL, *COMPLEX), ulp=2, complex_ulp=3, inplace=True, out=True
    ),
    Op(
        "isreal",
        lambda rng, dt: (
            [S(draw(rng, s, dt)) for s in PARTS]
            + ([S(np.array([1 + 0j, 1j, 0], dt))] if dt in COMPLEX else [])
        ),
        np.isreal,
        dtypes=(*ALL, *COMPLEX),
        result="bool",
        grad=False,
    ),
    Op(
        "adjoint",
        numbers((2, 3), (0, 2), (2, 3, 4)),
        transposed,
        dtypes=(*NUMBERS, *COMPLEX),
        errors=(bad(RuntimeError, r"adjoint.*\(2,\)", f(2)),),
    ),
]


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """In extended precision: NumPy's own complex functions lose digits near their zeros."""

    def call(*args: Any) -> Any:
        return np.asarray(function(*(np.asarray(a, np.clongdouble) for a in args)), np.complex128)

    return call


def variance(x: Array, *args: Any, **kwargs: Any) -> Array:
    """That of the parts together."""
    return reduce.var(x.real, *args, **kwargs) + reduce.var(x.imag, *args, **kwargs)


# Rows of other families that take complex numbers: their reference for them (None: the row's own
# function does), and the rounding error of functions in ULP.
Reference = Callable[..., Any] | None
WITH_COMPLEX: dict[str, tuple[Reference, float]] = {
    "abs": (np.abs, 2),
    "neg": (None, 2),
    "square": (None, 4),
    "exp": (wide(np.exp), 4),
    "exp2": (wide(np.exp2), 8),
    "expm1": (wide(np.expm1), 8),
    "log": (wide(np.log), 4),
    "log2": (wide(np.log2), 4),
    "log10": (wide(np.log10), 4),
    "log1p": (wide(np.log1p), 8),
    "sqrt": (wide(np.sqrt), 4),
    "rsqrt": (wide(elementwise.rsqrt), 4),
    "reciprocal": (elementwise.reciprocal, 4),
    "sin": (wide(np.sin), 4),
    "cos": (wide(np.cos), 4),
    "tan": (wide(np.tan), 8),
    "asin": (wide(np.arcsin), 8),
    "acos": (wide(np.arccos), 8),
    "atan": (wide(np.arctan), 8),
    "sinh": (wide(np.sinh), 8),
    "cosh": (wide(np.cosh), 8),
    "tanh": (wide(np.tanh), 8),
    "asinh": (wide(np.arcsinh), 8),
    "acosh": (wide(np.arccosh), 8),
    "atanh": (wide(np.arctanh), 8),
    "sigmoid": (wide(elementwise.sigmoid), 8),
    "logical_not": (None, 0),
    "nan_to_num": (None, 0),
    "isnan": (None, 0),
    "isinf": (None, 0),
    "isfinite": (None, 0),
    "add": (None, 2),
    "sub": (None, 2),
    "rsub": (None, 2),
    "mul": (None, 4),
    "div": (None, 4),
    "pow": (wide(np.power), 60),
    "eq": (None, 0),
    "ne": (None, 0),
    "logical_and": (None, 0),
    "logical_or": (None, 0),
    "logical_xor": (None, 0),
    "where": (None, 0),
    "isclose": (None, 0),
    "addcmul": (None, 4),
    "addcdiv": (None, 4),
    "sum": (None, 4),
    "mean": (None, 4),
    "prod": (None, 400),
    "all": (None, 0),
    "any": (None, 0),
    "count_nonzero": (None, 0),
    "norm": (None, 16),
    "linalg.norm": (None, 16),
    "linalg.vecdot": (lambda x, y, dim=-1: np.sum(np.conj(x) * y, axis=dim), 16),
    "var": (variance, 16),
    "std": (lambda x, *args, **kwargs: np.sqrt(variance(x, *args, **kwargs)), 16),
    "cumsum": (None, 8),
    "matmul": (None, 16),
    "mm": (None, 16),
    "bmm": (None, 16),
    "mv": (None, 16),
    "dot": (None, 16),
    "vdot": (np.vdot, 16),
    "outer": (None, 4),
    "addmm": (None, 16),
    "linear": (None, 16),
    "gather": (None, 0),
    "scatter": (None, 0),
    "scatter_add": (None, 8),
    "index_select": (None, 0),
    "index_add": (None, 8),
    "masked_fill": (None, 0),
    "masked_select": (None, 0),
    "take_along_dim": (None, 0),
    "cat": (None, 0),
    "stack": (None, 0),
    "tril": (None, 0),
    "permute": (None, 0),
    "reshape": (None, 0),
    "flip": (None, 0),
    "repeat": (None, 0),
}
OF_SIZES = {"linalg.norm"}  # defined by |x| alone
REAL_RESULT = {"abs", "norm", "linalg.norm", "var", "std"}


def with_complex(op: Op) -> Op:
    """The row with complex dtypes, where WITH_COMPLEX has its name."""
    if op.name not in WITH_COMPLEX:
        return op
    special, ulp = WITH_COMPLEX[op.name]
    reference = quiet(special or op.reference)
    if op.name in OF_SIZES:
        reference = quiet(lambda x, *args, **kwargs: op.reference(np.abs(x), *args, **kwargs))

    def choose(*args: Any, **kwargs: Any) -> Any:
        complex_given = any(a.dtype.kind == "c" for a, _ in arrays_in([args, kwargs]))
        return (reference if complex_given else op.reference)(*args, **kwargs)

    return replace(
        op,
        dtypes=(*op.dtypes, *COMPLEX),
        reference=choose,
        result="real" if op.name in REAL_RESULT else op.result,
        complex_ulp=ulp,
    )
