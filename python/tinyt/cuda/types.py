"""Tensor types of `torch.cuda`: `FloatTensor` and its like."""

from __future__ import annotations

from typing import Any

from tinyt import legacy
from tinyt.cuda.places import count, refuse
from tinyt.tensor import Tensor


class _TensorType(type):
    """The class of a dtype's tensors on CUDA devices."""

    place = "cuda"

    @property
    def dtype(cls) -> Any:
        """Of its tensors."""
        return getattr(legacy, cls.__name__).dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not count():
            refuse(cls.__name__)
        return getattr(legacy, cls.__name__)(*args, device=kwargs.pop("device", "cuda"), **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        plain = getattr(legacy, cls.__name__)
        return isinstance(instance, Tensor) and instance.is_cuda and isinstance(instance, plain)


def _tensor_type(name: str) -> _TensorType:
    text = f"`tinyt.{name}` on a CUDA device; DeviceError where there is none."
    return _TensorType(name, (), {"__doc__": text, "__module__": "tinyt.cuda"})


BFloat16Tensor = _tensor_type("BFloat16Tensor")
BoolTensor = _tensor_type("BoolTensor")
ByteTensor = _tensor_type("ByteTensor")
CharTensor = _tensor_type("CharTensor")
DoubleTensor = _tensor_type("DoubleTensor")
FloatTensor = _tensor_type("FloatTensor")
HalfTensor = _tensor_type("HalfTensor")
IntTensor = _tensor_type("IntTensor")
LongTensor = _tensor_type("LongTensor")
ShortTensor = _tensor_type("ShortTensor")
