"""What PyTorch scripts still say: constructors for each dtype (`FloatTensor(2, 3)`), and where a
tensor is, which here has one answer."""

from __future__ import annotations

from typing import Any

from tinyt._tensor import dtype as DType
from tinyt._tensor import dtype_by_name, move_to_shared, shared_descriptor
from tinyt.dtypes import set_default_dtype
from tinyt.ops import empty, tensor
from tinyt.ops.convert import TYPE_NAMES
from tinyt.tensor import Size, Tensor, attach, method


class _TensorType(type):
    """The class of `FloatTensor` and its like: a call constructs, isinstance asks for the dtype."""

    dtype: DType

    def __call__(cls, *args: Any) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Size):
            return empty(tuple(args[0]), dtype=cls.dtype)
        if len(args) == 1 and not isinstance(args[0], int):
            return tensor(args[0], dtype=cls.dtype)
        return empty(args or (0,), dtype=cls.dtype)

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
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False."""
    return False


@method
def is_shared(self: Tensor) -> bool:
    """Whether the memory is one that other processes can map (`share_memory_`)."""
    return shared_descriptor(self) >= 0


@method
def is_inference(self: Tensor) -> bool:
    """False: `inference_mode` makes ordinary tensors."""
    return False


@method
def get_device(self: Tensor) -> int:
    """-1, which stands for the CPU."""
    return -1


@method
def cuda(self: Tensor, device: object = None, non_blocking: bool = False) -> Tensor:
    """RuntimeError: this build has no CUDA."""
    return self.to("cuda")


def _no(self: Tensor) -> bool:
    """False for every tensor of this build."""
    return False


def _yes(self: Tensor) -> bool:
    """True for every tensor of this build."""
    return True


attach(
    is_cpu=property(_yes),
    is_mps=property(_no),
    is_meta=property(_no),
    is_sparse=property(_no),
    is_quantized=property(_no),
    is_nested=property(_no),
)
