"""CUDA on machines without a GPU: `cuda/standin.cpp` stands for its driver and its compiler, and
runs kernels on the CPU. (A package of that folder would hide NVIDIA's of the same name.)"""

from __future__ import annotations

from faulty import faulty_library


def standin() -> dict[str, str] | None:
    """The variables by which processes that are started find it; None without a C++ compiler."""
    library = faulty_library("cuda/standin.cpp")
    if library is None:
        return None
    return {"TINYT_CUDA_LIBRARY": library, "TINYT_NVRTC_LIBRARY": library}
