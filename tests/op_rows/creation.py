"""Tensors from nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from op_rows import (
    Bad,
    Op,
    bad,
)
from sampling import (
    Array,
    DTypeName,
    S,
    Sample,
)
from tinyt.testing.reference import shape as ref


def creation(
    name: str, rows: list[Sample], reference: Callable[..., Any], *errors: Bad, **facts: Any
) -> Op:
    facts = {"ulp": 0, "method": False} | facts
    return Op(
        name,
        lambda rng, dt: rows,
        reference,
        dtypes=("float32",),
        result="reference",
        grad=False,
        errors=errors,
        **facts,
    )


F64, I64, BOOL = DTypeName("float64"), DTypeName("int64"), DTypeName("bool")


def filled(value: float) -> Callable[..., Array]:
    return lambda size, dtype="float32": np.full(size, value, dtype)


def filled_like(value: float) -> Callable[..., Array]:
    return lambda x, dtype=None: np.full(x.shape, value, dtype or x.dtype)


SIZES = [S(()), S((3,)), S((2, 0)), S((2, 3), dtype=F64), S((2,), dtype=I64), S((2,), dtype=BOOL)]
LIKE = [S(np.zeros((2, 3))), S(np.zeros((2, 0), np.int64)), S(np.zeros(3, bool), dtype=F64)]

CREATION = [
    creation("zeros", SIZES, filled(0), bad(RuntimeError, r"zeros.*-1", (2, -1))),
    creation("ones", SIZES, filled(1), bad(RuntimeError, r"ones.*-1", (2, -1))),
    creation(
        "full",
        [
            S((2, 3), 1.5),
            S((), 2),
            S((2,), True),
            S((2,), 3, dtype=F64),
            S((2,), float(np.finfo(np.float32).min)),
            S((2,), 1e300, dtype=F64),
            S((2,), np.inf),
            S((2,), np.inf, dtype=BOOL),
            S((2,), 2**63 - 1, dtype=I64),
            S((2,), 3 + 0j, dtype=I64),
            S((2,), -1, dtype=DTypeName("uint8")),
        ],
        lambda size, v, dtype=None: np.full(size, v.real).astype(
            dtype or {float: "f4", int: "i8", bool: "?"}[type(v)]
        ),
        bad(RuntimeError, r"full.*1e\+30.*int64", (2,), 1e30, dtype=I64),
        bad(RuntimeError, r"full.*nan.*int64", (2,), np.nan, dtype=I64),
        bad(RuntimeError, r"full.*300.*uint8", (2,), 300, dtype=DTypeName("uint8")),
        bad(RuntimeError, r"full.*1e\+300.*float32", (2,), 1e300),
        bad(RuntimeError, r"full.*1e\+300.*complex64", (2,), 1e300j, dtype=DTypeName("complex64")),
    ),
    creation("zeros_like", LIKE, filled_like(0)),
    creation("ones_like", LIKE, filled_like(1)),
    creation(
        "full_like",
        [S(np.zeros((2, 3)), 7), S(np.zeros(3, np.int64), 2.0, dtype=F64)],
        lambda x, v, dtype=None: np.full(x.shape, v, dtype or x.dtype),
    ),
    creation(
        "arange",
        [
            S(5),
            S(2, 7),
            S(0, 10, 3),
            S(5, 0, -2),
            S(0),
            S(0.0, 1.0, 0.25),
            S(1, 2, 0.1, dtype=F64),
            S(70_001),
        ],
        lambda *a, dtype=None: ref.arange(*a).astype(
            dtype or ("int64" if all(isinstance(v, int) for v in a) else "float32")
        ),
        bad(RuntimeError, r"arange.*(0|zero)", 0, 5, 0),
        bad(RuntimeError, r"arange.*5.*0", 5, 0, 1),
        ulp=1,
    ),
    creation(
        "linspace",
        [
            S(0, 1, 5),
            S(-3, 3, 7),
            S(2, 2, 1),
            S(0, 1, 0),
            S(0, 1, 11, dtype=F64),
            S(0, 10, 5, dtype=I64),
            S(-3, 4, 5, dtype=I64),
        ],
        lambda *a, dtype="float32": (
            np.trunc(np.linspace(*a)).astype(dtype)
            if dtype == "int64"
            else np.linspace(*a).astype(dtype)
        ),
        bad(RuntimeError, r"linspace.*-1", 0, 1, -1),
        ulp=2,
        scale=1,
    ),
    creation(
        "logspace",
        [S(0, 1, 5), S(-3, 3, 7), S(2, 2, 1), S(0, 3, 4, 2.0), S(0, 3, 4, dtype=I64), S(0, 1, 0)],
        lambda start, end, steps, base=10.0, dtype="float32": (
            base ** np.linspace(start, end, steps)
        ).astype(dtype),
        bad(RuntimeError, r"logspace.*-1", 0, 1, -1),
        ulp=2,
    ),
    creation(
        "eye",
        [S(3), S(2, 4), S(0), S(3, dtype=I64)],
        lambda *a, dtype="float32": np.eye(*a, dtype=dtype),
        bad(RuntimeError, r"eye.*-1", -1),
    ),
    *(
        creation(
            name,
            [
                *(S(r, c, k) for r, c in ((3, 4), (4, 3), (1, 5)) for k in (-2, -1, 0, 1, 2, 9)),
                S(0, 3),
                S(3, 0),
                S(3, 3, -9),
            ],
            lambda r, c, k=0, find=find: np.stack(find(r, k, c)),
            bad(RuntimeError, rf"{name}.*-1", -1, 2),
        )
        for name, find in (("tril_indices", np.tril_indices), ("triu_indices", np.triu_indices))
    ),
    creation(
        "scalar_tensor",
        [S(3), S(2.5), S(True), S(7, dtype=I64)],
        lambda v, dtype="float32": np.asarray(v, dtype),
    ),
    creation(
        "tensor",
        [
            S([1, 2, 3]),
            S([[1.0, 2.0], [3.0, 4.0]]),
            S(2.5),
            S([]),
            S([True, False]),
            S([[], []]),
            S([1, 2.5]),
            S([1, 2], dtype=F64),
            S([True, 2]),
        ],
        lambda v, dtype=None: np.asarray(
            v, dtype or {"f": "float32"}.get(np.asarray(v).dtype.kind)
        ),
        bad(ValueError, r"tensor.*2.*1", [[1, 2], [3]]),
        bad((TypeError, RuntimeError), r"tensor.*str", "text"),
        bad((TypeError, ValueError, RuntimeError), r"None|NoneType", [1, None]),
    ),
]
