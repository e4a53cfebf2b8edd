"""Faults of wgpu-native: run by `tests/unit/test_webgpu.py` in a process of its own, with the
library of `faulty.cpp`."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import device_faults
import tinyt
from device_faults import FaultyDevice, X, raised_by
from sampling import assert_same_bits
from tinyt import Tensor
from tinyt.memory import empty_cache, statistics

DRIVER = FaultyDevice("webgpu")
DEVICE, failing, in_use = DRIVER.device, DRIVER.failing, DRIVER.in_use
# The faults of faulty.cpp: memory as wgpu-native 29 says it, and as WebGPU does.
MEMORY, STANDARD_MEMORY, REFUSED, NOTHING = 1, 2, 3, 5


def test_a_fault_word_is_there_whole_or_not_at_all() -> None:
    write, read = ("wgpuQueueWriteBuffer", REFUSED), ("wgpuBufferMapAsync", REFUSED)
    device_faults.check_fault_word(DRIVER, write, read, RuntimeError)


def handles() -> tuple[int, ...]:
    """Objects of wgpu-native that are there, when what is kept went back."""
    tinyt.accelerator.synchronize(DEVICE)
    empty_cache(DEVICE)
    pairs = (
        ("wgpuDeviceCreateBuffer", "wgpuBufferRelease"),
        ("wgpuDeviceCreateBindGroup", "wgpuBindGroupRelease"),
        ("wgpuDeviceCreateCommandEncoder", "wgpuCommandEncoderRelease"),
        ("wgpuCommandEncoderFinish", "wgpuCommandBufferRelease"),
        ("wgpuDeviceCreateShaderModuleTrusted", "wgpuShaderModuleRelease"),
        ("wgpuDeviceCreateBindGroupLayout", "wgpuBindGroupLayoutRelease"),
        ("wgpuDeviceCreateComputePipeline", "wgpuComputePipelineRelease"),
    )
    return tuple(DRIVER.calls(made) - DRIVER.calls(released) for made, released in pairs)


LONG = tinyt.arange(300.0).remainder(7).reshape(3, 100) + 1
ROWS = tinyt.tensor([2, 0, 2])
# What runs, by name, and what is called.
OPS: dict[str, Callable[[Tensor], Any]] = {
    "add": lambda x: x + x,
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(),
    "matmul": lambda x: x @ x.t(),
    "to linear_index gather": lambda x: x[ROWS.to(x.device)],
    "sort": lambda x: x.sort(1),
    "softmax": lambda x: x.softmax(1),
    "to": lambda x: LONG.to(x.device),
    # A copy of bytes within a word.
    "gt copy_": lambda x: (x > 3)[0, 1:4].copy_(tinyt.tensor([True, False, True])),
}


def same(got: Any, want: Any) -> None:
    if isinstance(got, Tensor):
        tinyt.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=1e-6)
    else:
        for a, b in zip(got, want, strict=True):
            same(a, b)


@pytest.mark.parametrize("fault", [MEMORY, STANDARD_MEMORY], ids=["native", "standard"])
@pytest.mark.parametrize("names", OPS)
def test_no_memory_at_any_allocation(names: str, fault: int) -> None:
    call = OPS[names]
    x = LONG.to(DEVICE)
    want = call(LONG)
    same(call(x), want)  # its kernels are there
    named: set[str] = set()
    for nth in count(1):
        before, there = in_use(), handles()
        with failing("wgpuDeviceCreateBuffer", fault, nth):
            error = raised_by(lambda: call(x))
        if error is None:
            break
        assert isinstance(error, tinyt.OutOfMemoryError), repr(error)
        op, text = str(error).split(": ", 1)
        assert op in names.split(), str(error)
        assert text.startswith(("memory: webgpu:0 has no more, asked for ", "webgpu: "))
        assert "no more" in text or "no memory left" in text
        named.add(op)
        assert in_use() == before
        assert handles() == there
        assert_same_bits((x + x).cpu(), LONG + LONG)
        same(call(x), want)
    assert named == set(names.split())


@pytest.mark.parametrize(
    ("function", "op", "call"),
    [
        ("wgpuDeviceCreateBuffer", "add", lambda x: x + x),
        ("wgpuDeviceCreateBindGroup", "add", lambda x: x + x),
        ("wgpuDeviceCreateBindGroup", "add", lambda x: x.add_(1)),
        ("wgpuDeviceCreateCommandEncoder", "clone", lambda x: x.clone()),
        ("wgpuQueueWriteBuffer", "to", lambda x: X.to(DEVICE)),
    ],
)
def test_a_call_that_is_refused(function: str, op: str, call: Callable[[Tensor], Any]) -> None:
    x = X.to(DEVICE)
    x.add_(1)
    x.copy_(X)
    before, there = in_use(), handles()
    with failing(function, REFUSED):
        error = raised_by(lambda: call(x))
    assert type(error) is RuntimeError, repr(error)
    assert str(error).startswith(f"{op}: webgpu: "), str(error)
    assert (in_use(), handles()) == (before, there)
    assert_same_bits((x + x).cpu(), X + X)
    assert raised_by(lambda: call(x)) is None


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("wgpuDeviceCreateBuffer", MEMORY),
        ("wgpuDeviceCreateBuffer", STANDARD_MEMORY),
        ("wgpuDeviceCreateBuffer", NOTHING),
        ("wgpuDeviceCreateBindGroup", MEMORY),
        ("wgpuDeviceCreateCommandEncoder", MEMORY),
        ("wgpuQueueWriteBuffer", MEMORY),
        ("wgpuQueueWriteBuffer", STANDARD_MEMORY),
    ],
)
def test_once_more_when_memory_went_back(function: str, fault: int) -> None:
    """What is kept for the next tensor goes back before a call fails for want of memory."""
    empty_cache(DEVICE)
    x, ones = X.to(DEVICE), tinyt.ones(5000).to(DEVICE)
    kept = [tinyt.empty(1000, device=DEVICE) for _ in range(3)]
    del kept
    tinyt.accelerator.synchronize(DEVICE)
    assert statistics(DEVICE)["cached_bytes"] >= 12000
    released, calls = DRIVER.calls("wgpuBufferRelease"), DRIVER.calls(function)
    with failing(function, fault, times=2 if function == "wgpuDeviceCreateBuffer" else 1):
        y = ones + ones
        assert_same_bits(y.cpu(), tinyt.ones(5000) * 2)
    assert DRIVER.calls("wgpuBufferRelease") >= released + 3
    assert DRIVER.calls(function) >= calls + 2
    assert_same_bits((x + x).cpu(), X + X)


def test_writing_when_memory_is_short_once() -> None:
    kept = tinyt.empty(1000, device=DEVICE)
    del kept
    with failing("wgpuQueueWriteBuffer", MEMORY, times=1):
        x = X.to(DEVICE)
    assert statistics(DEVICE)["cached_bytes"] == 0
    assert_same_bits(x.cpu(), X)


def test_what_waits_runs_later() -> None:
    """Of calls before the one that failed."""
    x = X.to(DEVICE)
    x * 3
    y = x + x
    with failing("wgpuDeviceCreateBindGroup", REFUSED):
        error = raised_by(lambda: x * 3)
    assert type(error) is RuntimeError, repr(error)
    assert str(error).startswith("mul: webgpu: "), str(error)
    assert_same_bits(y.cpu(), X + X)
    y = x * 3
    for fault in (MEMORY, REFUSED):
        with failing("wgpuQueueWriteBuffer", fault):
            error = raised_by(lambda: y.cpu())
        kind = tinyt.OutOfMemoryError if fault == MEMORY else RuntimeError
        assert type(error) is kind, repr(error)
        assert str(error).startswith("cpu: webgpu: "), str(error)
    assert_same_bits(y.cpu(), X * 3)


def test_commands_that_are_not_valid() -> None:
    """They are not submitted: wgpu-native ends the process that does."""
    x = X.to(DEVICE)
    tinyt.accelerator.synchronize(DEVICE)
    before, there = in_use(), handles()
    with failing("wgpuCommandEncoderFinish", REFUSED, times=1):
        error = raised_by(lambda: x.cpu())
    assert type(error) is RuntimeError, repr(error)
    assert str(error).startswith("cpu: webgpu: "), str(error)
    assert (in_use(), handles()) == (before, there)
    assert_same_bits((x + x).cpu(), X + X)


BUILDS: list[tuple[str, int, type[Exception], str]] = [
    ("wgpuDeviceCreateShaderModuleTrusted", REFUSED, RuntimeError, "expected global item"),
    ("wgpuDeviceCreateComputePipeline", REFUSED, RuntimeError, "no_such_entry"),
    ("wgpuDeviceCreateShaderModuleTrusted", MEMORY, tinyt.OutOfMemoryError, "Not enough memory"),
]


def test_a_kernel_that_is_not_built() -> None:
    """It is built when it is asked for next."""
    x = X.to(DEVICE)
    before, kernels = in_use(), tinyt._core.gpu_kernels("webgpu:0")
    there = handles()
    for function, fault, kind, text in BUILDS:
        with failing(function, fault):
            error = raised_by(lambda: x.atan())
        assert type(error) is kind, repr(error)
        assert str(error).startswith("atan: webgpu: "), str(error)
        assert text in str(error)
        if kind is RuntimeError:
            assert " does not compile a kernel:\n" in str(error)
            assert "@compute @workgroup_size" in str(error)
        assert (in_use(), handles()) == (before, there)
        assert tinyt._core.gpu_kernels("webgpu:0") == kernels
        assert_same_bits((x + x).cpu(), X + X)
    assert_same_bits(x.atan().cpu(), X.atan())
    assert tinyt._core.gpu_kernels("webgpu:0") == kernels + 1


def test_kernels_that_are_kept() -> None:
    """No more than TINYT_WEBGPU_LIMITS says; others are compiled again."""
    most = int(os.environ.get("TINYT_WEBGPU_LIMITS", ",,,1000").split(",")[3])
    x = X.to(DEVICE)
    names = ("neg", "abs", "sign", "floor", "ceil", "square", "relu", "sqrt")
    for _ in range(2):
        for name in names:
            assert_same_bits(getattr(x, name)().cpu(), getattr(X, name)())
            assert handles()[-1] <= most
    compiled = DRIVER.calls("wgpuDeviceCreateComputePipeline")
    assert_same_bits(x.neg().cpu(), -X)
    again = DRIVER.calls("wgpuDeviceCreateComputePipeline") - compiled
    assert again == (most < len(names))


def test_a_form_of_a_kernel_that_is_not_built() -> None:
    """One for arguments that share a buffer, of a kernel that is there."""
    x, y = X.to(DEVICE), X.to(DEVICE)
    y.copysign_(x)
    y.copy_(X)
    with failing("wgpuDeviceCreateShaderModuleTrusted", REFUSED):
        error = raised_by(lambda: y.copysign_(y))
    assert type(error) is RuntimeError, repr(error)
    assert str(error).startswith("copysign: webgpu: "), str(error)
    assert_same_bits(y.cpu(), X)
    y.copysign_(y)
    assert_same_bits(y.cpu(), X)


@pytest.mark.parametrize(
    ("function", "fault", "kind", "text"),
    [
        ("wgpuBufferMapAsync", REFUSED, RuntimeError, ": reading: "),
        ("wgpuBufferMapAsync", MEMORY, tinyt.DeviceError, " gives no results back"),
        ("wgpuBufferMapAsync", NOTHING, tinyt.DeviceError, " gives no results back"),
        ("wgpuDevicePoll", NOTHING, tinyt.DeviceError, " gives no results back"),
        ("wgpuBufferGetConstMappedRange", NOTHING, tinyt.DeviceError, " gives no results back"),
    ],
    ids=["refused", "aborted", "never told", "told later", "no address"],
)
def test_results_that_are_not_mapped(
    function: str, fault: int, kind: type[Exception], text: str
) -> None:
    x = X.to(DEVICE)
    before, there = in_use(), handles()
    for call in (lambda: x.cpu(), lambda: x.tolist(), lambda: x.sum().item()):
        with failing(function, fault):
            error = raised_by(call)
        assert type(error) is kind, repr(error)
        assert ": webgpu: " in str(error), str(error)
        assert text in str(error)
        assert (in_use(), handles()) == (before, there)
        assert_same_bits(x.cpu(), X)
        assert x.sum().item() == 15.0


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("function", ["wgpuDeviceCreateBuffer", "wgpuDeviceCreateBindGroup"])
def test_every_call_of_a_training_step_fails(function: str, compiled: bool) -> None:
    """A compiled one has changed nothing where there was no memory for its values."""
    texts = (": webgpu: ", ": memory: webgpu:0 has no more")
    unchanged = compiled and function == "wgpuDeviceCreateBuffer"
    kind = tinyt.OutOfMemoryError
    device_faults.check_training_that_fails(
        DRIVER, compiled, (function, MEMORY), kind, texts, unchanged
    )


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_is_short_once_in_a_training_step(compiled: bool) -> None:
    device_faults.check_training_short_once(DRIVER, compiled, ("wgpuDeviceCreateBuffer", MEMORY))


def test_an_index_out_of_range() -> None:
    """What a kernel has found is told once, and names the operation."""
    x = X.to(DEVICE)
    for index, call in (
        (2, lambda: x[tinyt.tensor([0, 2]).to(DEVICE)]),
        (-3, lambda: x[tinyt.tensor([-3]).to(DEVICE)]),
    ):
        before = in_use()
        y = call()
        error = raised_by(lambda y=y: y.cpu())
        assert isinstance(error, IndexError), repr(error)
        assert "index: index " in str(error)
        assert f"{index} is out of range for dimension 0 of size 2" in str(error)
        del y
        assert in_use() == before
        assert_same_bits((x + x).cpu(), X + X)
