"""Python code that runs in the middle of a conversion: sizes and memory are read after it, lists
are as they were, and what it raises is what the caller sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor
from tinyt._tensor import from_buffer_object
from tinyt.tensor import prim


class Raised(Exception):
    """What the tests' own code raises."""


class ActsAsFloat:
    """A number that is no integer, whose conversion first does something."""

    def __init__(self, act: Callable[[], Any], value: Any = 1.0) -> None:
        self.act, self.value = act, value

    def __float__(self) -> float:
        self.act()
        return float(self.value)


class Acts(ActsAsFloat):
    """A number whose every conversion first does something."""

    def __init__(self, act: Callable[[], Any], value: Any = 1) -> None:
        super().__init__(act, value)

    def __index__(self) -> int:
        self.act()
        return int(self.value)

    __int__ = __index__

    def __bool__(self) -> bool:
        self.act()
        return bool(self.value)


class Scalar:
    """As NumPy's scalars: of no dimensions, with an ``item()``."""

    ndim, dtype, shape = 0, np.dtype(np.float32), ()

    def __init__(self, item: Callable[[], Any]) -> None:
        self.item = item


def fail() -> None:
    raise Raised("from a conversion")


def shrinks(x: Tensor) -> Callable[[], None]:
    def act() -> None:
        x.data = tinyt.zeros(1)

    return act


# ---- lists that their elements change


@pytest.mark.parametrize("kind", [Acts, ActsAsFloat])
def test_a_list_that_its_element_clears_gives_what_it_held(kind: Any) -> None:
    data: list[Any] = []
    data.extend([kind(data.clear, 2), *range(1000, 1100)])
    assert tinyt.tensor(data, dtype=tinyt.float64).tolist() == [2, *range(1000, 1100)]
    assert not data


def test_a_nested_list_that_its_element_clears_gives_what_it_held() -> None:
    rows: list[Any] = [[1.5, 2.5], [3.5, 4.5]]

    def act() -> None:
        for row in rows:
            row.clear()
        rows.clear()

    rows[0][0] = ActsAsFloat(act, 9.0)
    assert tinyt.tensor(rows).tolist() == [[9.0, 2.5], [3.5, 4.5]]


def test_a_list_of_sizes_that_its_element_clears_is_read_as_it_was() -> None:
    sizes: list[Any] = []
    sizes.extend([Acts(sizes.clear, 2), 3, 4])
    assert prim.fill(sizes, 0, 0.0, 0).shape == (2, 3, 4)


def test_a_list_of_sizes_that_grows_is_read_as_it_was() -> None:
    sizes: list[Any] = []
    sizes.extend([Acts(lambda: sizes.extend([5] * 1000), 2), 3])
    assert tinyt.zeros(6).reshape(sizes).shape == (2, 3)


def test_operands_of_an_iterator_live_as_long_as_the_call() -> None:
    x = tinyt.ones(2, requires_grad=True)
    out = prim.cat((x * float(i) for i in range(5)), 0)
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [10.0, 10.0]


def test_a_list_of_operands_that_an_attribute_clears_is_read_as_it_was() -> None:
    x = tinyt.ones(2, requires_grad=True)
    parts = [x * 1.0, x * 2.0]
    out = prim.cat(parts, Acts(parts.clear, 0))
    assert out.tolist() == [1.0, 1.0, 2.0, 2.0]
    assert not parts


# ---- tensors that change meanwhile


def test_a_slice_whose_bound_replaces_the_memory() -> None:
    for bound in (lambda act: slice(act, None), lambda act: slice(None, None, act)):
        x = tinyt.arange(100000.0)
        with pytest.raises((IndexError, ValueError, RuntimeError)):
            x[tinyt.tensor(0).item() :, bound(Acts(shrinks(x), 1))]
        x = tinyt.arange(100000.0)
        assert x[bound(Acts(shrinks(x), 1))].numel() <= 1
        x = tinyt.arange(100000.0)
        x[bound(Acts(shrinks(x), 1))] = 5.0
        assert x.shape == (1,)


def test_a_later_slice_whose_bound_replaces_the_memory() -> None:
    x = tinyt.zeros(300, 300)

    def act() -> None:
        x.data = tinyt.zeros(1, 1)

    assert x[5:, Acts(act, 0) : 300].shape == (0, 1)


def test_a_stride_whose_dim_replaces_the_memory() -> None:
    x = tinyt.zeros(2, 3, 4, 5)
    with pytest.raises(IndexError, match="stride: dim 3 is out of range"):
        x.stride(Acts(shrinks(x), 3))
    with pytest.raises(IndexError, match="size: dim 3 is out of range"):
        x.size(Acts(shrinks(x), 3))


def test_an_attribute_that_replaces_the_memory_comes_first() -> None:
    x = tinyt.arange(100000.0)
    assert prim.sum(x, (Acts(shrinks(x), 0),), False).tolist() == 0.0


def test_a_scalar_that_replaces_the_memory_comes_first() -> None:
    def scalar(x: Tensor) -> Scalar:
        act = shrinks(x)
        return Scalar(lambda: act() or 2.0)

    x = tinyt.arange(100000.0)
    assert (x + scalar(x)).tolist() == [2.0]
    x = tinyt.arange(100000.0)
    x += scalar(x)
    assert x.tolist() == [2.0]
    x = tinyt.arange(100000.0)
    assert prim.mul(x, scalar(x)).tolist() == [0.0]
    x = tinyt.arange(100000.0)
    mask = tinyt.ones(100000, dtype=tinyt.bool)
    with pytest.raises((IndexError, RuntimeError)):
        x[mask] = scalar(x)


def test_an_eps_that_replaces_the_memory_comes_first() -> None:
    x = tinyt.ones(64, 8)

    def act() -> None:
        x.data = tinyt.ones(1, 8)

    eps = ActsAsFloat(act, 1e-5)
    assert tinyt.layer_norm(x, (8,), None, None, eps).shape == (1, 8)


# ---- what a conversion raises


@pytest.mark.parametrize(
    "call",
    [
        lambda bad: prim.sum(tinyt.ones(2), (), bad),
        lambda bad: prim.sum(tinyt.ones(2), (bad,), False),
        lambda bad: tinyt.zeros(bad),
        lambda bad: tinyt.zeros((2, bad)),
        lambda bad: tinyt.ones(2).sum(0, keepdim=bad),
        lambda bad: tinyt.ones(2)[bad],
        lambda bad: tinyt.ones(2)[bad:],
        lambda bad: tinyt.ones(2)[bad:] + 1,
        lambda bad: tinyt.tensor([bad]),
        lambda bad: tinyt.tensor([1.5, bad]),
        lambda bad: tinyt.tensor([1j, bad]),
        lambda bad: tinyt.ones(2).size(bad),
        lambda bad: tinyt.ones(2, requires_grad=bad),
    ],
)
def test_what_a_conversion_raises_is_what_the_caller_sees(call: Any) -> None:
    with pytest.raises(Raised, match="from a conversion"):
        call(Acts(fail))


def test_what_an_item_raises_is_what_the_caller_sees() -> None:
    bad = Scalar(fail)
    for call in (
        lambda: tinyt.ones(2) + bad,
        lambda: bad * tinyt.ones(2),
        lambda: tinyt.ones(2).add_(bad),
        lambda: tinyt.ones(2) == bad,
    ):
        with pytest.raises(Raised):
            call()


def test_a_truth_value_that_raises_is_no_system_error() -> None:
    two = np.ones(2)
    with pytest.raises(ValueError, match="truth value"):
        prim.sum(tinyt.ones(2), (0,), two)
    with pytest.raises(RuntimeError, match="ambiguous"):
        prim.sum(tinyt.ones(2), (0,), tinyt.ones(2))


# ---- scalars that give themselves back

LONG = [np.longdouble(1.5), np.clongdouble(1.5), np.float64(1.5), np.float32(1.5)]


@pytest.mark.parametrize("value", LONG, ids=lambda v: type(v).__name__)
def test_a_scalar_that_gives_itself_back_is_a_number(value: Any) -> None:
    kind = complex if isinstance(value, np.complexfloating) else float
    assert tinyt.tensor(value).item() == kind(1.5)
    assert tinyt.tensor([value]).tolist() == [kind(1.5)]
    x = tinyt.ones(2)
    for y in (x + value, value + x, prim.add(x, value), x.add(value)):
        assert y.tolist() == [kind(2.5)] * 2
    assert x.clone().fill_(value).tolist() == [1.5, 1.5]
    if kind is float:
        assert x.clone().add_(value).tolist() == [2.5, 2.5]
        assert tinyt.full((2,), value).tolist() == [1.5, 1.5]
        assert (x < value).tolist() == [True, True]
        assert tinyt.where(x > 0, value, x).tolist() == [1.5, 1.5]
    x[0] = value
    x[[1]] = value
    assert x.tolist() == [1.5, 1.5]
    x[x > 0] = value
    assert x.tolist() == [1.5, 1.5]


def test_a_float_of_any_width_is_no_index() -> None:
    for value in LONG:
        with pytest.raises(IndexError, match="only integers"):
            tinyt.ones(2)[value]


def test_an_object_that_gives_itself_back_is_a_type_error() -> None:
    me = Scalar(lambda: me)
    me.dtype = np.dtype(object)
    for call in (
        lambda: tinyt.ones(2) + me,
        lambda: prim.add(tinyt.ones(2), me),
        lambda: tinyt.ones(2).fill_(me),
        lambda: tinyt.ones(2).__setitem__(0, me),
    ):
        with pytest.raises(TypeError):
            call()


def test_a_list_that_holds_itself_is_a_value_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    late: list[Any] = [[1.0]]
    late.append(late)
    mixed: list[Any] = [tinyt.ones(1)]
    mixed.append(mixed)
    for data in (loop, late, mixed):
        with pytest.raises(ValueError, match="more than 64 levels of nesting"):
            tinyt.tensor(data)
    with pytest.raises((ValueError, TypeError)):
        tinyt.tensor([0.0, loop])
    with pytest.raises(ValueError, match="64 levels"):
        tinyt.Tensor(loop)
    with pytest.raises(ValueError, match="64 levels"):
        tinyt.ones(2)[0] = loop
    mixed.clear()


# ---- buffers


def test_a_buffer_without_strides_is_contiguous() -> None:
    import array
    import ctypes

    rows = ((ctypes.c_int32 * 3) * 2)((1, 2, 3), (4, 5, 6))
    assert from_buffer_object(rows).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert from_buffer_object(array.array("d", [1.5, 2.5])).tolist() == [1.5, 2.5]
    assert from_buffer_object(b"ab").tolist() == [97, 98]
    x = tinyt.zeros(2, 3)
    x[:] = rows
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert tinyt.tensor(memoryview(ctypes.c_int32(7))).tolist() == 7


def odd(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values at an odd address."""
    raw = np.zeros(values.nbytes + 1, dtype=np.uint8)
    at = 1 if raw.ctypes.data % 2 == 0 else 0
    out = raw[at : at + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    assert out.ctypes.data % 2 == 1
    return out


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i2", "i4", "i8"])
def test_elements_at_odd_addresses_are_copied_or_refused(dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    source = odd(values)
    for make in (tinyt.tensor, tinyt.as_tensor, tinyt.asarray):
        made = make(source)
        assert made.tolist() == values.tolist()
        assert made.data_ptr() % (values.real.itemsize) == 0
    with pytest.raises(ValueError, match="aligned"):
        tinyt.from_numpy(source)
    with pytest.raises(ValueError, match="aligned"):
        tinyt.asarray(source, copy=False)
    x = tinyt.zeros(2, 3, dtype=tinyt.tensor(values).dtype)
    x[:] = source
    assert x.tolist() == values.tolist()
    with pytest.raises((ValueError, BufferError)):
        tinyt.from_dlpack(source)
    assert tinyt.tensor([row for row in source]).tolist() == values.tolist()


def test_an_index_array_at_an_odd_address() -> None:
    places = odd(np.array([2, 0]))
    x = tinyt.arange(3.0)
    assert x[places].tolist() == [2.0, 0.0]
    x[places] = 7.0
    assert x.tolist() == [7.0, 1.0, 7.0]


def test_layouts_that_no_tensor_has_are_copied_or_refused() -> None:
    packed = np.zeros(4, dtype=[("a", "i1"), ("b", "f4")])
    packed["b"] = [1, 2, 3, 4]
    for source in (packed["b"], np.arange(4.0, dtype="f4")[::-1]):
        for make in (tinyt.tensor, tinyt.as_tensor, tinyt.asarray):
            assert make(source).tolist() == source.tolist()
        with pytest.raises(ValueError, match="copy the array first"):
            tinyt.from_numpy(source)
    assert tinyt.tensor(memoryview(bytes(range(5)))[::-2]).tolist() == [4, 2, 0]
    for source in (np.zeros(3, ">f4"), packed, np.zeros(3, "M8[s]"), np.zeros(3, object)):
        for make in (tinyt.tensor, tinyt.as_tensor, tinyt.asarray, tinyt.from_numpy):
            with pytest.raises(TypeError):
                make(source)


def test_read_only_and_repeated_memory_is_shared_to_read() -> None:
    repeated = np.broadcast_to(np.float32(2.5), (3, 4))
    shared = tinyt.from_numpy(repeated)
    assert shared.tolist() == repeated.tolist()
    assert shared.stride() == (0, 0)
    with pytest.raises(RuntimeError):
        shared.add_(1)
    assert tinyt.tensor(repeated).add_(1).tolist() == (repeated + 1).tolist()


def test_a_subclass_whose_transpose_replaces_the_memory() -> None:
    class Changes(Tensor):
        @property
        def T(self) -> Tensor:
            self.data = tinyt.zeros(())
            return tinyt.zeros(())

    x = Changes([[1.0, 2.0], [3.0, 4.0]])
    x.data = x.detach().transpose(0, 1)
    with pytest.raises((BufferError, ValueError)):
        np.frombuffer(x)
