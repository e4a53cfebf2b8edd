"""What PyTorch scripts still say: constructors for each dtype (`FloatTensor(2, 3)`), and where a
tensor is, which here has one answer."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NoReturn

from tinyt import _tensor
from tinyt._tensor import dtype as DType
from tinyt._tensor import dtype_by_name, move_to_shared, shared_descriptor
from tinyt.dtypes import set_default_dtype, uint8
from tinyt.ops import empty, tensor
from tinyt.ops.convert import TYPE_NAMES
from tinyt.tensor import Size, Tensor, attach, method, prim


def _constructed(dtype: DType, args: tuple[Any, ...], device: Any) -> Tensor:
    """What the older constructors make: an uninitialised tensor of sizes, or a copy of data."""
    if len(args) == 1 and isinstance(args[0], Size):
        return empty(tuple(args[0]), dtype=dtype, device=device)
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
        TypeError: no tensor type, or not one of floats.
    """
    name = t.rpartition(".")[2] if isinstance(t, str) else getattr(t, "__name__", "")
    if name not in TYPE_NAMES:
        raise TypeError(f"set_default_tensor_type: {t!r} is no tensor type")
    set_default_dtype(dtype_by_name(TYPE_NAMES[name]))


@method
def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """``new(*sizes)``, uninitialised, or ``new(data)``: a tensor of this one's dtype."""
    return _constructed(self.dtype, args, device)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: there is no GPU to copy to."""
    return self


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
    """Nothing: there is no stream that could use the memory later."""


@method
def const_data_ptr(self: Tensor) -> int:
    """`data_ptr()`."""
    return self.data_ptr()


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False."""
    return False


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


def _yes(self: Tensor) -> bool:
    """True for every tensor of this build."""
    return True


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
    is_cpu=property(_yes),
    is_mps=property(_no),
    is_meta=property(_no),
    is_sparse=property(_no),
    is_quantized=property(_no),
    is_nested=property(_no),
    **{name: property(_no) for name in _ELSEWHERE},
)


# ---- storages


class UntypedStorage:
    """The memory that a tensor is a view of, as bytes. It keeps the memory alive; `data_ptr` is
    where it begins, which is the same for all tensors over it."""

    def __init__(self, x: Tensor) -> None:
        alone: Tensor = x.detach().compute()
        self._elements: Tensor = prim.as_strided(alone, (alone._storage_elements,), (1,), 0)
        self._id = alone._storage_id

    @property
    def device(self) -> _tensor.device:
        """Where the memory is."""
        return self._elements.device

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    @property
    def _cdata(self) -> int:
        """A number that the storage alone has, as long as it lives."""
        return int(self._id)

    def _values(self) -> Tensor:
        flat: Tensor = _tensor.view_dtype(self._elements, uint8)
        return flat

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self._elements.data_ptr()

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._elements.nbytes

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._values().element_size()

    def size(self) -> int:
        """Number of elements."""
        return len(self)

    def tolist(self) -> list[Any]:
        """The elements as Python's numbers."""
        found: list[Any] = self._values().tolist()
        return found

    def is_shared(self) -> bool:
        """Whether other processes can map the memory (`Tensor.share_memory_`)."""
        return shared_descriptor(self._elements) >= 0

    def resize_(self, size: int) -> NoReturn:
        """RuntimeError: memory has a fixed size."""
        raise RuntimeError("resize_: a storage has a fixed size; make another tensor")

    def __len__(self) -> int:
        return self._values().numel()

    def __getitem__(self, index: int) -> Any:
        return self._values()[index].item()

    def __setitem__(self, index: int, value: Any) -> None:
        self._values()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)


class TypedStorage(UntypedStorage):
    """The memory that a tensor is a view of, as elements of its dtype."""

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self._elements.dtype

    def _values(self) -> Tensor:
        return self._elements

    def fill_(self, value: Any) -> TypedStorage:
        """Writes one value to every element."""
        self._elements.fill_(value)
        return self

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._elements)


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor is a view of, as bytes."""
    return UntypedStorage(self)


@method
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor is a view of, as elements of its dtype."""
    return TypedStorage(self)


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same view of the same memory."""
    return (
        self._storage_id == tensor._storage_id
        and self.storage_offset() == tensor.storage_offset()
        and tuple(self.shape) == tuple(tensor.shape)
        and self.stride() == tensor.stride()
    )


def is_storage(obj: object) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage)


def typename(obj: Any) -> str:
    """The name of the type of ``obj``; of a tensor with its dtype ("tinyt.FloatTensor")."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    module = getattr(obj, "__module__", "") or ""
    name = getattr(obj, "__qualname__", "")
    if not name:
        module, name = type(obj).__module__, type(obj).__qualname__
    return name if module in ("", "builtins") else f"{module}.{name}"
