"""`torch.cpu`: the one device there is."""

from __future__ import annotations

from tinyt.amp import autocast

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "autocast",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: object) -> None:
    """Sets nothing: there is one."""


def synchronize(device: object = None) -> None:
    """Waits for nothing: operations have run when they return."""


class Stream:
    """A queue of work, as devices have them; here work is done when a function returns."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        """Waits for nothing."""

    def record_event(self) -> None:
        """Marks nothing."""

    def wait_event(self, event: object) -> None:
        """Waits for nothing."""


class Event:
    """A point in a queue of work, which has always passed."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: object = None) -> None:
        """Marks nothing."""

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait(self, stream: object = None) -> None:
        """Waits for nothing."""


_current = Stream()


def current_stream(device: object = None) -> Stream:
    """The stream of the block around, or the default one."""
    return _current


class StreamContext:
    """A block in which a stream is the current one; None changes nothing.

    >>> from tinyt import cpu
    >>> mine = cpu.Stream()
    >>> with cpu.stream(mine):
    ...     cpu.current_stream() is mine
    True
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.prev_stream = _current

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self.prev_stream, _current = _current, self.stream

    def __exit__(self, *exc: object) -> None:
        global _current
        if self.stream is not None:
            _current = self.prev_stream


def stream(stream: Stream | None) -> StreamContext:
    """`StreamContext(stream)`."""
    return StreamContext(stream)
