"""Making tensors of a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinyt import _tensor
from tinyt._core import ShapeError
from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL, get_default_dtype, promote_types
from tinyt.dtypes import bool as bool_
from tinyt.formats import ORDERS
from tinyt.formats import memory_format as Format
from tinyt.ops.common import Placement, Scalar, Sizes, placed, sizes_of, write_out
from tinyt.tensor import Tensor, method, prim

if TYPE_CHECKING:
    from typing_extensions import Unpack


def filled(size: Sequence[int], dtype: DType, value: Scalar) -> Tensor:
    """One value in a shape, exactly; RuntimeError where the dtype cannot hold it."""
    if not isinstance(dtype, DType):
        raise TypeError(f"full: dtype must be a dtype, got {type(dtype).__name__}")
    if dtype is bool_:
        return prim.fill(tuple(size), dtype, float(value != 0), int(value != 0))
    _tensor.require_held("full", value, dtype)
    # A float as it is, so that a recording sees that its value is used.
    real, imag = (value, 0.0) if isinstance(value, float) else (value.real, float(value.imag))
    whole = not (dtype.is_floating_point or dtype.is_complex)
    return prim.fill(tuple(size), dtype, float(real), int(real) if whole else 0, imag)


def dtype_for(dtype: DType | None, out: Tensor | None, default: DType | None = None) -> DType:
    """The dtype asked for, that of ``out``, or the default."""
    if dtype is not None:
        return dtype
    return out.dtype if out is not None else default or get_default_dtype()


def zeros(
    size: Sizes,
    *more: int,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Zeros of a shape."""
    value = filled(sizes_of(size, more), dtype_for(dtype, out), 0)
    return placed("zeros", write_out(out, value), place)


def ones(
    size: Sizes,
    *more: int,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Ones of a shape."""
    value = filled(sizes_of(size, more), dtype_for(dtype, out), 1)
    return placed("ones", write_out(out, value), place)


def empty(
    size: Sizes,
    *more: int,
    out: Tensor | None = None,
    dtype: DType | None = None,
    memory_format: Format | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """A tensor with arbitrary contents."""
    sizes = sizes_of(size, more)
    if out is None:
        made = _laid_out("empty", sizes, dtype or get_default_dtype(), memory_format)
        return placed("empty", made, place)
    if tuple(out.shape) == sizes:
        return out
    return write_out(out, _laid_out("empty", sizes, out.dtype, None))


def full(
    size: Sequence[int] | int,
    fill_value: Scalar | Tensor,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """One value in a shape; its Python type gives the dtype (float: the default,
    complex: that of such parts)."""
    value: Scalar = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kinds = {bool: ALL[0], int: ALL[5], complex: promote_types(ALL[10], get_default_dtype())}
    # What `isinstance` says, also of a size that is followed.
    target = dtype_for(dtype, out, kinds.get(value.__class__))
    sizes = (size,) if isinstance(size, int) else tuple(size)
    return placed("full", write_out(out, filled(sizes, target, value)), place)


def _laid_out(
    op: str,
    size: Sequence[int],
    dtype: DType,
    memory_format: Format | None,
    value: Scalar | None = None,
) -> Tensor:
    """One value, or arbitrary contents, in a memory format; contiguous unless it says otherwise."""
    order = None if memory_format is None else ORDERS.get(memory_format)
    if order is None:
        sizes = tuple(size)
        return _tensor.empty(sizes, dtype) if value is None else filled(sizes, dtype, value)
    if len(order) != len(size):
        raise ShapeError(
            f"{op}: {memory_format!r} needs {len(order)} dimensions, got shape {tuple(size)}"
        )
    out = empty_permuted(size, order, dtype=dtype)
    return out if value is None else out._assign(value)


# ---- in the shape of another: contiguous, too, where `memory_format` is to preserve


def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: Format | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Zeros in the shape and dtype of ``input``."""
    out = _laid_out("zeros_like", input.shape, dtype or input.dtype, memory_format, 0)
    return placed("zeros_like", out, place)


def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: Format | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Ones in the shape and dtype of ``input``."""
    out = _laid_out("ones_like", input.shape, dtype or input.dtype, memory_format, 1)
    return placed("ones_like", out, place)


def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    memory_format: Format | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Arbitrary contents in the shape and dtype of ``input``."""
    out = _laid_out("empty_like", input.shape, dtype or input.dtype, memory_format)
    return placed("empty_like", out, place)


def full_like(
    input: Tensor,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    memory_format: Format | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """One value in the shape and dtype of ``input``."""
    value: Scalar = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    out = _laid_out("full_like", input.shape, dtype or input.dtype, memory_format, value)
    return placed("full_like", out, place)


# ---- with strides of their own


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Arbitrary contents in a shape with these strides, in elements."""
    sizes, strides = tuple(size), tuple(stride)
    if len(sizes) != len(strides):
        raise ShapeError(f"empty_strided: size {sizes} and stride {strides} differ in length")
    if any(n < 0 for n in (*sizes, *strides)):
        raise ShapeError(
            f"empty_strided: sizes and strides must not be negative, got {sizes} and {strides}"
        )
    extent = 0
    if all(sizes):
        extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    memory = _tensor.empty((extent,), dtype or get_default_dtype())
    return placed("empty_strided", prim.as_strided(memory, sizes, strides, 0).detach(), place)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Arbitrary contents, dense, with the dimensions in this order in memory, outermost first."""
    sizes, order = tuple(size), tuple(physical_layout)
    if sorted(order) != list(range(len(sizes))):
        raise RuntimeError(
            f"empty_permuted: physical_layout must name each of {len(sizes)} dimensions once, "
            f"got {order}"
        )
    strides, step = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = step
        step *= sizes[d]
    return empty_strided(sizes, strides, dtype=dtype, **place)


def scalar_tensor(s: Scalar, *, dtype: DType | None = None, **place: Unpack[Placement]) -> Tensor:
    """A 0-d tensor; of the default float dtype unless told otherwise."""
    return placed("scalar_tensor", filled((), dtype or get_default_dtype(), s), place)


# ---- methods: in the dtype of a tensor


@method
def new_zeros(
    self: Tensor, size: Sizes, *more: int, dtype: DType | None = None, **place: Unpack[Placement]
) -> Tensor:
    """Zeros of a shape, in the dtype of this tensor."""
    return zeros(size, *more, dtype=dtype or self.dtype, **place)


@method
def new_ones(
    self: Tensor, size: Sizes, *more: int, dtype: DType | None = None, **place: Unpack[Placement]
) -> Tensor:
    """Ones of a shape, in the dtype of this tensor."""
    return ones(size, *more, dtype=dtype or self.dtype, **place)


@method
def new_empty(
    self: Tensor, size: Sizes, *more: int, dtype: DType | None = None, **place: Unpack[Placement]
) -> Tensor:
    """Arbitrary contents in a shape, in the dtype of this tensor."""
    return empty(size, *more, dtype=dtype or self.dtype, **place)


@method
def new_full(
    self: Tensor,
    size: Sequence[int],
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """One value in a shape, in the dtype of this tensor."""
    return full(size, fill_value, dtype=dtype or self.dtype, **place)


@method
def new_empty_strided(
    self: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Arbitrary contents in a shape with these strides, in the dtype of this tensor."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, **place)


def is_tensor(obj: object) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        zeros, ones, empty, full, zeros_like, ones_like, empty_like, full_like, empty_strided,
        empty_permuted, scalar_tensor, is_tensor,
    )
}  # fmt: skip
