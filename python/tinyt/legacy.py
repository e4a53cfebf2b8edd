"""PyTorch's older constructors, one for each dtype: `FloatTensor(2, 3)`, `LongTensor([1, 2])`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt import dtypes
from tinyt._tensor import dtype as DType
from tinyt.ops import empty, tensor
from tinyt.tensor import Tensor


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
