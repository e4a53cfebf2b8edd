"""Dtypes: one object each, named as in PyTorch, made from the core's table."""

from __future__ import annotations

import builtins
import math
from typing import Any

from tinyt import _core, _tensor
from tinyt._tensor import dtype

_TABLE = _core.dtype_table()
ALL: tuple[dtype, ...] = _tensor._make_dtypes([row["name"] for row in _TABLE])

bool: dtype
uint8: dtype
int8: dtype
int16: dtype
int32: dtype
int64: dtype
float16: dtype
bfloat16: dtype
float32: dtype
float64: dtype
complex64: dtype
complex128: dtype
(
    bool,
    uint8,
    int8,
    int16,
    int32,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
) = ALL

ALIASES: dict[str, dtype] = {
    row["alias"]: t for row, t in zip(_TABLE, ALL, strict=True) if row["alias"]
}
float = ALIASES["float"]
double = ALIASES["double"]
half = ALIASES["half"]
short = ALIASES["short"]
int = ALIASES["int"]
long = ALIASES["long"]
cfloat = ALIASES["cfloat"]
cdouble = ALIASES["cdouble"]


# What Python's types stand for where a dtype is asked for.
PYTHON: dict[object, dtype] = {
    builtins.bool: bool,
    builtins.int: int64,
    builtins.float: float64,
    builtins.complex: complex128,
}


def as_dtype(d: Any) -> Any:
    """The dtype that one of Python's types stands for; anything else as it is."""
    return PYTHON.get(d, d) if isinstance(d, type) else d


def get_default_dtype() -> dtype:
    """The float dtype that new tensors get from Python numbers."""
    return ALL[_core.default_dtype()]


def set_default_dtype(d: dtype) -> None:
    """Sets the float dtype that new tensors get; TypeError for any other dtype."""
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"set_default_dtype: only floating-point dtypes, got {d!r}")
    _core.set_default_dtype(d.number)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both convert to."""
    return ALL[_core.promote(as_dtype(type1).number, as_dtype(type2).number)]


def result_type(tensor: object, other: object, *more: object) -> dtype:
    """The dtype that an operation on these tensors and numbers works in."""
    return ALL[_tensor.result_type_number([tensor, other, *more])]


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether a value of one dtype may be written to another without losing its category."""
    from_, to = as_dtype(from_), as_dtype(to)
    order = {"bool": 0, "integer": 1, "float": 2, "complex": 3}
    return order[_TABLE[from_.number]["category"]] <= order[_TABLE[to.number]["category"]]


# Of each float dtype: bits after the point, and the largest exponent.
_FLOATS = {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127), "float64": (52, 1023)}
_PARTS = {"complex64": "float32", "complex128": "float64"}


class finfo:
    """The limits of a float dtype (of a complex one: of its parts); the default dtype if none.

    ``bits``, ``eps`` (from 1 to the next number), ``max``, ``min`` (= -max), ``tiny`` =
    ``smallest_normal``, ``resolution`` (10 to the minus number of decimal digits), ``dtype`` (its
    name). TypeError for a dtype that is not a float.
    """

    def __init__(self, type: dtype | None = None) -> None:
        given = get_default_dtype() if type is None else as_dtype(type)
        if not isinstance(given, dtype):
            raise TypeError(f"finfo: expected a dtype, got {given!r}")
        name = _PARTS.get(given.name, given.name)
        if name not in _FLOATS:
            raise TypeError(f"finfo: needs a floating-point dtype, got {given!r}; use iinfo")
        digits, exponent = _FLOATS[name]
        self.dtype = name
        self.bits = 8 * next(t for t in ALL if t.name == name).itemsize
        self.eps = 2.0**-digits
        self.max = (2.0 - self.eps) * 2.0**exponent
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - exponent)
        self.resolution = builtins.float(f"1e-{builtins.int(digits * math.log10(2))}")

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> builtins.int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer dtype: ``bits``, ``max``, ``min``, ``dtype`` (its name).

    TypeError for another dtype.
    """

    def __init__(self, type: dtype) -> None:
        type = as_dtype(type)
        if not isinstance(type, dtype):
            raise TypeError(f"iinfo: expected a dtype, got {type!r}")
        if _TABLE[type.number]["category"] != "integer":
            raise TypeError(f"iinfo: needs an integer dtype, got {type!r}")
        self.dtype = type.name
        self.bits = 8 * type.itemsize
        signed = type.is_signed
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __eq__(self, other: object) -> builtins.bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> builtins.int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
