"""Making tensors: from Python values, arrays and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinyt import _tensor
from tinyt._core import ShapeError
from tinyt._tensor import Symbol
from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL, get_default_dtype, promote_types
from tinyt.dtypes import bool as bool_
from tinyt.formats import ORDERS
from tinyt.formats import memory_format as Format
from tinyt.ops.common import Placement, Scalar, Sizes, placed, sizes_of, to_dtype, write_out
from tinyt.tensor import Tensor, method, prim

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_NESTED = 64  # levels of lists, as a tensor has at most so many dimensions


def tensor(data: Any, *, dtype: DType | None = None, **place: Unpack[Placement]) -> Tensor:
    """A new tensor with a copy of ``data``: a number, nested lists or tuples, or an array.

    Floats give the default dtype, integers int64, bools bool. ValueError where nested lengths
    differ, TypeError for other data.
    """
    if isinstance(data, Tensor):
        out = prim.copy(to_dtype(data.detach(), dtype))
    elif isinstance(data, (list, tuple)) and _holds_arrays(data):
        out = to_dtype(_stack_nested(data, dtype), dtype)
    elif _is_array(data) or isinstance(data, (memoryview, bytearray, bytes)):
        if getattr(data, "ndim", 1) == 0 and hasattr(data, "item"):
            out = _from_numpy_scalar(data, dtype)
        else:
            out = prim.copy(to_dtype(_from_array(data), dtype))
    else:
        out = _tensor.from_data(_as_lists(data), dtype)
    return placed("tensor", out, place)


def _is_array(data: Any) -> bool:
    """Of NumPy's protocol, which sizes that are followed have, too."""
    return hasattr(data, "__array__") and not isinstance(data, Symbol)


def _deeper(depth: int) -> int:
    """The next level of nested lists; ValueError beyond every shape, as in a list that holds
    itself."""
    if depth == _MOST_NESTED:
        raise ValueError(f"tensor: more than {_MOST_NESTED} levels of nesting")
    return depth + 1


def _as_lists(data: Any, depth: int = 0) -> Any:
    """Other sequences (ranges, say) as lists, also inside lists."""
    if isinstance(data, (list, tuple)):
        plain = not data or not isinstance(data[0], Sequence)
        return data if plain else [_as_lists(item, _deeper(depth)) for item in data]
    return list(data) if isinstance(data, Sequence) and not isinstance(data, str) else data


def _from_array(data: Any) -> Tensor:
    """A tensor over an array's memory; over a copy where no tensor can lie over it."""
    return _tensor.from_buffer_object(data, True)


def _from_numpy_scalar(data: Any, dtype: DType | None) -> Tensor:
    kind = str(getattr(data, "dtype", ""))
    known = next((d for d in ALL if d.name == kind), None)
    return _tensor.from_data(_tensor.python_number(data), dtype or known)


def _holds_arrays(data: Any, depth: int = 0) -> bool:
    if not len(data):
        return False
    first = data[0]
    nested = isinstance(first, (list, tuple))
    return _is_array(first) or (nested and _holds_arrays(first, _deeper(depth)))


def _stack_nested(data: Any, dtype: DType | None, depth: int = 0) -> Tensor:
    """Lists whose items are tensors or arrays."""
    if isinstance(data, (list, tuple)):
        data = tuple(data)  # converting an item may run code that changes the list
        items = [_stack_nested(x, dtype, _deeper(depth)) for x in data]
        # A tensor of one element in a list is a number, whatever its shape.
        items = [
            prim.reshape(item, ()) if isinstance(x, Tensor) and x.numel() == 1 else item
            for x, item in zip(data, items, strict=True)
        ]
        shapes = {tuple(x.shape) for x in items}
        if len(shapes) > 1:
            raise ValueError(f"tensor: the items must have one shape, got {sorted(shapes)}")
        rows = [prim.reshape(x, (1, *x.shape)) for x in items]
        return prim.cat(tuple(rows), 0)
    return tensor(data, dtype=dtype)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor; shares memory with tensors and arrays where it can."""
    if isinstance(data, Tensor):
        return placed("as_tensor", to_dtype(data, dtype), {"device": device})
    if hasattr(data, "__array__") and getattr(data, "ndim", 0) > 0:
        return placed("as_tensor", to_dtype(_from_array(data), dtype), {"device": device})
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor: over its memory where that is possible.

    ``copy=True`` always copies; ``copy=False`` never does, ValueError where it would have to.
    """
    place: Placement = {"device": device, "requires_grad": requires_grad}
    if isinstance(obj, Tensor):
        source = obj if requires_grad and obj.requires_grad else obj.detach()
    elif getattr(obj, "ndim", 0) > 0 or isinstance(obj, (memoryview, bytearray)):
        source = _tensor.from_buffer_object(obj, copy is not False)
    elif copy is False:
        raise ValueError(f"asarray: cannot share the memory of {type(obj).__name__}")
    else:
        return tensor(obj, dtype=dtype, **place)
    out = to_dtype(source, dtype)
    if copy is False and out is not source:
        raise ValueError(f"asarray: {source.dtype.name} to {out.dtype.name} needs a copy")
    return placed("asarray", prim.copy(out) if copy and out is source else out, place)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array: writes go both ways.

    TypeError for dtypes tinyt lacks and for another byte order. ValueError for memory that no
    tensor can lie over: negative strides, strides that are no multiples of the element size, and
    elements that are not aligned (`tensor` and `as_tensor` copy those).
    """
    if not hasattr(ndarray, "__array__") or not hasattr(ndarray, "strides"):
        raise TypeError(f"from_numpy: expected an array, got {type(ndarray).__name__}")
    return _tensor.from_buffer_object(ndarray)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object with ``__dlpack__`` (or a capsule); or a copy."""
    if hasattr(ext_tensor, "__dlpack__"):
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    shared = _tensor.from_capsule(capsule)
    return placed("from_dlpack", prim.copy(shared) if copy else shared, {"device": device})


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
def new_tensor(
    self: Tensor, data: Any, *, dtype: DType | None = None, **place: Unpack[Placement]
) -> Tensor:
    """A copy of ``data``, in the dtype of this tensor."""
    return tensor(data, dtype=dtype or self.dtype, **place)


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
        tensor, as_tensor, asarray, from_numpy, from_dlpack, zeros, ones, empty, full, zeros_like,
        ones_like, empty_like, full_like, empty_strided, empty_permuted, scalar_tensor, is_tensor,
    )
}  # fmt: skip
