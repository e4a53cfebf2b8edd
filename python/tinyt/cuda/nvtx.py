"""`torch.cuda.nvtx`: ranges and marks for NVIDIA's tools, by the library of NVTX where it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tinyt.nvtx_library import nvtx_library

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Begins a range of this thread, inside of those that it has begun; how many those are.

    RuntimeError where there is no NVTX.
    """
    return int(nvtx_library().nvtxRangePushA(msg.encode()))


def range_pop() -> int:
    """Ends the range that this thread has begun last; how many it has left.

    RuntimeError where there is no NVTX.
    """
    return int(nvtx_library().nvtxRangePop())


def range_start(msg: str) -> int:
    """Begins a range that any thread may end; its number, for `range_end`.

    RuntimeError where there is no NVTX.
    """
    return int(nvtx_library().nvtxRangeStartA(msg.encode()))


def range_end(range_id: int) -> None:
    """Ends a range of `range_start`. RuntimeError where there is no NVTX."""
    nvtx_library().nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """Tells of an event of this moment. RuntimeError where there is no NVTX."""
    nvtx_library().nvtxMarkA(msg.encode())


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
