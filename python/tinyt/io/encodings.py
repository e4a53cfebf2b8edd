"""The dtypes of the safetensors format, and the tinyt dtype that each is read into.

Where tinyt has the dtype, stored values are its memory. The others are converted to the smallest
common dtype that holds every value exactly: U16 to int32, U32 to int64, the 8-bit floats to
float32. U64 becomes int64 and must fit. F4 and F6 (less than a byte a value) are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tinyt import dtypes
from tinyt._tensor import dtype

Convert = Callable[[Any], Any]


class Encoding(NamedTuple):
    """How values are stored.

    `convert` takes an array of `storage` (a NumPy dtype, little-endian) to an array that can be
    assigned to one of `dtype`, or raises ValueError; None where they are the same bytes.
    """

    dtype: dtype
    itemsize: int
    storage: str = "u1"
    convert: Convert | None = None


class _Float8(NamedTuple):
    """A float of 8 bits: a sign unless `unsigned`, `exponent` bits, the rest mantissa."""

    exponent: int
    bias: int
    special: str  # which codes are no numbers: "ieee", "fn" (all ones), "fnuz" (-0), "e8m0"


_FLOATS = {
    "F8_E5M2": _Float8(5, 15, "ieee"),
    "F8_E4M3": _Float8(4, 7, "fn"),
    "F8_E8M0": _Float8(8, 127, "e8m0"),
    "F8_E4M3FNUZ": _Float8(4, 8, "fnuz"),
    "F8_E5M2FNUZ": _Float8(5, 16, "fnuz"),
}


def _value(kind: _Float8, code: int) -> float:
    """The number that a byte stands for.

    Sources: OCP 8-bit Floating Point Specification 1.0 and Microscaling Formats 1.0; for FNUZ,
    Noune et al., "8-bit Numerical Formats for Deep Neural Networks", arXiv:2206.02915.
    """
    if kind.special == "e8m0":
        return float("nan") if code == 255 else 2.0 ** (code - kind.bias)
    width = 7 - kind.exponent
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = (code & 0x7F) >> width, code & ((1 << width) - 1)
    if kind.special == "fnuz" and code == 0x80:
        return float("nan")
    if kind.special == "fn" and code & 0x7F == 0x7F:
        return float("nan")
    if kind.special == "ieee" and exponent == (1 << kind.exponent) - 1:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - kind.bias - width)
    return sign * ((1 << width) + mantissa) * 2.0 ** (exponent - kind.bias - width)


_tables: dict[str, Any] = {}


def _float8_table(name: str) -> Any:
    import numpy as np

    if name not in _tables:
        values = [_value(_FLOATS[name], code) for code in range(256)]
        _tables[name] = np.array(values, dtype=np.float32)
    return _tables[name]


def _from_float8(name: str) -> Convert:
    return lambda codes: _float8_table(name)[codes]


def _unchanged(values: Any) -> Any:
    return values


def _to_int64(values: Any) -> Any:
    largest = int(values.max())
    if largest >= 2**63:
        raise ValueError(f"U64 value {largest} is beyond int64, which U64 is read into")
    return values


ENCODINGS = {
    "BOOL": Encoding(dtypes.bool, 1),  # every byte but 0 is true
    "U8": Encoding(dtypes.uint8, 1),
    "I8": Encoding(dtypes.int8, 1),
    "I16": Encoding(dtypes.int16, 2),
    "U16": Encoding(dtypes.int32, 2, "<u2", _unchanged),
    "I32": Encoding(dtypes.int32, 4),
    "U32": Encoding(dtypes.int64, 4, "<u4", _unchanged),
    "I64": Encoding(dtypes.int64, 8),
    "U64": Encoding(dtypes.int64, 8, "<u8", _to_int64),
    **{name: Encoding(dtypes.float32, 1, "u1", _from_float8(name)) for name in _FLOATS},
    "F16": Encoding(dtypes.float16, 2),
    "BF16": Encoding(dtypes.bfloat16, 2),
    "F32": Encoding(dtypes.float32, 4),
    "F64": Encoding(dtypes.float64, 8),
    "C64": Encoding(dtypes.complex64, 8),
}

# What tensors are written as.
NAMES = {encoding.dtype: name for name, encoding in ENCODINGS.items() if encoding.convert is None}
