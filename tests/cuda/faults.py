"""Faults of CUDA's driver and compiler: run by `tests/unit/test_cuda.py` in a process of its own,
with the stand-in for both."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

import tinyt
from device_faults import *  # noqa: F403
from device_faults import (
    ADD,
    ADD_IN_PLACE,
    CLONE,
    CONTIGUOUS,
    LOST,
    SHORT,
    TO_CPU,
    TO_DEVICE,
    WAIT,
    BuildFailure,
    Call,
    DriverCalls,
    Failure,
    StatusDevice,
    X,
    check_lost,
    failure_id,
    raised_by,
)
from sampling import assert_same_bits

STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
OUT_OF_MEMORY, ILLEGAL_ADDRESS, LAUNCH_FAILED, UNCORRECTABLE = 2, 700, 719, 214
DRIVER = StatusDevice(
    "cuda",
    DriverCalls(
        allocate="cuMemAlloc",
        release="cuMemFree",
        launch="cuLaunchKernel",
        write="cuMemcpyHtoDAsync",
        read="cuMemcpyDtoHAsync",
        fill="cuMemsetD8Async",
        wait="cuStreamSynchronize",
        waiting_write="cuStreamSynchronize",
        staging=("cuEventCreate", "cuMemHostAlloc"),
        short=(OUT_OF_MEMORY,),
        lost=(LAUNCH_FAILED, ILLEGAL_ADDRESS, UNCORRECTABLE),
        tries=1,
    ),
)
DEVICE = DRIVER.device


@pytest.fixture
def faulty() -> StatusDevice:
    return DRIVER


@pytest.fixture(autouse=True)
def no_lost_context() -> Iterator[None]:
    yield
    STANDIN.standin_reset()


TO_PEER: tuple[str, Call] = ("to", lambda x: x.to("cuda:1"))
FAILURES: list[Failure] = [
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
]


@pytest.fixture(params=FAILURES, ids=failure_id)
def failure(request: pytest.FixtureRequest) -> Failure:
    return request.param


@pytest.fixture
def build_failures() -> list[BuildFailure]:
    refused = "NVRTC does not compile a kernel for the tests' stand-in"
    return [
        ("nvrtcCreateProgram", 1, RuntimeError, "nvrtcCreateProgram failed with 1"),
        ("nvrtcCompileProgram", 6, RuntimeError, refused),
        ("nvrtcCompileProgram", 1, RuntimeError, "nvrtcCompileProgram failed with 1"),
        ("nvrtcGetCUBIN", 11, RuntimeError, "nvrtcGetCUBIN failed with 11"),
        ("cuModuleLoadData", OUT_OF_MEMORY, SHORT, "cuModuleLoadData failed with 2"),
        ("cuModuleLoadData", 200, RuntimeError, "cuModuleLoadData failed with 200"),
        ("cuModuleGetFunction", LAUNCH_FAILED, LOST, "cuModuleGetFunction failed with 719"),
    ]


def test_what_is_made_for_one_call_goes() -> None:
    """Programs of the compiler, built or not, and the event of a piece that has no memory."""
    X.to(DEVICE).atan().cpu()
    programs = DRIVER.calls("nvrtcCreateProgram")
    assert programs == DRIVER.calls("nvrtcDestroyProgram") > 0
    assert DRIVER.calls("nvrtcGetSupportedArchs") == 1
    tinyt.empty(1, device="cuda:1")  # it is open, and nothing was copied to it
    events = DRIVER.calls("cuEventDestroy")
    with DRIVER.failing("cuMemHostAlloc", OUT_OF_MEMORY):
        X.to("cuda:1")
    assert DRIVER.calls("cuEventDestroy") == events + 1


def test_a_kernel_that_fails_when_it_runs() -> None:
    """The next call that looks raises it, and all that follow; another device works on."""
    x, other = X.to(DEVICE), X.to("cuda:1")
    (x + x, (other + other).cpu())
    tinyt.accelerator.synchronize(DEVICE)
    before = DRIVER.in_use()
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    error = raised_by(lambda: (x + x).cpu())
    assert isinstance(error, LOST), repr(error)
    assert "an illegal memory access" in str(error) or "700" in str(error)
    check_lost(DRIVER, x)
    assert DRIVER.in_use() == before
    why = {d.name: d.missing for d in tinyt.devices() if d.name.startswith("cuda:")}
    assert "the device is lost to this process" in why.pop("cuda:0")
    assert not any(why.values())
    assert_same_bits((other + other).cpu(), X + X)


def test_what_another_device_has_of_one_that_failed() -> None:
    """It may be stale: whoever waits for that device is told, until the other one works again."""
    x, other = X.to(DEVICE), X.to("cuda:1")
    copied = (x + x).to("cuda:1")
    assert_same_bits((copied + other).cpu(), 3 * X)
    STANDIN.standin_delay(200_000)  # microseconds: what follows is asked for before it fails
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    stale = (x + x).to("cuda:1")
    STANDIN.standin_delay(0)
    calls = (
        lambda: stale.cpu(),
        lambda: (stale * 2).sum().item(),
        lambda: stale.to("cuda:2").cpu(),
    )
    for call in (*calls, lambda: tinyt.accelerator.synchronize("cuda:1")):
        error = raised_by(call)
        assert isinstance(error, LOST), repr(error)
        assert "cuEventQuery of cuda:0, of which cuda:" in str(error), str(error)
    STANDIN.standin_reset()
    stale.copy_(X)
    assert_same_bits(stale.cpu(), X)


def test_a_device_that_fails_after_what_was_copied_is_read() -> None:
    x = X.to(DEVICE)
    copied = x.to("cuda:1")
    assert_same_bits(copied.cpu(), X)
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    assert isinstance(raised_by(lambda: (x + x).cpu()), LOST)
    assert_same_bits((copied * 2).cpu(), X * 2)
