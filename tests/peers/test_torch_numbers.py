"""Python numbers beyond a dtype: which raise and which wrap, call by call as in PyTorch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import tinyt

# One call a line: its text is the name of its test.
CALLS: list[Callable[[Any], Any]] = [
    lambda v: v.u8.clamp(0, 300),
    lambda v: v.u8.clip(0, 300),
    lambda v: v.u8.clamp(-1, 200),
    lambda v: v.u8.clamp_min(-1),
    lambda v: v.u8.clamp_max(300),
    lambda v: v.u8.clamp_(0, 300),
    lambda v: v.u8.clamp_max_(300),
    lambda v: v.i8.clamp(max=1000),
    lambda v: v.i8.clamp(max=1000.0),
    lambda v: v.i8.clamp_min(-300),
    lambda v: v.i32.clamp(max=2**40),
    lambda v: v.i64.clamp(max=2**40),
    lambda v: v.u8.clamp(v.T.tensor(0), v.T.tensor(300)),
    lambda v: v.F.hardtanh(v.i8, -300, 300),
    lambda v: v.F.hardtanh(v.i8, -3, 300),
    lambda v: v.F.hardtanh(v.u8, 0, 300),
    lambda v: v.F.hardtanh(v.u8, -1, 6),
    lambda v: v.F.hardtanh_(v.i8, -300, 300),
    lambda v: v.F.relu6(v.u8),
    lambda v: v.F.threshold(v.u8, 300, 1),
    lambda v: v.F.threshold(v.u8, 1, 300),
    lambda v: v.F.threshold(v.i8, 1, -3),
    lambda v: v.T.where(v.mask, v.i32, 2**32 + 1),
    lambda v: v.T.where(v.mask, 2**32 + 1, v.i32),
    lambda v: v.T.where(v.mask, v.u8, 300),
    lambda v: v.T.where(v.mask, v.u8, -1),
    lambda v: v.T.where(v.mask, v.u8, 2.5),
    lambda v: v.T.where(v.mask, v.mask, 300),
    lambda v: v.i32.where(v.mask, 2**32 + 1),
    lambda v: v.F.pad(v.i8, (1, 1), value=1000),
    lambda v: v.F.pad(v.u8, (1, 1), value=-1),
    lambda v: v.F.pad(v.i32, (1, 0), value=2.5),
    lambda v: v.F.pad(v.i32, (1, 0), value=math.nan),
    lambda v: v.F.pad(v.u8, (-1, 0), value=1000),
    lambda v: v.F.pad(v.mask, (1, 1), value=300),
    lambda v: v.i8.add(v.i8, alpha=1000),
    lambda v: v.i8.add(1, alpha=1000),
    lambda v: v.i8.add(300, alpha=2),
    lambda v: v.u8.add(v.u8, alpha=-1),
    lambda v: v.u8.sub(v.u8, alpha=300),
    lambda v: v.u8.sub(v.u8, alpha=255),
    lambda v: v.i8.sub(v.i8, alpha=-128),
    lambda v: v.i8.add_(v.i8, alpha=1000),
    lambda v: v.i8.sub_(v.i8, alpha=1000),
    lambda v: v.T.addcmul(v.i8, v.i8, v.i8, value=1000),
    lambda v: v.T.addcmul(v.u8, v.u8, v.u8, value=-1),
    lambda v: v.i8.addcmul_(v.i8, v.i8, value=1000),
    lambda v: v.T.addmm(v.eye, v.eye, v.eye, beta=1000),
    lambda v: v.T.addmm(v.eye, v.eye, v.eye, alpha=1000),
    lambda v: v.T.addmm(v.eye, v.eye, v.eye, beta=-2),
    lambda v: v.T.addr(v.eye, v.i8, v.i8, alpha=300),
    lambda v: v.u8.index_add(0, v.T.tensor([0]), v.u8[:1], alpha=300),
    lambda v: v.u8.index_add(0, v.T.tensor([0]), v.u8[:1], alpha=-1),
    lambda v: v.T.linspace(0, 1000, 3, dtype=v.T.int8),
    lambda v: v.T.linspace(0, 300, 3, dtype=v.T.int32),
    lambda v: v.T.linspace(0, 1000, 1, dtype=v.T.int8),
    lambda v: v.T.linspace(1000, 0, 1, dtype=v.T.int8),
    lambda v: v.T.linspace(0, math.nan, 2, dtype=v.T.int32),
    lambda v: v.T.logspace(0, 1000, 3, dtype=v.T.int8),
    lambda v: v.i8**300,
    lambda v: v.u8**300,
    lambda v: 300**v.u8,
    lambda v: v.i8.pow_(300),
    lambda v: v.i32**2**40,
    lambda v: v.u8 % 256,
    lambda v: v.u8 % 300,
    lambda v: v.u8 % -1,
    lambda v: 256 % v.u8,
    lambda v: v.u8 // 256,
    lambda v: v.u8 // 300,
    lambda v: 300 // v.i8,
    lambda v: v.u8.fmod(2**40),
    lambda v: v.u8.fmod(300),
    lambda v: v.u8.remainder(256),
    lambda v: v.u8.remainder_(256),
    lambda v: v.i32 % 2**32,
    lambda v: v.i32 // 2**32,
    lambda v: v.i32 // (2**32 + 1),
    lambda v: v.T.div(v.u8, 256, rounding_mode="floor"),
    lambda v: v.T.div(v.u8, 256, rounding_mode="trunc"),
    lambda v: v.u8 / 256,
    lambda v: v.u8 % v.T.tensor(256),
    lambda v: v.u8 % v.T.tensor(300),
    lambda v: v.u8 % True,
    lambda v: v.mask % 2,
    lambda v: v.u8 + 300,
    lambda v: 300 - v.u8,
    lambda v: v.u8 * 300,
    lambda v: v.u8 == 300,
    lambda v: v.u8 < 300,
    lambda v: v.u8 & 300,
    lambda v: v.u8 << 300,
    lambda v: v.u8.add_(300),
    lambda v: v.u8 + v.T.tensor(300),
    lambda v: v.T.full((1,), 300, dtype=v.T.uint8),
    lambda v: v.T.full((2,), 1e6, dtype=v.T.float16),
    lambda v: v.T.full((2,), 1e39, dtype=v.T.bfloat16),
    lambda v: v.T.full((2,), 1e39),
    lambda v: v.T.full((2,), 65519, dtype=v.T.float16),
    lambda v: v.T.full_like(v.half, 1e6),
    lambda v: v.half.new_full((2,), 1e6),
    lambda v: v.half.fill_(1e6),
    lambda v: v.half.masked_fill(v.mask, 1e6),
    lambda v: v.half.index_fill(0, v.T.tensor([0]), 1e6),
    lambda v: v.T.tensor([300], dtype=v.T.uint8),
    lambda v: v.T.tensor(300, dtype=v.T.uint8),
    lambda v: v.T.tensor(-1, dtype=v.T.uint8),
    lambda v: v.T.tensor([-255, -1, 255], dtype=v.T.uint8),
    lambda v: v.T.tensor(-256, dtype=v.T.uint8),
    lambda v: v.T.tensor([2**31, 1], dtype=v.T.int32),
    lambda v: v.T.tensor([2**31 - 1, -(2**31)], dtype=v.T.int32),
    lambda v: v.T.as_tensor([2**40], dtype=v.T.int32),
    lambda v: v.T.tensor(3e9, dtype=v.T.int32),
    lambda v: v.T.tensor([1, 3e9], dtype=v.T.int32),
    lambda v: v.T.tensor([1, 2.9, -2.9], dtype=v.T.int32),
    lambda v: v.T.tensor(-0.5, dtype=v.T.uint8),
    lambda v: v.T.tensor(255.5, dtype=v.T.uint8),
    lambda v: v.T.tensor(127.5, dtype=v.T.int8),
    lambda v: v.T.tensor(math.inf, dtype=v.T.int32),
    lambda v: v.T.tensor(math.nan, dtype=v.T.int64),
    lambda v: v.T.tensor([math.nan], dtype=v.T.int64),
    lambda v: v.T.tensor(1e30, dtype=v.T.int64),
    lambda v: v.T.tensor(-(2.0**63), dtype=v.T.int64),
    lambda v: v.T.tensor([2**63 - 1, -(2**63)]),
    lambda v: v.T.tensor([2**53 + 1, 1.5], dtype=v.T.int64),
    lambda v: v.T.tensor(math.nan, dtype=v.T.bool),
    lambda v: v.T.tensor(300, dtype=v.T.bool),
    lambda v: v.T.tensor([1e6], dtype=v.T.float16),
    lambda v: v.T.tensor(1e39, dtype=v.T.float32),
    lambda v: v.T.tensor([True, 300], dtype=v.T.uint8),
    lambda v: v.T.tensor([[1, 2], [3, 400]], dtype=v.T.int8),
    lambda v: v.T.tensor([-129], dtype=v.T.int8),
    lambda v: v.T.tensor(range(200), dtype=v.T.int8),
    lambda v: v.T.asarray([300], dtype=v.T.uint8),
    lambda v: v.i8.new_tensor([300]),
    lambda v: v.u8.new_tensor([[1, 2], [3, 255]]),
    lambda v: v.T.IntTensor([2**40]),
    lambda v: v.T.LongTensor([2.7]),
]  # fmt: skip


def text(call: Callable[[Any], Any]) -> str:
    return inspect.getsource(call).strip().removeprefix("lambda v: ").rstrip(",")


def outcome(package: Any, call: Callable[[Any], Any]) -> Any:
    """The values and dtype of a call, or that it raised a RuntimeError."""
    values = SimpleNamespace(
        T=package,
        F=package.nn.functional,
        mask=package.tensor([True, False]),
        u8=package.tensor([1, 200], dtype=package.uint8),
        i8=package.tensor([1, -3], dtype=package.int8),
        i32=package.tensor([1, -3], dtype=package.int32),
        i64=package.tensor([1, -3]),
        half=package.ones(2, dtype=package.float16),
        eye=package.ones((2, 2), dtype=package.int8),
    )
    try:
        out = call(values)
    except RuntimeError:
        return RuntimeError
    return repr(out.tolist()), str(out.dtype).split(".")[-1]


@pytest.mark.parametrize("call", CALLS, ids=text)
def test_numbers_beyond_a_dtype(call: Callable[[Any], Any]) -> None:
    assert outcome(tinyt, call) == outcome(torch, call)


@pytest.mark.parametrize("value", [[300], [-0.5], [math.nan], 300, 256.5])
def test_written_numbers_are_checked(value: Any) -> None:
    x = tinyt.tensor([1, 200], dtype=tinyt.uint8)
    with pytest.raises(RuntimeError, match="without overflow"):
        x[0] = value
    assert x.tolist() == [1, 200]


def test_a_recorded_number_is_checked() -> None:
    @tinyt.compile
    def limited(x: Any) -> Any:
        return x.clamp(0, 300)

    with pytest.raises(RuntimeError, match="without overflow"):
        limited(tinyt.tensor([1], dtype=tinyt.uint8))
    assert limited(tinyt.tensor([1, 400])).tolist() == [1, 300]


def test_the_number_that_is_refused_is_named() -> None:
    x = tinyt.tensor([1], dtype=tinyt.uint8)
    with pytest.raises(RuntimeError, match="clamp: the value 300 cannot be converted to uint8"):
        x.clamp(0, 300)
    with pytest.raises(RuntimeError, match="division by zero"):
        x % 256
