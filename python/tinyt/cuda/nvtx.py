"""`torch.cuda.nvtx`: marks for NVIDIA's tools, which are not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: there is no NVTX."""
    raise RuntimeError(
        "NVTX functions not installed: tinyt.cuda has no devices yet; use profiler.record_function"
    )


mark = range_push = range_pop = range_start = range_end = _refuse


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """RuntimeError: there is no NVTX."""
    _refuse(msg)
    yield
