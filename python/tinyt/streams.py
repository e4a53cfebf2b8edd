"""`torch.Stream` and `torch.Event`: of the CPU, whose work is done when a function returns."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt._tensor import device as Device
from tinyt._tensor import shown_as


def _refuse_events() -> NoReturn:
    raise RuntimeError("cpu backend doesn't support events: work is done when a function returns")


class Stream:
    """The stream of the CPU; all are equal.

    Args:
        device: "cpu", the default; RuntimeError for one that is not there.
        priority: no effect.
    """

    stream_id = 0
    device_type = 0
    device_index = -1

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = Device("cpu" if device is None else device)
        self.device.require_present()

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait_event(self, event: Event) -> None:
        """Waits for nothing."""

    def wait_stream(self, stream: Stream) -> None:
        """RuntimeError, as in PyTorch: it records an event."""
        _refuse_events()

    def record_event(self, event: Event | None = None) -> NoReturn:
        """RuntimeError, as in PyTorch: the CPU has no events."""
        _refuse_events()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id))

    def __repr__(self) -> str:
        return f"{shown_as()}.Stream device_type=cpu, device_index=-1, stream_id=0"


class Event:
    """An event of the CPU, which cannot be recorded and has always passed.

    Args:
        device: "cpu", the default; RuntimeError for one that is not there.
        enable_timing, blocking, interprocess: no effect.
    """

    event_id = 0

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = Device("cpu" if device is None else device)
        self.device.require_present()
        self._timing = enable_timing

    def query(self) -> bool:
        """True."""
        return True

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait(self, stream: Stream | None = None) -> None:
        """Waits for nothing."""

    def record(self, stream: Stream | None = None) -> NoReturn:
        """RuntimeError, as in PyTorch: the CPU has no events."""
        _refuse_events()

    def elapsed_time(self, other: Event) -> NoReturn:
        """An error: neither can have been recorded; `time.perf_counter` times work of the CPU."""
        if not (self._timing and other._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        _refuse_events()

    def __repr__(self) -> str:
        return (
            f"{shown_as()}.Event device_type=cpu, device_index=-1, "
            f"event_flag={int(self._timing)}, event_id=0"
        )


EXPORTS: dict[str, Any] = {"Stream": Stream, "Event": Event}
__all__ = ["EXPORTS"]
