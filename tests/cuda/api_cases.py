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
    tinyt.empty(1000, device="cuda:1")  # which is kept, and goes back for a second attempt
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


# ------------------------------------------------------------------ what is named


def test_names_and_classes_of_types_move_tensors() -> None:
    x = tinyt.ones(2)
    for kind in ("torch.cuda.HalfTensor", "tinyt.cuda.HalfTensor", cuda.HalfTensor):
        y = x.type(kind)
        assert (y.device.type, y.dtype) == ("cuda", tinyt.float16)
        assert isinstance(y, cuda.HalfTensor)
        assert y.type(kind) is y
    assert y.type(tinyt.FloatTensor).is_cuda


def test_a_step_that_may_be_left_out_has_no_kernel_there() -> None:
    weight = tinyt.ones(4, 4, device="cuda", requires_grad=True)
    optimizer, scaler = tinyt.optim.SGD([weight], lr=0.1), tinyt.amp.GradScaler("cuda")

    @tinyt.compile
    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        optimizer.zero_grad()
        loss = (x @ weight).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    def steps() -> None:
        for _ in range(3):
            step(tinyt.ones(2, 4, device="cuda"))

    with pytest.raises(tinyt.CaptureError, match="cuda:0 has no kernel for a step that may be"):
        steps()
