"""Copies, writes and conversions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt import _tensor
from tinyt._tensor import TensorBase
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.autograd.rules.movement import inverse
from tinyt.formats import ORDERS, preserve_format
from tinyt.formats import memory_format as Format
from tinyt.ops.common import Scalar, need_tensor, to_dtype
from tinyt.tensor import Tensor, attach, method, prim


def _permuted(op: str, x: Tensor, memory_format: Format) -> tuple[Tensor, tuple[int, ...]]:
    """A view of x with its dimensions in the order of a format, and that order."""
    order = ORDERS[memory_format]
    if x.dim() != len(order):
        raise RuntimeError(
            f"{op}: {memory_format!r} needs {len(order)} dimensions, got shape {tuple(x.shape)}"
        )
    return prim.permute(x, order), order


def _in_format(op: str, x: Tensor, memory_format: Format | None, copy: bool) -> Tensor:
    """x laid out in a format; a copy where it is not yet, or where asked for."""
    if memory_format is None or memory_format not in ORDERS:
        return x if x.is_contiguous() and not copy else prim.copy(x)
    view, order = _permuted(op, x, memory_format)
    if view.is_contiguous() and not copy:
        return x
    return prim.permute(prim.copy(view), inverse(order))


@method
def is_contiguous(self: Tensor, memory_format: Format | None = None) -> bool:
    """Whether the elements lie without gaps in the order of a format (row-major by default)."""
    if memory_format is None or memory_format not in ORDERS:
        return TensorBase.is_contiguous(self)
    if self.dim() != len(ORDERS[memory_format]):
        return False
    return TensorBase.is_contiguous(_permuted("is_contiguous", self, memory_format)[0])


@method
def contiguous(input: Tensor, memory_format: Format | None = None) -> Tensor:
    """The tensor itself when contiguous in this format, else a copy that is."""
    if memory_format is preserve_format:
        raise RuntimeError("contiguous: preserve_format is not supported")
    return _in_format("contiguous", input, memory_format, False)


@method
def clone(input: Tensor, *, memory_format: Format | None = None) -> Tensor:
    """A copy that gradients pass through; contiguous but for the channels-last formats."""
    return _in_format("clone", need_tensor("clone", input), memory_format, True)


@method
def copy_(self: Tensor, src: Tensor | Scalar, non_blocking: bool = False) -> Tensor:
    """Writes ``src`` (broadcast, converted) into this tensor."""
    return self._assign(src)


@method
def fill_(self: Tensor, value: Tensor | Scalar) -> Tensor:
    """Writes one value to every element."""
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"fill_: only supports 0-d value tensors, got shape {tuple(value.shape)}"
        )
    return self._assign(value)


@method
def zero_(self: Tensor) -> Tensor:
    """Writes zeros."""
    return self._assign(0)


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype or on another device; itself when nothing changes.

    Takes a dtype, a device (or its name), another tensor, ``copy`` and ``memory_format``.
    """
    target: DType | None = kwargs.pop("dtype", None)
    place: Any = kwargs.pop("device", None)
    copy = bool(kwargs.pop("copy", False))
    order: Format | None = kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"to: unexpected arguments {sorted(kwargs)}")
    for arg in args:
        if isinstance(arg, Tensor):
            target = arg.dtype
        elif isinstance(arg, DType):
            target = arg
        elif isinstance(arg, (str, Device)):
            place = arg
        elif not isinstance(arg, bool):
            raise TypeError(f"to: expected a dtype, device or Tensor, got {type(arg).__name__}")
    if place is not None:
        Device(place)
    out = to_dtype(self, target)
    if order not in (None, preserve_format):
        return _in_format("to", out, order, copy and out is self)
    return prim.copy(out) if copy and out is self else out


# PyTorch's older names of tensor types.
_TYPE_NAMES = {
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "BoolTensor": "bool",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "ComplexFloatTensor": "complex64",
    "ComplexDoubleTensor": "complex128",
}


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Tensor | str:
    """The tensor in another dtype; without one, the name of its type ("tinyt.FloatTensor")."""
    if dtype is None:
        return "tinyt." + next(k for k, v in _TYPE_NAMES.items() if v == self.dtype.name)
    if isinstance(dtype, str):
        name = dtype.rpartition(".")[2]
        if name not in _TYPE_NAMES:
            raise ValueError(f"type: {dtype!r} is not the name of a tensor type")
        dtype = _tensor.dtype_by_name(_TYPE_NAMES[name])
    return to_dtype(self, dtype)


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of ``other``."""
    return to_dtype(self, other.dtype)


@method
def cpu(self: Tensor) -> Tensor:
    """The tensor on the CPU."""
    return self


def _converter(name: str, target: str) -> None:
    wanted = _tensor.dtype_by_name(target)

    def convert(self: Tensor) -> Tensor:
        return to_dtype(self, wanted)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {target}."
    setattr(Tensor, name, convert)


for _name, _target in {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}.items():
    _converter(_name, _target)


# ---- facts


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.numel()


@method
def nelement(self: Tensor) -> int:
    """Number of elements."""
    return self.numel()


@method
def ndimension(self: Tensor) -> int:
    """Number of dimensions."""
    return self.dim()


# ---- Python functions of the elements: slow, for small things only


def _mapped(op: str, self: Tensor, callable: Callable[..., Any], *others: Tensor) -> Tensor:
    if self.requires_grad:
        raise RuntimeError(f"{op}: not for tensors that require grad; use no_grad() and detach()")
    columns = [prim.reshape(x, (x.numel(),)).tolist() for x in (self, *others)]
    values = [callable(*row) for row in zip(*columns, strict=True)]
    flat = _tensor.from_data(values, self.dtype)
    return self._assign(prim.reshape(flat, tuple(self.shape)))


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces every element by what a Python function makes of it."""
    return _mapped("apply_", self, callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces every element by what a Python function makes of it and that of ``tensor``."""
    return _mapped("map_", self, callable, prim.expand(tensor, tuple(self.shape)))


attach(type=_type)


EXPORTS: dict[str, Any] = {f.__name__: f for f in (clone, numel)}
