"""Streams and events of `tinyt.cuda` on two devices: run by `tests/unit/test_cuda.py` in a process
of its own, with the stand-in for CUDA's libraries."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

import tinyt
from tinyt import cuda

STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])


@pytest.fixture(autouse=True)
def first_device() -> Iterator[None]:
    cuda.set_device(0)
    yield
    STANDIN.faulty_reset()
    cuda.set_device(0)


def failing(call: str, status: int) -> None:
    STANDIN.faulty_fail(call.encode(), ctypes.c_long(1), ctypes.c_long(1), status)


def test_events() -> None:
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert start.query()
    start.synchronize()
    start.wait()
    assert start.cuda_event == 0
    with pytest.raises(ValueError, match="must be recorded before"):
        start.elapsed_time(end)
    with pytest.raises(ValueError, match="enable_timing=True"):
        cuda.Event().elapsed_time(end)
    start.record()
    STANDIN.standin_delay(20000)
    x = tinyt.ones(8, device="cuda")
    y = x + x
    end.record()
    assert not end.query()
    with pytest.raises(RuntimeError, match="must be completed before"):
        start.elapsed_time(end)
    end.synchronize()
    STANDIN.standin_delay(0)
    assert start.query()
    assert end.query()
    assert start.elapsed_time(end) >= 20.0
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    assert start.cuda_event > 0
    assert y.tolist() == [2.0] * 8


def test_events_of_two_devices() -> None:
    STANDIN.standin_delay(2000)
    x = tinyt.ones(8, device="cuda:0") * 2
    moment = cuda.Event(enable_timing=True)
    moment.record(cuda.Stream(0))
    with cuda.device(1):
        moment.wait()
        cuda.current_stream().wait_event(moment)
        other = cuda.Event(enable_timing=True)
        other.record()
        with pytest.raises(RuntimeError, match=r"Event device cuda:1 does not match .* cuda:0"):
            other.record(cuda.Stream(0))
    cuda.synchronize(1)
    assert moment.query()
    STANDIN.standin_delay(0)
    with pytest.raises(ValueError, match="of one device, got cuda:0 and cuda:1"):
        moment.elapsed_time(other)
    assert x.tolist() == [2.0] * 8


def test_event_calls_that_fail() -> None:
    for call in ("cuEventCreate", "cuEventRecord"):
        event = cuda.Event(enable_timing=True)
        failing(call, 999)
        with pytest.raises(tinyt.DeviceError, match=f"{call} failed with 999"):
            event.record()
        event.record()
        event.synchronize()
    other = cuda.current_stream().record_event(cuda.Event(enable_timing=True))
    other.synchronize()
    for call, ask in (
        ("cuEventQuery", event.query),
        ("cuEventSynchronize", event.synchronize),
        ("cuStreamWaitEvent", event.wait),
        ("cuEventElapsedTime", lambda: event.elapsed_time(other)),
    ):
        failing(call, 999)
        with pytest.raises(tinyt.DeviceError, match=f"{call} failed with 999"):
            ask()
        ask()
    failing("cuEventDestroy", 999)
    cuda.Event().record()  # nothing is raised when it goes


def test_streams() -> None:
    side, own = cuda.Stream(), cuda.default_stream()
    assert side == own == cuda.current_stream() != cuda.Stream(1)
    assert hash(side) == hash(own)
    assert side.cuda_stream == own.cuda_stream != cuda.Stream(1).cuda_stream != 0
    assert cuda.Stream(priority=-1).priority == -1
    side.wait_stream(own)
    with cuda.stream(side):
        assert cuda.current_stream() is side
        x = tinyt.ones(4, device="cuda") * 3
        x.record_stream(side)
    assert cuda.current_stream() is not side
    own.wait_stream(side)
    event = side.record_event()
    assert isinstance(event, cuda.Event)
    own.wait_event(event)
    side.synchronize()
    assert side.query()
    assert event.query()
    with cuda.stream(cuda.Stream(1)), cuda.stream(None):
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0
    cuda.current_stream(0).wait_stream(cuda.Stream(1))
    cuda.set_stream(cuda.Stream(1))
    assert cuda.current_device() == 1
    with pytest.raises(TypeError, match="expected a stream of a CUDA device"):
        cuda.set_stream(tinyt.Stream())
    assert x.tolist() == [3.0] * 4


def test_streams_and_events_of_any_kind() -> None:
    stream = tinyt.Stream("cuda:1")
    assert stream == cuda.Stream(1)
    assert (stream.device_index, stream.device_type) == (1, 1)
    assert "device_type=cuda, device_index=1" in repr(stream)
    event = tinyt.Event("cuda:1", enable_timing=True)
    event.record()
    event.synchronize()
    assert event.query()
    with stream as inside:
        assert inside is stream
        assert cuda.current_device() == 1
        assert tinyt.accelerator.current_stream() is stream
    assert cuda.current_device() == 0
    with pytest.raises(RuntimeError, match="doesn't support events"):
        tinyt.Event().record(stream)
    with pytest.raises(RuntimeError, match="doesn't support events"):
        tinyt.Stream().wait_stream(stream)
    with pytest.raises(NotImplementedError, match="share no events"):
        cuda.Event(interprocess=True)
    event = cuda.Event()
    with pytest.raises(NotImplementedError, match=r"Event\.ipc_handle: is not there; .* a message"):
        event.ipc_handle()


def test_a_stream_of_another_library() -> None:
    """What it was asked for, tinyt in the block, and what it is asked for then: in that order."""
    context, raw = ctypes.c_void_p(), ctypes.c_void_p()
    assert STANDIN.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert STANDIN.cuCtxSetCurrent(context) == 0
    assert STANDIN.cuStreamCreate(ctypes.byref(raw), 1) == 0
    x = tinyt.zeros(1 << 12, device="cuda")
    cuda.synchronize()
    other = cuda.ExternalStream(raw.value)
    assert other != cuda.current_stream()
    assert other.cuda_stream == raw.value
    address, nbytes = ctypes.c_uint64(x.data_ptr()), ctypes.c_size_t(x.numel() * 4)
    fill = STANDIN.cuMemsetD8Async
    STANDIN.standin_delay(5000)
    assert fill(address, ctypes.c_ubyte(0), nbytes, raw) == 0
    assert fill(address, ctypes.c_ubyte(1), nbytes, raw) == 0
    with cuda.stream(other):
        y = x.view(tinyt.int32) + 0
    assert fill(address, ctypes.c_ubyte(2), nbytes, raw) == 0
    assert not other.query()
    other.synchronize()
    STANDIN.standin_delay(0)
    assert other.query()
    assert set(y.tolist()) == {0x01010101}
    assert set(x.view(tinyt.int32).tolist()) == {0x02020202}
    assert STANDIN.cuCtxSetCurrent(None) == 0
    with pytest.raises(ValueError, match="handle of the driver's"):
        cuda.ExternalStream(0)


def test_a_wait_for_an_event_finds_faults() -> None:
    """As a wait for the device does: what was copied without waiting is read behind it."""
    x, event = tinyt.ones(3, device="cuda")[tinyt.tensor([5], device="cuda")], cuda.Event()
    x.to("cpu", non_blocking=True)
    event.record()
    with pytest.raises(IndexError, match="synchronize: an earlier operation, index: index 5"):
        event.synchronize()
    event.synchronize()
