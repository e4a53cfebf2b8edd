"""Copies, writes and conversions of whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tinyt import _core, _tensor
from tinyt._tensor import TensorBase
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.autograd.rules.movement import inverse
from tinyt.dtypes import as_dtype
from tinyt.formats import ORDERS, preserve_format
from tinyt.formats import memory_format as Format
from tinyt.ops.common import Scalar, need_tensor, on_device, to_dtype
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
        return x if not copy and TensorBase.is_contiguous(x) else prim.copy(x)
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
    """Writes ``src`` (broadcast, converted) into this tensor.

    ``non_blocking``: from pinned memory to a CUDA device the copy may be under way.
    """
    if not non_blocking:
        return self._assign(src)
    with _core.CopyScope(False, True):
        return self._assign(src)


@method
def fill_(input: Tensor, value: Tensor | Scalar) -> Tensor:
    """Writes one value to every element."""
    if not isinstance(value, Tensor):
        _tensor.require_held("fill_", value, input.dtype)
    elif value.dim():
        raise RuntimeError(
            f"fill_: only supports 0-d value tensors, got shape {tuple(value.shape)}"
        )
    return input._assign(value)


@method
def zero_(input: Tensor) -> Tensor:
    """Writes zeros."""
    return input._assign(0)


def _parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[DType | None, str | int | Device | None, bool, bool, Format | None]:
    """(dtype, device, non_blocking, copy, memory_format) of PyTorch's forms of ``to``: a dtype, a
    device and a dtype, or another tensor, then ``non_blocking`` and ``copy``."""
    args = tuple(map(as_dtype, args))
    kwargs = {name: as_dtype(value) for name, value in kwargs.items()}
    names = ["device", "dtype"]
    if args and isinstance(args[0], Tensor):
        names = ["tensor"]
    elif args and isinstance(args[0], DType):
        names = ["dtype"]
    names += ["non_blocking", "copy"]
    if len(args) > len(names):
        raise TypeError(f"to: takes at most {len(names)} arguments, got {len(args)}")
    given: dict[str, Any] = dict(zip(names, args, strict=False))
    known = {"device", "dtype", "tensor", "non_blocking", "copy", "memory_format"}
    if set(kwargs) - known or set(kwargs) & set(given):
        raise TypeError(f"to: unexpected or repeated arguments {sorted(kwargs)}")
    given.update(kwargs)
    kinds: dict[str, Any] = {
        "dtype": DType,
        "device": (str, int, Device),
        "non_blocking": bool,
        "copy": bool,
        "memory_format": Format,
    }
    for name, kind in kinds.items():
        if given.get(name) is not None and not isinstance(given[name], kind):
            raise TypeError(f"to: {given[name]!r} is no {name}")
    target = given["tensor"].dtype if "tensor" in given else given.get("dtype")
    where = given["tensor"].device if "tensor" in given else given.get("device")
    later, copy = bool(given.get("non_blocking")), bool(given.get("copy"))
    return target, where, later, copy, given.get("memory_format")


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype or on another device; itself when nothing changes.

    ``to(dtype)``, ``to(device, dtype)`` or ``to(tensor)``, each with ``non_blocking``, ``copy``
    (always a new tensor) and ``memory_format``.

    ``non_blocking``: a copy from pinned memory (`pin_memory`) to a CUDA device may be under way
    when this returns: leave that memory unchanged until then. So may one from a CUDA device to the
    CPU, which is made in pinned memory: its elements are there after
    ``tinyt.accelerator.synchronize()``. Other copies are done.
    """
    target, where, later, copy, order = _parse_to(args, kwargs)
    in_format = order not in (None, preserve_format)
    out = to_dtype(self, target)
    out = out if where is None else on_device(out, where, later and not in_format)
    if in_format:
        return _in_format("to", out, order, copy and out is self)
    return prim.copy(out) if copy and out is self else out


# PyTorch's older names of tensor types.
TYPE_NAMES = {
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
    """The tensor in another dtype; without one, the name of its type ("tinyt.FloatTensor").

    "tinyt.cuda.FloatTensor", the name or the class, names a device, too.
    """
    if dtype is None:
        found = next(k for k, v in TYPE_NAMES.items() if v == self.dtype.name)
        prefix = "" if self.device.type == "cpu" else f"{self.device.type}."
        return f"{_tensor.shown_as()}.{prefix}{found}"
    place: str | None = None
    if isinstance(dtype, str):
        path, _, name = dtype.rpartition(".")
        if name not in TYPE_NAMES:
            raise ValueError(f"type: {dtype!r} is not the name of a tensor type")
        dtype, place = _tensor.dtype_by_name(TYPE_NAMES[name]), path.partition(".")[2] or None
    elif isinstance(dtype, type):
        place, dtype = getattr(dtype, "place", None), getattr(dtype, "dtype", dtype)
    if not isinstance(dtype, DType):
        raise TypeError(f"type: expected a dtype or the name of a tensor type, got {dtype!r}")
    made = to_dtype(self, dtype)
    if place is None or place == made.device.type:
        return made
    return on_device(made, place, non_blocking)


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype and on the device of ``other``."""
    return on_device(to_dtype(self, other.dtype), other.device)


@method
def cpu(self: Tensor, memory_format: Format | None = None) -> Tensor:
    """The tensor on the CPU, where it is; a copy where it is not in this format."""
    return to(self, "cpu", memory_format=memory_format)


def cuda_device(device: Any = None) -> Device:
    """What ``x.cuda(device)`` means: the current CUDA device, or that of a number or a name."""
    place = Device("cuda", device) if device is None or isinstance(device, int) else Device(device)
    if place.type != "cuda":
        raise RuntimeError(f"cuda: expected a CUDA device, got {place}")
    return place


@method
def cuda(
    self: Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: Format | None = None,
) -> Tensor:
    """The tensor on a CUDA device, by default the current one; RuntimeError where it is not there.

    Args:
        device: a number among CUDA's devices, a name or a device.
        non_blocking: whether the copy may be under way (`to`).
        memory_format: of the result.
    """
    return to(self, cuda_device(device), non_blocking=non_blocking, memory_format=memory_format)


def _converter(name: str, target: str) -> None:
    wanted = _tensor.dtype_by_name(target)

    def convert(self: Tensor, memory_format: Format | None = None) -> Tensor:
        out = to_dtype(self, wanted)
        return out if memory_format is None else to(out, memory_format=memory_format)

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
    "cfloat": "complex64",
    "cdouble": "complex128",
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


@method
def dim_order(self: Tensor, *, ambiguity_check: bool | list[Format] = False) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    ``ambiguity_check``: RuntimeError where another order would do as well, unless the tensor is
    contiguous in exactly one of the formats of a list.
    """
    if ambiguity_check is not False:
        formats = [] if ambiguity_check is True else ambiguity_check
        if not isinstance(formats, list) or not all(isinstance(f, Format) for f in formats):
            raise TypeError(f"dim_order: needs a bool or a list of formats, got {formats!r}")
        several = 1 in self.shape or any(a == b for a, b in pairwise(self.stride()))
        if several and sum(is_contiguous(self, f) for f in formats) != 1:
            raise RuntimeError(
                f"dim_order: shape {tuple(self.shape)} and stride {self.stride()} have more than "
                f"one order"
            )
    return tuple(sorted(range(self.dim()), key=self.stride().__getitem__, reverse=True))


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero; RuntimeError for another number of elements."""
    return bool(input)


@method
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed


@method
def get_device(input: Tensor) -> int:
    """The number of its device among those of the kind; -1 on the CPU."""
    return -1 if input.device.index is None else input.device.index


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


def detach(input: Tensor) -> Tensor:
    """The same memory outside of any graph."""
    return input.detach()


def fill(input: Tensor, value: Tensor | Scalar) -> Tensor:
    """One value, or a 0-d tensor, in the shape and dtype of a tensor."""
    return fill_(clone(input), value)


@method
def to_dense(
    self: Tensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """The tensor itself, in a dtype if one is given: every tensor is dense."""
    return to_dtype(self, dtype)


@method
def dense_dim(self: Tensor) -> int:
    """Number of dimensions: all are dense."""
    return self.dim()


@method
def sparse_dim(self: Tensor) -> int:
    """0: no dimension is sparse."""
    return 0


@method
def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The same elements as an instance of a subclass of Tensor, made without its constructor;
    part of the graph where the tensor is.

    Raises:
        TypeError: no such class.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
    if not self.requires_grad:
        return _tensor.make_subclass(cls, self, False)
    out: Tensor = prim.reshape(self, tuple(self.shape))  # a node of the graph of its own
    out.__class__ = cls
    return out


attach(type=_type)


EXPORTS: dict[str, Any] = {f.__name__: f
    for f in (
        clone, numel, is_nonzero, is_same_size, is_signed, get_device, detach, fill,
    )
}  # fmt: skip
