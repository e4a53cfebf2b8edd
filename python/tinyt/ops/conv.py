"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt._core import ShapeError
from tinyt.ops.common import need_tensor, tuple_of
from tinyt.tensor import Tensor, prim

Sizes = int | Sequence[int]


def _convolve(
    op: str,
    spatial: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    rank = need_tensor(op, input).dim()
    if rank not in (spatial + 1, spatial + 2) or weight.dim() != spatial + 2:
        raise ShapeError(
            f"{op}: expects input of rank {spatial + 1} or {spatial + 2} and weight of rank "
            f"{spatial + 2}, got {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    steps = tuple_of(op, "stride", stride, spatial)
    spread = tuple_of(op, "dilation", dilation, spatial)
    x = input if rank == spatial + 2 else prim.reshape(input, (1, *input.shape))
    if isinstance(padding, str):
        x, pads = _named_padding(op, x, weight, padding, steps, spread)
    else:
        pads = tuple_of(op, "padding", padding, spatial)
    out = prim.conv(x, weight, steps, pads, spread, groups)
    if bias is not None:
        if tuple(bias.shape) != (weight.shape[0],):
            raise ShapeError(
                f"{op}: bias must have shape ({weight.shape[0]},), got {tuple(bias.shape)}"
            )
        out = out + prim.reshape(bias, (weight.shape[0],) + (1,) * spatial)
    return out if rank == spatial + 2 else prim.reshape(out, tuple(out.shape[1:]))


def _named_padding(
    op: str,
    x: Tensor,
    weight: Tensor,
    padding: str,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[Tensor, tuple[int, ...]]:
    """ "valid" or "same"; an odd total puts the extra element at the end, as PyTorch does."""
    if padding == "valid":
        return x, (0,) * len(stride)
    if padding != "same":
        raise ValueError(f"{op}: padding must be 'valid' or 'same', got {padding!r}")
    if any(s != 1 for s in stride):
        raise ValueError(f"{op}: padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in totals):
        x = prim.pad(x, [0, 0, 0, 0] + [p for t in totals for p in (0, t % 2)])
    return x, tuple(t // 2 for t in totals)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over one dimension: [N, C, L] with weight [O, C/groups, k]."""
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over two dimensions: [N, C, H, W] with weight [O, C/groups, kH, kW]."""
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation over three dimensions: [N, C, D, H, W]."""
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


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


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (conv1d, conv2d, conv3d, max_pool1d, max_pool2d, max_pool3d)
}
