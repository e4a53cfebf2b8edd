"""`torch.Stream` and `torch.Event`, of the CPU and of devices that have events ("cuda", "mps").

The CPU's work is done when a function returns. A device has one queue, in which all runs in the
order of the calls: every stream of a device is a view of that queue, so what waits for another
stream is always in order, and nothing overlaps.
"""

from __future__ import annotations

import threading
from typing import Any, NoReturn

from tinyt import _core, _tensor
from tinyt._tensor import device as Device
from tinyt._tensor import shown_as


def _refuse_events() -> NoReturn:
    raise RuntimeError("cpu backend doesn't support events: work is done when a function returns")


def _place(device: Any) -> Device:
    """The device with its index, which is there; None: the CPU."""
    place = Device("cpu" if device is None else device).require_present()
    if place.index is None and _tensor.device_count(place.type):
        return Device(place.type, _tensor.current_device_index(place))
    return place


class _Current(threading.local):
    """The streams that this thread has set, by device; of each block of a stream that it is in, the
    device and the stream before it, None of the CPU."""

    def __init__(self) -> None:
        self.streams: dict[Device, Stream] = {}
        self.outer: list[tuple[Device, Stream] | None] = []


_current = _Current()


class Stream:
    """A stream of a device: of each one those that are not of other libraries are equal.

    Args:
        device: "cpu", the default, or one with a queue, "cuda:0"; RuntimeError for one that is not
            there.
        priority: no effect.
    """

    stream_id = 0
    _queue = 0  # the driver's handle of one of another library; 0: the device's own

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = _place(device)
        self.priority = priority

    @property
    def device_type(self) -> int:
        """PyTorch's number of the kind: 0 of the CPU, 1 of CUDA, 13 of Metal."""
        return {"cpu": 0, "cuda": 1, "mps": 13}.get(self.device.type, 20)

    @property
    def device_index(self) -> int:
        """The number of the device; -1 of the CPU."""
        return -1 if self.device.index is None else self.device.index

    @property
    def native_handle(self) -> int:
        """The driver's handle of the queue (a `CUstream`), for other libraries."""
        return self._queue or _core.queue_handle(_tensor.number_of_device(self.device))

    def _moment(self) -> _core.DeviceEvent:
        """When all that was asked for so far is done."""
        moment = _core.DeviceEvent(_tensor.number_of_device(self.device), False)
        moment.record(self._queue)
        return moment

    def query(self) -> bool:
        """Whether all that was asked for is done."""
        return self.device.type == "cpu" or self._moment().is_past()

    def synchronize(self) -> None:
        """Waits for all that was asked for."""
        if self._queue:
            self._moment().synchronise()
        else:
            _tensor.synchronize(self.device)

    def wait_event(self, event: Event) -> None:
        """What is asked for from now on comes after an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What is asked for from now on comes after all that another stream was asked for; of the
        CPU RuntimeError, as in PyTorch: it records an event."""
        if "cpu" in (self.device.type, stream.device.type):
            _refuse_events()
        if stream != self:
            self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, or a new one, and returns it; RuntimeError on the CPU."""
        if event is None:
            event = Event(self.device)
        event.record(self)
        return event

    def _take_turn(self) -> None:
        """The device's queue goes on after a stream of another library."""
        if self._queue:
            self._moment().hold(_tensor.number_of_device(self.device), 0)

    def _end_turn(self) -> None:
        """That one goes on after the device's queue."""
        if self._queue:
            own = Stream(self.device)._moment()
            own.hold(_tensor.number_of_device(self.device), self._queue)

    def __enter__(self) -> Stream:
        if self.device.type == "cpu":
            _current.outer.append(None)
            return self
        place = Device(self.device.type, _tensor.current_device_index(self.device))
        before = current_stream(self.device)
        set_stream(self)
        _current.outer.append((place, before))
        return self

    def __exit__(self, *exc: object) -> None:
        if (outer := _current.outer.pop()) is not None:
            place, before = outer
            set_stream(before)
            _tensor.set_current_device(place)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self._queue) == (other.device, other._queue)

    def __hash__(self) -> int:
        return hash((Stream, self.device, self._queue))

    def __repr__(self) -> str:
        return (
            f"{shown_as()}.Stream device_type={self.device.type}, "
            f"device_index={self.device_index}, stream_id={self.stream_id}"
        )


def current_stream(device: Any) -> Stream:
    """The stream that this thread has set for a device, or a view of its queue."""
    place = _place(device)
    return _current.streams.get(place) or Stream(place)


def set_stream(stream: Stream) -> None:
    """Makes a stream the current one of its device, and that device the current one of its kind."""
    before = current_stream(stream.device)
    if before != stream:
        before._end_turn()
        stream._take_turn()
    _tensor.set_current_device(stream.device)
    _current.streams[stream.device] = stream


class Event:
    """A moment in a stream. One of the CPU cannot be recorded and has always passed.

    Args:
        device: "cpu", the default, or one with a queue, "cuda"; RuntimeError for one that is not
            there.
        enable_timing: whether `elapsed_time` is asked.
        blocking: no effect: `synchronize` waits as the driver chooses.
        interprocess: NotImplementedError on devices: processes share no events.
    """

    _event: _core.DeviceEvent | None = None

    def __init__(
        self,
        device: Any = None,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _place(device)
        self._timing = enable_timing
        if interprocess and self.device.type != "cpu":
            raise NotImplementedError(
                "Event: processes share no events; synchronize() and send a message"
            )

    @property
    def event_id(self) -> int:
        """The driver's handle; 0 before it is recorded."""
        return 0 if self._event is None else self._event.handle

    def query(self) -> bool:
        """Whether all that was asked for before it is done; True where it was not recorded."""
        return self._event is None or self._event.is_past()

    def synchronize(self) -> None:
        """Waits for all that was asked for before it; for nothing where it was not recorded."""
        if self._event is not None:
            self._event.synchronise()

    def wait(self, stream: Stream | None = None) -> None:
        """What a stream, by default the current one, is asked for from now on comes after it."""
        if self._event is None:
            return
        stream = current_stream(self.device) if stream is None else stream
        self._event.hold(_tensor.number_of_device(stream.device), stream._queue)

    def record(self, stream: Stream | None = None) -> None:
        """Makes it the moment when all that a stream, by default the current one, was asked for is
        done.

        Raises:
            RuntimeError: on the CPU, as in PyTorch; for a stream of another device.
        """
        stream = current_stream(self.device) if stream is None else stream
        if "cpu" in (self.device.type, stream.device.type):
            _refuse_events()
        if stream.device != self.device:
            raise RuntimeError(
                f"Event device {self.device} does not match recording stream's device "
                f"{stream.device}."
            )
        if self._event is None:
            number = _tensor.number_of_device(self.device)
            self._event = _core.DeviceEvent(number, self._timing)
        self._event.record(stream._queue)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this event to another one.

        Raises:
            ValueError: not both were made with `enable_timing=True`, or recorded, or are of one
                device.
            RuntimeError: not both are past: `synchronize` the second one first. On the CPU, where
                `time.perf_counter` times work.
        """
        if not (self._timing and other._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if "cpu" in (self.device.type, other.device.type):
            _refuse_events()
        if self._event is None or other._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return self._event.milliseconds_to(other._event)

    def __repr__(self) -> str:
        index = -1 if self.device.index is None else self.device.index
        return (
            f"{shown_as()}.Event device_type={self.device.type}, device_index={index}, "
            f"event_flag={int(self._timing)}, event_id={self.event_id}"
        )


EXPORTS: dict[str, Any] = {"Stream": Stream, "Event": Event}
__all__ = ["EXPORTS", "Event", "Stream", "current_stream", "set_stream"]
