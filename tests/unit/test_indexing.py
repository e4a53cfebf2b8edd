"""Reading and writing with integers, slices, masks and index tensors, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from sampling import build, to_numpy
from tinyt.testing.reference.index import getitem

SHAPE = (4, 5, 3)
ALL = slice(None)
MASK = np.arange(4) % 2 == 0

KEYS: dict[str, Any] = {
    "integer": 1,
    "negative": -1,
    "numpy_integer": np.int64(2),
    "two_integers": (1, -2),
    "all_integers": (1, 2, 0),
    "slice": slice(1, 3),
    "slice_step": (ALL, slice(0, 5, 2)),
    "slice_outside": slice(2, 100),
    "slice_negative": (slice(-3, -1), ALL),
    "slice_empty": slice(3, 1),
    "ellipsis": (..., 1),
    "ellipsis_middle": (0, ..., 1),
    "ellipsis_of_nothing": (0, 1, ..., 2),
    "only_ellipsis": ...,
    "new_axis": None,
    "new_axes": (None, 0, None, ALL),
    "empty_tuple": (),
    "list": [3, 0],
    "index": np.array([0, 3, 3]),
    "index_negative": np.array([-1, -4]),
    "index_2d": np.array([[0, 1], [2, 3]]),
    "index_empty": np.zeros(0, np.int64),
    "index_0d": np.array(2),
    "index_second": (ALL, np.array([4, 0])),
    "index_pair": (np.array([0, 3]), np.array([4, 1])),
    "index_broadcast": (np.array([[0], [3]]), np.array([4, 1, 0])),
    "index_apart": (np.array([0, 3]), ALL, np.array([2, 1])),
    "index_and_slice": (slice(1, 3), np.array([4, 4]), slice(0, 2)),
    "index_and_new_axis": (None, np.array([1, 2]), ALL),
    "index_and_integer": (np.array([1, 2]), 3),
    "mask": MASK,
    "mask_second": (ALL, np.arange(5) > 2),
    "mask_2d": np.arange(20).reshape(4, 5) % 3 == 0,
    "mask_full": np.arange(60).reshape(SHAPE) % 7 == 0,
    "mask_none": np.zeros(SHAPE, bool),
    "mask_and_index": (MASK, np.array([4, 1])),
    "mask_and_integer": (MASK, 2),
}


def tensor_key(key: Any) -> Any:
    return build(tinyt, key)


def values() -> np.ndarray:
    return np.arange(60, dtype=np.float32).reshape(SHAPE)


@pytest.mark.parametrize("name", KEYS)
def test_read(name: str) -> None:
    got = tinyt.tensor(values())[tensor_key(KEYS[name])]
    np.testing.assert_array_equal(to_numpy(got), getitem(values(), KEYS[name]))


@pytest.mark.parametrize("name", KEYS)
def test_read_of_a_transposed_tensor(name: str) -> None:
    base = tinyt.tensor(values().transpose(2, 0, 1).copy())
    got = base.permute(1, 2, 0)[tensor_key(KEYS[name])]
    np.testing.assert_array_equal(to_numpy(got), getitem(values(), KEYS[name]))


def positions(key: Any) -> np.ndarray:
    """Flat positions that a key selects, in order."""
    return getitem(np.arange(60).reshape(SHAPE), key)


@pytest.mark.parametrize("name", KEYS)
def test_write_a_number(name: str) -> None:
    x = tinyt.tensor(values())
    x[tensor_key(KEYS[name])] = -1
    want = values().reshape(-1)
    want[positions(KEYS[name])] = -1
    np.testing.assert_array_equal(to_numpy(x), want.reshape(SHAPE))


@pytest.mark.parametrize("name", KEYS)
def test_write_a_tensor(name: str) -> None:
    at = positions(KEYS[name])
    new = -1 - np.arange(at.size, dtype=np.float32).reshape(at.shape)
    x = tinyt.tensor(values())
    x[tensor_key(KEYS[name])] = tinyt.tensor(new)
    want = values().reshape(-1)
    for place, value in zip(at.flat, new.flat, strict=True):  # the last value stays
        want[place] = value
    np.testing.assert_array_equal(to_numpy(x), want.reshape(SHAPE))


@pytest.mark.parametrize("name", KEYS)
def test_gradient(name: str) -> None:
    x = tinyt.tensor(values(), requires_grad=True)
    got = x[tensor_key(KEYS[name])]
    weights = np.arange(1, got.numel() + 1, dtype=np.float32).reshape(tuple(got.shape))
    (got * tinyt.tensor(weights)).sum().backward()
    want = np.zeros(60, np.float32)
    np.add.at(want, positions(KEYS[name]), weights)
    np.testing.assert_array_equal(to_numpy(x.grad), want.reshape(SHAPE))


def test_basic_keys_give_views_and_index_tensors_copies() -> None:
    x = tinyt.tensor(values())
    assert x[1:, ..., 0].data_ptr() == x.data_ptr() + 4 * 15
    x[tinyt.tensor([0, 1])].fill_(5)
    assert x[0, 0, 0].item() == 0.0


def test_augmented_assignment() -> None:
    x = tinyt.tensor([1.0, 2.0, 3.0])
    x[1:] += 10
    x[tinyt.tensor([0])] *= 5
    x[x > 12] -= 1
    assert x.tolist() == [5.0, 12.0, 12.0]


def test_write_broadcasts_and_casts() -> None:
    x = tinyt.zeros(2, 3, dtype=tinyt.int64)
    x[:] = tinyt.tensor([1.9, 2.9, -3.9])
    assert x.tolist() == [[1, 2, -3]] * 2
    x[:, 0] = tinyt.tensor([[7, 8]])[0]
    assert x[:, 0].tolist() == [7, 8]
    x[0, 0] = tinyt.tensor([[9]])  # leading ones are dropped
    assert x[0, 0].item() == 9


def test_write_to_itself() -> None:
    x = tinyt.arange(4)
    x[:] = x
    assert x.tolist() == [0, 1, 2, 3]


def test_boolean_scalar_keys() -> None:
    x = tinyt.arange(3)
    assert x[True].shape == (1, 3)
    assert x[False].shape == (0, 3)
    assert x[tinyt.tensor(True)].tolist() == [[0, 1, 2]]


def test_zero_dim_index_gives_a_view_like_an_integer() -> None:
    x = tinyt.arange(6).reshape(2, 3)
    assert x[tinyt.tensor(1)].tolist() == [3, 4, 5]


def test_where_with_one_argument() -> None:
    rows, columns = tinyt.where(tinyt.tensor([[1, 0], [0, 1]]) == 1)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])


SLICES = st.builds(
    slice,
    st.none() | st.integers(-7, 7),
    st.none() | st.integers(-7, 7),
    st.none() | st.integers(1, 3),
)


@given(st.lists(SLICES | st.integers(-3, 2) | st.none() | st.just(...), max_size=5))
def test_any_basic_key(items: list[Any]) -> None:
    if sum(k is ... for k in items) > 1 or sum(k is not None and k is not ... for k in items) > 3:
        return
    key = tuple(items)
    np.testing.assert_array_equal(to_numpy(tinyt.tensor(values())[key]), values()[key])
    x, want = tinyt.tensor(values()), values()
    x[key] = 7
    want[key] = 7
    np.testing.assert_array_equal(to_numpy(x), want)


@given(st.data())
def test_any_index_tensor(data: st.DataObject) -> None:
    dims = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=2)))
    key = tuple(
        data.draw(
            st.just(ALL)
            | st.integers(0, 2**31).map(
                lambda seed, n=SHAPE[d]: np.random.default_rng(seed).integers(-n, n, shape)
            )
        )
        for d in range(dims)
    )
    got = tinyt.tensor(values())[tensor_key(key)]
    np.testing.assert_array_equal(to_numpy(got), values()[key])


# ------------------------------------------------------------------ mixed keys

INDEX_SHAPES = [(), (1,), (2,), (3, 1), (2, 2), (0,)]


@st.composite
def mixed_keys(draw: st.DrawFn) -> tuple[Any, ...]:
    """Integers, slices, None, one Ellipsis, index arrays that broadcast and one mask."""
    key: list[Any] = []
    dim, masked = 0, False
    shape = draw(st.sampled_from(INDEX_SHAPES))
    while dim < len(SHAPE):
        kind = draw(st.sampled_from(["integer", "slice", "none", "index", "index", "mask", "end"]))
        seed = draw(st.integers(0, 2**31))
        rng = np.random.default_rng(seed)
        if kind == "end":
            break
        if kind == "none":
            if len(key) < 5:
                key.append(None)
            continue
        if kind == "integer":
            key.append(draw(st.integers(-SHAPE[dim], SHAPE[dim] - 1)))
        elif kind == "slice":
            key.append(draw(SLICES))
        elif kind == "index":
            some = draw(st.sampled_from([shape, (1,) * len(shape)]))
            key.append(rng.integers(-SHAPE[dim], SHAPE[dim], some))
        elif not masked and shape in ((), (1,)):
            masked = True
            covered = draw(st.integers(1, len(SHAPE) - dim))
            key.append(rng.random(SHAPE[dim : dim + covered]) < 0.5)
            dim += covered - 1
        else:
            continue
        dim += 1
    if draw(st.booleans()):
        key.append(...)
    return tuple(k if not isinstance(k, np.ndarray) or k.ndim else int(k) for k in key)


@given(mixed_keys())
def test_any_mixed_key(key: tuple[Any, ...]) -> None:
    want = getitem(values(), key)
    np.testing.assert_array_equal(to_numpy(tinyt.tensor(values())[tensor_key(key)]), want)
    # The same of a tensor with its memory in another order.
    turned = tinyt.tensor(values().transpose(2, 0, 1).copy()).permute(1, 2, 0)
    np.testing.assert_array_equal(to_numpy(turned[tensor_key(key)]), want)


@given(mixed_keys(), st.booleans())
def test_any_mixed_write(key: tuple[Any, ...], turned: bool) -> None:
    """In index order: of a place that is written more than once the last value stays."""
    at = positions(key)
    new = -1 - np.arange(at.size, dtype=np.float32).reshape(at.shape)
    x = tinyt.tensor(values())
    if turned:
        x = tinyt.tensor(values().transpose(2, 0, 1).copy()).permute(1, 2, 0)
    x[tensor_key(key)] = tinyt.tensor(new)
    want = values().reshape(-1)
    for place, value in zip(at.flat, new.flat, strict=True):
        want[place] = value
    np.testing.assert_array_equal(to_numpy(x), want.reshape(SHAPE))


@given(mixed_keys(), st.booleans())
def test_one_value_at_any_mixed_key(key: tuple[Any, ...], is_tensor: bool) -> None:
    x, want = tinyt.tensor(values()), values().reshape(-1)
    x[tensor_key(key)] = tinyt.tensor([-1.0]) if is_tensor else -1
    want[positions(key).reshape(-1)] = -1
    np.testing.assert_array_equal(to_numpy(x), want.reshape(SHAPE))


@given(mixed_keys())
def test_any_mixed_key_adds_its_gradient(key: tuple[Any, ...]) -> None:
    at = positions(key)
    x = tinyt.tensor(values(), requires_grad=True)
    weights = np.arange(1, at.size + 1, dtype=np.float32).reshape(at.shape)
    (x[tensor_key(key)] * tinyt.tensor(weights)).sum().backward()
    want = np.zeros(60, np.float32)
    np.add.at(want, at, weights)
    np.testing.assert_array_equal(to_numpy(x.grad).reshape(-1), want)


@pytest.mark.parametrize(
    "key", [(..., ...), (..., 0, ...), (0, ..., 1, ..., ...), (1, 2, 0, ..., ...)]
)
def test_a_later_ellipsis_stands_for_nothing(key: tuple[Any, ...]) -> None:
    want = values()[tuple(k for i, k in enumerate(key) if k is not ... or ... not in key[:i])]
    np.testing.assert_array_equal(to_numpy(tinyt.tensor(values())[key]), want)


@pytest.mark.parametrize("key", [(..., ..., 0), (..., ..., None), (..., 0, ..., 0)])
def test_nothing_follows_a_second_ellipsis(key: tuple[Any, ...]) -> None:
    with pytest.raises(IndexError, match="second ellipsis"):
        tinyt.tensor(values())[key]


@pytest.mark.parametrize(
    "key", [tinyt.tensor([0, 2]), tinyt.tensor(MASK), (ALL, tinyt.tensor([1]))]
)
def test_values_at_tensor_indices_have_the_dtype(key: Any) -> None:
    x = tinyt.tensor(values())
    with pytest.raises(RuntimeError, match=r"index: .*float32.*int64"):
        x[key] = tinyt.ones(3, dtype=tinyt.int64)
    np.testing.assert_array_equal(to_numpy(x), values())
    x[0] = tinyt.ones(3, dtype=tinyt.int64)  # a view takes any
    x[tinyt.tensor(MASK)] = tinyt.tensor(7)  # and a mask any single value
    assert x[0].sum().item() == 7 * 15


# ------------------------------------------------------------------ numbers that a dtype lacks

ODD = tinyt.tensor([True, False, True])
WRITES = {
    "an item": lambda x, v: x.__setitem__(0, v),
    "a slice": lambda x, v: x.__setitem__(slice(2), v),
    "nothing": lambda x, v: x.__setitem__(slice(0, 0), v),
    "a mask": lambda x, v: x.__setitem__(ODD, v),
    "an expanded mask": lambda x, v: x.view(3, 1).__setitem__(ODD, v),
    "positions": lambda x, v: x.__setitem__(tinyt.tensor([1, 1]), v),
    "fill_": lambda x, v: x.fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(ODD, v),
    "masked_fill_": lambda x, v: x.masked_fill_(ODD, v),
    "index_fill": lambda x, v: x.index_fill(0, tinyt.tensor([0]), v),
    "scatter": lambda x, v: x.scatter(0, tinyt.tensor([0]), v),
    "full_like": lambda x, v: tinyt.full_like(x, v),
}
TOO_LARGE = [
    ("int8", 300), ("int8", -129), ("int8", 127.5), ("uint8", 256), ("uint8", -256),
    ("uint8", -1.0), ("int16", 2**15), ("int32", -(2.0**31) - 1), ("int64", 2**63),
    ("int64", math.nan), ("int64", math.inf), ("int32", math.nan), ("float32", 1e39),
    ("complex64", 1e39), ("float32", 1j), ("int64", 1j),
]  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("dtype", "value"), TOO_LARGE, ids=str)
def test_numbers_that_a_dtype_lacks(write: str, dtype: str, value: complex) -> None:
    x = tinyt.tensor([1, 2, 3]).to(getattr(tinyt, dtype))
    with pytest.raises(RuntimeError, match=r"value .*(converted to|imaginary)"):
        WRITES[write](x, value)
    assert x.tolist() == [1, 2, 3]


def test_numpy_scalars_in_brackets() -> None:
    x = tinyt.zeros(3, dtype=tinyt.int8)
    for i, value in enumerate((np.int64(-5), np.float32(1.5), np.array(7))):
        x[i] = value
    assert x.tolist() == [-5, 1, 7]
    for value in (np.int64(300), np.float32(math.nan), np.array(-129)):
        for index in (0, ODD, tinyt.tensor([1])):
            with pytest.raises(RuntimeError, match="converted to int8"):
                x[index] = value
    assert x.tolist() == [-5, 1, 7]


@pytest.mark.parametrize("write", [w for w in WRITES if w != "nothing"])
@pytest.mark.parametrize(
    ("dtype", "value", "want"),
    [
        ("int8", -128, -128), ("int8", 126.5, 126), ("uint8", -1, 255), ("uint8", -255, 1),
        ("int64", 2**63 - 1, 2**63 - 1), ("int64", -(2**63), -(2**63)), ("int32", 1.9, 1),
        ("bool", 300, True), ("bool", math.nan, True), ("float32", -math.inf, -math.inf),
        ("float64", 1e300, 1e300), ("float16", -math.inf, -math.inf), ("complex64", 2j, 2j),
    ],
    ids=str,
)  # fmt: skip
def test_numbers_at_the_ends_of_a_dtype(write: str, dtype: str, value: Any, want: Any) -> None:
    x = tinyt.zeros(3, dtype=getattr(tinyt, dtype))
    out = WRITES[write](x, value)
    assert want in (x if out is None else out).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("write", WRITES)
def test_halves_in_brackets_become_infinite(write: str, dtype: str) -> None:
    """As in PyTorch, where everything else refuses them."""
    x = tinyt.zeros(3, dtype=getattr(tinyt, dtype))
    if write.split()[0] in ("a", "an", "nothing", "positions"):
        WRITES[write](x, 1e39)
        assert (math.inf in x.tolist()) == (write != "nothing")
    else:
        with pytest.raises(RuntimeError, match=r"value .* converted to"):
            WRITES[write](x, 1e39)
