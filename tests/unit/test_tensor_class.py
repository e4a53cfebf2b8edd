"""What a tensor is besides its numbers: limits of dtypes, memory formats, conversions, buffers and
NumPy's side of an operator."""

from __future__ import annotations

import pickle
import zlib
from typing import Any

import numpy as np
import pytest

import tinyt

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("name", FLOATS)
def test_finfo(name: str) -> None:
    ours, theirs = tinyt.finfo(getattr(tinyt, name)), np.finfo(name)
    for fact in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
        assert np.dtype(name).type(getattr(ours, fact)) == getattr(theirs, fact), fact
    assert (ours.dtype, hash(ours)) == (name, hash(tinyt.finfo(getattr(tinyt, name))))


def test_finfo_of_other_dtypes() -> None:
    half = tinyt.finfo(tinyt.bfloat16)
    assert (half.bits, half.eps, half.max, half.tiny) == (16, 2.0**-7, 2.0**128 - 2.0**120, 2**-126)
    assert tinyt.finfo(tinyt.complex64) == tinyt.finfo() == tinyt.finfo(tinyt.float32)
    assert repr(tinyt.finfo()).startswith("finfo(resolution=1e-06, min=-3.40282e+38, max=")
    for wrong in (tinyt.int32, tinyt.bool, "float32"):
        with pytest.raises(TypeError, match=r"finfo"):
            tinyt.finfo(wrong)


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo(name: str) -> None:
    ours, theirs = tinyt.iinfo(getattr(tinyt, name)), np.iinfo(name)
    assert (ours.bits, ours.min, ours.max, ours.dtype) == (
        theirs.bits,
        theirs.min,
        theirs.max,
        name,
    )
    for wrong in (tinyt.float32, tinyt.bool, 3):
        with pytest.raises(TypeError, match=r"iinfo"):
            tinyt.iinfo(wrong)


# ------------------------------------------------------------------ memory formats


def test_memory_formats() -> None:
    x = tinyt.arange(120).reshape(2, 3, 4, 5)
    y = x.contiguous(memory_format=tinyt.channels_last)
    assert (y.stride(), y.dim_order()) == ((60, 1, 15, 3), (0, 2, 3, 1))
    assert y.equal(x)
    assert y.is_contiguous(memory_format=tinyt.channels_last)
    assert not y.is_contiguous()
    assert y.contiguous(memory_format=tinyt.channels_last) is y
    assert x.contiguous(memory_format=tinyt.contiguous_format) is x
    assert x.to(memory_format=tinyt.channels_last).stride() == y.stride()
    assert y.clone().is_contiguous()
    assert y.clone(memory_format=tinyt.channels_last).stride() == y.stride()
    volume = tinyt.zeros(1, 2, 3, 4, 5).contiguous(memory_format=tinyt.channels_last_3d)
    assert volume.stride() == (120, 1, 40, 10, 2)
    with pytest.raises(RuntimeError, match=r"channels_last.*4.*2"):
        tinyt.ones(2, 3).contiguous(memory_format=tinyt.channels_last)


def test_order_of_dimensions_that_is_not_the_only_one() -> None:
    x = tinyt.zeros(2, 1, 3)
    with pytest.raises(RuntimeError, match=r"dim_order.*\(2, 1, 3\).*more than one order"):
        x.dim_order(ambiguity_check=True)
    assert x.dim_order(ambiguity_check=[tinyt.contiguous_format]) == (0, 1, 2)
    assert tinyt.zeros(2, 3).dim_order(ambiguity_check=True) == (0, 1)
    with pytest.raises(TypeError, match=r"dim_order.*list of formats"):
        x.dim_order(ambiguity_check="any")


@pytest.mark.parametrize("name", ["float", "double", "cpu"])
def test_conversion_to_a_format(name: str) -> None:
    x = tinyt.zeros(2, 3, 4, 5)
    y = getattr(x, name)(memory_format=tinyt.channels_last)
    assert y.is_contiguous(memory_format=tinyt.channels_last)
    assert getattr(x, name)(memory_format=tinyt.preserve_format).is_contiguous()


def test_formats_are_values() -> None:
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d"):
        value = getattr(tinyt, name)
        assert isinstance(value, tinyt.memory_format)
        assert repr(value) == f"{tinyt.__name__}.{name}"
        assert pickle.loads(pickle.dumps(value)) is value
    assert tinyt.ones(1).layout is tinyt.strided
    assert isinstance(tinyt.strided, tinyt.layout)


# ------------------------------------------------------------------ conversions


def test_forms_of_to() -> None:
    x = tinyt.ones(2)
    other = tinyt.ones(1, dtype=tinyt.int16)
    assert x.to(tinyt.float32) is x.to("cpu") is x.to(x) is x.to() is x.cpu() is x
    forms = [
        x.to(tinyt.int16),
        x.to("cpu", tinyt.int16),
        x.to(tinyt.device("cpu"), tinyt.int16, True, True),
        x.to(other, non_blocking=True),
        x.to(device="cpu", dtype=tinyt.int16, copy=False),
        x.type(tinyt.int16),
        x.type("torch.ShortTensor"),
        x.short(),
    ]
    assert [f.dtype for f in forms] == [tinyt.int16] * len(forms)
    copied = x.to(tinyt.float32, copy=True)
    assert copied.data_ptr() != x.data_ptr()
    assert x.type() == f"{tinyt.__name__}.FloatTensor"
    for wrong in (
        lambda: x.to(3.0),
        lambda: x.to(tinyt.int8, tinyt.int8),
        lambda: x.to(tinyt.int8, dtype=tinyt.int8),
        lambda: x.to(x, False, False, False),
        lambda: x.to(colour=1),
        lambda: x.type(3),
    ):
        with pytest.raises(TypeError, match=r"to|type"):
            wrong()
    with pytest.raises(ValueError, match=r"FooTensor"):
        x.type("FooTensor")


def test_facts() -> None:
    x = tinyt.ones(2, 3)
    facts = (x.is_cpu, x.is_cuda, x.is_sparse, x.is_quantized, x.is_meta, x.get_device())
    assert facts == (True, False, False, False, False, -1)
    assert (x.ndimension(), x.nelement(), x.is_signed()) == (2, 6, True)
    assert tinyt.is_same_size(x, x + 1)
    assert not x.is_same_size(x.t())
    assert tinyt.is_nonzero(tinyt.tensor([3]))
    assert not tinyt.tensor(0.0).is_nonzero()


@pytest.mark.parametrize("kind", [int, float, complex])
def test_only_one_element_is_a_number(kind: Any) -> None:
    assert kind(tinyt.tensor([[2]])) == 2
    for shape in ((2,), (0,)):
        with pytest.raises(ValueError, match=rf"{kind.__name__}.*one element"):
            kind(tinyt.ones(shape))


def test_view_of_another_size() -> None:
    x = tinyt.arange(8, dtype=tinyt.int32).reshape(2, 4)
    assert x.view(tinyt.uint8).shape == (2, 16)
    assert x.view(tinyt.int64)[0, 0].item() == 1 << 32
    assert x.view(tinyt.uint8).view(tinyt.int32).equal(x)
    assert x[:, 2:].view(tinyt.int64).tolist() == [[2 + (3 << 32)], [6 + (7 << 32)]]
    for wrong in (x[:, 1:], x[:, :3], x.t(), x[0, 0]):
        with pytest.raises(RuntimeError, match=r"view"):
            wrong.view(tinyt.int64)


# ------------------------------------------------------------------ buffers and NumPy


def test_readers_that_need_contiguous_memory() -> None:
    x = tinyt.arange(6, dtype=tinyt.uint8).reshape(2, 3)
    assert memoryview(x).tobytes() == bytes(range(6))
    assert memoryview(x.t()).tobytes() == bytes([0, 3, 1, 4, 2, 5])
    assert (memoryview(x).format, memoryview(x.t()).strides) == ("B", (1, 3))
    with pytest.raises(BufferError, match=r"contiguous"):
        zlib.crc32(x.t())
    assert zlib.crc32(x) == zlib.crc32(bytes(range(6)))


def test_tensors_with_gradients_have_no_buffer() -> None:
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match=r"grad"):
        memoryview(x)
    with pytest.raises(RuntimeError, match=r"grad"):
        np.asarray(x)


def test_array_protocol() -> None:
    x = tinyt.arange(3.0)
    assert np.asarray(x).ctypes.data == x.data_ptr()
    assert np.array(x).ctypes.data != x.data_ptr()
    assert np.asarray(x, dtype=np.int64).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"copy"):
        x.__array__(np.float64, copy=False)
    with pytest.raises(TypeError, match=r"bfloat16"):
        np.asarray(x.bfloat16())


def test_operators_with_numpy() -> None:
    x = tinyt.ones(2)
    for result in (np.float32(2) * x, np.float64(2) * x, x * np.float64(2), np.int64(1) + x):
        assert isinstance(result, tinyt.Tensor)
        assert (result.dtype, result.tolist()) == (tinyt.float32, [2.0, 2.0])
    assert (np.ones(2) == x).tolist() == (x == np.ones(2)).tolist() == [True, True]
    assert isinstance(np.sin(x), tinyt.Tensor)
    assert np.add(x, 1).tolist() == [2.0, 2.0]
    with pytest.raises(TypeError):
        np.ones(2) * x  # as in PyTorch: NumPy leaves it to the tensor, which takes no arrays
