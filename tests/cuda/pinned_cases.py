"""Pinned memory of the host, and what errors say of the operation that was launched. Run by
`tests/unit/test_cuda.py` in a process of its own, with the stand-in for the driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tinyt
from cuda_other_library import STANDIN, calls
from tinyt.utils.data import DataLoader, TensorDataset

PLACE = tinyt.device("cuda:0")
LARGE = 1 << 20  # elements: four pieces of staging
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    tinyt.ones(1, device=PLACE).cpu()
    yield
    STANDIN.standin_delay(0)
    STANDIN.faulty_reset()
    STANDIN.standin_reset()


def slow() -> None:
    STANDIN.standin_delay(50_000)  # microseconds


def fail(function: str, status: int) -> None:
    STANDIN.faulty_fail(function.encode(), 1, -1, status)


# ---- pinned memory


def test_pinned_tensors() -> None:
    x = tinyt.arange(12.0).reshape(3, 4)
    for source in (x, x.t(), x[1, 2], x.to(tinyt.bfloat16)):
        y = source.pin_memory()
        assert (source.is_pinned(), y.is_pinned(), y.reshape(-1)[:1].is_pinned()) == (
            False,
            True,
            True,
        )
        assert y.equal(source)
        assert y.pin_memory() is y
        assert y.untyped_storage().is_pinned()
    assert (x.pin_memory() + 1).is_pinned() is False
    assert not tinyt.ones(0).pin_memory().is_pinned()
    for made in (
        tinyt.empty(3, pin_memory=True),
        tinyt.zeros(2, 3, pin_memory=True),
        tinyt.tensor([1, 2], pin_memory=True),
        x.new_ones(3, pin_memory=True),
    ):
        assert made.is_pinned()
        assert made.is_cpu
    assert tinyt.zeros(2, 3, pin_memory=True).tolist() == [[0.0] * 3] * 2
    w = tinyt.ones(2, requires_grad=True)
    (w.pin_memory() * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match=r"pin_memory: only tensors of the CPU .* cuda:0"):
        x.to(PLACE).pin_memory()
    assert not x.to(PLACE).is_pinned()


def test_one_copy_without_staging() -> None:
    x = tinyt.rand(LARGE).pin_memory()
    for call, count in (
        (lambda: x.to(PLACE, non_blocking=True), 1),
        (lambda: x.cuda(non_blocking=True), 1),
        (lambda: tinyt.empty(LARGE, device=PLACE).copy_(x, non_blocking=True), 1),
        (lambda: x.to(PLACE), 4),
        (lambda: x.clone().to(PLACE, non_blocking=True), 4),
    ):
        before, waits = calls("cuMemcpyHtoDAsync"), calls("cuStreamSynchronize")
        y = call()
        assert calls("cuMemcpyHtoDAsync") - before == count
        assert calls("cuStreamSynchronize") == waits
        assert y.cpu().equal(x)
    part = x.reshape(1024, 1024)[3:7]
    assert part.to(PLACE, non_blocking=True).cpu().equal(part)
    columns = x.reshape(1024, 1024)[:, 5]
    assert columns.to(PLACE, non_blocking=True).cpu().equal(columns)


def test_memory_that_is_being_copied_is_not_used_again() -> None:
    x = tinyt.ones(5000).pin_memory()
    address = x.data_ptr()
    slow()
    y = x.to(PLACE, non_blocking=True)
    del x
    other = tinyt.full((5000,), 7.0, pin_memory=True)
    assert other.data_ptr() != address
    assert y.cpu().equal(tinyt.ones(5000))
    STANDIN.standin_delay(0)
    made = calls("cuMemHostAlloc")
    again = tinyt.full((5000,), 8.0, pin_memory=True)
    assert again.data_ptr() == address
    assert calls("cuMemHostAlloc") == made


def test_to_the_cpu_and_on() -> None:
    x = tinyt.arange(5000.0).to(PLACE)
    expected = tinyt.arange(5000.0) * 2
    (x * 2).cpu()
    slow()
    waits = calls("cuStreamSynchronize")
    y = (x * 2).to("cpu", non_blocking=True)
    z = (x * 2).reshape(50, 100).t().to("cpu", non_blocking=True)
    assert (y.is_pinned(), z.is_pinned()) == (True, True)
    assert calls("cuStreamSynchronize") == waits
    tinyt.accelerator.synchronize(PLACE)
    assert y.equal(expected)
    assert z.equal(expected.reshape(50, 100).t())
    four = (x[:24] * 2).reshape(1, 2, 3, 4)
    last = four.to("cpu", non_blocking=True, memory_format=tinyt.channels_last)
    assert last.equal(expected[:24].reshape(1, 2, 3, 4))  # which waits
    assert not (x * 2).cpu().is_pinned()
    # Memory that goes while it is written is not used again before.
    address = y.data_ptr()
    del y
    slow()
    y = (x * 2).to("cpu", non_blocking=True)
    assert y.data_ptr() == address
    del y
    assert tinyt.empty(5000, pin_memory=True).data_ptr() != address


def test_a_fault_shows_when_the_device_is_waited_for() -> None:
    x = tinyt.arange(4.0).to(PLACE)
    y = x.gather(0, tinyt.tensor([9]).to(PLACE)).to("cpu", non_blocking=True)
    with pytest.raises(IndexError, match="gather: index 9"):
        tinyt.accelerator.synchronize(PLACE)
    assert y.is_pinned()


Pair = namedtuple("Pair", ["a", "b"])


class Own:
    def pin_memory(self) -> str:
        return "by itself"


@pytest.mark.parametrize("workers", [0, 2])
def test_batches(workers: int) -> None:
    data = TensorDataset(tinyt.arange(6.0), tinyt.arange(6))
    loader = DataLoader(data, batch_size=2, num_workers=workers, pin_memory=True)
    seen = []
    for x, y in loader:
        assert x.is_pinned()
        assert y.is_pinned()
        seen.append(x.to(PLACE, non_blocking=True))
    assert tinyt.cat(seen).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]

    def collate(samples: list[Any]) -> Any:
        x = tinyt.stack([s[0] for s in samples])
        return {"x": [x, (x,)], "pair": Pair(x, "name"), "own": Own(), "n": range(2)}

    for batch in DataLoader(data, 3, num_workers=workers, pin_memory=True, collate_fn=collate):
        assert batch["x"][0].is_pinned()
        assert batch["x"][1][0].is_pinned()
        assert isinstance(batch["pair"], Pair)
        assert batch["pair"].a.is_pinned()
        assert (batch["pair"].b, batch["own"], batch["n"]) == ("name", "by itself", [0, 1])


def test_no_pinned_memory_left() -> None:
    x, there = tinyt.ones(3_333_333), tinyt.ones(3_333_333, device=PLACE)
    kept = tinyt.ones(100_000).pin_memory()
    del kept
    fail("cuMemHostAlloc", OUT_OF_MEMORY)
    frees = calls("cuMemFreeHost")
    with pytest.raises(tinyt.OutOfMemoryError, match=r"pin_memory: .* 13333332 bytes"):
        x.pin_memory()
    assert calls("cuMemFreeHost") > frees  # what was kept
    y = there.to("cpu", non_blocking=True)
    assert not y.is_pinned()
    assert y.equal(x)
    STANDIN.faulty_reset()
    assert x.pin_memory().is_pinned()
    fail("cuMemHostAlloc", ILLEGAL_ADDRESS)
    with pytest.raises(tinyt.DeviceError, match="cuMemHostAlloc failed with 700"):
        tinyt.ones(9_000_000).pin_memory()


def test_events_that_fail() -> None:
    x = tinyt.ones(400_000).pin_memory()
    fail("cuEventCreate", OUT_OF_MEMORY)
    assert x.to(PLACE, non_blocking=True).cpu().equal(x)  # waits, as there is no event
    STANDIN.faulty_reset()
    fail("cuEventRecord", ILLEGAL_ADDRESS)
    with pytest.raises(tinyt.DeviceError, match="cuEventRecord failed with 700"):
        x.to(PLACE, non_blocking=True)
    STANDIN.faulty_reset()
    address = x.data_ptr()
    del x
    fail("cuEventQuery", ILLEGAL_ADDRESS)
    assert tinyt.empty(400_000, pin_memory=True).data_ptr() != address


# ---- errors that name the operation


def raised_by(call: Callable[[], Any]) -> str:
    """The message, without a traceback that holds tensors."""
    try:
        call()
    except tinyt.DeviceError as error:
        return str(error)
    return "nothing"


def test_an_error_names_the_operation_that_was_launched() -> None:
    x = tinyt.ones(3, device=PLACE)
    x.exp().cpu()
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    y = x.exp()
    text = raised_by(lambda: y.cpu())
    assert text.startswith("cpu: cuda: cu")
    assert (
        "failed with 700, CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access was encountered, "
        "in exp; the device is lost" in text
    )
    assert ", in exp;" in raised_by(lambda: x + 1)


def test_it_names_those_since_the_last_wait() -> None:
    x, index = tinyt.ones(3, device=PLACE), tinyt.tensor([1]).to(PLACE)
    wide = tinyt.ones(3, 4, device=PLACE)
    for call in (lambda: x.add(1), lambda: x.gather(0, index), lambda: wide.t().contiguous()):
        call()
    x.cpu()
    slow()
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    x.gather(0, index)
    x.add(1)
    x.add(1)
    wide.t().contiguous()
    text = raised_by(lambda: tinyt.accelerator.synchronize(PLACE))
    names = text.partition("since the last wait, the last one first: ")[2]
    assert names.startswith("copy, add, gather (TINYT_CUDA_LAUNCH_BLOCKING=1"), text


def test_many_operations() -> None:
    x = tinyt.ones(3, device=PLACE)
    x.cpu()
    several = "exp sin cos tanh sqrt neg abs log1p sigmoid erf"
    for name in several.split():
        getattr(x, name)()
    tinyt.accelerator.synchronize(PLACE)
    slow()
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    for name in several.split():
        getattr(x, name)()
    text = raised_by(lambda: x.cpu())
    assert "first: erf, sigmoid, log1p, abs, neg, sqrt, tanh, cos, and earlier ones (" in text


def test_a_fused_kernel_names_its_operations() -> None:
    x = tinyt.ones(3, device=PLACE)
    step = tinyt.compile(lambda x: (x * 2 + 1).exp())
    step(x).cpu()
    STANDIN.standin_fail_async(ILLEGAL_ADDRESS)
    text = raised_by(lambda: step(x).cpu())
    assert ", in mul+add+exp;" in text


BLOCKING = """
import ctypes, os, tinyt
x = tinyt.ones(3, device="cuda")
x.exp(), x.sin()
ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"]).standin_fail_async(719)
x.sin()
"""


@pytest.mark.parametrize("name", ["TINYT_CUDA_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"])
def test_waiting_for_each_launch(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKING],
        env=os.environ | {name: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert "sin: cuda: cuStreamSynchronize failed with 719, CUDA_ERROR_LAUNCH_FAILED" in last
    assert ", in sin;" in last
