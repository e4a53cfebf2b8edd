"""Pooling: windows over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt._core import ShapeError
from tinyt.ops.common import need_tensor, tuple_of
from tinyt.tensor import Tensor, prim

Sizes = int | Sequence[int]


def _pool(
    op: str,
    spatial: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    rank = need_tensor(op, input).dim()
    if rank not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{op}: expects input of rank {spatial + 1} or {spatial + 2}, got {tuple(input.shape)}"
        )
    kernel = tuple_of(op, "kernel_size", kernel_size, spatial)
    values, indices = prim.max_pool(
        input if rank == spatial + 2 else prim.reshape(input, (1, *input.shape)),
        kernel,
        kernel if stride is None else tuple_of(op, "stride", stride, spatial),
        tuple_of(op, "padding", padding, spatial),
        tuple_of(op, "dilation", dilation, spatial),
        ceil_mode,
    )
    if rank == spatial + 1:
        values = prim.reshape(values, tuple(values.shape[1:]))
        indices = prim.reshape(indices, tuple(indices.shape[1:]))
    return (values, indices) if return_indices else values


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value of every window of the last dimension; stride defaults to the window."""
    return _pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode,
                 return_indices)  # fmt: skip


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value of every window of the last two dimensions; stride defaults to the window."""
    return _pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode,
                 return_indices)  # fmt: skip


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value of every window of the last three dimensions; stride defaults to the window."""
    return _pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode,
                 return_indices)  # fmt: skip


EXPORTS: dict[str, Any] = {f.__name__: f for f in (max_pool1d, max_pool2d, max_pool3d)}
