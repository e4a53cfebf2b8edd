"""What PyTorch scripts still say: constructors for each dtype (`FloatTensor(2, 3)`), and where a
tensor is, which here has one answer."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from tinyt import _core
from tinyt._tensor import dtype as DType
from tinyt._tensor import dtype_by_name, move_to_shared, shared_descriptor
from tinyt.dtypes import set_default_dtype
from tinyt.ops import empty, tensor
from tinyt.ops.common import pinned
from tinyt.ops.convert import TYPE_NAMES
from tinyt.storage import UntypedStorage
from tinyt.tensor import Size, Tensor, attach, method


def _constructed(dtype: DType, args: tuple[Any, ...], device: Any) -> Tensor:
    """What the older constructors make: an uninitialised tensor of sizes, or a copy of data."""
    if len(args) == 1 and isinstance(args[0], Size):
        return empty(tuple(args[0]), dtype=dtype, device=device)
    if len(args) == 1 and isinstance(args[0], UntypedStorage):
        return args[0].viewed_as(dtype)
    if len(args) == 1 and not isinstance(args[0], Integral):
        return tensor(args[0], dtype=dtype, device=device)
    return empty(args or (0,), dtype=dtype, device=device)


class _TensorType(type):
    """The class of `FloatTensor` and its like: a call constructs, isinstance asks for the dtype."""

    dtype: DType

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return _constructed(cls.dtype, args, device)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype


def _tensor_type(name: str) -> _TensorType:
    kind = dtype_by_name(TYPE_NAMES[name])
    doc = f"{name}(*sizes), uninitialised, or {name}(data): a {kind.name} tensor."
    return _TensorType(name, (), {"dtype": kind, "__doc__": doc, "__module__": __name__})


FloatTensor = _tensor_type("FloatTensor")
DoubleTensor = _tensor_type("DoubleTensor")
HalfTensor = _tensor_type("HalfTensor")
BFloat16Tensor = _tensor_type("BFloat16Tensor")
ByteTensor = _tensor_type("ByteTensor")
CharTensor = _tensor_type("CharTensor")
ShortTensor = _tensor_type("ShortTensor")
IntTensor = _tensor_type("IntTensor")
LongTensor = _tensor_type("LongTensor")
BoolTensor = _tensor_type("BoolTensor")


def set_default_tensor_type(t: _TensorType | str, /) -> None:
    """`set_default_dtype` by the name of a tensor type: ``FloatTensor`` or "torch.FloatTensor".

    Raises:
        TypeError: no tensor type, one of another device, or not one of floats.
    """
    if _is_of_cuda(t):
        raise TypeError(
            f"set_default_tensor_type: type {t if isinstance(t, str) else t.__name__} is not "
            'available: set_default_device("cuda") makes tensors there'
        )
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", "")
    if name not in TYPE_NAMES:
        raise TypeError(f"set_default_tensor_type: {t!r} is no tensor type")
    set_default_dtype(dtype_by_name(TYPE_NAMES[name]))


def _is_of_cuda(t: object) -> bool:
    """Whether a tensor type, or its name, is one of `torch.cuda`."""
    if isinstance(t, str):
        return t.rpartition(".")[0].endswith("cuda")
    return getattr(t, "__module__", None) == "tinyt.cuda"


@method
def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """``new(*sizes)``, uninitialised, or ``new(data)``: a tensor of this one's dtype and device."""
    return _constructed(self.dtype, args, self.device if device is None else device)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor in pinned memory, which CUDA devices copy to and from on their own
    (``to(..., non_blocking=True)``): itself where it is there, and where no CUDA device opens.

    Raises:
        RuntimeError: the tensor is on a device.
        OutOfMemoryError: the driver has no more.
    """
    return pinned("pin_memory", self)


@method
def share_memory_(self: Tensor) -> Tensor:
    """Moves the memory into a segment that other processes can map; the tensor itself.

    All tensors that see the memory move with it. A forked child, and one that the tensor is sent to
    (`tinyt.multiprocessing`), writes where this process reads. The segment has no name, and goes
    with the last tensor and process that use it.

    Raises RuntimeError where an array or buffer uses the memory (`numpy`): it would be left behind.
    """
    move_to_shared(self)
    return self


@method
def record_stream(self: Tensor, s: Any) -> None:
    """Nothing: a device uses memory in the order of its one queue, and serves the next tensor in
    it."""


@method
def const_data_ptr(self: Tensor) -> int:
    """`data_ptr()`."""
    return self.data_ptr()


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned (`pin_memory`)."""
    return _core.is_pinned(self)


@method
def is_shared(self: Tensor) -> bool:
    """Whether the memory is one that other processes can map (`share_memory_`)."""
    return shared_descriptor(self) >= 0


@method
def is_inference(input: Tensor) -> bool:
    """False: `inference_mode` makes ordinary tensors."""
    return False


@method
def is_distributed(input: Tensor) -> bool:
    """False: there is one process."""
    return False


def _no(self: Tensor) -> bool:
    """False for every tensor of this build."""
    return False


def _is_mps(self: Tensor) -> bool:
    """Whether it is on a Metal device."""
    return self.device.type == "mps"


# Devices and layouts of PyTorch's that no tensor of this build has.
_ELSEWHERE = (
    "is_ipu",
    "is_maia",
    "is_mkldnn",
    "is_mtia",
    "is_sparse_csr",
    "is_vulkan",
    "is_xla",
    "is_xpu",
)

attach(
    is_mps=property(_is_mps),
    is_nested=property(_no),
    **{name: property(_no) for name in _ELSEWHERE},
)


def typename(obj: Any) -> str:
    """The name of the type of ``obj``; of a tensor with its dtype ("tinyt.FloatTensor")."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", "")
    if not name:
        module, name = type(obj).__module__, type(obj).__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"
