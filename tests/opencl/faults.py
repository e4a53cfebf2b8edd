"""Faults of an OpenCL driver: run by `tests/unit/test_opencl.py` in a process of its own, with the
library of `faulty.c`."""

from __future__ import annotations

from collections.abc import Callable
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

DRIVER = FaultyDevice("opencl")
DEVICE, failing, in_use = DRIVER.device, DRIVER.failing, DRIVER.in_use
OUT_OF_MEMORY, OUT_OF_RESOURCES, NOT_AVAILABLE, INVALID_QUEUE = -4, -5, -2, -36


def test_copies_without_memory_that_is_mapped() -> None:
    """The first ones of the process, which has none kept."""
    with failing("clEnqueueMapBuffer", OUT_OF_MEMORY):
        x = X.to(DEVICE)
    assert DRIVER.calls("a write that waits") == 1
    assert_same_bits(x.cpu(), X)


def test_a_fault_word_is_there_whole_or_not_at_all() -> None:
    write, read = ("clEnqueueFillBuffer", NOT_AVAILABLE), ("clEnqueueReadBuffer", NOT_AVAILABLE)
    check_fault_word(DRIVER, write, read, tinyt.DeviceError)


Call = Callable[[Tensor], Any]
# What the error names, and what is called.
ADD: tuple[str, Call] = ("add", lambda x: x + x)
ADD_IN_PLACE: tuple[str, Call] = ("add", lambda x: x.add_(1))
TO_DEVICE: tuple[str, Call] = ("to", lambda x: X.to(DEVICE))
TO_CPU: tuple[str, Call] = ("cpu", lambda x: x.cpu())
CLONE: tuple[str, Call] = ("clone", lambda x: x.clone())
CONTIGUOUS: tuple[str, Call] = ("contiguous", lambda x: x.t().contiguous())
WAIT: tuple[str, Call] = ("synchronize", lambda x: tinyt.accelerator.synchronize(DEVICE))
LOST, SHORT = tinyt.DeviceError, tinyt.OutOfMemoryError


@pytest.mark.parametrize(
    ("function", "status", "kind", "called"),
    [
        ("clCreateBuffer", OUT_OF_MEMORY, SHORT, ADD),
        ("clCreateBuffer", OUT_OF_MEMORY, SHORT, TO_DEVICE),
        ("clCreateBuffer", NOT_AVAILABLE, LOST, ADD),
        ("clEnqueueWriteBuffer", OUT_OF_RESOURCES, LOST, TO_DEVICE),
        ("clEnqueueReadBuffer", INVALID_QUEUE, LOST, TO_CPU),
        ("clEnqueueNDRangeKernel", OUT_OF_RESOURCES, LOST, ADD),
        ("clEnqueueNDRangeKernel", NOT_AVAILABLE, LOST, CONTIGUOUS),
        ("clEnqueueCopyBuffer", OUT_OF_RESOURCES, LOST, CLONE),
        ("clEnqueueNDRangeKernel", OUT_OF_MEMORY, SHORT, ADD_IN_PLACE),
        ("clSetKernelArg", -38, RuntimeError, ADD),
        ("clFinish", OUT_OF_RESOURCES, LOST, WAIT),
    ],
    ids=lambda x: x[0] if isinstance(x, tuple) else getattr(x, "__name__", str(x)),
)
def test_a_call_that_fails(
    function: str, status: int, kind: type[Exception], called: tuple[str, Call]
) -> None:
    op, call = called
    x = X.to(DEVICE)
    (x + x, x.t().contiguous(), x.add_(1).cpu())  # their kernels are there
    x.copy_(X)
    before = in_use()
    empty_cache(DEVICE)
    with failing(function, status):
        error = raised_by(lambda: call(x))
    assert isinstance(error, kind), repr(error)
    from_memory = function == "clCreateBuffer" and kind is SHORT
    text = "memory: opencl:0 has no more, " if from_memory else f"opencl: {function} failed with "
    assert str(error).startswith(f"{op}: {text}"), str(error)
    assert in_use() == before
    assert_same_bits((x + x).cpu(), X + X)  # as before
    assert raised_by(lambda: call(x)) is None


@pytest.mark.parametrize(
    ("function", "status"),
    [
        ("clCreateBuffer", OUT_OF_MEMORY),
        ("clCreateBuffer", OUT_OF_RESOURCES),
        ("clEnqueueNDRangeKernel", OUT_OF_MEMORY),
        ("clEnqueueNDRangeKernel", OUT_OF_RESOURCES),
        ("clEnqueueWriteBuffer", OUT_OF_MEMORY),
    ],
)
def test_once_more_when_memory_went_back(function: str, status: int) -> None:
    """What is kept for the next tensor goes back before a call fails for want of memory."""
    empty_cache(DEVICE)
    x, ones = X.to(DEVICE), tinyt.ones(5000).to(DEVICE)
    y = x + x
    kept = [tinyt.empty(1000, device=DEVICE) for _ in range(3)]
    del kept, y
    assert statistics(DEVICE)["cached_bytes"] >= 12000
    released = DRIVER.calls("clReleaseMemObject")
    with failing(function, status, times=2 if function == "clCreateBuffer" else 1):
        if function == "clEnqueueWriteBuffer":
            x = X.to(DEVICE)
        y = ones + ones
    assert DRIVER.calls("clReleaseMemObject") >= released + 3
    assert_same_bits(y.cpu(), tinyt.ones(5000) * 2)
    assert_same_bits((x + x).cpu(), X + X)


def test_copies_that_wait_for_nothing() -> None:
    """Those of up to 16 MB."""
    small, large = tinyt.arange(3 << 20).float(), tinyt.arange(5 << 20).float()
    waits, writes = "a write that waits", "clEnqueueWriteBuffer"
    before, pieces = DRIVER.calls(waits), DRIVER.calls(writes)
    for _ in range(4):  # more than there are pieces
        x = small.to(DEVICE)
    assert (DRIVER.calls(waits), DRIVER.calls(writes)) == (before, pieces + 4 * 12)
    assert_same_bits(x.cpu(), small)
    y = large.to(DEVICE)
    assert (DRIVER.calls(waits), DRIVER.calls(writes)) == (before + 1, pieces + 4 * 12 + 1)
    assert_same_bits(y.cpu(), large)


BUILDS: list[tuple[str, int, type[Exception], str]] = [
    ("clBuildProgram", -11, RuntimeError, "does not compile a kernel (-11):\nfaulty: this build"),
    ("clBuildProgram", -6, tinyt.OutOfMemoryError, "clBuildProgram failed with -6"),
    ("clCreateProgramWithSource", -6, tinyt.OutOfMemoryError, "failed with -6, out of host memory"),
    ("clCreateKernel", NOT_AVAILABLE, tinyt.DeviceError, "clCreateKernel failed with -2"),
]


def test_a_kernel_that_is_not_built() -> None:
    """It is built when it is asked for next."""
    x = X.to(DEVICE)
    before, kernels = in_use(), tinyt._core.gpu_kernels("opencl:0")
    for function, status, kind, text in BUILDS:
        with failing(function, status):
            error = raised_by(lambda: x.atan())
        assert isinstance(error, kind), repr(error)
        assert str(error).startswith("atan: opencl: "), str(error)
        assert text in str(error)
        assert in_use() == before
        assert tinyt._core.gpu_kernels("opencl:0") == kernels
        assert_same_bits((x + x).cpu(), X + X)
    x.atan().cpu()
    assert tinyt._core.gpu_kernels("opencl:0") == kernels + 1


def test_a_device_that_is_lost() -> None:
    x = X.to(DEVICE)
    names = ("clCreateBuffer", "clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clFinish")
    for status in (NOT_AVAILABLE, INVALID_QUEUE):
        try:
            for name in (*names, "clEnqueueWriteBuffer", "clEnqueueFillBuffer"):
                DRIVER.fail(name, status, 1, EVER)
            check_lost(DRIVER, x)
        finally:
            DRIVER.reset()
    x.copy_(X)
    assert_same_bits((x + x).cpu(), X + X)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("function", "status", "kind"),
    [
        ("clCreateBuffer", OUT_OF_MEMORY, tinyt.OutOfMemoryError),
        ("clEnqueueNDRangeKernel", OUT_OF_RESOURCES, tinyt.DeviceError),
    ],
    ids=["no memory", "lost"],
)
def test_every_call_of_a_training_step_fails(
    function: str, status: int, kind: type[Exception], compiled: bool
) -> None:
    """A compiled one has changed nothing where memory was short."""
    texts = (": opencl: ", ": memory: opencl:0 has no more")
    unchanged = compiled and kind is tinyt.OutOfMemoryError
    check_training_that_fails(DRIVER, compiled, (function, status), kind, texts, unchanged)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_is_short_once_in_a_training_step(compiled: bool) -> None:
    check_training_short_once(DRIVER, compiled, ("clCreateBuffer", OUT_OF_MEMORY))
