"""Calls of CUDA's driver and compiler by `ctypes`, of kernels without tinyt: on the library that
stands for both."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

INVALID_VALUE, ILLEGAL_ADDRESS, MISALIGNED_ADDRESS, LAUNCH_FAILED = 1, 700, 716, 719
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
Pointer = ctypes.c_void_p


class CudaError(Exception):
    def __init__(self, call: str, status: int, log: str = "") -> None:
        super().__init__(f"{call}: {status} {log}")
        self.status = status


class Kernels:
    """The kernels of a source, on device 0."""

    def __init__(self, library: ctypes.CDLL, source: str, architecture: str = "sm_90") -> None:
        self.library = library
        self.call("cuInit", 0)
        context, self.module, self.stream = Pointer(), Pointer(), Pointer()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        image = self._compiled(source, architecture)
        self.call("cuModuleLoadData", ctypes.byref(self.module), image)

    def call(self, name: str, *values: object) -> None:
        status = getattr(self.library, name)(*values)
        if status != 0:
            raise CudaError(name, status)

    def _compiled(self, source: str, architecture: str) -> ctypes.Array[ctypes.c_char]:
        program, size = Pointer(), ctypes.c_size_t()
        options = [f"--gpu-architecture={architecture}".encode(), b"--fmad=false"]
        self.call(
            "nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"x.cu", 0, None, None
        )
        status = self.library.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(*options))
        self.call("nvrtcGetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGetProgramLog", program, log)
        if status != 0:
            raise CudaError("nvrtcCompileProgram", status, log.value.decode())
        self.call("nvrtcGetCUBINSize", program, ctypes.byref(size))
        image = ctypes.create_string_buffer(size.value)
        self.call("nvrtcGetCUBIN", program, image)
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return image

    def function(self, name: str) -> Pointer:
        function = Pointer()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        return function

    def allow_shared(self, name: str, byte_count: int) -> None:
        self.call("cuFuncSetAttribute", self.function(name), DYNAMIC_SHARED, byte_count)

    def run(
        self,
        name: str,
        *values: np.ndarray | int,
        grid: Sequence[int] = (1, 1, 1),
        block: Sequence[int] = (32, 1, 1),
        shared: int = 0,
    ) -> None:
        """Arrays are copied to the device, and back: of `values`, those may be written. Other
        numbers are `int`s of the kernel."""
        addresses, arguments = [], []
        try:
            for value in values:
                if isinstance(value, np.ndarray):
                    addresses.append(ctypes.c_uint64())
                    self.call("cuMemAlloc_v2", ctypes.byref(addresses[-1]), value.nbytes)
                    self._copy("HtoD", addresses[-1], value.ctypes.data_as(Pointer), value.nbytes)
                    arguments.append(addresses[-1])
                else:
                    arguments.append(ctypes.c_int(value))
            pointers = (Pointer * len(arguments))(*map(ctypes.addressof, arguments))
            sizes = (ctypes.c_uint(n) for n in (*grid, *block, shared))
            function = self.function(name)
            self.call("cuLaunchKernel", function, *sizes, self.stream, pointers, None)
            self.call("cuStreamSynchronize", self.stream)
            arrays = (value for value in values if isinstance(value, np.ndarray))
            for address, array in zip(addresses, arrays, strict=True):
                self._copy("DtoH", array.ctypes.data_as(Pointer), address, array.nbytes)
        finally:
            self.library.standin_reset()
            for address in addresses:
                self.call("cuMemFree_v2", address)

    def _copy(self, kind: str, to: object, source: object, byte_count: int) -> None:
        size = ctypes.c_size_t(byte_count)
        self.call(f"cuMemcpy{kind}Async_v2", to, source, size, self.stream)
