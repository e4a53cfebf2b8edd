"""Faults of an OpenCL driver: run by `tests/unit/test_opencl.py` in a process of its own, with the
library of `faulty.c`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor, nn
from tinyt.memory import empty_cache, live_tensors, statistics

DEVICE = tinyt.device("opencl:0")
DRIVER = ctypes.CDLL(os.environ["TINYT_OPENCL_LIBRARY"])
OUT_OF_MEMORY, OUT_OF_RESOURCES, NOT_AVAILABLE, INVALID_QUEUE = -4, -5, -2, -36
EVER = -1


@contextmanager
def failing(function: str, status: int, nth: int = 1, times: int = EVER) -> Iterator[None]:
    """Calls of the driver fail from the nth on; at the end none any more."""
    DRIVER.faulty_fail(function.encode(), nth, times, status)
    try:
        yield
    finally:
        DRIVER.faulty_reset()


def in_use() -> tuple[int, int, int]:
    found = statistics(DEVICE)
    return live_tensors(), found["live_blocks"], found["current_bytes"]


def raised_by(call: Callable[[], Any]) -> Exception | None:
    """Without its traceback, whose frames hold tensors."""
    try:
        call()
    except (RuntimeError, IndexError, NotImplementedError) as error:
        return error.with_traceback(None)
    return None


def test_a_fault_word_is_there_whole_or_not_at_all() -> None:
    """The first kernel of the process that checks indices makes the memory for what it finds."""
    x, index = tinyt.arange(4.0).to(DEVICE), tinyt.tensor([1, 2]).to(DEVICE)
    before = in_use()
    with failing("clEnqueueFillBuffer", NOT_AVAILABLE):
        error = raised_by(lambda: x.gather(0, index))
    assert isinstance(error, tinyt.DeviceError), repr(error)
    assert str(error).startswith("gather: opencl: clEnqueueFillBuffer failed")
    assert in_use() == before
    fills = DRIVER.faulty_calls(b"clEnqueueFillBuffer")
    assert x.gather(0, index).tolist() == [1.0, 2.0]
    assert DRIVER.faulty_calls(b"clEnqueueFillBuffer") == fills + 1
    x.gather(0, index + 3)
    with failing("clEnqueueReadBuffer", NOT_AVAILABLE):
        assert isinstance(raised_by(lambda: x.cpu()), tinyt.DeviceError)
    error = raised_by(lambda: x.cpu())  # which is not forgotten
    assert isinstance(error, IndexError), repr(error)
    assert "index 4 is out of range" in str(error)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


X = tinyt.arange(6.0).reshape(2, 3)
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
    released = DRIVER.faulty_calls(b"clReleaseMemObject")
    with failing(function, status, times=2 if function == "clCreateBuffer" else 1):
        if function == "clEnqueueWriteBuffer":
            x = X.to(DEVICE)
        y = ones + ones
    assert DRIVER.faulty_calls(b"clReleaseMemObject") >= released + 3
    assert_same_bits(y.cpu(), tinyt.ones(5000) * 2)
    assert_same_bits((x + x).cpu(), X + X)


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
    """Everything there raises, and nothing elsewhere; tensors of it can go."""
    x = X.to(DEVICE)
    before = in_use()
    calls: list[Callable[[], Any]] = [
        lambda: x + x,
        lambda: x.cpu(),
        lambda: x.tolist(),
        lambda: X.to(DEVICE),
        lambda: x.sum().item(),
        lambda: x.add_(1),
        lambda: tinyt.accelerator.synchronize(DEVICE),
    ]
    names = ("clCreateBuffer", "clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clFinish")
    for status in (NOT_AVAILABLE, INVALID_QUEUE):
        try:
            for name in (*names, "clEnqueueWriteBuffer", "clEnqueueFillBuffer"):
                DRIVER.faulty_fail(name.encode(), 1, EVER, status)
            empty_cache(DEVICE)
            for call in calls:
                error = raised_by(call)
                assert isinstance(error, tinyt.DeviceError), repr(error)
                assert "start another process, or use the CPU" in str(error)
            assert_same_bits(X + X, 2 * X)
            y = x.view(-1)
            del y
            assert in_use() == before
        finally:
            DRIVER.faulty_reset()
    x.copy_(X)
    assert_same_bits((x + x).cpu(), X + X)


class Training:
    """A small training step, and what it changes."""

    def __init__(self, compiled: bool) -> None:
        tinyt.manual_seed(2)
        self.model = model = nn.Linear(3, 2).to(DEVICE)
        self.optimizer = optimizer = tinyt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, target = X.to(DEVICE), tinyt.ones(2, 2).to(DEVICE)

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = (model(x) - target).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        self.call = tinyt.compile(step) if compiled else step

    def tensors(self) -> list[Tensor]:
        state = self.optimizer.state
        parameters = list(self.model.parameters())
        return [p.detach() for p in parameters] + [state[p]["momentum_buffer"] for p in parameters]

    def values(self) -> list[list[float]]:
        return [x.cpu().reshape(-1).tolist() for x in self.tensors()]


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
    """From the nth on. Nothing is left alive, and the next step is as if nothing had been; a
    compiled one has changed nothing where memory was short."""
    training = Training(compiled)
    for _ in range(3):
        training.call()
    saved = [x.cpu() for x in training.tensors()]
    training.optimizer.zero_grad()
    loss = training.call().item()
    want = training.values()
    for nth in count(1):
        for x, was in zip(training.tensors(), saved, strict=True):
            x.copy_(was)
        training.optimizer.zero_grad()
        tinyt.accelerator.synchronize(DEVICE)
        empty_cache(DEVICE)
        before = in_use()
        with failing(function, status, nth):
            error = raised_by(training.call)
        training.optimizer.zero_grad()
        if error is None:
            break
        assert isinstance(error, kind), repr(error)
        assert ": opencl: " in str(error) or ": memory: opencl:0 has no more" in str(error)
        assert in_use() == before, f"call {nth}: {error}"
        if compiled and kind is tinyt.OutOfMemoryError:
            for x, was in zip(training.tensors(), saved, strict=True):
                assert_same_bits(x.cpu(), was)
    assert nth > 3
    for x, was in zip(training.tensors(), saved, strict=True):
        x.copy_(was)
    assert training.call().item() == loss
    assert training.values() == want


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_is_short_once_in_a_training_step(compiled: bool) -> None:
    """At each allocation: the step does what it does undisturbed."""
    training = Training(compiled)
    for _ in range(2):
        training.call()
    saved = [x.cpu() for x in training.tensors()]
    loss = training.call().item()
    for nth in range(1, 12, 2):
        for x, was in zip(training.tensors(), saved, strict=True):
            x.copy_(was)
        empty_cache(DEVICE)
        with failing("clCreateBuffer", OUT_OF_MEMORY, nth, times=2):
            assert training.call().item() == loss
