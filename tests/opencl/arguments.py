"""Kernels of a device that takes few bytes of arguments: run by `tests/unit/test_opencl.py` in a
process of its own, with the library of `faulty.c`, which refuses more than FAULTY_INFO says."""

from __future__ import annotations

import os

import pytest

import tinyt
from sampling import assert_same_bits

DEVICE = tinyt.device("opencl:0")
LIMIT = int(os.environ["FAULTY_INFO"].split("=")[1])


def sum_of_all(*tensors: tinyt.Tensor) -> tinyt.Tensor:
    result = tensors[0] + 1
    for x in tensors[1:]:
        result = result + x
    return result * 2


@pytest.mark.skipif(LIMIT < 1024, reason="an operation of three dimensions takes more")
def test_fused_kernels_of_many_operands() -> None:
    """Of a layout that does not become fewer dimensions; views of one tensor are operands, too."""
    rows = tinyt.randn(36, 4, 3, 2).permute(0, 3, 2, 1)
    there = rows.permute(0, 3, 2, 1).to(DEVICE).permute(0, 3, 2, 1)
    other = tinyt.randn(2, 3, 4)

    def function(x: tinyt.Tensor, y: tinyt.Tensor) -> tinyt.Tensor:
        return sum_of_all(y, *x.unbind(0))

    compiled = tinyt.compile(function)
    for _ in range(2):
        assert_same_bits(compiled(there, other.to(DEVICE)).cpu(), function(rows, other))


@pytest.mark.skipif(LIMIT >= 1024, reason="there is room")
def test_operations_of_one_dimension_fit() -> None:
    x, y = tinyt.randn(7), tinyt.randn(7)
    a, b = x.to(DEVICE), y.to(DEVICE)
    assert_same_bits((a + b).cpu(), x + y)
    assert_same_bits(tinyt.where(a > 0, a, b).cpu(), tinyt.where(x > 0, x, y))
    assert_same_bits(a.sum().cpu(), x.sum())
    several = [tinyt.randn(7) for _ in range(6)]
    compiled = tinyt.compile(sum_of_all)
    for _ in range(2):
        assert_same_bits(compiled(*(t.to(DEVICE) for t in several)).cpu(), sum_of_all(*several))


@pytest.mark.skipif(LIMIT >= 1024, reason="there is room")
def test_more_than_the_device_takes_is_an_error() -> None:
    x = tinyt.zeros(4, 3, 2).to(DEVICE)
    text = rf"add: opencl:0 passes a kernel at most {LIMIT} bytes of arguments, and 3 operands"
    before = tinyt.memory.statistics(DEVICE)["current_bytes"], tinyt.memory.live_tensors()
    with pytest.raises(NotImplementedError, match=text):
        x + tinyt.zeros(2, 3, 4).to(DEVICE).permute(2, 1, 0)
    index = tinyt.zeros(4, 3, 2, dtype=tinyt.int64).to(DEVICE)
    with pytest.raises(NotImplementedError, match="gather: opencl:0 passes a kernel at most"):
        x.gather(2, index)
    del index
    assert (tinyt.memory.statistics(DEVICE)["current_bytes"], tinyt.memory.live_tensors()) == before
    assert_same_bits((x + x).cpu(), tinyt.zeros(4, 3, 2))
