"""Faults of CUDA's driver and compiler: run by `tests/unit/test_cuda.py` in a process of its own,
with the stand-in for both."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tinyt
from device_faults import (
    EVER,
    FaultyDevice,
    X,
    check_fault_word,
    check_lost,
    check_training_short_once,
    check_training_that_fails,
    raised_by,
)
from sampling import assert_same_bits
from tinyt import Tensor
from tinyt.memory import empty_cache, statistics

DRIVER = FaultyDevice("cuda")
DEVICE, failing, in_use = DRIVER.device, DRIVER.failing, DRIVER.in_use
STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
OUT_OF_MEMORY, ILLEGAL_ADDRESS, LAUNCH_FAILED = 2, 700, 719
LOST, SHORT = tinyt.DeviceError, tinyt.OutOfMemoryError


@pytest.fixture(autouse=True)
def no_lost_context() -> Iterator[None]:
    yield
    DRIVER.reset()
    STANDIN.standin_reset()


def test_copies_without_pinned_memory() -> None:
    """The first ones of the process, which has none kept."""
    tinyt.empty(1, device=DEVICE)  # it is open
    for function in ("cuEventCreate", "cuMemHostAlloc"):
        with failing(function, OUT_OF_MEMORY):
            x = X.to(DEVICE)
        assert DRIVER.calls("cuEventRecord") == 0
        assert_same_bits(x.cpu(), X)
    assert DRIVER.calls("cuEventDestroy") == 1


def test_a_fault_word_is_there_whole_or_not_at_all() -> None:
    write, read = ("cuMemsetD8Async", LAUNCH_FAILED), ("cuMemcpyDtoHAsync", LAUNCH_FAILED)
    check_fault_word(DRIVER, write, read, LOST)


Call = Callable[[Tensor], Any]
# What the error names, and what is called.
ADD: tuple[str, Call] = ("add", lambda x: x + x)
ADD_IN_PLACE: tuple[str, Call] = ("add", lambda x: x.add_(1))
TO_DEVICE: tuple[str, Call] = ("to", lambda x: X.to(DEVICE))
TO_PEER: tuple[str, Call] = ("to", lambda x: x.to("cuda:1"))
TO_CPU: tuple[str, Call] = ("cpu", lambda x: x.cpu())
CLONE: tuple[str, Call] = ("clone", lambda x: x.clone())
CONTIGUOUS: tuple[str, Call] = ("contiguous", lambda x: x.t().contiguous())
WAIT: tuple[str, Call] = ("synchronize", lambda x: tinyt.accelerator.synchronize(DEVICE))


@pytest.mark.parametrize(
    ("function", "status", "kind", "called"),
    [
        ("cuMemAlloc", OUT_OF_MEMORY, SHORT, ADD),
        ("cuMemAlloc", OUT_OF_MEMORY, SHORT, TO_DEVICE),
        ("cuMemAlloc", ILLEGAL_ADDRESS, LOST, ADD),
        ("cuCtxGetCurrent", LAUNCH_FAILED, LOST, ADD),
        ("cuMemcpyHtoDAsync", ILLEGAL_ADDRESS, LOST, TO_DEVICE),
        ("cuMemcpyHtoDAsync", OUT_OF_MEMORY, SHORT, TO_DEVICE),
        ("cuEventRecord", LAUNCH_FAILED, LOST, TO_DEVICE),
        ("cuMemcpyDtoHAsync", LAUNCH_FAILED, LOST, TO_CPU),
        ("cuStreamSynchronize", LAUNCH_FAILED, LOST, TO_CPU),
        ("cuMemcpyPeerAsync", LAUNCH_FAILED, LOST, TO_PEER),
        ("cuStreamWaitEvent", LAUNCH_FAILED, LOST, TO_PEER),
        ("cuLaunchKernel", LAUNCH_FAILED, LOST, ADD),
        ("cuLaunchKernel", 701, RuntimeError, CONTIGUOUS),
        ("cuLaunchKernel", OUT_OF_MEMORY, SHORT, ADD_IN_PLACE),
        ("cuMemcpyDtoDAsync", LAUNCH_FAILED, LOST, CLONE),
        ("cuStreamSynchronize", ILLEGAL_ADDRESS, LOST, WAIT),
    ],
    ids=lambda x: x[0] if isinstance(x, tuple) else getattr(x, "__name__", str(x)),
)
def test_a_call_that_fails(
    function: str, status: int, kind: type[Exception], called: tuple[str, Call]
) -> None:
    op, call = called
    x = X.to(DEVICE)
    (x + x, x.t().contiguous(), x.add_(1).cpu(), x.to("cuda:1"))  # their kernels are there
    x.copy_(X)
    tinyt.accelerator.synchronize(DEVICE)
    before = in_use()
    empty_cache(DEVICE)
    with failing(function, status):
        error = raised_by(lambda: call(x))
    assert isinstance(error, kind), repr(error)
    from_memory = function == "cuMemAlloc" and kind is SHORT
    text = "memory: cuda:0 has no more, " if from_memory else f"cuda: {function} failed with "
    assert str(error).startswith(f"{op}: {text}"), str(error)
    assert in_use() == before
    assert_same_bits((x + x).cpu(), X + X)  # as before
    assert raised_by(lambda: call(x)) is None


@pytest.mark.parametrize("function", ["cuMemAlloc", "cuLaunchKernel", "cuMemcpyHtoDAsync"])
def test_once_more_when_memory_went_back(function: str) -> None:
    """What is kept for the next tensor goes back before a call fails for want of memory."""
    empty_cache(DEVICE)
    x, ones = X.to(DEVICE), tinyt.ones(5000).to(DEVICE)
    y = x + x
    kept = [tinyt.empty(1000, device=DEVICE) for _ in range(3)]
    del kept, y
    assert statistics(DEVICE)["cached_bytes"] >= 12000
    released = DRIVER.calls("cuMemFree")
    with failing(function, OUT_OF_MEMORY, times=1):
        if function == "cuMemcpyHtoDAsync":
            x = X.to(DEVICE)
        y = ones + ones
    assert DRIVER.calls("cuMemFree") >= released + 3
    assert_same_bits(y.cpu(), tinyt.ones(5000) * 2)
    assert_same_bits((x + x).cpu(), X + X)


def test_copies_to_the_device_wait_for_nothing() -> None:
    """Up to half of what is kept for them; larger ones do."""
    small, large = tinyt.randn(4 << 20), tinyt.randn((4 << 20) + 1)
    small.to(DEVICE)
    waits, writes = "cuStreamSynchronize", "cuMemcpyHtoDAsync"
    before, pieces = DRIVER.calls(waits), DRIVER.calls(writes)
    x = small.to(DEVICE)
    assert (DRIVER.calls(waits), DRIVER.calls(writes)) == (before, pieces + 16)
    y = large.to(DEVICE)
    assert (DRIVER.calls(waits), DRIVER.calls(writes)) == (before + 1, pieces + 17)
    assert_same_bits(x.cpu(), small)
    assert_same_bits(y.cpu(), large)


BUILDS: list[tuple[str, int, type[Exception], str]] = [
    ("nvrtcCreateProgram", 1, RuntimeError, "nvrtcCreateProgram failed with 1"),
    (
        "nvrtcCompileProgram",
        6,
        RuntimeError,
        "NVRTC does not compile a kernel for the tests' stand-in",
    ),
    ("nvrtcCompileProgram", 1, RuntimeError, "nvrtcCompileProgram failed with 1"),
    ("nvrtcGetCUBIN", 11, RuntimeError, "nvrtcGetCUBIN failed with 11"),
    ("cuModuleLoadData", OUT_OF_MEMORY, SHORT, "cuModuleLoadData failed with 2"),
    ("cuModuleLoadData", 200, RuntimeError, "cuModuleLoadData failed with 200"),
    ("cuModuleGetFunction", LAUNCH_FAILED, LOST, "cuModuleGetFunction failed with 719"),
]


def test_a_kernel_that_is_not_built() -> None:
    """It is built when it is asked for next."""
    x = X.to(DEVICE)
    (x + x).cpu()
    before, kernels = in_use(), tinyt._core.gpu_kernels("cuda:0")
    for function, status, kind, text in BUILDS:
        with failing(function, status):
            error = raised_by(lambda: x.atan())
        assert isinstance(error, kind), repr(error)
        assert str(error).startswith("atan: cuda: "), str(error)
        assert text in str(error)
        assert in_use() == before
        assert tinyt._core.gpu_kernels("cuda:0") == kernels
        assert_same_bits((x + x).cpu(), X + X)
    assert DRIVER.calls("nvrtcCreateProgram") == DRIVER.calls("nvrtcDestroyProgram")
    x.atan().cpu()
    assert tinyt._core.gpu_kernels("cuda:0") == kernels + 1


def test_a_device_that_is_lost() -> None:
    x = X.to(DEVICE)
    x.cpu()
    for status in (ILLEGAL_ADDRESS, 214):
        for name in ("cuMemAlloc", "cuLaunchKernel", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"):
            DRIVER.fail(name, status, 1, EVER)
        DRIVER.fail("cuStreamSynchronize", status, 1, EVER)
        check_lost(DRIVER, x)
        DRIVER.reset()
    x.copy_(X)
    assert_same_bits((x + x).cpu(), X + X)


def test_a_kernel_that_fails_when_it_runs() -> None:
    """The next call that looks raises it, and all that follow; another device works on."""
    x, other = X.to(DEVICE), X.to("cuda:1")
    (x + x, (other + other).cpu())
    tinyt.accelerator.synchronize(DEVICE)
    before = in_use()
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    error = raised_by(lambda: (x + x).cpu())
    assert isinstance(error, LOST), repr(error)
    assert "an illegal memory access" in str(error) or "700" in str(error)
    check_lost(DRIVER, x)
    assert in_use() == before
    assert_same_bits((other + other).cpu(), X + X)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("function", "status", "kind"),
    [("cuMemAlloc", OUT_OF_MEMORY, SHORT), ("cuLaunchKernel", LAUNCH_FAILED, LOST)],
    ids=["no memory", "lost"],
)
def test_every_call_of_a_training_step_fails(
    function: str, status: int, kind: type[Exception], compiled: bool
) -> None:
    """A compiled one has changed nothing where memory was short."""
    texts = (": cuda: ", ": memory: cuda:0 has no more")
    unchanged = compiled and kind is SHORT
    check_training_that_fails(DRIVER, compiled, (function, status), kind, texts, unchanged)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_is_short_once_in_a_training_step(compiled: bool) -> None:
    check_training_short_once(DRIVER, compiled, ("cuMemAlloc", OUT_OF_MEMORY), times=1)
