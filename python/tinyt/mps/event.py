"""`torch.mps.event`: events of Metal devices."""

from __future__ import annotations

from tinyt import streams
from tinyt.mps.places import place_of

__all__ = ["Event"]


class Event(streams.Event):
    """A moment in the device's work; DeviceError without a device.

    Args:
        enable_timing: whether `elapsed_time` is asked.

    >>> import tinyt
    >>> if tinyt.mps.is_available():
    ...     start, end = (tinyt.mps.Event(enable_timing=True) for _ in range(2))
    ...     start.record()
    ...     x = tinyt.ones(3, device="mps") * 2
    ...     end.record()
    ...     end.synchronize()
    ...     milliseconds = start.elapsed_time(end)
    """

    def __init__(self, enable_timing: bool = False) -> None:
        super().__init__(place_of("Event"), enable_timing)
