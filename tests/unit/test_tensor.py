"""The tensor object: construction, attributes, methods, conversion, shape properties."""

from __future__ import annotations

import copy
import math
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from sampling import to_numpy

# ------------------------------------------------------------------ attributes


def test_attributes() -> None:
    x = tinyt.zeros(2, 3, 4)
    assert x.shape == (2, 3, 4) == x.size()
    assert (x.size(1), x.size(-1), x.dim(), x.ndim, x.numel(), len(x)) == (3, 4, 3, 3, 24, 2)
    assert x.stride() == (12, 4, 1)
    assert (x.stride(0), x.storage_offset(), x.element_size()) == (12, 0, 4)
    assert x.is_contiguous()
    assert x.dtype == tinyt.float32
    assert str(x.device) == "cpu"
    assert x.is_floating_point()


def test_attributes_of_a_view() -> None:
    x = tinyt.arange(24).reshape(2, 3, 4)[:, 1:, ::2]
    assert (x.shape, x.stride(), x.storage_offset()) == ((2, 2, 2), (12, 4, 2), 4)
    assert not x.is_contiguous()
    assert x.data_ptr() % 8 == 0


def test_shape_is_a_tuple() -> None:
    shape = tinyt.zeros(2, 3).shape
    assert isinstance(shape, tuple)
    assert shape[0] * shape[-1] == 6
    assert shape.numel() == 6
    assert repr(shape) == f"{tinyt.__name__}.Size([2, 3])"
    assert shape + (4,) == (2, 3, 4)


def test_transposes() -> None:
    x = tinyt.arange(6).reshape(2, 3)
    assert x.T.tolist() == x.t().tolist() == x.mT.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert tinyt.zeros(2, 3, 4).mT.shape == (2, 4, 3)


def test_any_rank() -> None:
    x = tinyt.ones([1] * 20 + [3])
    assert x.dim() == 21
    assert (x + x).sum().item() == 6.0
    assert x.permute(*reversed(range(21))).shape[0] == 3


def test_weak_references_and_attributes() -> None:
    x = tinyt.ones(2)
    reference = weakref.ref(x)
    x.note = "mine"
    assert reference().note == "mine"
    del x
    assert reference() is None


def test_identity_hash_and_equality() -> None:
    x, y = tinyt.ones(2), tinyt.ones(2)
    assert len({x, y, x}) == 2
    assert (x == y).tolist() == [True, True]
    assert tinyt.equal(x, y)
    assert not tinyt.equal(x, tinyt.ones(3))
    assert tinyt.allclose(x, y + 1e-9)


# ------------------------------------------------------------------ construction


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "int64"),
        (1.0, "float32"),
        (True, "bool"),
        ([1, 2.0], "float32"),
        ([[True], [False]], "bool"),
        ([], "float32"),
        ((1, 2), "int64"),
        (np.float64(2), "float64"),
        (np.arange(3, dtype=np.int32), "int32"),
        (np.ones((2, 2)), "float64"),
        (2**40, "int64"),
        (float("nan"), "float32"),
        ([range(3), range(3)], "int64"),
    ],
)
def test_tensor_of(value: Any, dtype: str) -> None:
    x = tinyt.tensor(value)
    assert x.dtype == getattr(tinyt, dtype)
    want = np.array(
        [list(v) for v in value]
        if isinstance(value, list) and value and isinstance(value[0], range)
        else value
    )
    assert x.shape == want.shape
    np.testing.assert_array_equal(np.array(x.tolist()), want)


def test_tensor_copies() -> None:
    array = np.zeros(2)
    x = tinyt.tensor(array)
    array[0] = 1
    assert x.tolist() == [0.0, 0.0]


def test_tensor_of_tensors() -> None:
    assert tinyt.tensor([tinyt.tensor(1.0), tinyt.tensor(2.0)]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["numbers", "tuple", "list", "shape"])
def test_sizes_in_every_form(kind: str) -> None:
    forms: dict[str, tuple[Any, ...]] = {
        "numbers": (2, 3),
        "tuple": ((2, 3),),
        "list": ([2, 3],),
        "shape": (tinyt.ones(2, 3).shape,),
    }
    args = forms[kind]
    for make in (tinyt.zeros, tinyt.ones, tinyt.empty, tinyt.rand, tinyt.randn):
        assert make(*args).shape == (2, 3)
    x = tinyt.arange(6)
    assert x.view(*args).shape == x.reshape(*args).shape == (2, 3)
    assert tinyt.ones(1, 3).expand(*args).shape == (2, 3)


def test_permute_in_every_form() -> None:
    x = tinyt.zeros(2, 3, 4)
    for args in ((2, 0, 1), ([2, 0, 1],), ((2, 0, 1),)):
        assert x.permute(*args).shape == (4, 2, 3)


def test_new_and_like() -> None:
    x = tinyt.ones(2, 3, dtype=tinyt.float64)
    for made in (tinyt.zeros_like(x), tinyt.rand_like(x), tinyt.randn_like(x), tinyt.empty_like(x)):
        assert (made.shape, made.dtype) == (x.shape, x.dtype)
    for made in (x.new_zeros(4), x.new_ones(4), x.new_full((4,), 2), x.new_empty(4)):
        assert (made.shape, made.dtype) == ((4,), x.dtype)
    assert x.new_tensor([1, 2]).dtype == tinyt.float64


def test_requires_grad_argument() -> None:
    assert tinyt.zeros(2, requires_grad=True).requires_grad
    assert tinyt.tensor([1.0], requires_grad=True).is_leaf


# ------------------------------------------------------------------ to Python and back


def test_item_and_conversions() -> None:
    assert tinyt.tensor([[2.5]]).item() == 2.5
    assert isinstance(tinyt.tensor(2).item(), int)
    assert tinyt.tensor(True).item() is True
    assert int(tinyt.tensor(2.7)) == 2
    assert float(tinyt.tensor(2)) == 2.0
    assert bool(tinyt.tensor([1.0]))
    assert not tinyt.tensor(0)
    assert [10, 20, 30][tinyt.tensor(1)] == 20
    assert math.isnan(float(tinyt.tensor(float("nan"))))
    assert f"{tinyt.tensor(1.25):.1f}" == "1.2"


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3), (2, 1, 2)])
def test_tolist(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    assert tinyt.tensor(array).tolist() == array.tolist()


def test_iteration_and_unpacking() -> None:
    x = tinyt.arange(6).reshape(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    a, b, c = tinyt.tensor([1, 2, 3])
    assert (a + b + c).item() == 6
    assert (tinyt.tensor(2) in tinyt.tensor([1, 2])) is True


def test_copies() -> None:
    x = tinyt.ones(2, requires_grad=True)
    for y in (x.clone().detach(), copy.deepcopy(x).detach()):
        y[0] = 5
    assert x.tolist() == [1.0, 1.0]
    assert copy.deepcopy(x).requires_grad
    assert x.clone().requires_grad


def test_casts() -> None:
    x = tinyt.tensor([1.5, 0.0])
    assert x.float() is x
    assert x.double().dtype == tinyt.float64
    assert x.long().tolist() == [1, 0]
    assert x.bool().tolist() == [True, False]
    assert x.to(tinyt.float64).to(x.dtype).dtype == tinyt.float32
    assert x.type_as(tinyt.zeros(1, dtype=tinyt.int64)).dtype == tinyt.int64
    assert x.to("cpu") is x
    assert x.cpu() is x


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "float16", "bfloat16"])
def test_dtypes_of_later_parts_hold_and_compute(name: str) -> None:
    """They convert through the compute dtype; integers wrap as in C."""
    x = tinyt.tensor([1, 2, 3]).to(getattr(tinyt, name))
    assert (x + x).dtype == x.dtype
    assert [int(v) for v in (x + x).tolist()] == [2, 4, 6]
    assert [int(v) for v in (x * x).to(tinyt.int64).tolist()] == [1, 4, 9]


def test_min_max_of_two_tensors() -> None:
    a, b = tinyt.tensor([1.0, 5.0]), tinyt.tensor([3.0, 2.0])
    assert tinyt.max(a, b).tolist() == [3.0, 5.0]
    assert a.min(b).tolist() == [1.0, 2.0]


def test_named_results() -> None:
    x = tinyt.tensor([[1.0, 5.0], [7.0, 2.0]])
    found = x.max(dim=1)
    assert (found.values.tolist(), found.indices.tolist()) == ([5.0, 7.0], [1, 0])
    values, indices = tinyt.sort(x, dim=1)
    assert (values[0].tolist(), indices[1].tolist()) == ([1.0, 5.0], [1, 0])


def test_nan_in_extremes() -> None:
    x = tinyt.tensor([1.0, float("nan"), 3.0])
    assert math.isnan(x.max().item())
    assert math.isnan(x.amin().item())
    assert x.argmax().item() == 1
    assert math.isnan(tinyt.maximum(x, tinyt.ones(3))[1].item())


def test_ties_take_the_first() -> None:
    x = tinyt.tensor([2.0, 7.0, 7.0, 2.0] * 20)
    assert (x.argmax().item(), x.argmin().item()) == (1, 0)


def test_integer_arithmetic_wraps_and_floors() -> None:
    big = tinyt.tensor(2**63 - 1)
    assert (big + 1).item() == -(2**63)
    assert (tinyt.tensor(-7) // 2).item() == -4
    assert (tinyt.tensor(-7) % 3).item() == 2
    assert tinyt.div(tinyt.tensor(-7), 2, rounding_mode="trunc").item() == -3
    assert (tinyt.tensor(2) ** 62).item() == 2**62


def test_round_half_to_even() -> None:
    assert tinyt.tensor([0.5, 1.5, 2.5, -0.5]).round().tolist() == [0.0, 2.0, 2.0, -0.0]


# ------------------------------------------------------------------ shapes, by properties

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def arange(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


@given(st.data())
def test_broadcasting(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)

    def shrunk() -> tuple[int, ...]:
        keep = data.draw(st.integers(0, len(shape)))
        tail = shape[len(shape) - keep :]
        return tuple(1 if data.draw(st.booleans()) else n for n in tail)

    a, b = arange(shrunk()), 10 * arange(shrunk())
    got = tinyt.tensor(a) + tinyt.tensor(b)
    np.testing.assert_array_equal(to_numpy(got), a + b)
    assert got.is_contiguous()


@given(SHAPES, SHAPES)
def test_broadcast_or_error(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(RuntimeError):
            tinyt.zeros(a) + tinyt.zeros(b)
    else:
        assert (tinyt.zeros(a) + tinyt.zeros(b)).shape == want


@given(st.data())
def test_chain_of_views(data: st.DataObject) -> None:
    """Any chain of view operations shows what NumPy shows, and writes land where NumPy's do."""
    shape = data.draw(SHAPES.filter(lambda s: len(s) > 0))
    array = arange(shape)
    tensor = tinyt.tensor(array)
    base_array, base_tensor = array, tensor
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["permute", "slice", "unsqueeze", "transpose", "narrow"]))
        d = data.draw(st.integers(0, array.ndim - 1))
        if kind == "permute":
            order = data.draw(st.permutations(range(array.ndim)))
            array, tensor = array.transpose(order), tensor.permute(tuple(order))
        elif kind == "slice":
            start, stop = data.draw(st.integers(-5, 5)), data.draw(st.integers(-5, 5))
            key = (slice(None),) * d + (slice(start, stop, data.draw(st.integers(1, 3))),)
            array, tensor = array[key], tensor[key]
        elif kind == "unsqueeze":
            array, tensor = np.expand_dims(array, d), tensor.unsqueeze(d)
        elif kind == "transpose":
            array, tensor = np.swapaxes(array, 0, d), tensor.transpose(0, d)
        else:
            array, tensor = array[..., : array.shape[-1]], tensor[..., : array.shape[-1]]
    np.testing.assert_array_equal(to_numpy(tensor), array)
    flat = array.size and array.reshape(-1)
    np.testing.assert_array_equal(to_numpy(tensor.reshape(-1)), flat if array.size else [])
    array[...] = -1
    tensor.fill_(-1)
    np.testing.assert_array_equal(to_numpy(base_tensor), base_array)


@given(st.data())
def test_reshape(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    array = arange(shape)
    factors = [n for n in (1, 2, 3, 4, 6) if array.size % n == 0]
    first = data.draw(st.sampled_from(factors))
    order = data.draw(st.permutations(range(array.ndim)))
    moved, tensor = array.transpose(order), tinyt.tensor(array).permute(tuple(order))
    if array.size:
        got = tensor.reshape(first, -1)
        np.testing.assert_array_equal(to_numpy(got), moved.reshape(first, -1))


@given(st.data())
def test_sum_over_any_dims(data: st.DataObject) -> None:
    array = arange(data.draw(SHAPES))
    dims = tuple(data.draw(st.sets(st.integers(0, array.ndim - 1)))) if array.ndim else ()
    keep = data.draw(st.booleans())
    if dims:
        got = tinyt.tensor(array).sum(dims, keepdim=keep)
        np.testing.assert_array_equal(to_numpy(got), array.sum(axis=dims, keepdims=keep))


@given(st.data())
def test_cat_and_split_are_inverse(data: st.DataObject) -> None:
    shape = data.draw(SHAPES.filter(lambda s: len(s) > 0))
    d = data.draw(st.integers(0, len(shape) - 1))
    x = tinyt.tensor(arange(shape))
    parts = tinyt.split(x, data.draw(st.integers(1, 5)), d)
    assert tinyt.equal(tinyt.cat(parts, d), x)


def test_sizes_are_integers() -> None:
    x = tinyt.ones(4)
    for call in (
        lambda: tinyt.zeros(7 / 2),
        lambda: tinyt.zeros((2, 7 / 2)),
        lambda: tinyt.zeros("a"),
        lambda: x.view(-1, 4 / 2),
        lambda: x.reshape((2.0, 2)),
        lambda: x.expand(tinyt.tensor(2.5), 4),
        lambda: x.repeat(2.5),
        lambda: tinyt.nn.Linear(3, 5 / 2),
    ):
        with pytest.raises(TypeError, match="sizes must be integers, got"):
            call()
    assert tuple(tinyt.zeros(np.int64(3)).shape) == (3,)
    assert tuple(tinyt.zeros(np.array([2, 3])).shape) == (2, 3)
    assert tuple(x.view(tinyt.tensor(2), -1).shape) == (2, 2)


def test_only_tensors_are_joined() -> None:
    for join in (tinyt.stack, tinyt.hstack, tinyt.vstack, tinyt.cat):
        with pytest.raises(TypeError, match=r"expected.*ensor.*got int"):
            join([tinyt.ones(2), 3])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tinyt.zeros(True),
        lambda x: tinyt.zeros((True, 2)),
        lambda x: tinyt.full((True,), 1.0),
        lambda x: x.view(True, 6),
        lambda x: x.sum(True),
        lambda x: x.sum(dim=True),
        lambda x: x.sum((True,)),
        lambda x: x.argmax(True),
        lambda x: x.softmax(True),
        lambda x: x.unsqueeze(True),
        lambda x: x.transpose(True, 0),
        lambda x: tinyt.stack([x, x], True),
        lambda x: x.topk(True),
        lambda x: tinyt.set_grad_enabled(None),
        lambda x: tinyt.set_grad_enabled(1),
        lambda x: 3 @ x,
        lambda x: x @ 3,
        lambda x: True @ x,
        lambda x: [1.0] @ x,
    ],
)
def test_arguments_of_another_type(call: Any) -> None:
    with pytest.raises(TypeError):
        call(tinyt.ones(2, 3))
    assert tinyt.is_grad_enabled()


def test_sizes_and_integers_that_look_otherwise() -> None:
    assert tuple(tinyt.zeros(2, True).shape) == (2, 1)  # as in PyTorch, the first one decides
    assert tuple(tinyt.zeros(np.int64(2), tinyt.tensor(3)).shape) == (2, 3)
    assert tuple(tinyt.zeros(n for n in (2, 3)).shape) == (2, 3)


def test_dtypes_are_those_there_are() -> None:
    """One made by hand was called None and was bool to whoever took it."""
    for arguments in ((), ("float32",), (tinyt.float32,)):
        with pytest.raises(TypeError, match=r"cannot create 'tinyt.dtype' instances"):
            tinyt.dtype(*arguments)
    assert copy.copy(tinyt.float32) is tinyt.float32
