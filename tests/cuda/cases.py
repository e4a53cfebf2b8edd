"""Python on a CUDA device: run by `tests/unit/test_cuda.py` in a process of its own, with the
stand-in for CUDA's libraries, whose two devices are CPUs; or by hand where there is a GPU."""

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
