"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.ops.common import need_tensor, tuple_of
from tinyt.tensor import Tensor, prim

Sizes = int | Sequence[int]


def _with_batch(op: str, spatial: int, input: Tensor, weight: Tensor) -> Tensor:
    """The input with a batch dimension, after the checks of ranks and dtypes."""
    rank = need_tensor(op, input).dim()
    if rank not in (spatial + 1, spatial + 2) or need_tensor(op, weight).dim() != spatial + 2:
        raise ShapeError(
            f"{op}: expects input of rank {spatial + 1} or {spatial + 2} and weight of rank "
            f"{spatial + 2}, got {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    return input if rank == spatial + 2 else prim.reshape(input, (1, *input.shape))


def _finish(op: str, spatial: int, out: Tensor, bias: Tensor | None, input: Tensor) -> Tensor:
    """The output with the bias added, without a batch dimension where the input has none."""
    if bias is not None:
        channels = out.shape[1]
        if tuple(need_tensor(op, bias).shape) != (channels,):
            raise ShapeError(f"{op}: bias must have shape ({channels},), got {tuple(bias.shape)}")
        if bias.dtype is not input.dtype:
            raise DTypeError(
                f"{op}: input and bias must have one dtype, got {input.dtype} and {bias.dtype}"
            )
        out = out + prim.reshape(bias, (channels,) + (1,) * spatial)
    return out if input.dim() == spatial + 2 else prim.reshape(out, tuple(out.shape[1:]))


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
    x = _with_batch(op, spatial, input, weight)
    steps = tuple_of(op, "stride", stride, spatial)
    spread = tuple_of(op, "dilation", dilation, spatial)
    if isinstance(padding, str):
        x, pads = _named_padding(op, x, weight, padding, steps, spread)
    else:
        pads = tuple_of(op, "padding", padding, spatial)
    out = prim.conv(x, weight, steps, pads, spread, groups)
    return _finish(op, spatial, out, bias, input)


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
        raise RuntimeError(f"{op}: padding must be 'valid' or 'same', got {padding!r}")
    if any(s != 1 for s in stride):
        raise RuntimeError(f"{op}: padding='same' is not supported for strided convolutions")
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


def _transpose(
    op: str,
    spatial: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> Tensor:
    """The gradient of a convolution to its input, taken at ``input``.

    Along an axis the output has (size - 1) stride - 2 padding + dilation (kernel - 1)
    + output_padding + 1 elements.
    """
    x = _with_batch(op, spatial, input, weight)
    steps = tuple_of(op, "stride", stride, spatial)
    pads = tuple_of(op, "padding", padding, spatial)
    extra = tuple_of(op, "output_padding", output_padding, spatial)
    spread = tuple_of(op, "dilation", dilation, spatial)
    if groups <= 0 or x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        raise ShapeError(
            f"{op}: input {tuple(input.shape)} with {groups} groups does not fit weight "
            f"{tuple(weight.shape)}"
        )
    if any(e < 0 or e >= max(s, d) for e, s, d in zip(extra, steps, spread, strict=True)):
        raise ShapeError(
            f"{op}: output_padding must be smaller than stride or dilation and not negative, got "
            f"{extra} for {steps} and {spread}"
        )
    if any(s <= 0 for s in steps):
        raise ShapeError(f"{op}: stride must be positive, got {steps}")
    # Output past the last whole step is what further elements, all zero, would have made room for.
    more = [e // s for e, s in zip(extra, steps, strict=True)]
    if any(more):
        x = prim.pad(x, [0, 0, 0, 0] + [p for m in more for p in (0, m)])
    size = [x.shape[0], weight.shape[1] * groups]
    for n, k, s, p, e, d in zip(
        x.shape[2:], weight.shape[2:], steps, pads, extra, spread, strict=True
    ):
        size.append((n - 1) * s - 2 * p + d * (k - 1) + e % s + 1)
    least = min(size[2:])
    if least < 0 or (least == 0 and x.shape[0]):  # an empty batch may have empty images
        raise ShapeError(
            f"{op}: the output of input {tuple(input.shape)} would have the size {size[2:]}"
        )
    out = prim.conv_backward_input(x, weight, size, steps, pads, spread, groups)
    return _finish(op, spatial, out, bias, input)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution over one dimension: [N, C, L] with weight [C, O/groups, k]."""
    return _transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding,
                      groups, dilation)  # fmt: skip


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution over two dimensions, with weight [C, O/groups, kH, kW]."""
    return _transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding,
                      groups, dilation)  # fmt: skip


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution over three dimensions, with weight [C, O/groups, kD, kH, kW]."""
    return _transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding,
                      groups, dilation)  # fmt: skip


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """:func:`conv1d` with time, batch and channels in this order: input (T, B, in), weight
    (width, in, out), bias (out), result (T', B, out)."""
    moved = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return moved.permute(2, 0, 1)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d, conv_tbc,
    )
}  # fmt: skip
