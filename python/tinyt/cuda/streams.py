"""`torch.cuda.streams`: streams and events of CUDA devices.

A device has one queue, in which everything runs in the order of the calls, so that every `Stream`
of a device is a view of it: waiting for one another is always right, and streams do not overlap.
Events are the driver's.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt import _tensor, streams
from tinyt._tensor import device as Device
from tinyt._tensor import shown_as
from tinyt.cuda.places import count, index_of, is_none, place_of, refuse
from tinyt.tensor import Tensor

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "set_stream",
    "stream",
]


class device:
    """A block in which a device is this thread's current one.

    Args:
        device: a number, a name or a device; None or a negative number changes nothing.
    """

    def __init__(self, device: Any) -> None:
        self.device = device
        self.idx = -1 if is_none(device) else index_of("device", device) if count() else None

    def __enter__(self) -> None:
        if self.idx is None:
            refuse("device")
        if self.idx >= 0:
            self.prev_idx = place_of("device").index
            _tensor.set_current_device(place_of("device", self.idx))

    def __exit__(self, *exc: object) -> None:
        if self.idx is not None and self.idx >= 0:
            _tensor.set_current_device(place_of("device", self.prev_idx))


class device_of(device):
    """A block on the device of a tensor; of one that is on no CUDA device, no block."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if isinstance(obj, Tensor) and obj.is_cuda else None)


class Stream(streams.Stream):
    """A view of a CUDA device's queue; DeviceError without a device.

    Args:
        device: a number, a name or a device; by default the current one.
        priority: no effect.

    >>> import tinyt
    >>> if tinyt.cuda.is_available():
    ...     side = tinyt.cuda.Stream()
    ...     with tinyt.cuda.stream(side):
    ...         x = tinyt.ones(3, device="cuda") * 2
    ...     tinyt.cuda.current_stream().wait_stream(side)
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        super().__init__(place_of("Stream", device), priority)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle (a `CUstream`), for other libraries."""
        return self.native_handle

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """(0, 0): there is one queue."""
        return 0, 0

    def record_event(self, event: streams.Event | None = None) -> streams.Event:
        """Records an event, or a new one, and returns it."""
        return super().record_event(Event() if event is None else event)

    def __repr__(self) -> str:
        return f"<{shown_as()}.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream of another library, which must outlive it.

    tinyt's kernels run in the device's queue, inside of a block on such a stream, too: after what
    the stream was asked for before the block, and before what it is asked for after it.

    Args:
        stream_ptr: the driver's handle (a `CUstream` of that device's primary context).
        device: by default the current one.
    """

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device)
        if not isinstance(stream_ptr, int) or stream_ptr <= 0:
            raise ValueError(
                f"ExternalStream: stream_ptr must be a handle of the driver's, got {stream_ptr!r}"
            )
        self._queue = self.stream_id = stream_ptr


class Event(streams.Event):
    """A moment in a stream's work; DeviceError without a device.

    Args:
        enable_timing: whether `elapsed_time` is asked.
        blocking: no effect.
        interprocess: NotImplementedError: processes share no events.
        external: no effect.

    >>> import tinyt
    >>> if tinyt.cuda.is_available():
    ...     start, end = (tinyt.cuda.Event(enable_timing=True) for _ in range(2))
    ...     start.record()
    ...     x = tinyt.ones(3, device="cuda") * 2
    ...     end.record()
    ...     end.synchronize()
    ...     milliseconds = start.elapsed_time(end)
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__(place_of("Event"), enable_timing, blocking, interprocess)

    @property
    def cuda_event(self) -> int:
        """The driver's handle (a `CUevent`); 0 before it is recorded."""
        return self.event_id

    def record(self, stream: streams.Stream | None = None) -> None:
        """Makes it the moment when all that a stream, by default the current device's current one,
        was asked for is done; RuntimeError for one of another device than it was recorded on."""
        stream = current_stream() if stream is None else stream
        if self._event is None:  # it is of the device that it is recorded on first
            self.device = stream.device
        super().record(stream)

    def wait(self, stream: streams.Stream | None = None) -> None:
        """What a stream, by default the current device's current one, is asked for from now on
        comes after it."""
        super().wait(current_stream() if stream is None else stream)

    def ipc_handle(self) -> NoReturn:
        """NotImplementedError: processes share no events."""
        refuse("Event.ipc_handle", "synchronize() and send a message")

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> NoReturn:
        """NotImplementedError: processes share no events."""
        refuse("Event.from_ipc_handle", "synchronize() and send a message")

    def __repr__(self) -> str:
        return f"<{shown_as()}.cuda.Event {self.cuda_event:#x}>"


def _as_of_cuda(found: streams.Stream) -> Stream:
    return found if isinstance(found, Stream) else Stream(found.device)


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread has set for a device, by default the current one."""
    return _as_of_cuda(streams.current_stream(place_of("current_stream", device)))


def default_stream(device: Any = None) -> Stream:
    """A view of a device's queue, by default the current one's."""
    return Stream(place_of("default_stream", device))


def set_stream(stream: streams.Stream | None) -> None:
    """Makes a stream the current one of its device, and that device the current one; nothing for
    None."""
    if stream is None:
        return
    if not isinstance(stream, streams.Stream) or stream.device.type != "cuda":
        raise TypeError(f"cuda.set_stream: expected a stream of a CUDA device, got {stream!r}")
    streams.set_stream(stream)


class StreamContext:
    """A block in which a stream is the current one of its device, and that device the current one.

    Args:
        stream: None for no block.
    """

    def __init__(self, stream: streams.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        if not count():
            refuse("stream")
        self._device: Device = place_of("stream")
        self._before = current_stream(self.stream.device)
        set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            set_stream(self._before)
            _tensor.set_current_device(self._device)


stream = StreamContext
