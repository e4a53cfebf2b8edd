"""Elements and attributes of graph texts: exact spellings of numbers, and their bytes."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from tinyt._tensor import from_buffer_object, number_of_device, view_dtype
from tinyt.dtypes import uint8
from tinyt.tensor import prim

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tinyt._tensor import dtype
    from tinyt.tensor import Tensor

# struct's format of an element, or of a part of a complex one; bfloat16 is the upper half of "f".
_FORMATS = {
    "bool": "?",
    "uint8": "B",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "bfloat16": "H",
    "float32": "f",
    "float64": "d",
    "complex64": "f",
    "complex128": "d",
}
_BITS = {"e": "H", "f": "I", "d": "Q"}  # of as many bytes


class Nan(float):
    """A NaN with given bits; ``bits`` counts for elements of one dtype."""

    bits: int

    def __new__(cls, bits: int) -> Nan:
        """That of an unsigned integer."""
        made = super().__new__(cls, math.nan)
        made.bits = bits
        return made


def float_text(x: float) -> str:
    """An exact hexadecimal float, as in ``-0x1.8p+1``; or ``inf``, ``-inf``, ``nan``."""
    if not math.isfinite(x):
        return repr(x)
    mantissa, exponent = x.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}p{exponent}"


def attribute_text(x: float) -> str:
    """A float64 as the shortest decimal number that gives it; NaN as `elements_text` has it."""
    if not math.isnan(x):
        return repr(x)
    return _nan_text(struct.pack("<d", x), "d", "Q")


def attribute_float(x: float) -> float:
    """The float64 of a literal: NaN by its bits. OverflowError where these are no float64's."""
    if not isinstance(x, Nan):
        return float(x)
    try:
        (value,) = struct.unpack("<d", struct.pack("<Q", x.bits))
    except struct.error:
        raise OverflowError from None
    if not math.isnan(value):
        raise OverflowError
    return float(value)


def elements_text(x: Tensor, of_float: Callable[[float], str] = float_text) -> list[str]:
    """The elements of a dense tensor in their order, each of which gives its bits again."""
    t = x.dtype
    found = [_part_text(part, t, of_float) for part in _parts(bytes_of(x), t)]
    if not t.is_complex:
        return found
    return [f"({a}, {b})" for a, b in zip(found[::2], found[1::2], strict=True)]


def bytes_of(x: Tensor) -> bytes:
    """The elements of a tensor in their order, copied from its device."""
    flat = prim.reshape(prim.copy(x.detach().cpu()), (x.numel(),))
    return memoryview(view_dtype(flat, uint8)).tobytes() if x.numel() else b""


def tensor_of(
    values: Sequence[Any], shape: Sequence[int], t: dtype, device: int = number_of_device("cpu")
) -> Tensor:
    """A tensor of such elements in memory of its own. OverflowError, TypeError: an element that the
    dtype cannot hold."""
    parts = [part for x in values for part in (x if t.is_complex else (x,))]
    raw = bytearray(b"".join([_packed(part, t) for part in parts]))
    if raw:
        flat = view_dtype(from_buffer_object(memoryview(raw)), t)
        made = prim.copy(prim.reshape(flat, tuple(shape)))
    else:
        made = prim.fill(tuple(shape), t.number, 0.0, 0, 0.0, number_of_device("cpu"))
    return made if device == number_of_device("cpu") else prim.to_device(made, device)


def _parts(raw: bytes, t: dtype) -> list[bytes]:
    size = struct.calcsize(_FORMATS[t.name])
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def _part_text(raw: bytes, t: dtype, of_float: Callable[[float], str]) -> str:
    form = _FORMATS[t.name]
    if t.name == "bool":
        return "true" if raw != b"\0" else "false"
    if t.name == "bfloat16":
        (value,) = struct.unpack("<f", b"\0\0" + raw)
        # The bits of the NaN that Python has, in this dtype.
        is_usual = raw == struct.pack("<f", math.nan)[2:]
        bits = int.from_bytes(raw, "little")
        return of_float(value) if value == value or is_usual else f"nan(0x{bits:04x})"
    (value,) = struct.unpack("<" + form, raw)
    if form not in _BITS:
        return str(value)
    return of_float(value) if value == value else _nan_text(raw, form, _BITS[form])


def _nan_text(raw: bytes, form: str, bits: str) -> str:
    if raw == struct.pack("<" + form, math.nan):
        return "nan"
    (number,) = struct.unpack("<" + bits, raw)
    return f"nan(0x{number:0{2 * len(raw)}x})"


def _packed(x: Any, t: dtype) -> bytes:
    form = _FORMATS[t.name]
    is_float = t.is_floating_point or t.is_complex
    if isinstance(x, bool) != (t.name == "bool") or (not is_float and isinstance(x, float)):
        raise TypeError
    try:
        if isinstance(x, Nan):
            return _nan_bytes(x, form)
        if t.name == "bfloat16":
            return _bfloat16(float(x))
        return struct.pack("<" + form, float(x) if is_float else x)
    except struct.error:
        raise OverflowError from None


def _nan_bytes(x: Nan, form: str) -> bytes:
    raw = struct.pack("<" + _BITS.get(form, form), x.bits)
    whole = b"\0\0" + raw if form == "H" else raw
    (value,) = struct.unpack("<" + ("f" if form == "H" else form), whole)
    if value == value:
        raise OverflowError
    return raw


def _bfloat16(x: float) -> bytes:
    """Rounded once, to nearest even."""
    if math.isfinite(x) and x:
        last = max(math.frexp(x)[1] - 8, -133)  # the exponent of the last digit that is kept
        x = math.copysign(math.ldexp(round(math.ldexp(x, -last)), last), x)
    return struct.pack("<f", x)[2:]
