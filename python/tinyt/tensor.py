"""The public ``Tensor`` class. Its methods are attached by ``tinyt.ops`` at import."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from copy import deepcopy
from numbers import Integral
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from tinyt import _capture, _core, _tensor
from tinyt._autograd import Node
from tinyt._tensor import Size, TensorBase
from tinyt._tensor import dtype as DType
from tinyt.dtypes import uint8
from tinyt.formats import layout, strided
from tinyt.printing import format_tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

# Every primitive of the op table as a function: prim.add(a, b), prim.sum(x, dims, keepdim).
prim = SimpleNamespace(**_tensor.primitives())


# A tensor's node on the tape, or None; `grad_fn` is the view of it that users get.
node_of: Callable[[TensorBase], Node | None] = vars(TensorBase)["grad_fn"].__get__

# What PyTorch calls of classes that derive from its tensors.
_IGNORED = ("__torch_function__", "__torch_dispatch__")


class Tensor(TensorBase):
    """A multi-dimensional array of one dtype that can take part in differentiation.

    Make one with :func:`tinyt.tensor`, :func:`tinyt.zeros` and the like. ``Tensor(data)`` is the
    short form for a tensor of the default dtype; ``Tensor(2, 3)`` an uninitialised one of a shape.
    """

    # Not in __init__: classes that derive from it, as PyTorch's, may have a __new__ or an __init__
    # that takes and passes on other arguments.
    def __new__(cls, *data: Any, device: Any = None) -> Self:  # noqa: D102
        made = super().__new__(cls)
        if device is not None:
            with _tensor.device(device):
                return cls.__new__(cls, *data)
        if not data:
            return made
        dtype = _tensor.default_dtype_object()
        if len(data) == 1 and isinstance(data[0], Size):
            data = tuple(data[0])
        if all(isinstance(n, Integral) for n in data):
            made.data = prim.fill(tuple(map(_capture.index, data)), dtype, 0.0, 0)
        elif len(data) == 1:
            made.data = _maker(data[0], dtype)
        else:
            raise TypeError(f"Tensor: expected sizes or one data argument, got {len(data)}")
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: `__new__` has made the tensor."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        ignored = [name for name in _IGNORED if name in vars(cls)]
        if ignored:
            warnings.warn(
                f"Tensor: class {cls.__name__} defines {ignored[0]}, which is not called here: "
                "results of operations on its tensors are plain tensors; wrap a tensor in a class "
                "of your own, or give results the class by as_subclass",
                stacklevel=2,
            )

    @staticmethod
    def _make_subclass(cls: type[Any], data: TensorBase, require_grad: bool = False) -> Any:
        """PyTorch's name of what makes an instance of a subclass over the memory of ``data``, off
        its tape."""
        return _tensor.make_subclass(cls, data, require_grad)

    def __repr__(self) -> str:
        return format_tensor(self)

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and not self.is_meta:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Elements as bytes: from protocol 5 on as a buffer that may travel without a copy."""
        from pickle import PickleBuffer  # here, because pickle is slow to import

        if self.is_meta:
            facts = (b"", self.dtype, tuple(self.shape), self.requires_grad, self.device)
            return _rebuild, (type(self), *facts), self.__dict__ or None
        dense = self.detach() if self.is_contiguous() else prim.copy(self.detach())
        place = () if self.device.type == "cpu" else (self.device,)
        dense = prim.to_device(dense, 0) if place else dense
        raw: Any = _tensor.view_dtype(prim.reshape(dense, (self.numel(),)), uint8)
        raw = PickleBuffer(raw) if protocol >= 5 else memoryview(raw).tobytes()
        facts = (raw, self.dtype, tuple(self.shape), self.requires_grad, *place)
        return _rebuild, (type(self), *facts), self.__dict__ or None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes the attributes of an instance; the elements come from ``__reduce_ex__``."""
        if not isinstance(state, dict):
            raise TypeError(f"__setstate__: expected a dict, got {type(state).__name__}")
        self.__dict__.update(state)

    def __copy__(self) -> Tensor:
        """A tensor over the same memory."""
        copy = _tensor.make_subclass(type(self), self.detach(), self.requires_grad)
        copy.__dict__.update(self.__dict__)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) in memo:
            known: Tensor = memo[id(self)]
            return known
        node = node_of(self)
        if node is not None:
            raise RuntimeError(
                "deepcopy: only leaf tensors (made by the user) support the deepcopy protocol; "
                f"this one came from {node.op_name}"
            )
        copy = _tensor.make_subclass(type(self), _deep_copied(self, memo), self.requires_grad)
        memo[id(self)] = copy
        grad = self._grad
        if grad is not None:
            copy._grad = prim.copy(grad) if node_of(grad) is not None else deepcopy(grad, memo)
        if self.__dict__:
            copy.__dict__.update(deepcopy(self.__dict__, memo))
        return copy

    # Above ndarray's: NumPy leaves operators to the tensor.
    __array_priority__ = 1000

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """An array over the same memory, or a copy where ``dtype`` or ``copy`` ask for one."""
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"__array__: {array.dtype} to {dtype} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: NDArray[Any], context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        """What a NumPy function of this tensor returns: a tensor."""
        return _tensor.from_buffer_object(array if array.flags.writeable else array.copy(), True)

    def numpy(self, *, force: bool = False) -> NDArray[Any]:
        """A NumPy array over the same memory.

        Raises RuntimeError when the tensor requires grad (``force=True`` detaches) and TypeError
        for bfloat16, which NumPy lacks.
        """
        import numpy as np

        if self.requires_grad:
            if not force:
                raise RuntimeError(
                    "numpy: can't call numpy() on a Tensor that requires grad; use "
                    "tensor.detach().numpy() instead"
                )
            return self.detach().numpy(force=True)
        if self.device.type != "cpu":
            if not force:
                raise TypeError(
                    f"numpy: can't convert {self.device} device type tensor to numpy. Use "
                    "Tensor.cpu() to copy the tensor to host memory first."
                )
            here: Tensor = prim.to_device(self, 0)
            return here.numpy()
        if self.dtype.name == "bfloat16":
            raise TypeError("numpy: NumPy has no bfloat16; convert to float32 first")
        return np.asarray(memoryview(self))

    @property
    def is_cuda(self) -> bool:
        """Whether the data lives on a CUDA device."""
        return self.device.type == "cuda"

    @property
    def layout(self) -> layout:
        """Memory layout: always strided."""
        return strided

    @property
    def is_cpu(self) -> bool:
        """Whether it is on the CPU."""
        return self.device.type == "cpu"

    @property
    def is_sparse(self) -> bool:
        """False: tensors are dense."""
        return False

    @property
    def is_quantized(self) -> bool:
        """False: no dtype here is quantised."""
        return False

    @property
    def is_meta(self) -> bool:
        """Whether it has a shape and a dtype alone."""
        return self.device.type == "meta"


def _deep_copied(x: Tensor, memo: dict[Any, Any]) -> Tensor:
    """The elements in new memory, which is one where that of the originals was."""
    alone: Tensor = x.detach()
    if _core.is_recording() or x._is_recorded:
        alone = prim.copy(alone)
        return alone
    size, key = x.compute()._storage_elements, ("storage", x._storage_id)
    known = memo.get(key)
    if known is None:
        known = prim.copy(prim.as_strided(alone, (size,), (1,), 0))
        memo[key] = known
    if known.dtype is not x.dtype:
        if known.nbytes != size * x.itemsize:
            alone = prim.copy(alone)
            return alone
        known = _tensor.view_dtype(known, x.dtype)
    view: Tensor = prim.as_strided(known, tuple(x.shape), x.stride(), x.storage_offset())
    return view.detach()


def _no_maker(data: Any, dtype: DType) -> Tensor:
    raise NotImplementedError("Tensor: conversions of values are registered by tinyt.ops")


_maker: Callable[[Any, DType], Tensor] = _no_maker


def set_maker(function: Callable[[Any, DType], Tensor]) -> None:
    """Registers what ``Tensor(data)`` makes its memory by: a function of data and dtype."""
    global _maker
    _maker = function


def _rebuild(
    cls: type[Tensor],
    data: Any,
    dtype: DType,
    shape: tuple[int, ...],
    requires_grad: bool,
    place: Any = "cpu",
) -> Tensor:
    """The tensor that ``__reduce_ex__`` took apart; shares ``data`` where it may be written."""
    where = _tensor.device(place).require_present()
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"unpickle: {cls!r} is no Tensor class")
    if not isinstance(dtype, DType) or any(not isinstance(n, int) or n < 0 for n in shape):
        raise ValueError(f"unpickle: {dtype!r} and {shape!r} are no dtype and shape")
    if where.type == "meta":
        return _tensor.make_subclass(
            cls, prim.fill(tuple(shape), dtype, 0.0, 0, 0.0, where), requires_grad
        )
    raw = memoryview(data)
    count = math.prod(shape)
    if raw.nbytes != count * dtype.itemsize:
        raise ValueError(
            f"unpickle: shape {tuple(shape)} of {dtype.name} needs {count * dtype.itemsize} bytes, "
            f"got {raw.nbytes}"
        )
    flat = _tensor.from_buffer_object(raw.cast("B"))
    if isinstance(data, bytes) or flat.data_ptr() % dtype.itemsize:
        flat = prim.copy(flat)
    if dtype.name == "bool" and count and prim.amax(flat, (), False).item() > 1:
        raise ValueError("unpickle: a bool must be a byte of 0 or 1")
    whole = prim.reshape(_tensor.view_dtype(flat, dtype), tuple(shape))
    if where.type != "cpu":
        whole = prim.to_device(whole, where)
    return _tensor.make_subclass(cls, whole, requires_grad)


def method(function: F) -> F:
    """Makes a function whose first argument is a tensor a method of Tensor too."""
    setattr(Tensor, function.__name__, function)
    return function


def attach(**members: object) -> None:
    """Makes values members of Tensor under names that are not their own."""
    for name, member in members.items():
        setattr(Tensor, name, member)


_tensor.set_public_class(Tensor)

__all__ = ["Size", "Tensor", "attach", "method", "node_of", "prim", "set_maker"]
