"""A library of arrays beside tinyt in one process, on the stand-in for CUDA's driver: it allocates
memory of a device, has a stream of its own, and speaks DLPack 1.0 and the CUDA array interface."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np

Pointer = ctypes.c_void_p
CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13
LEGACY, OF_THREAD = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
STANDIN.faulty_calls.restype = ctypes.c_long
STANDIN.faulty_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int]
PYTHON = ctypes.pythonapi
PYTHON.PyCapsule_New.restype = ctypes.py_object
PYTHON.PyCapsule_New.argtypes = [Pointer, ctypes.c_char_p, Pointer]
PYTHON.PyCapsule_GetPointer.restype = Pointer
PYTHON.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
PYTHON.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Array(ctypes.Structure):
    _fields_ = [
        ("data", Pointer),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


Deleter = ctypes.CFUNCTYPE(None, Pointer)


class Managed(ctypes.Structure):
    _fields_ = [("array", Array), ("context", Pointer), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", Pointer),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("array", Array),
    ]


KINDS = {Managed: b"dltensor", Versioned: b"dltensor_versioned"}
USED = {Managed: b"used_dltensor", Versioned: b"used_dltensor_versioned"}


def calls(function: str) -> int:
    """How often tinyt, or this library, has called it."""
    return STANDIN.faulty_calls(function.encode())


def call(name: str, *arguments: Any) -> None:
    status = getattr(STANDIN, name)(*arguments)
    assert status == 0, f"{name}: {status}"


class Driver:
    """A device, the stream of this library in it, and copies there."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.context, own = Pointer(), Pointer()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), index)
        self.enter()
        call("cuStreamCreate", ctypes.byref(own), 1)
        self.stream = own.value

    def enter(self) -> None:
        call("cuCtxSetCurrent", self.context)

    def allocate(self, nbytes: int) -> int:
        self.enter()
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def write(self, address: int, values: np.ndarray, stream: int | None = None) -> None:
        """It is done some time after this."""
        self.enter()
        call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_uint64(address),
            values.ctypes.data_as(Pointer),
            ctypes.c_size_t(values.nbytes),
            Pointer(stream or self.stream),
        )

    def read(self, address: int, values: np.ndarray, stream: int | None = None) -> np.ndarray:
        self.enter()
        call(
            "cuMemcpyDtoHAsync_v2",
            values.ctypes.data_as(Pointer),
            ctypes.c_uint64(address),
            ctypes.c_size_t(values.nbytes),
            Pointer(stream or self.stream),
        )
        return values

    def let_wait(self, stream: int) -> None:
        """Another stream waits for this library's."""
        self.enter()
        event = Pointer()
        call("cuEventCreate", ctypes.byref(event), 2)
        call("cuEventRecord", event, Pointer(self.stream))
        call("cuStreamWaitEvent", Pointer(stream), event, 0)
        call("cuEventDestroy_v2", event)


class Producer:
    """An array of a device with `__dlpack__`: values at a distance (in bytes) from where its
    memory begins. Everything in the call and the memory may be told to be something else."""

    def __init__(
        self,
        driver: Driver,
        values: np.ndarray,
        *,
        distance: int = 0,
        strides: tuple[int, ...] | None = None,
        shape: tuple[int, ...] | None = None,
        said: tuple[int, int] | None = None,
        read_only: bool = False,
        older: bool = False,
        address: int | None = None,
        on_delete: Callable[[], None] | None = None,
    ) -> None:
        self.driver, self.values = driver, values
        self.said = said or (CUDA, driver.index)
        whole = values.nbytes + distance
        self.address = (driver.allocate(whole) if address is None else address) + distance
        if address is None:
            driver.write(self.address, values)
        self.shape = values.shape if shape is None else shape
        self.strides = strides
        self.read_only, self.older, self.on_delete = read_only, older, on_delete
        self.streams: list[int | None] = []
        self.deleted = 0
        self._kept: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.said

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        if self.older and options:
            raise TypeError
        self.streams.append(stream)
        if self.said[0] == CUDA and stream != -1:
            self.driver.let_wait(stream or LEGACY)
        kind = Managed if self.older else Versioned
        made = kind()
        if kind is Versioned:
            made.major, made.flags = 1, int(self.read_only)
        made.deleter = Deleter(self._delete)
        sizes = (ctypes.c_int64 * len(self.shape))(*self.shape)
        steps = (ctypes.c_int64 * len(self.shape))(*(self.strides or ()))
        array = made.array
        array.data, (array.device_type, array.device_id) = self.address, self.said
        array.ndim, array.shape = len(self.shape), sizes
        array.strides = None if self.strides is None else steps
        array.code, array.lanes = CODES[self.values.dtype.kind], 1
        array.bits = 8 * self.values.itemsize
        self._kept.append((made, sizes, steps))
        return PYTHON.PyCapsule_New(ctypes.addressof(made), KINDS[kind], None)

    def _delete(self, managed: int) -> None:
        self.deleted += 1
        if self.on_delete:
            self.on_delete()

    def read(self) -> np.ndarray:
        return self.driver.read(self.address, np.empty_like(self.values))


class Consumed:
    """What a tensor gives by `__dlpack__`, until `delete`."""

    def __init__(self, driver: Driver, x: Any, older: bool = False, **options: Any) -> None:
        kind = Managed if older else Versioned
        if not older:
            options["max_version"] = (1, 0)
        capsule = x.__dlpack__(**options)
        place = PYTHON.PyCapsule_GetPointer(capsule, KINDS[kind])
        assert PYTHON.PyCapsule_SetName(capsule, USED[kind]) == 0
        self.driver, self.managed = driver, kind.from_address(place)
        self.array = self.managed.array
        self.shape = tuple(self.array.shape[: self.array.ndim])
        self.strides = tuple(self.array.strides[: self.array.ndim])
        self.device = (self.array.device_type, self.array.device_id)
        self.address = (self.array.data or 0) + self.array.byte_offset

    def read(self, dtype: str, stream: int | None = None) -> np.ndarray:
        """Dense elements, by a stream."""
        return self.driver.read(self.address, np.empty(self.shape, dtype), stream)

    def delete(self) -> None:
        self.managed.deleter(ctypes.addressof(self.managed))


class Interface:
    """An array of a device with the CUDA array interface alone."""

    def __init__(self, driver: Driver, values: np.ndarray, **changes: Any) -> None:
        self.driver, self.values = driver, values
        self.address = driver.allocate(max(values.nbytes, 1))
        driver.write(self.address, values)
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": values.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "stream": driver.stream,
        } | changes
