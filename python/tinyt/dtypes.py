"""Dtypes: one object each, named as in PyTorch, made from the core's table."""

from __future__ import annotations

import builtins

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
    return ALL[_core.promote(type1.number, type2.number)]


def result_type(*operands: object) -> dtype:
    """The dtype that an operation on these tensors and numbers works in."""
    return ALL[_tensor.result_type_number(list(operands))]


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether a value of one dtype may be written to another without losing its category."""
    order = {"bool": 0, "integer": 1, "float": 2, "complex": 3}
    return order[_TABLE[from_.number]["category"]] <= order[_TABLE[to.number]["category"]]
