"""`torch.cuda.nvtx`: ranges and marks for NVIDIA's tools, by the library of NVTX where it is."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

# NVTX 3 for languages other than C, and the older library.
_NAMES = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")


def _paths() -> Iterator[str]:
    """Of NVIDIA's packages `nvidia-nvtx` and `nvidia-nvtx-cu12`, and of the system."""
    spec = find_spec("nvidia")
    for name in _NAMES:
        for folder in (spec and spec.submodule_search_locations) or ():
            yield from map(str, Path(folder).glob(f"*/lib/{name}"))
        yield name


@cache
def _opened() -> Any:
    """The library, its functions declared; RuntimeError where there is none."""
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


def range_push(msg: str) -> int:
    """Begins a range of this thread, inside of those that it has begun; how many those are.

    RuntimeError where there is no NVTX.
    """
    return int(_opened().nvtxRangePushA(msg.encode()))


def range_pop() -> int:
    """Ends the range that this thread has begun last; how many it has left.

    RuntimeError where there is no NVTX.
    """
    return int(_opened().nvtxRangePop())


def range_start(msg: str) -> int:
    """Begins a range that any thread may end; its number, for `range_end`.

    RuntimeError where there is no NVTX.
    """
    return int(_opened().nvtxRangeStartA(msg.encode()))


def range_end(range_id: int) -> None:
    """Ends a range of `range_start`. RuntimeError where there is no NVTX."""
    _opened().nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """Tells of an event of this moment. RuntimeError where there is no NVTX."""
    _opened().nvtxMarkA(msg.encode())


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A block as a range of its thread, called ``msg.format(*args, **kwargs)``.

    RuntimeError where there is no NVTX.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
