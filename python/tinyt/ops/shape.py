"""Shape and view functions: views where strides allow, copies elsewhere, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt import _tensor
from tinyt._core import ShapeError
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.ops.common import Scalar, need_tensor, sizes_of, to_dtype, wrap_dim
from tinyt.tensor import Tensor, attach, method, prim


@method
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape (one size may be -1); a view where possible."""
    return prim.reshape(input, sizes_of(shape))


def _reshape_function(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape (one size may be -1); a view where possible."""
    return prim.reshape(input, tuple(shape))


@method
def view(self: Tensor, *shape: Any) -> Tensor:
    """A view in another shape, or (given a dtype of the same size) of the same bytes.

    RuntimeError where the strides do not allow a view; use :func:`reshape` then.
    """
    if len(shape) == 1 and isinstance(shape[0], DType):
        return _tensor.view_dtype(self, shape[0])
    out = prim.reshape(self, sizes_of(shape))
    if self.numel() and not self._is_recorded and out.data_ptr() != self.data_ptr():
        raise ShapeError(
            f"view: size {tuple(out.shape)} is not compatible with the tensor's size "
            f"{tuple(self.shape)} and stride {self.stride()}; use reshape() instead"
        )
    return out


@method
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view in the shape of ``other``."""
    return view(self, tuple(other.shape))


@method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of ``other``."""
    return prim.reshape(self, tuple(other.shape))


@method
def permute(input: Tensor, *dims: Any) -> Tensor:
    """A view with the dimensions in another order."""
    return prim.permute(input, sizes_of(dims))


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions swapped."""
    rank = input.dim()
    a, b = wrap_dim("transpose", dim0, rank), wrap_dim("transpose", dim1, rank)
    order = list(range(rank))
    if rank:
        order[a], order[b] = order[b], order[a]
    return prim.permute(input, order)


swapaxes = swapdims = transpose
attach(swapaxes=transpose, swapdims=transpose)


@method
def t(input: Tensor) -> Tensor:
    """A matrix transposed; 0-d and 1-d tensors as they are."""
    if input.dim() > 2:
        raise RuntimeError(f"t: expects at most 2 dimensions, got shape {tuple(input.shape)}")
    return transpose(input, 0, 1) if input.dim() == 2 else prim.permute(input, range_of(input))


def range_of(input: Tensor) -> tuple[int, ...]:
    """The dimensions in order."""
    return tuple(range(input.dim()))


def _all_reversed(self: Tensor) -> Tensor:
    """A view with all dimensions in reverse order."""
    return prim.permute(self, tuple(reversed(range_of(self))))


def _matrix_transposed(self: Tensor) -> Tensor:
    """A view with the last two dimensions swapped."""
    if self.dim() < 2:
        raise RuntimeError(f"mT: needs at least 2 dimensions, got shape {tuple(self.shape)}")
    return transpose(self, -2, -1)


attach(T=property(_all_reversed), mT=property(_matrix_transposed))


@method
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with dimensions moved from ``source`` to ``destination``; the others keep order."""
    rank = input.dim()
    src = [wrap_dim("movedim", d, rank) for d in _as_tuple(source)]
    dst = [wrap_dim("movedim", d, rank) for d in _as_tuple(destination)]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError(
            f"movedim: source {source} and destination {destination} must be as many and unique"
        )
    order = [-1] * rank
    for a, b in zip(src, dst, strict=True):
        order[b] = a
    rest = iter(d for d in range(rank) if d not in src)
    return prim.permute(input, [next(rest) if d < 0 else d for d in order])


moveaxis = movedim
attach(moveaxis=movedim)


def _as_tuple(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


@method
def expand(input: Tensor, *sizes: Any) -> Tensor:
    """A view with size-1 dimensions repeated (-1 keeps a size); memory is shared."""
    return prim.expand(input, sizes_of(sizes))


@method
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """A view in the shape of ``other``, size-1 dimensions repeated."""
    return prim.expand(self, tuple(other.shape))


@method
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """A view of ``input`` broadcast to ``size``."""
    return prim.expand(input, tuple(size))


@method
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """A view without size-1 dimensions (all of them, or those given)."""
    rank = input.dim()
    drop = (
        set(range(rank)) if dim is None else {wrap_dim("squeeze", d, rank) for d in _as_tuple(dim)}
    )
    return prim.reshape(
        input, tuple(n for d, n in enumerate(input.shape) if n != 1 or d not in drop)
    )


@method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A view with a size-1 dimension put in at ``dim``."""
    at = wrap_dim("unsqueeze", dim, input.dim() + 1)
    shape = tuple(input.shape)
    return prim.reshape(input, (*shape[:at], 1, *shape[at:]))


@method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one."""
    rank = input.dim()
    first = wrap_dim("flatten", start_dim, rank)
    last = wrap_dim("flatten", end_dim, rank)
    if first > last:
        raise RuntimeError(f"flatten: start_dim {start_dim} cannot come after end_dim {end_dim}")
    shape = tuple(input.shape)
    joined = math.prod(shape[first : last + 1])
    return prim.reshape(input, (*shape[:first], joined, *shape[last + 1 :]))


@method
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    return flatten(input)


@method
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several (one size may be -1)."""
    at = wrap_dim("unflatten", dim, input.dim())
    shape = tuple(input.shape)
    parts = list(sizes)
    if -1 in parts:
        rest = -math.prod(parts)
        parts[parts.index(-1)] = shape[at] // rest if rest else 0
    if math.prod(parts) != shape[at]:
        raise ShapeError(f"unflatten: {tuple(sizes)} does not multiply to {shape[at]}")
    return prim.reshape(input, (*shape[:at], *parts, *shape[at + 1 :]))


@method
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A view of ``length`` elements of one dimension from ``start`` on."""
    if input.dim() == 0:
        raise RuntimeError("narrow: cannot be applied to a 0-d tensor")
    size = input.shape[wrap_dim("narrow", dim, input.dim())]
    begin = start + size if start < 0 else start
    if not (0 <= begin <= size) or length < 0 or begin + length > size:
        raise RuntimeError(
            f"narrow: start {start} and length {length} exceed dimension {dim} of size {size}"
        )
    return prim.slice(input, dim, begin, begin + length)


@method
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """A view of one index of a dimension, without that dimension."""
    if input.dim() == 0:
        raise IndexError("select: cannot be applied to a 0-d tensor")
    d = wrap_dim("select", dim, input.dim())
    size = input.shape[d]
    if not -size <= index < size:
        raise IndexError(f"select: index {index} is out of range for dimension {d} of size {size}")
    at = index + size if index < 0 else index
    one = prim.slice(input, d, at, at + 1)
    return prim.reshape(one, tuple(n for i, n in enumerate(one.shape) if i != d))


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along a dimension; dtypes promote."""
    return prim.cat(tuple(tensors), dim, out=out)


concat = concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    items = list(tensors)
    if not items:
        raise RuntimeError("stack: expects a non-empty list of tensors")
    first = tuple(items[0].shape)
    for i, x in enumerate(items):
        if tuple(x.shape) != first:
            raise ShapeError(
                f"stack: all tensors must have one shape, got {first} and {tuple(x.shape)} at {i}"
            )
    at = wrap_dim("stack", dim, len(first) + 1)
    return prim.cat(tuple(unsqueeze(x, at) for x in items), at, out=out)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the second dimension (the first of 1-d tensors)."""
    items = [x if x.dim() else prim.reshape(x, (1,)) for x in tensors]
    return cat(items, 0 if items and items[0].dim() == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors joined along the first dimension, 1-d ones as rows."""
    return cat([x if x.dim() > 1 else prim.reshape(x, (1, x.numel())) for x in tensors])


@method
def split(
    tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: of one size (the last may be shorter), or of given sizes."""
    if tensor.dim() == 0:
        raise RuntimeError("split: expects at least a 1-d tensor")
    d = wrap_dim("split", dim, tensor.dim())
    size = tensor.shape[d]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        if step < 0 or (step == 0 and size):
            raise RuntimeError(f"split: split_size must be positive, got {step}")
        sections = [min(step, size - at) for at in range(0, size, step or 1)] or [0]
    else:
        sections = list(split_size_or_sections)
        if sum(sections) != size or any(n < 0 for n in sections):
            raise RuntimeError(
                f"split: sizes {sections} must not be negative and add up to {size} "
                f"for dimension {d}"
            )
    out, at = [], 0
    for n in sections:
        out.append(prim.slice(tensor, d, at, at + n))
        at += n
    return tuple(out)


@method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` pieces of equal size (the last may be shorter)."""
    if chunks < 1:
        raise RuntimeError(f"chunk: expects at least 1 chunk, got {chunks}")
    if input.dim() == 0:
        raise RuntimeError("chunk: expects at least a 1-d tensor")
    size = input.shape[wrap_dim("chunk", dim, input.dim())]
    if size == 0:
        return split(input, [0] * chunks, dim)
    return split(input, -(-size // chunks), dim)


@method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of every index of a dimension."""
    if input.dim() == 0:
        raise RuntimeError("unbind: expects at least a 1-d tensor")
    d = wrap_dim("unbind", dim, input.dim())
    return tuple(select(input, d, i) for i in range(input.shape[d]))


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Adds (or with negative numbers removes) elements around the last dimensions.

    ``pad`` holds (before, after) pairs, the last dimension first. Only ``mode="constant"``.
    """
    if mode != "constant":
        raise NotImplementedError(f"pad: mode must be 'constant', got {mode!r}")
    pads = list(pad)
    if len(pads) % 2 or len(pads) > 2 * input.dim():
        raise RuntimeError(
            f"pad: needs (before, after) pairs for at most {input.dim()} dimensions, got {pads}"
        )
    by_dim = [0] * (2 * input.dim())
    for i in range(len(pads) // 2):
        d = input.dim() - 1 - i
        by_dim[2 * d : 2 * d + 2] = pads[2 * i : 2 * i + 2]
    return prim.pad(input, by_dim, 0.0 if value is None else float(value))


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError(
            f"{'tril' if lower else 'triu'}: needs at least 2 dimensions, got "
            f"shape {tuple(input.shape)}"
        )
    rows, columns = input.shape[-2:]
    row = prim.reshape(prim.iota(rows, 5, 0.0, 0.0, diagonal, 1), (rows, 1))
    column = prim.iota(columns, 5, 0.0, 0.0, 0, 1)
    keep = prim.le(column, row) if lower else prim.ge(column, row)
    return prim.where(keep, input, False if input.dtype.name == "bool" else 0)


@method
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and below a diagonal of the last two dimensions; zeros elsewhere."""
    return _triangle(input, diagonal, True)


@method
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and above a diagonal of the last two dimensions; zeros elsewhere."""
    return _triangle(input, diagonal, False)


@method
def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """Copies of the tensor side by side, ``repeats`` times in each dimension."""
    times = sizes_of(repeats)
    lead = len(times) - self.dim()
    if lead < 0:
        raise RuntimeError(
            f"repeat: needs at least one number per dimension, got {times} for shape "
            f"{tuple(self.shape)}"
        )
    shape = (1,) * lead + tuple(self.shape)
    pairs = prim.reshape(self, tuple(x for n in shape for x in (1, n)))
    wide = prim.expand(pairs, tuple(x for r, n in zip(times, shape, strict=True) for x in (r, n)))
    return prim.reshape(prim.copy(wide), tuple(r * n for r, n in zip(times, shape, strict=True)))


@method
def tile(input: Tensor, *dims: Any) -> Tensor:
    """Like :func:`repeat`, with ones put in front where numbers are missing."""
    times = sizes_of(dims)
    return repeat(input, (1,) * (input.dim() - len(times)) + times)


@method
def flip(input: Tensor, *dims: Any) -> Tensor:
    """A copy in reverse order along ``dims``."""
    out = input
    for dim in sizes_of(dims):
        d = wrap_dim("flip", dim, input.dim())
        if input.dim() == 0:
            continue
        n = input.shape[d]
        index = prim.iota(n, 5, 0.0, 0.0, n - 1, -1)
        shape = [1] * input.dim()
        shape[d] = n
        out = prim.gather(out, prim.expand(prim.reshape(index, shape), tuple(out.shape)), d)
    return out if out is not input else clone(input)


@method
def roll(
    input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Tensor:
    """Elements moved along ``dims``, those that leave coming in at the other end."""
    if dims is None:
        if not isinstance(shifts, int):
            raise RuntimeError("roll: several shifts need dims")
        return prim.reshape(roll(flatten(input), shifts, 0), tuple(input.shape))
    out = input
    moves, where = _as_tuple(shifts), _as_tuple(dims)
    if len(moves) != len(where):
        raise RuntimeError(f"roll: got {len(moves)} shifts and {len(where)} dims")
    for shift, dim in zip(moves, where, strict=True):
        n = out.shape[wrap_dim("roll", dim, out.dim())]
        cut = (n - shift) % n if n else 0
        out = cat((prim.slice(out, dim, cut, n), prim.slice(out, dim, 0, cut)), dim)
    return out


# ---- copies and conversion


@method
def contiguous(input: Tensor) -> Tensor:
    """The tensor itself when contiguous, else a contiguous copy."""
    return input if input.is_contiguous() else prim.copy(input)


@method
def clone(input: Tensor) -> Tensor:
    """A contiguous copy that gradients pass through."""
    return prim.copy(need_tensor("clone", input))


@method
def copy_(self: Tensor, src: Tensor | Scalar, non_blocking: bool = False) -> Tensor:
    """Writes ``src`` (broadcast, converted) into this tensor."""
    return self._assign(src)


@method
def fill_(self: Tensor, value: Tensor | Scalar) -> Tensor:
    """Writes one value to every element."""
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"fill_: only supports 0-d value tensors, got shape {tuple(value.shape)}"
        )
    return self._assign(value)


@method
def zero_(self: Tensor) -> Tensor:
    """Writes zeros."""
    return self._assign(0)


@method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype or on another device; itself when nothing changes.

    Takes a dtype, a device (or its name), another tensor, and ``copy``.
    """
    target: DType | None = kwargs.pop("dtype", None)
    place: Any = kwargs.pop("device", None)
    copy = bool(kwargs.pop("copy", False))
    kwargs.pop("non_blocking", None)
    if kwargs:
        raise TypeError(f"to: unexpected arguments {sorted(kwargs)}")
    for arg in args:
        if isinstance(arg, Tensor):
            target = arg.dtype
        elif isinstance(arg, DType):
            target = arg
        elif isinstance(arg, (str, Device)):
            place = arg
        elif not isinstance(arg, bool):
            raise TypeError(f"to: expected a dtype, device or Tensor, got {type(arg).__name__}")
    if place is not None:
        Device(place)
    out = to_dtype(self, target)
    return prim.copy(out) if copy and out is self else out


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype of ``other``."""
    return to_dtype(self, other.dtype)


@method
def cpu(self: Tensor) -> Tensor:
    """The tensor on the CPU."""
    return self


def _converter(name: str, target: str) -> None:
    wanted = _tensor.dtype_by_name(target)

    def convert(self: Tensor) -> Tensor:
        return to_dtype(self, wanted)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {target}."
    setattr(Tensor, name, convert)


for _name, _target in {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}.items():
    _converter(_name, _target)


EXPORTS: dict[str, Any] = {
    "reshape": _reshape_function,
    **{
        f.__name__: f
        for f in (
            permute, transpose, t, movedim, broadcast_to, squeeze, unsqueeze, flatten, ravel,
            unflatten, narrow, select, cat, stack, hstack, vstack, split, chunk, unbind, tril,
            triu, tile, flip, roll, clone, pad,
        )
    },
    "swapaxes": transpose,
    "swapdims": transpose,
    "moveaxis": movedim,
    "concat": cat,
    "concatenate": cat,
}  # fmt: skip
