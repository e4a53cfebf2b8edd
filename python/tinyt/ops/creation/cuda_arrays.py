"""Arrays of CUDA devices that other libraries share: the CUDA array interface, and DLPack."""

from __future__ import annotations

from operator import index
from typing import Any

from tinyt import _core
from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL
from tinyt.tensor import Tensor, attach

_ON_CUDA = (2, 10, 13)  # kDLCUDA, kDLROCM, kDLCUDAManaged
_CODES = {"bool": "|b1", "uint8": "|u1", "int8": "|i1", "bfloat16": "<V2"}  # bfloat16: ml_dtypes'


def _typestr(dtype: DType) -> str:
    """NumPy's name of a dtype as the interface spells it: "<f4"."""
    kind = "c" if dtype.is_complex else "f" if dtype.is_floating_point else "i"
    return _CODES.get(dtype.name, f"<{kind}{dtype.itemsize}")


_DTYPES = {_typestr(dtype): dtype for dtype in ALL}


def is_cuda_array(data: Any) -> bool:
    """Whether an array of a CUDA device has the CUDA array interface, and not DLPack."""
    return (
        not isinstance(data, type)
        and not hasattr(data, "__dlpack__")
        and hasattr(data, "__cuda_array_interface__")
    )


def from_cuda_array(data: Any) -> Tensor:
    """A tensor over the memory of an object with ``__cuda_array_interface__``, which it keeps. What
    the device is asked for next waits for the interface's ``stream``.

    Raises:
        TypeError: elements that tinyt has no dtype for, or a mask.
        ValueError: strides that no tensor has, elements that are not aligned, a stream 0.
        DeviceError: there is no CUDA device, or the memory is of none.
    """
    try:
        found = data.__cuda_array_interface__
        typestr, version = str(found["typestr"]), int(found["version"])
        shape = [index(size) for size in found["shape"]]
        strides = found.get("strides")
        strides = None if strides is None else [index(step) for step in strides]
        address, read_only = found["data"]
        address = index(address or 0)
        stream = found.get("stream") if version >= 3 else None
        stream = None if stream is None else index(stream)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TypeError(
            f"__cuda_array_interface__: {type(data).__name__}.__cuda_array_interface__ is "
            f"none of version 2 or 3: {type(error).__name__}: {error}"
        ) from None
    dtype = _DTYPES.get(typestr.replace("=", "<"))
    if dtype is None:
        raise TypeError(
            f"__cuda_array_interface__: elements of type {typestr!r} are not supported; "
            "convert the array first"
        )
    if found.get("mask") is not None:
        raise TypeError("__cuda_array_interface__: masked arrays are not supported; fill it first")
    if stream == 0:
        raise ValueError(
            "__cuda_array_interface__: 0 is no stream: 1 is the legacy default stream, 2 the "
            "thread's, None none"
        )
    if not address and 0 not in shape:
        raise ValueError("__cuda_array_interface__: elements without memory: the address is 0")
    return _core.cuda_array(
        data,
        address,
        shape,
        strides,
        dtype.number,
        bool(read_only),
        stream,
    )


def consumer_stream(array: Any) -> dict[str, int]:
    """What ``array.__dlpack__`` is told so that the device's stream waits for the array: nothing
    for memory of the host."""
    describe = getattr(array, "__dlpack_device__", None)
    kind, number = (1, 0) if describe is None else describe()
    return {"stream": _core.cuda_stream(number)} if kind in _ON_CUDA else {}


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """The CUDA array interface, version 3: what other libraries need to use the memory of a tensor
    on a CUDA device. They wait for ``stream``, the one that the tensor is computed in.

    AttributeError for tensors elsewhere, so that ``hasattr`` is False. RuntimeError where the
    tensor requires grad.
    """
    if not self.is_cuda:
        raise AttributeError(
            f"__cuda_array_interface__: the tensor is on {self.device}, no CUDA device; use cuda()"
        )
    if self.requires_grad:
        raise RuntimeError("__cuda_array_interface__: the tensor requires grad; use detach() first")
    step = self.element_size()
    dense = self.is_contiguous()
    return {
        "typestr": _typestr(self.dtype),
        "shape": tuple(self.shape),
        "strides": None if dense else tuple(step * stride for stride in self.stride()),
        "data": (self.data_ptr() if self.numel() else 0, False),
        "version": 3,
        "stream": _core.cuda_stream(self.get_device()),
    }


attach(__cuda_array_interface__=property(_cuda_array_interface))
