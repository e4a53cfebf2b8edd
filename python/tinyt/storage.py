"""`torch.storage`: the memory that tensors are views of.

A storage keeps the memory alive, and two of them over the same memory are equal. `UntypedStorage`
counts bytes; `TypedStorage`, as `FloatStorage` and its like make them, elements of a dtype. Both
are made of a tensor, of a number of elements (uninitialised) or of values; their size is fixed.

>>> import tinyt
>>> x = tinyt.zeros(2)
>>> x.storage()[1] = 5.0
>>> x
tensor([0., 5.])
>>> tinyt.LongStorage([1, 2]).tolist()
[1, 2]
"""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tinyt import _tensor
from tinyt._tensor import dtype as DType
from tinyt._tensor import dtype_by_name, move_to_shared, shared_descriptor
from tinyt.dtypes import get_default_dtype, uint8
from tinyt.io.mapped import map_file
from tinyt.ops import empty, frombuffer, tensor
from tinyt.ops.common import Placement, on_device, placed
from tinyt.ops.convert import TYPE_NAMES, cuda_device
from tinyt.tensor import Tensor, method, prim

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _memory(name: str, data: tuple[Any, ...], dtype: DType, device: Any) -> Tensor:
    """A tensor over new memory: of no elements, of so many, or of values."""
    if len(data) > 1:
        raise TypeError(f"{name}: expected a size or a sequence of values, got {len(data)} values")
    if not data:
        return empty(0, dtype=dtype, device=device)
    if isinstance(data[0], int):
        return empty(data[0], dtype=dtype, device=device)
    if isinstance(data[0], Tensor) or not isinstance(data[0], (Sequence, bytearray)):
        raise TypeError(
            f"{name}: expected a size or a sequence of values, got {type(data[0]).__name__}; "
            "a tensor's memory is its untyped_storage()"
        )
    values = [value & 255 for value in data[0]] if dtype is uint8 else list(data[0])
    return tensor(values, dtype=dtype, device=device)


def _mapped(path: str | os.PathLike[str], shared: bool, count: int, dtype: DType) -> Tensor:
    """Elements of ``dtype`` over the beginning of a file."""
    memory = map_file(path, shared, operator.index(count) * dtype.itemsize)
    return frombuffer(memory, dtype=dtype) if len(memory) else empty(0, dtype=dtype)


# Of storages of a part of another one's memory; the core numbers the whole ones upwards.
_ids_of_parts = itertools.count(-1, -1)


class UntypedStorage:
    """The memory that a tensor is a view of, as bytes. It keeps the memory alive; `data_ptr` is
    where it begins, which is the same for all tensors over it.

    Args:
        data: how many bytes, uninitialised, or their values; nothing for none.
        device: must be the CPU.
    """

    _elements: Tensor
    _id: int

    def __init__(self, *data: Any, device: Any = None) -> None:
        self._look_at(_memory("UntypedStorage", data, uint8, device))

    def _look_at(self, x: Tensor) -> None:
        alone: Tensor = x.detach().compute()
        self._elements = prim.as_strided(alone, (alone._storage_elements,), (1,), 0)
        self._id = alone._storage_id

    @classmethod
    def _of(cls, x: Tensor) -> Any:
        """The storage of a tensor."""
        made = cls.__new__(cls)
        made._look_at(x)
        return made

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str = "native", dtype: Any = uint8) -> Any:
        """A copy of the bytes of a buffer, which are elements of ``dtype``."""
        return cls._of(frombuffer(bytearray(buffer), dtype=dtype))

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> Any:
        """The first bytes of a file as memory, read when they are looked at.

        With ``shared`` writes go to the file, which is made or lengthened to ``nbytes``; otherwise
        they stay here. The file must not be shortened meanwhile. RuntimeError for a file that
        cannot be opened or is too short.
        """
        return cls._of(_mapped(filename, shared, nbytes, uint8))

    @property
    def device(self) -> _tensor.device:
        """Where the memory is."""
        return self._elements.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def _cdata(self) -> int:
        """A number that the storage alone has, as long as it lives."""
        return int(self._id)

    def _values(self) -> Tensor:
        return self.viewed_as(uint8)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes: the storage itself."""
        return self

    def viewed_as(self, dtype: DType | None = None) -> Tensor:
        """A tensor over all of the memory, as elements of ``dtype``: by default of a
        `TypedStorage`'s, otherwise bytes."""
        if dtype is None:
            return self._values()
        if dtype is self._elements.dtype:
            return self._elements.detach()
        flat: Tensor = _tensor.view_dtype(self._elements, dtype)
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

    def fill_(self, value: Any) -> Any:
        """Writes one value to every element; the storage itself."""
        self._values().fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: object = None) -> Any:
        """Writes the elements of another storage of the same size to this one, which it returns."""
        self._values().copy_(source._values())
        return self

    def clone(self) -> Any:
        """The same elements in memory of their own."""
        return type(self)._of(self._elements.clone())

    def cpu(self) -> Any:
        """The memory on the CPU: the storage itself where it is there, else a copy."""
        return self.to("cpu")

    def cuda(self, device: object = None, non_blocking: bool = False) -> Any:
        """The memory on a CUDA device, by default the first."""
        return self.to(cuda_device(device), non_blocking)

    def to(self, device: Any, non_blocking: bool = False) -> Any:
        """The memory on a device: the storage itself where it is there, else a copy.
        RuntimeError for a device that is not there."""
        moved = on_device(self._elements, device, non_blocking)
        return self if moved is self._elements else type(self)._of(moved)

    def get_device(self) -> int:
        """The number of its device among those of the kind; -1 on the CPU."""
        return self._elements.get_device()

    @property
    def filename(self) -> None:
        """None: the memory has no name."""
        return None

    def resizable(self) -> bool:
        """False."""
        return False

    def share_memory_(self) -> Any:
        """Moves the memory to where other processes can map it (`Tensor.share_memory_`)."""
        move_to_shared(self._elements)
        return self

    def is_shared(self) -> bool:
        """Whether other processes can map the memory (`Tensor.share_memory_`)."""
        return shared_descriptor(self._elements) >= 0

    def is_pinned(self, device: object = None) -> bool:
        """Whether CUDA devices copy to and from the memory on their own (`Tensor.pin_memory`)."""
        return self._elements.is_pinned()

    def pin_memory(self, device: object = None) -> Any:
        """The memory in pinned memory (`Tensor.pin_memory`): the storage itself where it is."""
        moved = self._elements.pin_memory()
        return self if moved is self._elements else type(self)._of(moved)

    def resize_(self, size: int) -> NoReturn:
        """RuntimeError: memory has a fixed size."""
        raise RuntimeError("resize_: a storage has a fixed size; make another tensor")

    def __len__(self) -> int:
        return self._values().numel()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self._part(index) if isinstance(index, slice) else self._values()[index].item()

    def _part(self, index: slice) -> Any:
        """The bytes of a slice as a storage of its own over the same memory."""
        first, end, step = index.indices(len(self))
        if step != 1:
            raise RuntimeError(f"UntypedStorage: expected a slice of step 1, got {step}")
        made = type(self).__new__(type(self))
        made._elements = prim.slice(self._values(), 0, first, max(first, end), 1)
        made._id = next(_ids_of_parts)
        return made

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values()[index] = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._id == other._id

    def __hash__(self) -> int:
        return hash(self._id)

    def _described(self) -> str:
        return f"UntypedStorage(device={self.device})"

    def __repr__(self) -> str:
        lines = "\n ".join(map(str, self))
        return f" {lines}\n[{_tensor.shown_as()}.storage.{self._described()} of size {len(self)}]"


class TypedStorage(UntypedStorage):
    """The memory that a tensor is a view of, as elements of its dtype.

    Args:
        data: how many elements, uninitialised, or their values; nothing for none.
        dtype: of the elements; the default dtype without one.
        device: must be the CPU.
        wrap_storage: the memory, in place of ``data``.
    """

    def __init__(
        self,
        *data: Any,
        dtype: Any = None,
        device: Any = None,
        wrap_storage: UntypedStorage | None = None,
    ) -> None:
        kind = get_default_dtype() if dtype is None else dtype
        if wrap_storage is None:
            self._look_at(_memory("TypedStorage", data, kind, device))
        elif data:
            raise TypeError("TypedStorage: takes data or wrap_storage, not both")
        else:
            self._look_at(wrap_storage.viewed_as(kind))

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return self._elements.dtype

    def _values(self) -> Tensor:
        return self._elements

    def _part(self, index: slice) -> NoReturn:
        raise RuntimeError("TypedStorage: slices are those of untyped()")

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        found: UntypedStorage = UntypedStorage._of(self._elements)
        return found

    def type(self) -> str:
        """The name of the class of storages of this dtype."""
        name = next(k for k, v in TYPE_NAMES.items() if v == self.dtype.name)
        return f"{_tensor.shown_as()}.{_storage_name(name)}"

    def _described(self) -> str:
        kind = f"{_tensor.shown_as()}.{self.dtype.name}"
        return f"TypedStorage(dtype={kind}, device={self.device})"


class _StorageType(type):
    """The class of `FloatStorage` and its like: a call constructs, isinstance asks for the
    dtype."""

    dtype: DType

    def __call__(cls, *data: Any, **options: Any) -> TypedStorage:
        return TypedStorage(*data, dtype=cls.dtype, **options)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, TypedStorage) and x.dtype is cls.dtype

    def from_buffer(cls, buffer: Any, byte_order: str = "native") -> TypedStorage:
        """A copy of the bytes of a buffer."""
        made: TypedStorage = TypedStorage.from_buffer(buffer, byte_order, cls.dtype)
        return made

    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0
    ) -> TypedStorage:
        """As `UntypedStorage.from_file`, by a number of elements."""
        made: TypedStorage = TypedStorage._of(_mapped(filename, shared, size, cls.dtype))
        return made


def _storage_name(tensor_type: str) -> str:
    return tensor_type.removesuffix("Tensor") + "Storage"


def _storage_type(name: str) -> _StorageType:
    kind = dtype_by_name(TYPE_NAMES[name.removesuffix("Storage") + "Tensor"])
    doc = f"{name}(size), uninitialised, or {name}(values): memory of {kind.name} elements."
    return _StorageType(name, (), {"dtype": kind, "__doc__": doc, "__module__": __name__})


BFloat16Storage = _storage_type("BFloat16Storage")
BoolStorage = _storage_type("BoolStorage")
ByteStorage = _storage_type("ByteStorage")
CharStorage = _storage_type("CharStorage")
ComplexDoubleStorage = _storage_type("ComplexDoubleStorage")
ComplexFloatStorage = _storage_type("ComplexFloatStorage")
DoubleStorage = _storage_type("DoubleStorage")
FloatStorage = _storage_type("FloatStorage")
HalfStorage = _storage_type("HalfStorage")
IntStorage = _storage_type("IntStorage")
LongStorage = _storage_type("LongStorage")
ShortStorage = _storage_type("ShortStorage")
Storage = FloatStorage


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that the tensor is a view of, as bytes."""
    found: UntypedStorage = UntypedStorage._of(self)
    return found


@method
def storage(self: Tensor) -> TypedStorage:
    """The memory that the tensor is a view of, as elements of its dtype."""
    found: TypedStorage = TypedStorage._of(self)
    return found


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same view of the same memory."""
    return (
        self._storage_id == tensor._storage_id
        and self.storage_offset() == tensor.storage_offset()
        and tuple(self.shape) == tuple(tensor.shape)
        and self.stride() == tensor.stride()
    )


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    **place: Unpack[Placement],
) -> Tensor:
    """A vector over the beginning of a file, which is read where it is looked at.

    Args:
        filename: path of the file.
        shared: whether writes go to the file, which is made or lengthened where that is needed;
            otherwise they stay here and the file must hold all elements.
        size: number of elements.
        dtype: of the elements; the default dtype without one.
        place: ``device``, which must be the CPU, ``requires_grad`` and PyTorch's other options.

    Raises:
        RuntimeError: for a file that cannot be opened, mapped or is too short.
    """
    kind = get_default_dtype() if dtype is None else dtype
    return placed("from_file", _mapped(filename, bool(shared), size, kind), place)


def is_storage(obj: object) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, UntypedStorage)


__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
    "Storage",
    "TypedStorage",
    "UntypedStorage",
    "from_file",
    "is_storage",
]
