"""What tests of scalar operations on plain dtypes share: the rows, and operands of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyt import _core
from tinyt.tensor import prim

Array = np.ndarray

ROWS = {row["name"]: row for row in _core.op_table() if row["kind"] == "scalar"}
# The dtypes that operations compute in; the others convert to one of them.
COMPUTE = ("float32", "float64", "int64", "bool")
DIVIDES_INTEGERS = frozenset(name for name, row in ROWS.items() if "value_error" in row["flags"])


def takes(name: str, dtype: str) -> bool:
    """Whether a row of the operation table computes in a dtype."""
    flags, rule = ROWS[name]["flags"], ROWS[name]["dtype_rule"]
    is_float = dtype.startswith("float")
    if (rule == "float" or "floating" in flags) and not is_float:
        return False
    return not ("no_bool" in flags and dtype == "bool") and not ("integral" in flags and is_float)


def pool(dtype: str, rng: np.random.Generator, n: int = 2000) -> Array:
    """Values that matter, all bit patterns, and values of common size."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype == "int64":
        ends = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**31, -(2**31)]
        small = [0, 1, -1, 2, -2, 3, 7, -7, 10, 63, 64, 65]
        drawn = [rng.integers(-(2**63), 2**63 - 1, n), rng.integers(-100, 100, n)]
        return np.concatenate([np.array(ends + small, np.int64), *drawn])
    info = np.finfo(dtype)
    ends = [0.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, info.eps]
    near = [1, 1 - info.eps, 1 + info.eps, 0.5, 0.97, 1.5, 2, 2.5, 3, 4, 6, 8, 10, 22, 64, 257]
    far = [np.pi, np.pi / 2, np.e, 88, 104, 710, 746, 1e-5, 1e5, 2**17, 2**20, 1e10, 1e20, 1e30]
    unsigned = {32: np.uint32, 64: np.uint64}[info.bits]
    drawn = [
        rng.integers(0, np.iinfo(unsigned).max, n, unsigned, endpoint=True).view(dtype),
        rng.normal(size=n),
        20 * rng.normal(size=n),
        rng.uniform(0, 1, n),
        rng.uniform(-100, 100, n),
    ]
    fixed = np.array(ends + near + far, dtype)
    return np.concatenate([fixed, -fixed, *(d.astype(dtype) for d in drawn)])


def operands(name: str, dtype: str, rng: np.random.Generator, n: int) -> list[Array]:
    """``n`` elements of each operand, drawn from the pool; no integer divisor is 0."""
    row = ROWS[name]
    values = pool(dtype, rng)
    if row["inputs"] == 1:
        return [np.resize(values, n)]
    drawn = [values[rng.integers(0, len(values), n)] for _ in range(row["inputs"])]
    if "predicate_first" in row["flags"]:
        drawn[0] = rng.integers(0, 2, n).astype(bool)
    if name in DIVIDES_INTEGERS and dtype == "int64":
        drawn[1][drawn[1] == 0] = 3
    return drawn


def same_bits(a: Array, b: Array) -> Array:
    """Where two arrays have the same bits, or a NaN each."""
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    bits = {4: np.uint32, 8: np.uint64}[a.itemsize]
    return np.asarray((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b)))


def call(name: str, *arrays: Array) -> Any:
    """The row of that name, on this process's instruction-set level."""
    from tinyt import from_numpy

    return getattr(prim, name)(*map(from_numpy, arrays)).numpy().copy()
