"""CUDA tensors and other libraries of the process: DLPack, the CUDA array interface, and streams.
Run by `tests/unit/test_cuda.py` in a process of its own, with the stand-in for the driver."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyt
from cuda_other_library import (
    CUDA_HOST,
    CUDA_MANAGED,
    LEGACY,
    OF_THREAD,
    STANDIN,
    Consumed,
    Driver,
    Interface,
    Producer,
    call,
    calls,
)

PLACE = tinyt.device("cuda:0")
VALUES = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.fixture(scope="module")
def driver() -> Driver:
    tinyt.empty(1, device=PLACE)
    return Driver()


@pytest.fixture(autouse=True)
def no_delay() -> Iterator[None]:
    yield
    STANDIN.standin_delay(0)
    STANDIN.faulty_reset()


def slow() -> None:
    """From now on each operation of a stream takes long, so that a missing wait shows."""
    STANDIN.standin_delay(20_000)  # microseconds


# ---- DLPack: memory of others


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?", "c8", "c16"]
)
def test_memory_of_another_library_is_shared(driver: Driver, dtype: str) -> None:
    values = (np.arange(12) % 3).reshape(3, 4).astype(dtype)
    producer = Producer(driver, values)
    x = tinyt.from_dlpack(producer)
    assert (x.device, tuple(x.shape), x.stride()) == (PLACE, (3, 4), (4, 1))
    assert (x.data_ptr(), x.storage_offset()) == (producer.address, 0)
    np.testing.assert_array_equal(x.cpu().numpy(), values)
    x.zero_()
    tinyt.accelerator.synchronize(PLACE)
    np.testing.assert_array_equal(producer.read(), np.zeros_like(values))
    assert x[1:].data_ptr() == producer.address + 4 * values.itemsize


def test_the_deleter_is_called_once_with_the_last_view(driver: Driver) -> None:
    for older in (False, True):
        producer = Producer(driver, VALUES, older=older)
        x = tinyt.from_dlpack(producer)
        y = x.t()[1:]
        del x
        gc.collect()
        assert producer.deleted == 0
        np.testing.assert_array_equal(y.cpu().numpy(), VALUES.T[1:])
        del y
        gc.collect()
        assert producer.deleted == 1
    tinyt.from_dlpack(Producer(driver, VALUES).__dlpack__(stream=-1))  # a capsule alone


def test_strides_and_read_only_memory(driver: Driver) -> None:
    x = tinyt.from_dlpack(Producer(driver, VALUES, shape=(4, 3), strides=(1, 4), read_only=True))
    np.testing.assert_array_equal(x.cpu().numpy(), VALUES.T)
    np.testing.assert_array_equal((x @ x.t()).cpu().numpy(), VALUES.T @ VALUES)
    with pytest.raises(RuntimeError, match="read-only"):
        x.zero_()
    empty = tinyt.from_dlpack(Producer(driver, VALUES[:0], address=0))
    assert (tuple(empty.shape), empty.device) == ((0, 4), PLACE)


@pytest.mark.parametrize("distance", [4, 12, 260])
def test_memory_that_begins_anywhere(driver: Driver, distance: int) -> None:
    values = np.arange(64 * 64, dtype="f4").reshape(64, 64) % 7
    producer = Producer(driver, values, distance=distance)
    x = tinyt.from_dlpack(producer)
    assert x.data_ptr() == producer.address
    for made, expected in (
        (x + 1, values + 1),
        (x @ x, values @ values),
        (x.sum(1), values.sum(1)),
        (x.bfloat16().float(), values),
        (x.t().contiguous(), values.T),
    ):
        np.testing.assert_array_equal(made.cpu().numpy(), expected)


def test_what_is_still_being_written_is_waited_for(driver: Driver) -> None:
    slow()
    for _ in range(5):
        producer = Producer(driver, np.zeros(1000, "f4"))
        for k in range(3):
            driver.write(producer.address, np.full(1000, k, "f4"))
        y = tinyt.from_dlpack(producer) * 2
        np.testing.assert_array_equal(y.cpu().numpy(), np.full(1000, 4, "f4"))
        assert producer.streams == [tinyt._core.cuda_stream(0)]


def test_memory_goes_back_when_the_device_has_used_it(driver: Driver) -> None:
    producer = Producer(driver, VALUES, on_delete=lambda: driver.write(producer.address, -VALUES))
    x = tinyt.from_dlpack(producer)
    slow()
    y = x * 2
    del x  # its memory is written at once
    gc.collect()
    assert producer.deleted == 1
    np.testing.assert_array_equal(y.cpu().numpy(), VALUES * 2)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (
            {"said": (2, 1)},
            tinyt.DeviceError,
            "says that it is on cuda:1, and its memory is on cuda:0",
        ),
        ({"said": (2, 9)}, tinyt.DeviceError, "no CUDA device 9"),
        ({"said": (4, 0)}, tinyt.DeviceError, "device type 4"),
        ({"address": 64}, tinyt.DeviceError, "none of this process's CUDA devices"),
        ({"strides": (-4, 1)}, ValueError, "negative strides"),
        ({"distance": 2}, ValueError, "aligned to 4 bytes"),
        ({"shape": (3, -4)}, ValueError, "must not be negative"),
    ],
)
def test_wrong_arrays(
    driver: Driver, changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    producer = Producer(driver, VALUES, **changes)
    said, index = producer.said
    producer.said = (said if index < 2 else 1, index)  # what is asked before the capsule
    capsule = producer.__dlpack__(stream=-1)
    if index >= 2:
        producer._kept[0][0].array.device_type = said
    with pytest.raises(error, match=text):
        tinyt.from_dlpack(capsule)
    assert producer.deleted == 1


def test_other_kinds_of_memory(driver: Driver) -> None:
    managed = tinyt.from_dlpack(Producer(driver, VALUES, said=(CUDA_MANAGED, 0)))
    assert managed.device == PLACE
    tinyt.accelerator.synchronize(PLACE)
    host = Producer(driver, VALUES, said=(CUDA_HOST, 0), address=VALUES.ctypes.data)
    x = tinyt.from_dlpack(host)
    assert x.is_cpu
    assert host.streams == [None]
    np.testing.assert_array_equal(x.numpy(), VALUES)


# ---- DLPack: tensors for others


@pytest.mark.parametrize("older", [False, True])
def test_a_tensor_for_another_library(driver: Driver, older: bool) -> None:
    x = tinyt.tensor(VALUES.tolist(), device=PLACE)
    seen = weakref.ref(x)
    assert x.__dlpack_device__() == (2, 0)
    got = Consumed(driver, x.t()[1:], older, stream=driver.stream)
    assert (got.device, got.shape, got.strides) == ((2, 0), (3, 3), (1, 4))
    assert got.address == x.data_ptr() + 4
    got.delete()
    got = Consumed(driver, x, older, stream=driver.stream)
    live = tinyt.memory.statistics(PLACE)["live_blocks"]
    del x
    assert seen() is None
    assert tinyt.memory.statistics(PLACE)["live_blocks"] == live
    np.testing.assert_array_equal(got.read("f4"), VALUES)
    got.delete()
    assert tinyt.memory.statistics(PLACE)["live_blocks"] == live - 1


@pytest.mark.parametrize("stream", ["own", None, LEGACY, OF_THREAD])
def test_the_consumers_stream_waits(driver: Driver, stream: Any) -> None:
    handle = driver.stream if stream == "own" else stream
    x = tinyt.zeros(1000, device=PLACE)
    (x + 1).cpu()
    slow()
    y = ((x + 1) + 1) + 1
    got = Consumed(driver, y, stream=handle)
    np.testing.assert_array_equal(got.read("f4", handle or LEGACY), np.full(1000, 3, "f4"))
    got.delete()


def test_no_wait_where_none_is_asked_for(driver: Driver) -> None:
    x = tinyt.ones(3, device=PLACE)
    before = calls("cuStreamWaitEvent")
    got = Consumed(driver, x, stream=-1)
    y = tinyt.from_dlpack(x)  # of one stream
    assert calls("cuStreamWaitEvent") == before
    assert y.data_ptr() == x.data_ptr()
    del y
    got.delete()
    assert calls("cuStreamWaitEvent") == before


def test_what_the_consumer_still_writes_is_waited_for(driver: Driver) -> None:
    """Memory that came back is used again when the legacy default stream has done with it."""
    x = tinyt.zeros(5000, device=PLACE)
    got = Consumed(driver, x)
    address = x.data_ptr()
    del x
    slow()
    for _ in range(3):
        driver.write(got.address, np.full(5000, 7, "f4"), LEGACY)
    got.delete()
    y = tinyt.full((5000,), 2.0, device=PLACE)
    assert y.data_ptr() == address
    tinyt.accelerator.synchronize(PLACE)
    driver.enter()
    np.testing.assert_array_equal(y.cpu().numpy(), np.full(5000, 2, "f4"))
    call("cuStreamSynchronize", LEGACY)
    np.testing.assert_array_equal(y.cpu().numpy(), np.full(5000, 2, "f4"))


def test_what_is_asked_for_by_mistake(driver: Driver) -> None:
    x = tinyt.ones(3, device=PLACE)
    for stream, error in ((0, BufferError), (-2, BufferError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(error, match="stream"):
            x.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="requires grad"):
        tinyt.ones(3, device=PLACE, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match=r"only cuda:0 or the CPU \(1, 0\) is supported"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="copy=False"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(RuntimeError, match="400, CUDA_ERROR_INVALID_HANDLE"):
        x.__dlpack__(stream=driver.context.value)
    got = Consumed(driver, x, dl_device=(2, 0), copy=True)
    assert got.address != x.data_ptr()
    got.delete()


def test_a_copy_on_the_cpu() -> None:
    x = tinyt.tensor(VALUES.tolist(), device=PLACE)
    array = np.from_dlpack(x, device="cpu")
    np.testing.assert_array_equal(array, VALUES)


# ---- the CUDA array interface


def test_a_tensor_has_the_interface(driver: Driver) -> None:
    x = tinyt.tensor(VALUES.tolist(), device=PLACE)
    assert x.__cuda_array_interface__ == {
        "typestr": "<f4",
        "shape": (3, 4),
        "strides": None,
        "data": (x.data_ptr(), False),
        "version": 3,
        "stream": tinyt._core.cuda_stream(0),
    }
    found = x.t()[1:].__cuda_array_interface__
    assert (found["strides"], found["data"]) == ((4, 16), (x.data_ptr() + 4, False))
    assert x[:0].__cuda_array_interface__["data"] == (0, False)
    names = {"bool": "|b1", "uint8": "|u1", "int8": "|i1", "int64": "<i8", "float16": "<f2"}
    for name, text in (names | {"bfloat16": "<V2", "complex64": "<c8"}).items():
        y = x.to(getattr(tinyt, name))
        assert y.__cuda_array_interface__["typestr"] == text
        assert tinyt.as_tensor(Described(y)).dtype == y.dtype


class Described:
    """The interface of a tensor, and nothing else of it."""

    def __init__(self, x: tinyt.Tensor) -> None:
        self.__cuda_array_interface__ = x.__cuda_array_interface__


def test_tensors_without_the_interface() -> None:
    assert not hasattr(tinyt.ones(2), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        tinyt.ones(2, device=PLACE, requires_grad=True).__cuda_array_interface__  # noqa: B018


def test_arrays_with_the_interface(driver: Driver) -> None:
    slow()
    for make in (tinyt.as_tensor, tinyt.asarray, tinyt.tensor):
        array = Interface(driver, VALUES)
        x = make(array)  # waits for the stream
        assert x.device == PLACE
        assert (x.data_ptr() == array.address) == (make is not tinyt.tensor)
        np.testing.assert_array_equal((x * 2).cpu().numpy(), VALUES * 2)
    seen = weakref.ref(array)
    del array
    x = tinyt.as_tensor(seen(), device="cpu", dtype=tinyt.float64) if seen() else x.cpu()
    assert x.is_cpu
    assert seen() is None


def test_the_object_is_kept(driver: Driver) -> None:
    array = Interface(driver, VALUES, strides=(16, 4), stream=None, data=None, version=2)
    array.__cuda_array_interface__["data"] = (array.address, True)
    driver.let_wait(tinyt._core.cuda_stream(0))
    seen, x = weakref.ref(array), tinyt.as_tensor(array)
    del array
    y = x[1]
    del x
    gc.collect()
    assert seen() is not None
    np.testing.assert_array_equal(y.cpu().numpy(), VALUES[1])
    with pytest.raises(RuntimeError, match="read-only"):
        y.zero_()
    del y
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"stream": 0}, ValueError, "0 is no stream"),
        ({"typestr": ">f4"}, TypeError, "'>f4' are not supported"),
        ({"typestr": "<u4"}, TypeError, "'<u4' are not supported"),
        ({"mask": 1}, TypeError, "masked"),
        ({"strides": (16, 2)}, ValueError, "multiples of the element size"),
        ({"strides": (-16, 4)}, ValueError, "negative strides"),
        ({"strides": (4,)}, ValueError, "2 sizes and 1 strides"),
        ({"data": (64, False)}, tinyt.DeviceError, "none of this process's CUDA devices"),
        ({"data": (2, False)}, ValueError, "aligned to 4 bytes"),
    ],
)
def test_wrong_interfaces(
    driver: Driver, changes: dict[str, Any], error: type[Exception], text: str
) -> None:
    array = Interface(driver, VALUES, **changes)
    seen = weakref.ref(array)
    with pytest.raises(error, match=text):
        tinyt.as_tensor(array)
    del array
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    "described",
    [
        None,
        5,
        {},
        {"shape": (2,), "typestr": "<f4", "version": 3},
        {"shape": (2.5,), "typestr": "<f4", "version": 3, "data": (512, False)},
        {"shape": (2,), "typestr": "<f4", "version": 3, "data": None},
        {"shape": (2,), "typestr": "<f4", "version": 3, "data": (512,)},
        {"shape": (2,), "typestr": "<f4", "version": 3, "data": ("a", False)},
    ],
)
def test_what_is_no_interface(described: Any) -> None:
    array = type("Array", (), {"__cuda_array_interface__": described})()
    with pytest.raises(
        TypeError, match=r"Array.__cuda_array_interface__ is none of version 2 or 3: \w+Error"
    ):
        tinyt.as_tensor(array)


def test_no_copy_where_it_is_forbidden() -> None:
    x = tinyt.ones(3, device=PLACE)
    assert tinyt.from_dlpack(x, device=PLACE, copy=False).data_ptr() == x.data_ptr()
    assert tinyt.asarray(x, device=PLACE, copy=False).data_ptr() == x.data_ptr()
    for make in (tinyt.from_dlpack, tinyt.asarray):
        with pytest.raises(ValueError, match=f"{PLACE} to cpu needs a copy"):
            make(x, device="cpu", copy=False)


# ---- faults


@pytest.mark.parametrize("function", ["cuEventRecord", "cuStreamWaitEvent"])
def test_a_driver_that_fails_while_streams_are_joined(driver: Driver, function: str) -> None:
    x = tinyt.ones(3, device=PLACE)
    producer = Producer(driver, VALUES)
    stream = driver.stream
    STANDIN.faulty_fail(function.encode(), 1, -1, 999)
    with pytest.raises(tinyt.DeviceError, match=f"{function} failed with 999, CUDA_ERROR_UNKNOWN"):
        x.__dlpack__(stream=stream)
    array = Interface.__new__(Interface)
    array.__cuda_array_interface__ = {
        **x.__cuda_array_interface__,
        "stream": stream,
    }
    with pytest.raises(tinyt.DeviceError, match=f"{function} failed with 999"):
        tinyt.as_tensor(array)
    STANDIN.faulty_reset()
    assert tinyt.from_dlpack(producer).sum().item() == VALUES.sum()
