"""Padding in every mode, and tensors as patches: pixel shuffles, unfold and fold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import require_held
from tinyt.autograd.rules.common import blank
from tinyt.ops.autocast import in_full
from tinyt.ops.common import Number, tuple_of
from tinyt.ops.shape.strides import as_strided, window_stride
from tinyt.printing import abbreviated
from tinyt.tensor import Tensor, prim

# ---- padding


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """Adds ``value`` around (or with negative numbers removes elements from) the last dimensions.

    ``pad`` holds (before, after) pairs, the last dimension first.
    """
    pads = list(pad)
    if len(pads) % 2 or len(pads) > 2 * input.dim():
        raise RuntimeError(
            f"pad: needs (before, after) pairs for at most {input.dim()} dimensions, "
            f"got {abbreviated(pads)}"
        )
    by_dim = [0] * (2 * input.dim())
    for i in range(len(pads) // 2):
        d = input.dim() - 1 - i
        by_dim[2 * d : 2 * d + 2] = pads[2 * i : 2 * i + 2]
    if not input.dtype.is_floating_point and any(n > 0 for n in pads):
        require_held("pad", float(value), input.dtype)
    return prim.pad(input, by_dim, float(value))


_BORDERS = ("reflect", "replicate", "circular")


def _check_border(x: Tensor, d: int, before: int, after: int, mode: str) -> None:
    n, most = x.shape[d], max(before, after)
    if most < n or mode == "replicate" or (most == n and mode == "circular"):
        return
    at = f"got ({before}, {after}) for dimension {d} of {tuple(x.shape)}"
    if mode == "reflect":
        raise RuntimeError(f"pad: reflect needs padding smaller than the dimension, {at}")
    raise RuntimeError(f"pad: circular would wrap around more than once, {at}")


def _crop(x: Tensor, d: int, before: int, after: int) -> Tensor:
    """x without what negative padding removes."""
    if before >= 0 and after >= 0:
        return x
    first, last = max(-before, 0), x.shape[d] - max(-after, 0)
    if first > last:
        raise ShapeError(
            f"pad: ({before}, {after}) removes more than dimension {d} of {tuple(x.shape)} holds"
        )
    return prim.slice(x, d, first, last)


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Adds (or with negative numbers removes) elements around the last dimensions.

    ``pad`` holds (before, after) pairs, the last dimension first. Modes: "constant" (``value``, 0
    by default), "reflect" (mirrored at the edge elements), "replicate" (the edge elements) and
    "circular" (from the other end); the last three for the last one, two or three dimensions of a
    tensor with one or two dimensions more.
    """
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if mode not in _BORDERS:
        raise NotImplementedError(
            f"pad: mode must be constant, reflect, replicate or circular, got {mode!r}"
        )
    if value is not None and value != 0:
        raise RuntimeError(f"pad: mode {mode!r} takes no value, got {value}")
    count, rank = len(pad) // 2, input.dim()
    if len(pad) % 2 or count not in (1, 2, 3) or rank not in (count + 1, count + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dimensions of a tensor with one or two "
            f"more, got {tuple(pad)} for shape {tuple(input.shape)}"
        )
    if 0 in input.shape[rank - count - 1 :]:
        raise ShapeError(
            f"pad: mode {mode!r} needs elements to repeat, got shape {tuple(input.shape)}"
        )
    out, by_dim = input if mode == "circular" else in_full(input), [0] * (2 * rank)
    for i in range(count):
        d, before, after = rank - 1 - i, pad[2 * i], pad[2 * i + 1]
        if mode == "circular":  # what is removed does not come in at the other end
            out = _crop(out, d, before, after)
        _check_border(out, d, max(before, 0), max(after, 0), mode)
        by_dim[2 * d : 2 * d + 2] = max(before, 0), max(after, 0)
    if any(by_dim):
        out = prim.pad_border(out, by_dim, _BORDERS.index(mode))
    if mode != "circular":
        for i in range(count):
            out = _crop(out, rank - 1 - i, pad[2 * i], pad[2 * i + 1])
    return prim.copy(out) if out is input or out._base is not None else out


# ---- channels and pixels


def _front(op: str, input: Tensor, rank: int) -> tuple[int, ...]:
    if input.dim() < rank:
        raise RuntimeError(
            f"{op}: needs at least {rank} dimensions, got shape {tuple(input.shape)}"
        )
    return tuple(input.shape[: input.dim() - 3])


def _factor(op: str, name: str, value: int) -> int:
    if value < 1:
        raise RuntimeError(f"{op}: {name} must be positive, got {value}")
    return value


def _moved(x: Tensor, lead: int, order: Sequence[int]) -> Tensor:
    """The dimensions after ``lead`` in another order."""
    return prim.permute(x, (*range(lead), *(lead + d for d in order)))


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels as pixels: ``[..., c r², h, w]`` becomes ``[..., c, h r, w r]``."""
    lead = _front("pixel_shuffle", input, 3)
    r = _factor("pixel_shuffle", "upscale_factor", upscale_factor)
    c, h, w = input.shape[-3:]
    if c % (r * r):
        raise RuntimeError(f"pixel_shuffle: {c} channels are not divisible by {r} squared")
    parts = prim.reshape(input, (*lead, c // (r * r), r, r, h, w))
    moved = _moved(parts, len(lead), (0, 3, 1, 4, 2))
    return prim.reshape(prim.copy(moved), (*lead, c // (r * r), h * r, w * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels as channels: ``[..., c, h r, w r]`` becomes ``[..., c r², h, w]``."""
    lead = _front("pixel_unshuffle", input, 3)
    r = _factor("pixel_unshuffle", "downscale_factor", downscale_factor)
    c, h, w = input.shape[-3:]
    if h % r or w % r:
        raise RuntimeError(f"pixel_unshuffle: height {h} and width {w} must be divisible by {r}")
    parts = prim.reshape(input, (*lead, c, h // r, r, w // r, r))
    moved = _moved(parts, len(lead), (0, 2, 4, 1, 3))
    return prim.reshape(prim.copy(moved), (*lead, c * r * r, h // r, w // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels (dimension 1) of ``groups`` groups taken one from each in turn."""
    _front("channel_shuffle", input, 3)
    g = _factor("channel_shuffle", "groups", groups)
    n, c, *rest = input.shape
    if c % g:
        raise RuntimeError(f"channel_shuffle: {c} channels are not divisible by {g} groups")
    parts = prim.reshape(input, (n, g, c // g, *rest))
    order = (0, 2, 1, *range(3, parts.dim()))
    return prim.reshape(prim.copy(prim.permute(parts, order)), tuple(input.shape))


# ---- sliding blocks as columns, and back


class _Blocks:
    """Sliding blocks of an image [n, c, height, width] as strides of the padded image."""

    def __init__(self, op: str, size: Sequence[int], options: dict[str, Any]) -> None:
        pairs = {name: tuple_of(op, name, value, 2) for name, value in options.items()}
        self.kernel, self.dilation = pairs["kernel_size"], pairs["dilation"]
        self.padding, self.stride = pairs["padding"], pairs["stride"]
        for name, values in pairs.items():
            if min(values) < (0 if name == "padding" else 1):
                raise RuntimeError(f"{op}: {name} is too small, got {values}")
        self.size = tuple(n + 2 * p for n, p in zip(size, self.padding, strict=True))
        self.counts = tuple(
            (n - d * (k - 1) - 1) // s + 1
            for n, k, d, s in zip(self.size, self.kernel, self.dilation, self.stride, strict=True)
        )
        if min(self.counts) < 1:
            raise RuntimeError(
                f"{op}: kernel_size {self.kernel} with dilation {self.dilation} does not fit "
                f"the padded size {self.size}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Kernel rows and columns, block rows and columns."""
        return (*self.kernel, *self.counts)

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides of these four over one padded plane."""
        along = (self.size[1], 1, self.size[1], 1)
        steps = (*self.dilation, *self.stride)
        windows = zip(self.shape, along, steps, strict=True)
        return tuple(window_stride(n, a, s) for n, a, s in windows)


def _batched(op: str, input: Tensor, rank: int) -> Tensor:
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise DTypeError(f"{op}: needs a float dtype, got {input.dtype.name}")
    return prim.reshape(input, (1, *input.shape)) if input.dim() == rank - 1 else input


def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Sliding blocks of an image ``[n, c, h, w]`` as columns ``[n, c kh kw, blocks]``."""
    if input.dim() not in (3, 4):
        raise IndexError(f"unfold: needs 3 or 4 dimensions, got shape {tuple(input.shape)}")
    x = _batched("unfold", input, 4)
    n, c = x.shape[:2]
    options = {
        "kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride,
    }  # fmt: skip
    blocks = _Blocks("unfold", x.shape[2:], options)
    top, left = blocks.padding
    x = prim.pad(x, (0, 0, 0, 0, top, top, left, left), 0.0)
    plane = math.prod(blocks.size)
    view = as_strided(
        x, (n, c, *blocks.shape), (c * plane, plane, *blocks.steps), x.storage_offset()
    )
    rows, columns = c * math.prod(blocks.kernel), math.prod(blocks.counts)
    return prim.reshape(view, (n, rows, columns) if input.dim() == 4 else (rows, columns))


def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Columns ``[n, c kh kw, blocks]`` added up into an image ``[n, c, *output_size]``, where
    :func:`unfold` takes them from."""
    if input.dim() not in (2, 3):
        raise RuntimeError(f"fold: needs 2 or 3 dimensions, got shape {tuple(input.shape)}")
    x = _batched("fold", input, 3)
    size = tuple_of("fold", "output_size", output_size, 2)
    options = {
        "kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride,
    }  # fmt: skip
    blocks = _Blocks("fold", size, options)
    per_block, count = math.prod(blocks.kernel), math.prod(blocks.counts)
    n, rows, columns = x.shape
    if rows % per_block or columns != count:
        raise RuntimeError(
            f"fold: expects a multiple of {per_block} rows and {count} columns, got shape "
            f"{tuple(input.shape)}"
        )
    c, plane = rows // per_block, math.prod(blocks.size)
    places = prim.as_strided(prim.iota(plane, 5, 0.0, 0.0, 0, 1), blocks.shape, blocks.steps, 0)
    flat = (n, c, per_block * count)
    index = prim.expand(prim.reshape(places, (per_block * count,)), flat)
    out = prim.scatter_add(blank((n, c, plane), x), index, prim.reshape(x, flat), 2)
    out = prim.reshape(out, (n, c, *blocks.size))
    top, left = blocks.padding
    out = prim.pad(out, (0, 0, 0, 0, -top, -top, -left, -left), 0.0) if top or left else out
    return out if input.dim() == 3 else prim.reshape(out, tuple(out.shape[1:]))


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (constant_pad_nd, pixel_shuffle, pixel_unshuffle, channel_shuffle)
}
FUNCTIONAL: dict[str, Any] = {"pad": pad, "unfold": unfold, "fold": fold}
