"""Arrays of libraries that tinyt does not know, numbers beside tensors, types as dtypes."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from tinyt import nn


class Table:
    """As a table of pandas: an array by `__array__` alone, which may be read only."""

    def __init__(self, values: Any, read_only: bool = False) -> None:
        self.values = np.asarray(values)
        self.values.flags.writeable = not read_only

    @property
    def ndim(self) -> int:
        return self.values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)


class Image:
    """As an image of Pillow: an array by `__array_interface__`."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (2, 3), "typestr": "|u1", "version": 3, "data": bytes(range(6))}


class Other:
    """As a tensor of another library: an array by DLPack, which may want gradients."""

    def __init__(self, values: Any, requires_grad: bool = False) -> None:
        self.values, self.requires_grad = np.asarray(values), requires_grad
        self.ndim = self.values.ndim

    def detach(self) -> Other:
        return Other(self.values)

    def __dlpack__(self, **options: Any) -> Any:
        if self.requires_grad:
            raise BufferError("requires grad")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


MAKERS: list[Callable[[Any], Any]] = [Table, Other, lambda x: Other(x, True), np.asarray]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_arrays(make: Callable[[Any], Any], dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for function in (tinyt.tensor, tinyt.as_tensor, tinyt.asarray):
        found = function(make(values))
        assert found.dtype is getattr(tinyt, dtype)
        assert found.tolist() == values.tolist()
    assert tinyt.tensor(make(values), dtype=float).dtype is tinyt.float64
    if shape:
        assert tinyt.Tensor(make(values)).tolist() == values.astype("f4").tolist()
        assert tinyt.LongTensor(make(values)).dtype is tinyt.int64
        assert tinyt.tensor([make(values), make(values)]).tolist() == [values.tolist()] * 2
        assert tinyt.tensor([values.tolist(), make(values)]).tolist() == [values.tolist()] * 2


def test_images() -> None:
    assert tinyt.tensor(Image()).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tinyt.as_tensor(Image()).dtype is tinyt.uint8


def test_memory() -> None:
    values = np.arange(3.0)
    for make in (Table, Other):
        shared, copied = tinyt.as_tensor(make(values)), tinyt.tensor(make(values))
        values[0] += 5.0
        assert shared[0].item() == values[0] != copied[0].item()
    written = tinyt.as_tensor(Table([1.0, 2.0], read_only=True))
    written[0] = 3.0
    assert written.tolist() == [3.0, 2.0]
    with pytest.raises(ValueError, match="cannot share the memory of Table"):
        tinyt.asarray(Table([1.0]), copy=False)


@pytest.mark.parametrize("values", [["a"], [object()], np.array(["2020"], "M8[Y]")])
def test_arrays_of_other_things(values: Any) -> None:
    for make in (Table, np.asarray):
        with pytest.raises(TypeError):
            tinyt.tensor(make(values))


NUMBERS = st.one_of(
    st.integers(-9, 9), st.floats(-9, 9), st.booleans(), st.complex_numbers(max_magnitude=9)
)


@given(st.lists(st.tuples(NUMBERS, st.integers(0, 2)), min_size=1, max_size=5))
def test_numbers_beside_tensors(items: list[tuple[Any, int]]) -> None:
    """The same as of the numbers alone, where the tensors have the dtypes of such numbers."""
    wraps = (lambda x: x, tinyt.tensor, lambda x: tinyt.tensor([[x]]))
    mixed = tinyt.tensor([wraps[kind](x) for x, kind in items])
    plain = tinyt.tensor([x for x, _ in items])
    assert mixed.dtype is plain.dtype
    assert mixed.tolist() == plain.tolist()


def test_promotion_beside_tensors() -> None:
    wide = tinyt.tensor(1.0, dtype=tinyt.float64)
    assert tinyt.tensor([1, wide]).dtype is tinyt.float64
    assert tinyt.tensor([1.5, tinyt.tensor(2)]).dtype is tinyt.float32
    assert tinyt.tensor([tinyt.tensor(2, dtype=tinyt.int8), True]).dtype is tinyt.int8
    assert tinyt.tensor([[1, 2], tinyt.tensor([3.5, 4])]).tolist() == [[1, 2], [3.5, 4]]
    assert tinyt.tensor([[5.0], tinyt.tensor([3.0])]).tolist() == [[5.0], [3.0]]
    assert tinyt.tensor([1, wide], dtype=int).tolist() == [1, 1]
    assert tinyt.tensor([array.array("d", [1.0]), array.array("d", [2.0])]).tolist() == [[1], [2]]
    leaf = tinyt.ones((), requires_grad=True)
    assert not tinyt.tensor([1.0, leaf]).requires_grad
    for wrong in ([1, tinyt.ones(2)], [[1, 2], tinyt.ones(3)], [tinyt.ones(2), "a"], [1, "a"]):
        with pytest.raises((TypeError, ValueError)):
            tinyt.tensor(wrong)


def test_numbers_beside_tensors_in_programs() -> None:
    def function(x: tinyt.Tensor) -> tinyt.Tensor:
        return tinyt.tensor([1.0, x.sum(), 2]) * tinyt.tensor([[0.5, x.max(), 1], [1, 2, 3]])

    compiled = tinyt.compile(function)
    for i in range(3):
        x = tinyt.arange(4.0) + i
        assert compiled(x).tolist() == function(x).tolist()


PYTHON: dict[Any, tinyt.dtype] = {
    float: tinyt.float64,
    int: tinyt.int64,
    bool: tinyt.bool,
    complex: tinyt.complex128,
}
CALLS: list[Callable[[Any], Any]] = [
    lambda d: tinyt.zeros(2, dtype=d),
    lambda d: tinyt.full((2,), 1, dtype=d),
    lambda d: tinyt.empty((2,), dtype=d),
    lambda d: tinyt.ones_like(tinyt.ones(2), dtype=d),
    lambda d: tinyt.tensor([1, 0], dtype=d),
    lambda d: tinyt.as_tensor(np.ones(2), dtype=d),
    lambda d: tinyt.ones(2).to(d),
    lambda d: tinyt.ones(2).to(dtype=d),
    lambda d: tinyt.ones(2).to("cpu", d),
    lambda d: tinyt.ones(2).new_zeros(2, dtype=d),
    lambda d: tinyt.ones(2).sum(dtype=d),
    lambda d: tinyt.ones(2).cumsum(0, dtype=d),
    lambda d: tinyt.ones(2).prod(dtype=d),
]


@pytest.mark.parametrize("kind", PYTHON)
@pytest.mark.parametrize("call", CALLS)
def test_types_of_python(call: Callable[[Any], Any], kind: Any) -> None:
    assert call(kind).dtype is PYTHON[kind]


def test_types_of_python_elsewhere() -> None:
    assert nn.Linear(2, 2, dtype=float).weight.dtype is tinyt.float64
    assert nn.Linear(2, 2).to(float).bias.dtype is tinyt.float64
    assert tinyt.rand(2, dtype=float).dtype is tinyt.float64
    assert tinyt.arange(3, dtype=float).dtype is tinyt.float64
    assert tinyt.eye(2, dtype=float).dtype is tinyt.float64
    assert tinyt.finfo(float).bits == 64
    assert tinyt.iinfo(int).max == 2**63 - 1
    assert tinyt.promote_types(int, tinyt.float32) is tinyt.float32
    assert tinyt.can_cast(int, float)
    compiled = tinyt.compile(lambda x: x.sum(dtype=float) + tinyt.zeros(1, dtype=int))
    for _ in range(2):
        assert compiled(tinyt.ones(3)).dtype is tinyt.float64
    for wrong in (str, list, "float32", 3.5):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            tinyt.zeros(2, dtype=wrong)
