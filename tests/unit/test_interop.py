"""NumPy and DLPack: shared memory, lifetimes, and what is refused."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyt

DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "float16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)])
def test_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype)
    x = tinyt.from_numpy(array)
    assert (x.dtype, x.shape) == (getattr(tinyt, dtype), shape)
    back = x.numpy()
    assert (back.dtype, back.shape) == (array.dtype, shape)
    np.testing.assert_array_equal(back, array)


def test_both_directions_share_memory() -> None:
    array = np.zeros((2, 3), np.float32)
    x = tinyt.from_numpy(array)
    x[0] = 1
    array[1, 2] = 5
    assert x.tolist() == array.tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 5.0]]
    y = tinyt.zeros(3)
    y.numpy()[1] = 4
    assert y.tolist() == [0.0, 4.0, 0.0]
    assert tinyt.as_tensor(array).data_ptr() == array.ctypes.data
    assert tinyt.as_tensor(y) is y


def test_as_tensor_copies_where_it_must() -> None:
    array = np.zeros(2, np.float32)
    x = tinyt.as_tensor(array, dtype=tinyt.float64)
    x[0] = 1
    assert array[0] == 0
    assert tinyt.as_tensor([1, 2]).tolist() == [1, 2]


def test_asarray_shares_or_copies_as_told() -> None:
    array = np.zeros(3, np.float32)
    x = tinyt.ones(3)
    for source, address in ((array, array.ctypes.data), (x, x.data_ptr())):
        assert tinyt.asarray(source).data_ptr() == address
        assert tinyt.asarray(source, copy=False).data_ptr() == address
        assert tinyt.asarray(obj=source, copy=True).data_ptr() != address
        assert tinyt.asarray(source, dtype=tinyt.float64).dtype is tinyt.float64
        with pytest.raises(ValueError, match="asarray: float32 to float64 needs a copy"):
            tinyt.asarray(source, dtype=tinyt.float64, copy=False)
    with pytest.raises(ValueError, match="asarray: cannot share the memory of list"):
        tinyt.asarray([1, 2], copy=False)
    assert tinyt.asarray([1, 2]).tolist() == [1, 2]


def test_asarray_takes_off_the_tape() -> None:
    x = tinyt.ones(2, requires_grad=True)
    assert not tinyt.asarray(x).requires_grad
    assert tinyt.asarray(x, requires_grad=True).requires_grad
    plain = tinyt.ones(2)
    assert tinyt.asarray(plain, requires_grad=True).requires_grad
    assert not plain.requires_grad


def test_copy_through_dlpack() -> None:
    x = tinyt.ones(2)
    assert tinyt.from_dlpack(x, device="cpu").data_ptr() == x.data_ptr()
    assert tinyt.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()


def test_strided_arrays() -> None:
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    assert tinyt.from_numpy(array.T).stride() == (1, 4)
    assert tinyt.from_numpy(array[:, ::2]).tolist() == [[0, 2], [4, 6], [8, 10]]
    x = tinyt.tensor(array).t()[1:]
    np.testing.assert_array_equal(x.numpy(), array.T[1:])
    assert x.numpy().strides == (8, 32)


def test_negative_strides_and_foreign_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"negative stride|strides"):
        tinyt.from_numpy(np.arange(3)[::-1])
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        tinyt.from_numpy(np.arange(3, dtype=">i8"))
    with pytest.raises(TypeError):
        tinyt.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError):
        tinyt.from_numpy([1, 2])


def test_misaligned_and_tiny_strides() -> None:
    """A field of packed records: strides that are no multiple of the element."""
    records = np.zeros(4, np.dtype([("tag", "u1"), ("value", "<f4")]))
    with pytest.raises(ValueError, match=r"(stride|align)"):
        tinyt.from_numpy(records["value"])


def test_lifetimes() -> None:
    """Whoever is left keeps the memory; nobody left, it goes without the collector."""
    array = np.ones(1000)
    owner = weakref.ref(array)
    x = tinyt.from_numpy(array)
    del array
    assert owner() is not None
    view = x[10:]
    del x
    assert view.sum().item() == 990.0
    del view
    assert owner() is None

    y = tinyt.ones(1000)
    values = y[10:].numpy()
    del y
    assert values.sum() == 990.0


def test_read_only_arrays() -> None:
    """They may be read; whether a write is refused or warned about, the array stays."""
    array = np.ones(2)
    array.flags.writeable = False
    with pytest.raises((ValueError, RuntimeError, TypeError, UserWarning)):
        tinyt.from_numpy(array).add_(1)
    assert array.tolist() == [1.0, 1.0]


def test_numpy_functions_take_tensors() -> None:
    x = tinyt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.asarray(x).tolist() == x.tolist()
    assert np.array(x, dtype=np.float64).dtype == np.float64
    assert np.add(np.asarray(x), 1).tolist() == [[2.0, 3.0], [4.0, 5.0]]
    np.asarray(x)[0, 0] = 9
    assert x[0, 0].item() == 9.0


def test_arithmetic_with_numpy_scalars() -> None:
    x = tinyt.ones(2)
    assert (x * np.float64(2.0)).dtype == tinyt.float32
    assert (x + np.int64(2)).tolist() == [3.0, 3.0]


def test_numpy_of_a_tensor_with_gradient() -> None:
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach"):
        x.numpy()
    assert x.detach().numpy().tolist() == [1.0, 1.0]
    with tinyt.no_grad():
        assert (x * 2).numpy().tolist() == [2.0, 2.0]


# ------------------------------------------------------------------ DLPack


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_dlpack_to_numpy(dtype: str) -> None:
    x = tinyt.ones(2, 3, dtype=getattr(tinyt, dtype))
    array = np.from_dlpack(x.t())
    assert (array.shape, array.dtype) == ((3, 2), np.dtype(dtype))
    x[0, 1] = 0
    assert array[1, 0] == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_dlpack_from_numpy(dtype: str) -> None:
    array = np.ones((2, 3), dtype)
    x = tinyt.from_dlpack(array[:, ::2])
    assert (x.shape, x.dtype) == ((2, 2), getattr(tinyt, dtype))
    array[0, 2] = 0
    assert x[0, 1].item() == 0


def test_dlpack_with_itself() -> None:
    x = tinyt.arange(6).reshape(2, 3)
    y = tinyt.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)


def test_dlpack_lifetimes() -> None:
    before = tinyt.memory.live_tensors()
    array = np.from_dlpack(tinyt.ones(10))
    assert array.sum() == 10.0
    del array
    capsule = tinyt.ones(3).__dlpack__()  # never taken: its destructor frees it
    del capsule
    assert tinyt.memory.live_tensors() == before


def test_dlpack_refuses_gradients() -> None:
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises((BufferError, RuntimeError), match=r"grad"):
        x.__dlpack__()


class Exporter:
    """A producer of something that is no DLPack capsule."""

    def __dlpack__(self, **_: Any) -> object:
        return object()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_dlpack_refuses_strangers() -> None:
    with pytest.raises((TypeError, RuntimeError, ValueError, BufferError)):
        tinyt.from_dlpack(Exporter())
    with pytest.raises((TypeError, AttributeError, RuntimeError)):
        tinyt.from_dlpack(object())


def test_capsule_is_taken_once() -> None:
    capsule = tinyt.ones(2).__dlpack__()

    class Producer(Exporter):
        def __dlpack__(self, **_: Any) -> object:
            return capsule

    producer = Producer()
    first = tinyt.from_dlpack(producer)
    with pytest.raises((TypeError, RuntimeError, ValueError, BufferError)):
        tinyt.from_dlpack(producer)
    assert first.tolist() == [1.0, 1.0]


@given(hnp.arrays(st.sampled_from([np.float32, np.int64, np.bool_]), hnp.array_shapes(min_dims=0)))
def test_any_array(array: np.ndarray) -> None:
    x = tinyt.from_numpy(array)
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(tinyt.tensor(array).numpy(), array)
    moved = array.T
    np.testing.assert_array_equal(tinyt.from_numpy(moved).numpy(), moved)


def test_pickle_and_copy_do_not_share() -> None:
    x = tinyt.arange(3)
    y = x.clone().numpy()
    y[0] = 9
    assert x[0].item() == 0
    assert not gc.isenabled()


def test_integers_of_numpy_are_integers() -> None:
    x, one, two = tinyt.arange(12.0).view(3, 4), np.int64(1), np.int32(2)
    images, functional = x[None, None], tinyt.nn.functional
    for got, want in (
        (x.sum(one), x.sum(1)),
        (x.prod(one), x.prod(1)),
        (x.any(one), x.any(1)),
        (x.std(dim=one), x.std(dim=1)),
        (x.squeeze(one), x.squeeze(1)),
        (x.roll(one, one), x.roll(1, 1)),
        (x.movedim(one, np.int8(0)), x.movedim(1, 0)),
        (x.chunk(two)[0], x.chunk(2)[0]),
        (x.tensor_split(two, one)[1], x.tensor_split(2, 1)[1]),
        (x.view(two, -1), x.view(2, -1)),
        (
            functional.conv2d(images, images, padding=one),
            functional.conv2d(images, images, padding=1),
        ),
        (functional.max_pool2d(images, two), functional.max_pool2d(images, 2)),
    ):
        assert tinyt.equal(got, want)


def test_versions_of_dlpack() -> None:
    for wrong in ((), (1,), [1, 0, 0]):
        with pytest.raises(BufferError, match="two numbers"):
            tinyt.ones(2).__dlpack__(max_version=wrong)
    assert "versioned" in repr(tinyt.ones(2).__dlpack__(max_version=(1, 0)))
    assert "versioned" not in repr(tinyt.ones(2).__dlpack__(max_version=(0, 8)))
