"""Making tensors: from Python values, arrays and sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt import _tensor
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL, get_default_dtype, promote_types
from tinyt.ops.common import Number, Scalar, sizes_of, to_dtype
from tinyt.tensor import Tensor, prim


def _finish(x: Tensor, device: Any, requires_grad: bool) -> Tensor:
    if device is not None:
        Device(device)
    return x.requires_grad_() if requires_grad else x


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of ``data``: a number, nested lists or tuples, or an array.

    Floats give the default dtype, integers int64, bools bool. ValueError where nested lengths
    differ, TypeError for other data.
    """
    if isinstance(data, Tensor):
        out = prim.copy(to_dtype(data.detach(), dtype))
    elif isinstance(data, (list, tuple)) and _holds_arrays(data):
        out = to_dtype(_stack_nested(data, dtype), dtype)
    elif hasattr(data, "__array__") or isinstance(data, (memoryview, bytearray, bytes)):
        if getattr(data, "ndim", 1) == 0:
            out = _from_numpy_scalar(data, dtype)
        else:
            out = prim.copy(to_dtype(_from_array(data), dtype))
    else:
        out = _tensor.from_data(_as_lists(data), dtype)
    return _finish(out, device, requires_grad)


def _as_lists(data: Any) -> Any:
    """Other sequences (ranges, say) as lists, also inside lists."""
    if isinstance(data, (list, tuple)):
        plain = not data or not isinstance(data[0], Sequence)
        return data if plain else [_as_lists(item) for item in data]
    return list(data) if isinstance(data, Sequence) and not isinstance(data, str) else data


def _from_array(data: Any) -> Tensor:
    """Arrays with negative strides are copied first."""
    if any(s < 0 for s in getattr(data, "strides", ())):
        data = data.copy()
    return _tensor.from_buffer_object(data)


def _from_numpy_scalar(data: Any, dtype: DType | None) -> Tensor:
    kind = str(getattr(data, "dtype", ""))
    known = next((d for d in ALL if d.name == kind), None)
    return _tensor.from_data(data.item(), dtype or known)


def _holds_arrays(data: Any) -> bool:
    return len(data) > 0 and (
        hasattr(data[0], "__array__")
        or (isinstance(data[0], (list, tuple)) and _holds_arrays(data[0]))
    )


def _stack_nested(data: Any, dtype: DType | None) -> Tensor:
    """Lists whose items are tensors or arrays."""
    if isinstance(data, (list, tuple)):
        items = [_stack_nested(x, dtype) for x in data]
        shapes = {tuple(x.shape) for x in items}
        if len(shapes) > 1:
            raise ValueError(f"tensor: the items must have one shape, got {sorted(shapes)}")
        rows = [prim.reshape(x, (1, *x.shape)) for x in items]
        return prim.cat(tuple(rows), 0)
    return tensor(data, dtype=dtype)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor; shares memory with tensors and arrays where it can."""
    if isinstance(data, Tensor):
        return _finish(to_dtype(data, dtype), device, False)
    if hasattr(data, "__array__") and getattr(data, "ndim", 0) > 0:
        return _finish(to_dtype(_from_array(data), dtype), device, False)
    return tensor(data, dtype=dtype, device=device)


asarray = as_tensor


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array: writes go both ways.

    TypeError for dtypes tinyt lacks, ValueError for negative strides.
    """
    if not hasattr(ndarray, "__array__") or not hasattr(ndarray, "strides"):
        raise TypeError(f"from_numpy: expected an array, got {type(ndarray).__name__}")
    return _tensor.from_buffer_object(ndarray)


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor over the memory of any object with ``__dlpack__`` (or a capsule)."""
    if hasattr(ext_tensor, "__dlpack__"):
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = ext_tensor.__dlpack__()
    else:
        capsule = ext_tensor
    return _tensor.from_capsule(capsule)


def _filled(size: Sequence[int], dtype: DType, value: Scalar) -> Tensor:
    if isinstance(value, complex):
        if value.imag != 0 and not dtype.is_complex:
            raise RuntimeError(
                f"full: the value {value} has an imaginary part, {dtype.name} has none"
            )
        return prim.fill(tuple(size), dtype, value.real, 0, value.imag)
    whole = int(value) if math.isfinite(value) else 0
    return prim.fill(tuple(size), dtype, float(value), whole)


def _constant(
    size: Sequence[Any], value: Scalar, dtype: DType | None, device: Any, requires_grad: bool
) -> Tensor:
    return _finish(
        _filled(sizes_of(size), dtype or get_default_dtype(), value), device, requires_grad
    )


def zeros(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of a shape."""
    return _constant(size, 0, dtype, device, requires_grad)


def ones(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of a shape."""
    return _constant(size, 1, dtype, device, requires_grad)


def empty(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor with arbitrary contents."""
    out = _tensor.empty(sizes_of(size), dtype or get_default_dtype())
    return _finish(out, device, requires_grad)


def full(
    size: Sequence[int],
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value in a shape; its Python type gives the dtype (float: the default,
    complex: that of such parts)."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None:
        kinds = {bool: ALL[0], int: ALL[5], complex: promote_types(ALL[10], get_default_dtype())}
        dtype = kinds.get(type(fill_value), get_default_dtype())
    return _constant(
        tuple(size) if not isinstance(size, int) else (size,),
        fill_value,
        dtype,
        device,
        requires_grad,
    )


def zeros_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros in the shape and dtype of ``input``."""
    return _constant((tuple(input.shape),), 0, dtype or input.dtype, device, requires_grad)


def ones_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones in the shape and dtype of ``input``."""
    return _constant((tuple(input.shape),), 1, dtype or input.dtype, device, requires_grad)


def empty_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Arbitrary contents in the shape and dtype of ``input``."""
    return empty(
        tuple(input.shape), dtype=dtype or input.dtype, device=device, requires_grad=requires_grad
    )


def full_like(
    input: Tensor,
    fill_value: Scalar,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value in the shape and dtype of ``input``."""
    return full(
        tuple(input.shape),
        fill_value,
        dtype=dtype or input.dtype,
        device=device,
        requires_grad=requires_grad,
    )


def _new(name: str, make: Callable[..., Tensor]) -> None:
    def new(self: Tensor, *args: Any, dtype: DType | None = None, **kwargs: Any) -> Tensor:
        return make(*args, dtype=dtype or self.dtype, **kwargs)

    new.__name__ = new.__qualname__ = f"new_{name}"
    new.__doc__ = f"Like :func:`tinyt.{name}`, in the dtype of this tensor."
    setattr(Tensor, new.__name__, new)


for _make in (zeros, ones, empty, full, tensor):
    _new(_make.__name__, _make)


def arange(
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below ``end``; int64 for integers, else the default dtype."""
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("arange: step must not be zero")
    whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    if whole:
        count = max(-int((start - end) // step), 0)
    else:
        ratio = (end - start) / step
        if not math.isfinite(ratio):
            raise RuntimeError(f"arange: bounds must be finite, got {start} and {end}")
        count = max(math.ceil(ratio), 0)
    if (end - start) * step < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with the step's sign, got start "
            f"{start}, end {end}, step {step}"
        )
    target = dtype or (ALL[5] if whole else get_default_dtype())
    if whole:
        out = prim.iota(count, target, float(start), float(step), int(start), int(step))
    elif target.is_floating_point:
        out = prim.iota(count, target, float(start), float(step), 0, 0)
    else:
        out = to_dtype(prim.iota(count, ALL[9], float(start), float(step), 0, 0), target)
    return _finish(out, device, requires_grad)


def linspace(
    start: float,
    end: float,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` evenly spaced values from ``start`` to ``end``, both included."""
    if steps < 0:
        raise RuntimeError(f"linspace: number of steps must not be negative, got {steps}")
    target = dtype or get_default_dtype()
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    # From both ends to the middle, so that the last value is exactly `end`.
    low = prim.iota(steps, ALL[9], float(start), step, 0, 0)
    high = prim.iota(steps, ALL[9], float(end) - step * (steps - 1), step, 0, 0)
    first = prim.lt(prim.iota(steps, ALL[5], 0.0, 0.0, 0, 1), steps // 2)
    last = prim.eq(prim.iota(steps, ALL[5], 0.0, 0.0, 0, 1), max(steps - 1, 1))
    values = prim.where(last, float(end), prim.where(first, low, high))
    if steps == 1:
        values = low
    return _finish(to_dtype(values, target), device, requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """An n x m matrix with ones on the diagonal."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: sizes must not be negative, got {n} and {m}")
    columns = n if m is None else m
    row = prim.reshape(prim.iota(n, ALL[5], 0.0, 0.0, 0, 1), (n, 1))
    column = prim.iota(columns, ALL[5], 0.0, 0.0, 0, 1)
    out = to_dtype(prim.eq(row, column), dtype or get_default_dtype())
    return _finish(out, device, requires_grad)


def is_tensor(obj: object) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        tensor, as_tensor, from_numpy, from_dlpack, zeros, ones, empty, full, zeros_like,
        ones_like, empty_like, full_like, arange, linspace, eye, is_tensor,
    )
}  # fmt: skip
EXPORTS["asarray"] = as_tensor
