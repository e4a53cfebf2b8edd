"""The C interface through ctypes: the library that this process has loaded already."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tinyt
from tinyt import Tensor, _core
from tinyt._tensor import view_dtype
from tinyt.dtypes import ALL

HEADER = Path(__file__).resolve().parents[1] / "src" / "c" / "tinyt.h"
LIBRARY = next(Path(_core.__file__).parent.glob("libtinyt_core.*"))
STATUS = {
    name: int(number)
    for name, number in re.findall(r"TINYT_(\w+) = (\d+)", HEADER.read_text("utf-8"))
}


class Attribute(ctypes.Structure):
    """`tinyt_attribute`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("list", ctypes.POINTER(ctypes.c_int64)),
        ("count", ctypes.c_size_t),
    )


class Op(ctypes.Structure):
    """`tinyt_op`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("attributes", ctypes.c_char_p),
        ("inputs", ctypes.c_int),
        ("outputs", ctypes.c_int),
    )


class CError(Exception):
    """A status that is not 0, and its text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


C = ctypes.CDLL(str(LIBRARY))
for _name in ("version", "error", "dtype_name", "program_signature"):
    getattr(C, f"tinyt_{_name}").restype = ctypes.c_char_p
for _name in ("program_tensor_name", "program_number_name"):
    getattr(C, f"tinyt_{_name}").restype = ctypes.c_char_p
for _name in ("tensor_shape", "tensor_stride"):
    getattr(C, f"tinyt_{_name}").restype = ctypes.POINTER(ctypes.c_int64)
C.tinyt_tensor_data.restype = ctypes.c_void_p
C.tinyt_tensor_numel.restype = ctypes.c_int64
C.tinyt_dtype_size.restype = ctypes.c_size_t


def ok(status: int) -> None:
    if status:
        raise CError(status, C.tinyt_error().decode())


def int64s(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


class Handle:
    """A tensor of C's, freed with this."""

    def __init__(self, pointer: int | None) -> None:
        self.pointer = ctypes.c_void_p(pointer)

    def __del__(self) -> None:
        C.tinyt_tensor_free(self.pointer)

    @staticmethod
    def of(x: Tensor, is_number: bool = False) -> Handle:
        """Its values, in C's own memory."""
        out = ctypes.c_void_p()
        if is_number and x.dtype is tinyt.float64:
            ok(C.tinyt_tensor_float(ctypes.c_double(x.item()), ctypes.byref(out)))
            return Handle(out.value)
        if is_number and x.dtype is tinyt.int64:
            ok(C.tinyt_tensor_integer(ctypes.c_int64(x.item()), ctypes.byref(out)))
            return Handle(out.value)
        dense = x.detach().contiguous()
        shape = int64s(x.shape)
        data = ctypes.c_void_p(dense.data_ptr()) if x.numel() else None
        ok(C.tinyt_tensor_new(x.dtype.number, x.dim(), shape, data, ctypes.byref(out)))
        return Handle(out.value)

    def tensor(self) -> Tensor:
        """A copy for Python, with its strides."""
        rank = C.tinyt_tensor_rank(self.pointer)
        shape = C.tinyt_tensor_shape(self.pointer)[:rank]
        t = ALL[C.tinyt_tensor_dtype(self.pointer)]
        made = tinyt.empty(shape, dtype=t)
        nbytes = C.tinyt_tensor_numel(self.pointer) * t.itemsize
        assert nbytes == made.numel() * t.itemsize
        data = ctypes.c_void_p(made.data_ptr()) if nbytes else None
        ok(C.tinyt_tensor_read(self.pointer, data, ctypes.c_size_t(nbytes)))
        return made


def pointers(handles: Sequence[Handle]) -> Any:
    return (ctypes.c_void_p * max(len(handles), 1))(*[h.pointer for h in handles])


def ops() -> dict[str, Op]:
    """The rows by name."""
    found = {}
    for i in range(C.tinyt_op_count()):
        op = Op()
        ok(C.tinyt_op_at(i, ctypes.byref(op)))
        found[op.name.decode()] = op
    return found


def attributes(op: Op, values: Sequence[Any]) -> Any:
    """Those of a row, with these values."""
    words = op.attributes.decode().split()
    made = (Attribute * max(len(words), 1))()
    for row, word, value in zip(made, words, values, strict=False):
        name, kind = re.fullmatch(r"(\w+):(\w)(?:=.*)?", word).groups()  # type: ignore[union-attr]
        row.name = name.encode()
        if kind == "I":
            row.list, row.count = int64s(value), len(value)
        elif kind == "f":
            row.real = value
        else:
            row.integer = int(value)
    return made, len(words)


def call(name: str, inputs: Sequence[Handle], values: Sequence[Any] = ()) -> list[Handle]:
    """The results of a row."""
    op = ops()[name]
    out = (ctypes.c_void_p * max(op.outputs, 1))()
    made, count = attributes(op, values)
    sizes = [ctypes.c_size_t(n) for n in (len(inputs), count, op.outputs)]
    ok(C.tinyt_call(name.encode(), pointers(inputs), sizes[0], made, sizes[1], out, sizes[2]))
    return [Handle(p) for p in out]


class Program:
    """The programs of a file."""

    def __init__(self, path: Path | str) -> None:
        self.pointer = ctypes.c_void_p()
        ok(C.tinyt_program_load(str(path).encode(), ctypes.byref(self.pointer)))

    def __del__(self) -> None:
        C.tinyt_program_free(self.pointer)

    def signatures(self) -> list[str]:
        count = C.tinyt_program_count(self.pointer)
        return [C.tinyt_program_signature(self.pointer, i).decode() for i in range(count)]

    def run(self, *args: Tensor | float, results: int = 1) -> list[Handle]:
        tensors = [Handle.of(x) for x in args if isinstance(x, Tensor)]
        floats = [x for x in args if isinstance(x, float)]
        given = (ctypes.c_double * max(len(floats), 1))(*floats)
        out = (ctypes.c_void_p * max(results, 1))()
        sizes = [ctypes.c_size_t(n) for n in (len(tensors), len(floats), results)]
        ok(
            C.tinyt_program_run(
                self.pointer, pointers(tensors), sizes[0], given, sizes[1], out, sizes[2]
            )
        )
        return [Handle(p) for p in out[:results]]

    def names(self) -> list[str]:
        count = C.tinyt_program_tensor_count(self.pointer)
        return [C.tinyt_program_tensor_name(self.pointer, i).decode() for i in range(count)]

    def numbers(self) -> dict[str, float]:
        found = {}
        for i in range(C.tinyt_program_number_count(self.pointer)):
            name, value = C.tinyt_program_number_name(self.pointer, i), ctypes.c_double()
            ok(C.tinyt_program_number(self.pointer, name, ctypes.byref(value)))
            found[name.decode()] = value.value
        return found

    def set_number(self, name: str, value: float) -> None:
        ok(C.tinyt_program_set_number(self.pointer, name.encode(), ctypes.c_double(value)))

    def seed(self, seed: int) -> None:
        C.tinyt_program_seed(self.pointer, ctypes.c_uint64(seed))

    def tensor(self, name: str, what: str = "tensor") -> Tensor | None:
        out = ctypes.c_void_p()
        ok(getattr(C, f"tinyt_program_{what}")(self.pointer, name.encode(), ctypes.byref(out)))
        return Handle(out.value).tensor() if out.value else None

    def clear_gradients(self) -> None:
        C.tinyt_program_clear_gradients(self.pointer)

    def save(self, path: Path) -> None:
        ok(C.tinyt_program_save(self.pointer, str(path).encode()))


def bytes_of(x: Tensor) -> bytes:
    dense = x.detach().contiguous().reshape(-1)
    return memoryview(view_dtype(dense, tinyt.uint8)).tobytes() if x.numel() else b""
