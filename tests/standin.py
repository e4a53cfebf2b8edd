"""CUDA on machines without a GPU: `cuda/standin.cpp` stands for its driver and its compiler, and
runs kernels on the CPU. (A package of that folder would hide NVIDIA's of the same name.)"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from faulty import faulty_library


def nvrtc() -> str:
    """The path of NVIDIA's compiler, of the package `nvidia-cuda-nvrtc-cu12`; empty without."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in Path(folder).glob("cuda_nvrtc/lib/libnvrtc.so.*"):
            return str(file)
    return ""


def standin() -> dict[str, str] | None:
    """The variables by which processes that are started find it; None without a C++ compiler."""
    library = faulty_library("cuda/standin.cpp")
    if library is None:
        return None
    return {"TINYT_CUDA_LIBRARY": library, "TINYT_NVRTC_LIBRARY": library}
