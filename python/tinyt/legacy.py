"""What PyTorch scripts still say: constructors for each dtype (`FloatTensor(2, 3)`), and where a
tensor is, which here has one answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt import dtypes
from tinyt._tensor import dtype as DType
from tinyt.ops import empty, tensor
from tinyt.tensor import Tensor, attach, method


def _constructor(name: str, kind: DType) -> Callable[..., Tensor]:
    def construct(*args: Any) -> Tensor:
        if len(args) == 1 and not isinstance(args[0], int):
            return tensor(args[0], dtype=kind)
        return empty(args or (0,), dtype=kind)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"{name}(*sizes), uninitialised, or {name}(data): a {kind.name} tensor."
    return construct


FloatTensor = _constructor("FloatTensor", dtypes.float32)
DoubleTensor = _constructor("DoubleTensor", dtypes.float64)
HalfTensor = _constructor("HalfTensor", dtypes.float16)
BFloat16Tensor = _constructor("BFloat16Tensor", dtypes.bfloat16)
ByteTensor = _constructor("ByteTensor", dtypes.uint8)
CharTensor = _constructor("CharTensor", dtypes.int8)
ShortTensor = _constructor("ShortTensor", dtypes.int16)
IntTensor = _constructor("IntTensor", dtypes.int32)
LongTensor = _constructor("LongTensor", dtypes.int64)
BoolTensor = _constructor("BoolTensor", dtypes.bool)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: there is no GPU to copy to."""
    return self


@method
def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself: threads share memory anyway."""
    return self


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False."""
    return False


@method
def is_shared(self: Tensor) -> bool:
    """False: the memory is this process's own."""
    return False


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
