"""NVIDIA's library of NVTX, by which programs tell its tools of ranges: opened at first use."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# NVTX 3 for languages other than C, and the older library.
_NAMES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")


def _paths() -> Iterator[str]:
    """Of NVIDIA's packages `nvidia-nvtx` and `nvidia-nvtx-cu12`, and of the system."""
    spec = find_spec("nvidia")
    for name in _NAMES:
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from map(str, Path(folder).glob(f"*/lib/{name}"))
        yield name


_opened: Any = None


def nvtx_library() -> Any:
    """The library, its functions declared; RuntimeError where there is none."""
    global _opened
    if _opened is None:
        _opened = _open()
    return _opened


def _open() -> Any:
    for path in _paths():
        try:
            found = ctypes.CDLL(path)
        except OSError:
            continue
        for name, result, argument in (
            ("nvtxMarkA", None, ctypes.c_char_p),
            ("nvtxRangePushA", ctypes.c_int, ctypes.c_char_p),
            ("nvtxRangeStartA", ctypes.c_uint64, ctypes.c_char_p),
            ("nvtxRangeEnd", None, ctypes.c_uint64),
        ):
            function = getattr(found, name)
            function.restype, function.argtypes = result, (argument,)
        found.nvtxRangePop.restype, found.nvtxRangePop.argtypes = ctypes.c_int, ()
        return found
    raise RuntimeError(
        f"NVTX functions not installed: there is no {_NAMES[0]}; pip install nvidia-nvtx brings "
        "it, or use profiler.record_function"
    )
