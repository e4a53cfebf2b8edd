"""Python on a CUDA device: run by `tests/unit/test_cuda.py` in a process of its own, with the
stand-in for CUDA's libraries, whose two devices are CPUs; or by hand where there is a GPU."""

import ctypes
import os
import threading
import time

import pytest

import tinyt
from device_cases import *  # noqa: F403
from device_cases import same
from exact_cases import *  # noqa: F403
from group_cases import *  # noqa: F403
from int64_cases import *  # noqa: F403


@pytest.fixture(scope="session")
def place():
    place = tinyt.device("cuda:0")
    tinyt.empty(1, device=place)  # then it is known how many there are
    return place


def test_copies_between_devices(place):
    if tinyt.accelerator.device_count() < 2:
        pytest.skip("needs two devices")
    for count in (1, 1000, 300_000):
        x = tinyt.arange(float(count)).to(place)
        for _ in range(3):
            y = (x * 2).to("cuda:1")
            z = (y + 1).to(place)
            same(y, tinyt.arange(float(count)) * 2)
            same(z, tinyt.arange(float(count)) * 2 + 1)
    with pytest.raises(RuntimeError, match=r"cuda:0.*cuda:1"):
        x + y


def test_methods_that_name_it(place):
    x, layer = tinyt.ones(2), tinyt.nn.Linear(2, 1)
    assert x.cuda().device == x.cuda(0).device == x.cuda(device="cuda").device == place
    assert x.cuda().is_cuda and x.cuda().untyped_storage().is_cuda  # noqa: PT018
    assert x.untyped_storage().cuda().device == place
    assert layer.cuda(place).weight.device == place
    packed = tinyt.nn.utils.rnn.pack_sequence([x])
    assert packed.cuda().data.device == packed.cuda(0).data.device == place
    assert packed.cuda().is_cuda
    if tinyt.accelerator.device_count() > 1:
        assert x.cuda(1).device == layer.cuda(1).weight.device == tinyt.device("cuda:1")
    with pytest.raises(RuntimeError, match="expected a CUDA device, got cpu"):
        x.cuda("cpu")
    with pytest.raises(RuntimeError, match="'cuda:9' is not available"):
        layer.cuda(9)


def test_copies_from_memory_that_changes(place):
    """The device reads later what was copied, which is the caller's again at once."""
    x = tinyt.zeros(1 << 18)
    there = []
    for k in range(70):
        x.fill_(k)
        there.append(x.to(place))
    for k, y in enumerate(there):
        assert y[0].item() == y[-1].item() == k
    large = tinyt.ones(5 << 20)
    y = large.to(place)
    large.zero_()
    same(y.sum(), tinyt.tensor(float(5 << 20)))


def test_autocast_holds_for_it(place):
    x = tinyt.randn(4, 5)
    with tinyt.autocast("cuda", dtype=tinyt.float16):
        assert (x.to(place) @ x.t().to(place)).dtype == tinyt.float16


def test_a_fault_goes_with_what_is_copied_to_another_device(place):
    if tinyt.accelerator.device_count() < 2:
        pytest.skip("needs two devices")
    x = tinyt.arange(4.0).to(place)
    wrong = x.gather(0, tinyt.tensor([7]).to(place)).to("cuda:1")
    with pytest.raises(IndexError, match="gather: index 7 is out of range"):
        (wrong * 2).cpu()
    same(x.to("cuda:1"), tinyt.arange(4.0))


def test_a_fault_is_found_whoever_looks_meanwhile(place):
    """Another thread looks while the kernel that finds it is being built."""
    x = tinyt.arange(32, dtype=tinyt.int16).reshape(2, 2, 2, 2, 2).to(place).permute(4, 2, 0, 3, 1)
    index = tinyt.full((1, 2, 2, 2, 2), 7).to(place)
    other, kernels = tinyt.ones(1).to(place), tinyt._core.gpu_kernels(str(place))
    tinyt.accelerator.synchronize(place)
    done, found = threading.Event(), []

    def look():
        while not done.is_set():
            try:
                other.cpu()
            except IndexError as error:
                found.append(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        x.gather(0, index)
    finally:
        time.sleep(0.05)
        done.set()
        thread.join()
    try:
        tinyt.accelerator.synchronize(place)
    except IndexError as error:
        found.append(str(error))
    assert tinyt._core.gpu_kernels(str(place)) == kernels + 1, "it was there before"
    assert len(found) == 1
    assert "index 7 is out of range" in found[0]


def test_waiting_lets_other_threads_run(place):
    """A copy that waits for the device gives the interpreter's lock away."""
    if "STANDIN_ORDER" not in os.environ:
        pytest.skip("needs a device that can be slowed")
    delay = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"]).standin_delay
    x = tinyt.ones(3).to(place)
    (x + 1).cpu()
    ran, done = [0], threading.Event()

    def count():
        while not done.is_set():
            ran[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    for wait in (lambda: x.tolist(), lambda: x.cpu(), lambda: tinyt.accelerator.synchronize(place)):
        delay(200_000)  # microseconds
        x.add_(1)
        if not thread.is_alive():
            thread.start()
        before = ran[0]
        try:
            wait()
        finally:
            delay(0)
        assert ran[0] > before + 5
    done.set()
    thread.join()
