"""`torch.onnx.operators`: shapes as tensors, which an export would follow."""

from __future__ import annotations

from tinyt.ops import tensor
from tinyt.tensor import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes of a tensor as int64 numbers.

    >>> import tinyt
    >>> tinyt.onnx.operators.shape_as_tensor(tinyt.ones(2, 3))
    tensor([2, 3])
    """
    return tensor(list(x.shape))


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """A tensor of the sizes that another one holds."""
    return x.reshape([int(n) for n in shape.tolist()])
