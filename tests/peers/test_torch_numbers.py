"""Python numbers beyond a dtype: which raise and which wrap, call by call as in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tinyt

CALLS = """
u8.clamp(0, 300)
u8.clip(0, 300)
u8.clamp(-1, 200)
u8.clamp_min(-1)
u8.clamp_max(300)
u8.clamp_(0, 300)
u8.clamp_max_(300)
i8.clamp(max=1000)
i8.clamp(max=1000.0)
i8.clamp_min(-300)
i32.clamp(max=2**40)
i64.clamp(max=2**40)
u8.clamp(T.tensor(0), T.tensor(300))
F.hardtanh(i8, -300, 300)
F.hardtanh(i8, -3, 300)
F.hardtanh(u8, 0, 300)
F.hardtanh(u8, -1, 6)
F.hardtanh_(i8, -300, 300)
F.relu6(u8)
F.threshold(u8, 300, 1)
F.threshold(u8, 1, 300)
F.threshold(i8, 1, -3)
T.where(mask, i32, 2**32 + 1)
T.where(mask, 2**32 + 1, i32)
T.where(mask, u8, 300)
T.where(mask, u8, -1)
T.where(mask, u8, 2.5)
T.where(mask, mask, 300)
i32.where(mask, 2**32 + 1)
F.pad(i8, (1, 1), value=1000)
F.pad(u8, (1, 1), value=-1)
F.pad(i32, (1, 0), value=2.5)
F.pad(i32, (1, 0), value=math.nan)
F.pad(u8, (-1, 0), value=1000)
F.pad(mask, (1, 1), value=300)
i8.add(i8, alpha=1000)
i8.add(1, alpha=1000)
i8.add(300, alpha=2)
u8.add(u8, alpha=-1)
u8.sub(u8, alpha=300)
u8.sub(u8, alpha=255)
i8.sub(i8, alpha=-128)
i8.add_(i8, alpha=1000)
i8.sub_(i8, alpha=1000)
T.addcmul(i8, i8, i8, value=1000)
T.addcmul(u8, u8, u8, value=-1)
i8.addcmul_(i8, i8, value=1000)
T.addmm(eye, eye, eye, beta=1000)
T.addmm(eye, eye, eye, alpha=1000)
T.addmm(eye, eye, eye, beta=-2)
T.addr(eye, i8, i8, alpha=300)
u8.index_add(0, T.tensor([0]), u8[:1], alpha=300)
u8.index_add(0, T.tensor([0]), u8[:1], alpha=-1)
T.linspace(0, 1000, 3, dtype=T.int8)
T.linspace(0, 300, 3, dtype=T.int32)
T.linspace(0, 1000, 1, dtype=T.int8)
T.linspace(1000, 0, 1, dtype=T.int8)
T.linspace(0, math.nan, 2, dtype=T.int32)
T.logspace(0, 1000, 3, dtype=T.int8)
i8**300
u8**300
300**u8
i8.pow_(300)
i32**2**40
u8 % 256
u8 % 300
u8 % -1
256 % u8
u8 // 256
u8 // 300
300 // i8
u8.fmod(2**40)
u8.fmod(300)
u8.remainder(256)
u8.remainder_(256)
i32 % 2**32
i32 // 2**32
i32 // (2**32 + 1)
T.div(u8, 256, rounding_mode="floor")
T.div(u8, 256, rounding_mode="trunc")
u8 / 256
u8 % T.tensor(256)
u8 % T.tensor(300)
u8 % True
mask % 2
u8 + 300
300 - u8
u8 * 300
u8 == 300
u8 < 300
u8 & 300
u8 << 300
u8.add_(300)
u8 + T.tensor(300)
T.full((1,), 300, dtype=T.uint8)
T.full((2,), 1e6, dtype=T.float16)
T.full((2,), 1e39, dtype=T.bfloat16)
T.full((2,), 1e39)
T.full((2,), 65519, dtype=T.float16)
T.full_like(half, 1e6)
half.new_full((2,), 1e6)
half.fill_(1e6)
half.masked_fill(mask, 1e6)
half.index_fill(0, T.tensor([0]), 1e6)
T.tensor([300], dtype=T.uint8)
T.tensor(300, dtype=T.uint8)
T.tensor(-1, dtype=T.uint8)
T.tensor([-255, -1, 255], dtype=T.uint8)
T.tensor(-256, dtype=T.uint8)
T.tensor([2**31, 1], dtype=T.int32)
T.tensor([2**31 - 1, -(2**31)], dtype=T.int32)
T.as_tensor([2**40], dtype=T.int32)
T.tensor(3e9, dtype=T.int32)
T.tensor([1, 3e9], dtype=T.int32)
T.tensor([1, 2.9, -2.9], dtype=T.int32)
T.tensor(-0.5, dtype=T.uint8)
T.tensor(255.5, dtype=T.uint8)
T.tensor(127.5, dtype=T.int8)
T.tensor(math.inf, dtype=T.int32)
T.tensor(math.nan, dtype=T.int64)
T.tensor([math.nan], dtype=T.int64)
T.tensor(1e30, dtype=T.int64)
T.tensor(-(2.0**63), dtype=T.int64)
T.tensor([2**63 - 1, -(2**63)])
T.tensor([2**53 + 1, 1.5], dtype=T.int64)
T.tensor(math.nan, dtype=T.bool)
T.tensor(300, dtype=T.bool)
T.tensor([1e6], dtype=T.float16)
T.tensor(1e39, dtype=T.float32)
T.tensor([True, 300], dtype=T.uint8)
T.tensor([[1, 2], [3, 400]], dtype=T.int8)
T.tensor([-129], dtype=T.int8)
T.tensor(range(200), dtype=T.int8)
T.asarray([300], dtype=T.uint8)
i8.new_tensor([300])
u8.new_tensor([[1, 2], [3, 255]])
T.IntTensor([2**40])
T.LongTensor([2.7])
""".strip().splitlines()


def outcome(package: Any, call: str) -> Any:
    """The values and dtype of a call, or that it raised a RuntimeError."""
    names = {
        "T": package,
        "F": package.nn.functional,
        "math": math,
        "mask": package.tensor([True, False]),
        "u8": package.tensor([1, 200], dtype=package.uint8),
        "i8": package.tensor([1, -3], dtype=package.int8),
        "i32": package.tensor([1, -3], dtype=package.int32),
        "i64": package.tensor([1, -3]),
        "half": package.ones(2, dtype=package.float16),
        "eye": package.ones((2, 2), dtype=package.int8),
    }
    try:
        out = eval(call, names)
    except RuntimeError:
        return RuntimeError
    return repr(out.tolist()), str(out.dtype).split(".")[-1]


@pytest.mark.parametrize("call", CALLS)
def test_numbers_beyond_a_dtype(call: str) -> None:
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
