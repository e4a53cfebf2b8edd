"""Making tensors from Python values and from arrays of other libraries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinyt import _core, _tensor
from tinyt._capture import SymScalar
from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL, as_dtype
from tinyt.ops.common import Placement, on_creation_device, placed, to_dtype
from tinyt.ops.creation.cuda_arrays import consumer_stream, from_cuda_array, is_cuda_array
from tinyt.tensor import Tensor, method, prim, set_maker

if TYPE_CHECKING:
    from typing_extensions import Unpack

_MOST_NESTED = 64  # levels of lists, as a tensor has at most so many dimensions


def tensor(data: Any, *, dtype: DType | None = None, **place: Unpack[Placement]) -> Tensor:
    """A new tensor with a copy of ``data``: a number, nested lists or tuples, or an array.

    Arrays are what NumPy, pandas, PyTorch and other libraries with ``__array__``, ``__dlpack__``,
    ``__cuda_array_interface__`` or buffers make, and may stand among the lists, as 0-d tensors may
    among the numbers. Floats give the default dtype, integers int64, bools bool; together, what
    they promote to. Arrays of a device stay there. ValueError where nested lengths differ,
    TypeError for other data.
    """
    return placed("tensor", _copied(data, dtype), place)


def _copied(data: Any, dtype: DType | None) -> Tensor:
    """Values in new memory."""
    if isinstance(data, Tensor):
        return prim.copy(to_dtype(data.detach(), dtype))
    if isinstance(data, (list, tuple)):
        return _from_lists(data, dtype)
    if not _is_array(data) and not isinstance(data, (memoryview, bytearray, bytes)):
        return _tensor.from_data(_as_lists(data), dtype)
    if getattr(data, "ndim", 1) == 0 and hasattr(data, "item") and not _is_foreign(data):
        return _from_numpy_scalar(data, dtype)
    x = to_dtype(_from_array(data), dtype)
    moved = _at_home(x)
    return prim.copy(x) if moved is x else moved


def _at_home(x: Tensor) -> Tensor:
    """What was made over an array's memory, where this thread makes tensors; one over memory of a
    device stays there."""
    return on_creation_device(x) if x.is_cpu else x


def _from_lists(data: Any, dtype: DType | None) -> Tensor:
    # A recording cannot read the numbers in tensors.
    if _begins_with_array(data) or (_core.is_recording() and _holds_array(data)):
        return to_dtype(_stack_nested(data, dtype), dtype)
    try:
        return _tensor.from_data(_as_lists(data), dtype, dtype is None)
    except (TypeError, ValueError, RuntimeError):
        # Looked for here, as lists are long and most hold numbers alone.
        if not _holds_array(data):
            raise
    return to_dtype(_stack_nested(data, dtype), dtype)


def _is_array(data: Any) -> bool:
    """Of a protocol for arrays; sizes that are followed have NumPy's, too."""
    return (
        hasattr(data, "__array__")
        or hasattr(data, "__dlpack__")
        or _is_interface(data)
        or is_cuda_array(data)
    ) and not isinstance(data, (SymScalar, type))


def _is_interface(data: Any) -> bool:
    """Of NumPy's older protocol, which images have."""
    return hasattr(data, "__array_interface__")


def _is_foreign(data: Any) -> bool:
    """Whether an array is another library's than NumPy's, with DLPack or on a CUDA device."""
    return is_cuda_array(data) or (hasattr(data, "__dlpack__") and not _is_interface(data))


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
    if is_cuda_array(data):
        return from_cuda_array(data)
    if _is_foreign(data):
        return from_dlpack(data.detach() if getattr(data, "requires_grad", False) else data)
    if not _has_buffer(data):
        import numpy as np

        data = np.asarray(data)
        if not data.flags.writeable:  # a table's view of itself
            data = data.copy()
    return _tensor.from_buffer_object(data, True)


def _has_buffer(data: Any) -> bool:
    if isinstance(data, (memoryview, bytearray, bytes)) or hasattr(data, "__array_finalize__"):
        return True
    try:
        memoryview(data)
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _from_numpy_scalar(data: Any, dtype: DType | None) -> Tensor:
    kind = str(getattr(data, "dtype", ""))
    known = next((d for d in ALL if d.name == kind), None)
    return _tensor.from_data(_tensor.python_number(data), dtype or known)


def _begins_with_array(data: Any, depth: int = 0) -> bool:
    if not len(data):
        return False
    first = data[0]
    nested = isinstance(first, (list, tuple))
    return _is_array(first) or (nested and _begins_with_array(first, _deeper(depth)))


def _holds_array(data: Any, depth: int = 0) -> bool:
    """Whether an array is anywhere in nested lists."""
    if not isinstance(data, (list, tuple)):
        return _is_array(data)
    return any(_holds_array(item, _deeper(depth)) for item in tuple(data))


def _stack_nested(data: Any, dtype: DType | None, depth: int = 0) -> Tensor:
    """Lists whose items are tensors or arrays, or numbers among them."""
    if not isinstance(data, (list, tuple)) or not data:
        return on_creation_device(_copied(data, dtype))
    data = tuple(data)  # converting an item may run code that changes the list
    items = [_stack_nested(x, dtype, _deeper(depth)) for x in data]
    # A tensor of one element is a number, or a list of one, as the items beside it are.
    single = [isinstance(x, Tensor) and x.numel() == 1 for x in data]
    others = [tuple(x.shape) for x, is_one in zip(items, single, strict=True) if not is_one]
    shape = others[0] if others else ()
    if math.prod(shape) == 1:
        items = [
            prim.reshape(x, shape) if is_one else x for x, is_one in zip(items, single, strict=True)
        ]
    shapes = {tuple(x.shape) for x in items}
    if len(shapes) > 1:
        raise ValueError(f"tensor: the items must have one shape, got {sorted(shapes)}")
    rows = [prim.reshape(x, (1, *x.shape)) for x in items]
    return prim.cat(tuple(rows), 0)


def from_foreign(value: Any) -> Any:
    """A tensor of another library with DLPack (PyTorch's, say) as one over its memory; anything
    else as it is."""
    if isinstance(value, Tensor) or not _is_foreign(value) or isinstance(value, type):
        return value
    return _from_array(value)


def from_values(data: Any, dtype: DType) -> Tensor:
    """What ``Tensor(data)`` holds: another tensor's memory as it is, as in PyTorch; a copy of
    anything else in a dtype."""
    return data.detach() if isinstance(data, Tensor) else to_dtype(_copied(data, None), dtype)


set_maker(from_values)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor; shares memory with tensors and arrays where it can."""
    if isinstance(data, Tensor):
        return placed("as_tensor", to_dtype(data, dtype), {"device": device})
    if is_cuda_array(data) or (_is_array(data) and getattr(data, "ndim", 0) > 0):
        held = _at_home(to_dtype(_from_array(data), dtype))
        return placed("as_tensor", held, {"device": device})
    return tensor(data, dtype=dtype, device=device)


def _refuse_copy(op: str, x: Tensor, device: Any, copy: bool | None) -> None:
    """ValueError where a tensor may not be copied and is not on the device that is asked for."""
    if copy is not False or device is None:
        return
    if _tensor.number_of_device(device) != _tensor.number_of_device(x.device):
        raise ValueError(f"{op}: {x.device} to {device} needs a copy, which copy=False forbids")


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor: over its memory where that is possible. That of a storage is read as
    elements of ``dtype``.

    ``copy=True`` always copies; ``copy=False`` never does, ValueError where it would have to.
    """
    place: Placement = {"device": device, "requires_grad": requires_grad}
    if isinstance(obj, Tensor):
        source = obj if requires_grad and obj.requires_grad else obj.detach()
    elif hasattr(obj, "viewed_as"):  # a storage
        source = obj.viewed_as(dtype)
    elif is_cuda_array(obj):
        source = from_cuda_array(obj)
    elif getattr(obj, "ndim", 0) > 0 or isinstance(obj, (memoryview, bytearray)):
        if _has_buffer(obj):
            source = _tensor.from_buffer_object(obj, copy is not False)
        elif copy is False and not _is_foreign(obj):
            raise ValueError(f"asarray: cannot share the memory of {type(obj).__name__}")
        else:
            source = _from_array(obj)
    elif copy is False:
        raise ValueError(f"asarray: cannot share the memory of {type(obj).__name__}")
    else:
        return tensor(obj, dtype=dtype, **place)
    out = to_dtype(source, dtype)
    if device is None and not isinstance(obj, Tensor):
        out = _at_home(out)
    if copy is False and out is not source:
        raise ValueError(f"asarray: {source.dtype.name} to {out.dtype.name} needs a copy")
    _refuse_copy("asarray", out, device, copy)
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


def frombuffer(
    buffer: Any,
    *,
    dtype: DType,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A vector over the memory of an object with the buffer protocol.

    Args:
        buffer: bytes, bytearray, memoryview, array.array or the like.
        dtype: what its bytes are read as.
        count: how many elements; all that fit if -1.
        offset: bytes to leave out at the beginning.
        requires_grad: whether the result is a leaf that wants gradients.

    Raises:
        ValueError: an empty buffer, an offset beyond its end, fewer bytes than `count` elements
            take, or, for -1, bytes that are no whole number of elements.
    """
    raw = memoryview(buffer).cast("B")
    kind: DType = as_dtype(dtype)
    if not raw.nbytes or not 0 <= offset < raw.nbytes or count == 0 or count < -1:
        raise ValueError(
            f"frombuffer: needs bytes at the offset and a count above 0 or -1, got {raw.nbytes} "
            f"bytes, offset {offset} and count {count}"
        )
    left = raw.nbytes - offset
    if count < 0 and left % kind.itemsize:
        raise ValueError(f"frombuffer: {left} bytes are no whole number of {kind.name}")
    size = left if count < 0 else count * kind.itemsize
    if size > left:
        raise ValueError(f"frombuffer: {count} {kind.name} take {size} bytes, {left} are left")
    flat = _tensor.from_buffer_object(raw[offset : offset + size])
    if flat.data_ptr() % kind.itemsize:
        flat = prim.copy(flat)
    out = _tensor.view_dtype(flat, kind)
    return placed("frombuffer", out, {"requires_grad": requires_grad})


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of any object with ``__dlpack__`` (or a capsule); or a copy.

    Memory of the CPU, or of a CUDA device: what that is asked for next waits for the object's
    stream. A capsule tells of no stream; who brings one sees to it that its elements are there.

    Raises:
        DeviceError: memory of another kind of device, or of a CUDA device that is not there.
        ValueError: strides that no tensor has, elements that are not aligned; a copy to another
            device that ``copy=False`` forbids.
        TypeError: elements that tinyt has no dtype for.
    """
    if hasattr(ext_tensor, "__dlpack__"):
        told = consumer_stream(ext_tensor)
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0), **told)
        except TypeError:
            capsule = ext_tensor.__dlpack__(**told)
    else:
        capsule = ext_tensor
    shared = _tensor.from_capsule(capsule)
    _refuse_copy("from_dlpack", shared, device, copy)
    return placed("from_dlpack", prim.copy(shared) if copy else shared, {"device": device})


@method
def new_tensor(
    self: Tensor, data: Any, *, dtype: DType | None = None, **place: Unpack[Placement]
) -> Tensor:
    """A copy of ``data``, in the dtype and on the device of this tensor."""
    place.setdefault("device", self.device)
    return tensor(data, dtype=dtype or self.dtype, **place)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (tensor, as_tensor, asarray, from_numpy, frombuffer, from_dlpack)
}
