"""`tinyt.cuda` on two devices: run by `tests/unit/test_cuda.py` in a process of its own, with the
stand-in for CUDA's libraries."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator

import pytest

import tinyt
from tinyt import cuda

STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
GIB = 1 << 30


@pytest.fixture(autouse=True)
def first_device() -> Iterator[None]:
    cuda.set_device(0)
    yield
    STANDIN.faulty_reset()
    cuda.set_device(0)


def failing(call: str, status: int) -> None:
    STANDIN.faulty_fail(call.encode(), ctypes.c_long(1), ctypes.c_long(1), status)


# ------------------------------------------------------------------ devices


def test_what_the_driver_says() -> None:
    assert cuda.is_available()
    assert cuda.is_initialized()
    assert cuda.device_count() == 2
    assert cuda.get_device_name() == cuda.get_device_name("cuda:0") != cuda.get_device_name(1)
    assert cuda.get_device_capability(1) == (9, 0)
    facts = cuda.get_device_properties(1)
    assert facts.name == cuda.get_device_name(1)
    assert (facts.major, facts.minor, facts.multi_processor_count) == (9, 0, 4)
    assert facts.total_memory == 8 * GIB
    assert (facts.warp_size, facts.max_threads_per_multi_processor) == (32, 2048)
    assert (facts.shared_memory_per_block, facts.shared_memory_per_block_optin) == (49152, 232448)
    assert (facts.L2_cache_size, facts.regs_per_multiprocessor) == (50 << 20, 65536)
    assert (facts.memory_clock_rate, facts.memory_bus_width) == (1593000, 5120)
    assert (facts.is_integrated, facts.is_multi_gpu_board, facts.pci_bus_id) == (0, 0, 2)
    assert str(facts.uuid) == "01112131-4151-6171-8191-a1b1c1d1e1f1"
    assert "major=9" in repr(facts)
    with pytest.raises(AttributeError, match="does not say 'clock_rate'"):
        _ = facts.clock_rate
    assert cuda.can_device_access_peer(0, 1)
    assert not cuda.can_device_access_peer("cuda:1", 1)
    assert cuda.is_bf16_supported()
    assert cuda.is_tf32_supported()
    assert "sm_90" in cuda.get_arch_list()
    assert "-gencode compute=compute_90,code=sm_90" in cuda.get_gencode_flags()
    assert (cuda.get_allocator_backend(), cuda.get_sync_debug_mode()) == ("native", 0)


def test_wrong_devices() -> None:
    for name in ("get_device_name", "get_device_properties", "memory_allocated", "synchronize"):
        with pytest.raises(RuntimeError, match=f"{name}: there is no cuda:7, of 2"):
            getattr(cuda, name)(7)
        with pytest.raises(ValueError, match="expected a cuda device, but got: cpu"):
            getattr(cuda, name)("cpu")
    with pytest.raises(RuntimeError, match="there is no cuda:2"):
        cuda.set_device(2)
    assert cuda.current_device() == 0


def test_a_driver_that_fails_while_it_is_asked() -> None:
    for call, ask in (
        ("cuDeviceGetUuid", cuda.get_device_properties),
        ("cuDeviceGetAttribute", cuda.get_device_capability),
        ("cuDeviceCanAccessPeer", lambda: cuda.can_device_access_peer(0, 1)),
        ("cuMemGetInfo", cuda.mem_get_info),
    ):
        failing(call, 999)
        with pytest.raises(tinyt.DeviceError, match=f"{call} failed with 999"):
            ask()
        ask()


# ------------------------------------------------------------------ the current device


def test_the_bare_name_is_the_current_device() -> None:
    x, layer = tinyt.ones(2), tinyt.nn.Linear(2, 2)
    name = tinyt.device("cuda")
    for index in (1, 0, 1):
        cuda.set_device(index)
        place = tinyt.device("cuda", index)
        assert cuda.current_device() == tinyt.accelerator.current_device_index() == index
        assert tinyt.ones(2, device="cuda").device == place
        assert tinyt.tensor([1.0], device=name).device == place
        assert tinyt.empty_like(x, device=name).device == place
        assert x.cuda().device == x.to("cuda").device == x.to(name).device == place
        assert layer.cuda().weight.device == place
        assert layer.to("cuda").weight.device == place
        with tinyt.device("cuda"):
            assert tinyt.zeros(1).device == place
        assert x.to("cuda:0").device == tinyt.device("cuda:0")
        assert cuda.Stream().device == cuda.current_stream().device == place
    tinyt.accelerator.set_device_index(0)
    assert cuda.current_device() == 0
    assert str(name) == "cuda"


def test_blocks_of_devices() -> None:
    with cuda.device(1) as inside:
        assert inside is None
        assert cuda.current_device() == 1
        with cuda.device("cuda:0"), cuda.device(None), cuda.device(-1):
            assert cuda.current_device() == 0
        with cuda.device_of(tinyt.ones(1)):
            assert cuda.current_device() == 1
        with cuda.device_of(tinyt.ones(1, device="cuda:0")):
            assert cuda.current_device() == 0
        with tinyt.accelerator.device_index(0):
            assert tinyt.ones(1).cuda().device.index == 0
        assert cuda.current_device() == 1
    assert cuda.current_device() == 0
    with pytest.raises(ValueError, match="expected a cuda device"):
        cuda.device("cpu")


def test_each_thread_has_its_own() -> None:
    cuda.set_device(1)
    seen: list[int] = []

    def body() -> None:
        seen.append(cuda.current_device())
        seen.append(tinyt.ones(1, device="cuda").get_device())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [0, 0]
    assert tinyt.ones(1, device="cuda").get_device() == 1


def test_a_compiled_function_asks_for_the_current_device() -> None:
    step = tinyt.compile(lambda x: x + tinyt.ones(3, device="cuda"))
    for index in (0, 1, 0):
        cuda.set_device(index)
        y = step(tinyt.ones(3, device="cuda"))
        assert y.device == tinyt.device("cuda", index)
        assert y.tolist() == [2.0] * 3


def test_tensor_types() -> None:
    x = cuda.FloatTensor([1.0, 2.0])
    assert x.device == tinyt.device("cuda:0")
    assert isinstance(x, cuda.FloatTensor)
    assert not isinstance(x, cuda.LongTensor)
    assert not isinstance(x.cpu(), cuda.FloatTensor)


# ------------------------------------------------------------------ memory


def test_memory_is_counted() -> None:
    cuda.empty_cache()
    cuda.reset_peak_memory_stats(1)
    before, reserved = cuda.memory_allocated(1), cuda.memory_reserved(1)
    x = tinyt.empty(1 << 20, device="cuda:1")
    assert cuda.memory_allocated(1) == before + (4 << 20)
    assert cuda.memory_reserved(1) == cuda.max_memory_reserved(1) == reserved + (4 << 20)
    y = tinyt.empty(1 << 20, device="cuda:1")
    del x, y
    assert cuda.memory_allocated("cuda:1") == before
    assert cuda.max_memory_allocated(1) == before + (8 << 20)
    assert cuda.memory_reserved(1) == reserved + (8 << 20)
    stats = cuda.memory_stats(1)
    assert stats["allocated_bytes.all.current"] == before
    assert stats["allocated_bytes.all.peak"] == before + (8 << 20)
    assert stats["reserved_bytes.all.peak"] == reserved + (8 << 20)
    assert (
        stats["allocation.all.allocated"] - stats["allocation.all.freed"]
        == (stats["allocation.all.current"])
    )
    nested = cuda.memory_stats_as_nested_dict(1)
    assert nested["allocated_bytes"]["all"]["peak"] == before + (8 << 20)
    free, total = cuda.mem_get_info(1)
    cuda.empty_cache()
    assert cuda.memory_reserved(1) == reserved
    assert cuda.max_memory_reserved(1) == reserved + (8 << 20)
    assert cuda.memory_stats(1)["num_device_free"] >= stats["num_device_free"] + 2
    assert total == 8 * GIB
    assert cuda.mem_get_info(1) == tinyt.accelerator.get_memory_info(1) == (free + (8 << 20), total)
    assert cuda.device_memory_used(1) == total - free - (8 << 20)
    cuda.reset_peak_memory_stats(1)
    assert cuda.max_memory_reserved(1) == reserved
    assert "live tensors" in cuda.memory_summary(1)
    assert len(cuda.memory_summary(1, abbreviated=True)) < len(cuda.memory_summary(1))


def test_memory_that_is_not_there_says_who_holds_it() -> None:
    before = cuda.memory_stats(1)
    kept = tinyt.empty(GIB // 16, device="cuda:1")
    with pytest.raises(
        cuda.OutOfMemoryError,
        match=r"cuda:1 has no more, asked for 8589934592 bytes, in use 2\d+, kept for reuse or by "
        r"rounding \d+; of its 8589934592 bytes \d+ are free, and other libraries .* hold \d+$",
    ):
        tinyt.empty(2 * GIB, device="cuda:1")
    after = cuda.memory_stats(1)
    assert after["num_ooms"] == before["num_ooms"] + 1
    assert after["num_alloc_retries"] == before["num_alloc_retries"] + 1
    assert kept.numel() == GIB // 16


def test_a_part_of_memory() -> None:
    cuda.set_per_process_memory_fraction(0.25, 1)
    try:
        assert cuda.get_per_process_memory_fraction(1) == 0.25
        assert cuda.get_per_process_memory_fraction(0) == 1.0
        with pytest.raises(tinyt.OutOfMemoryError, match="the limit of cuda:1 is reached"):
            tinyt.empty(GIB, device="cuda:1")
    finally:
        cuda.set_per_process_memory_fraction(1.0, 1)
    assert cuda.get_per_process_memory_fraction(1) == 1.0
    with pytest.raises(ValueError, match="from 0 to 1"):
        cuda.set_per_process_memory_fraction(1.5)
    with pytest.raises(TypeError, match="must be a float, got int"):
        cuda.set_per_process_memory_fraction(1)


# ------------------------------------------------------------------ streams and events


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


# ------------------------------------------------------------------ random numbers


def test_seeds() -> None:
    cuda.manual_seed(7)
    assert cuda.initial_seed() == 7
    first = tinyt.rand(4, device="cuda").tolist()
    state = cuda.get_rng_state()
    second = tinyt.rand(4, device="cuda:1").tolist()
    cuda.manual_seed_all(7)
    assert tinyt.rand(4, device="cuda:1").tolist() == first
    cuda.set_rng_state(state, 1)
    assert tinyt.rand(4, device="cuda").tolist() == second
    states = cuda.get_rng_state_all()
    assert len(states) == len(cuda.default_generators) == 2
    third = tinyt.rand(4).tolist()
    cuda.set_rng_state_all(states)
    assert tinyt.rand(4, device="cuda").tolist() == third
    tinyt.manual_seed(7)
    assert tinyt.rand(4, device="cuda").tolist() == first
    generator = tinyt.Generator(device="cuda").manual_seed(7)
    assert tinyt.rand(4, device="cuda", generator=generator).tolist() == first
    cuda.seed()
    assert cuda.initial_seed() != 7


# ------------------------------------------------------------------ mixed precision


def test_autocast_is_float16_by_default() -> None:
    x = tinyt.ones(4, 4, device="cuda")
    for block in (tinyt.autocast("cuda"), cuda.amp.autocast(), tinyt.amp.autocast("cuda:0")):
        with block:
            assert (x @ x).dtype is tinyt.float16
            assert tinyt.is_autocast_enabled()
            assert tinyt.get_autocast_dtype("cuda") is tinyt.float16
    with tinyt.autocast("cpu"):
        assert (x @ x).dtype is tinyt.bfloat16
    assert not tinyt.is_autocast_enabled()
    assert tinyt.get_autocast_dtype("cuda") is tinyt.float16
    assert tinyt.get_autocast_dtype("cpu") is tinyt.bfloat16
    tinyt.set_autocast_dtype("cuda", tinyt.bfloat16)
    try:
        with tinyt.autocast("cuda"):
            assert (x @ x).dtype is tinyt.bfloat16
    finally:
        tinyt.set_autocast_dtype("cuda", tinyt.float16)


def test_a_step_with_a_scaler() -> None:
    layer = tinyt.nn.Linear(3, 1).cuda()
    optimizer = tinyt.optim.SGD(layer.parameters(), lr=0.1)
    scaler = cuda.amp.GradScaler(init_scale=8.0)
    before = layer.weight.tolist()
    with cuda.amp.autocast():
        loss = layer(tinyt.ones(2, 3, device="cuda")).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    after = [w - 0.1 * 2.0 for w in before[0]]
    assert layer.weight[0].tolist() == pytest.approx(after, abs=1e-6)
    assert scaler.get_scale() == 8.0


# ------------------------------------------------------------------ what is not there


def test_what_is_refused_says_the_way_out() -> None:
    for name, way in (
        ("utilization", "nvidia-smi"),
        ("memory_usage", "nvidia-smi"),
        ("list_gpu_processes", "nvidia-smi"),
        ("cudart", "driver"),
        ("memory_snapshot", "memory_summary"),
        ("reset_accumulated_memory_stats", "subtract"),
    ):
        with pytest.raises(NotImplementedError, match=rf"cuda\.{name}: is not there; .*{way}"):
            getattr(cuda, name)()
