"""`torch.cuda.profiler`: NVIDIA's profiler, which needs a GPU; see `tinyt.profiler`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinyt.cuda import _refusing
from tinyt.cuda.places import refuse as _refuse

__all__ = ["profile", "start", "stop"]

start = _refusing("profiler.start")
stop = _refusing("profiler.stop")


@contextmanager
def profile() -> Iterator[None]:
    """DeviceError: there is no device."""
    _refuse("profiler.profile")
    yield
