"""A WebGPU device that is lost, and stays that: run by `tests/unit/test_webgpu.py`, each loss in a
process of its own, with the library of `faulty.cpp`. FAULTY_LOST names the function before whose
call it is lost."""

from __future__ import annotations

import os

import pytest

import tinyt
from device_faults import FaultyDevice, Training, X, calls_that_need, check_lost, raised_by
from tinyt.memory import empty_cache

DRIVER = FaultyDevice("webgpu")
DEVICE, in_use = DRIVER.device, DRIVER.in_use
FUNCTION = os.environ["FAULTY_LOST"]
LOST = 4  # of faulty.cpp


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """In the place of that of `conftest.py`, which waits for the device."""


def test_every_call_that_needs_it_raises() -> None:
    """From the one on during which it was lost."""
    x = X.to(DEVICE)
    training = Training(DEVICE, compiled=True)
    for _ in range(2):
        training.call()
    (x + x).cpu()
    tinyt.accelerator.synchronize(DEVICE)
    empty_cache(DEVICE)
    calls = calls_that_need(DEVICE, x) + [lambda: x.atan(), lambda: tinyt.empty(999, device=DEVICE)]
    waits = x * x  # its kernel may never run
    reached = DRIVER.calls(FUNCTION)
    with DRIVER.failing(FUNCTION, LOST, times=1):
        for call in calls:
            error = raised_by(call)
            if DRIVER.calls(FUNCTION) > reached:
                break
            assert error is None, repr(error)
    assert DRIVER.calls(FUNCTION) > reached
    assert isinstance(error, tinyt.DeviceError), repr(error)
    check_lost(DRIVER, x)
    (why,) = {d.missing for d in tinyt.devices() if d.name == str(DEVICE)}
    assert "start another process, or use the CPU" in why
    for call in (*calls, training.call, waits.cpu):
        assert isinstance(raised_by(call), tinyt.DeviceError)
    del call
    there = in_use()
    del waits
    assert in_use() == (there[0] - 1, there[1] - 1, there[2] - 24)
    assert DRIVER.calls("wgpuAdapterRequestDevice") == 1
