"""What a tensor's geometry does beyond the values of one call: memory, strides, in-place forms."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import to_numpy


def test_facts() -> None:
    x = tinyt.zeros(2, 3, dtype=tinyt.int16)
    assert tinyt.numel(x) == x.nelement() == 6
    assert x.ndimension() == 2
    assert (x.itemsize, x.nbytes, x.element_size()) == (2, 12, 2)
    assert not tinyt.is_floating_point(x)
    assert tinyt.is_floating_point(x.half())


def test_type_names() -> None:
    x = tinyt.tensor([1.5])
    assert x.type() == "tinyt.FloatTensor"
    assert x.type("tinyt.IntTensor").tolist() == [1]
    assert x.type(tinyt.float64).type() == "tinyt.DoubleTensor"
    with pytest.raises(ValueError, match="OddTensor"):
        x.type("tinyt.OddTensor")


# ------------------------------------------------------------------ bytes and formats


def test_view_of_the_bytes() -> None:
    x = tinyt.tensor([[1.0, 2.0], [3.0, 4.0]])
    wide = x.view(tinyt.int64)
    assert tuple(wide.shape) == (2, 1)
    assert tuple(x.view(tinyt.uint8).shape) == (2, 8)
    assert wide.view(tinyt.float32).tolist() == x.tolist()
    wide.zero_()
    assert x.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(RuntimeError, match=r"view.*stride 1"):
        x.t().view(tinyt.int8)
    with pytest.raises(RuntimeError, match=r"view.*divide by 2"):
        tinyt.zeros(2, 3).view(tinyt.float64)
    with pytest.raises(RuntimeError, match=r"view.*divide by 2"):
        tinyt.zeros(5)[1:].view(tinyt.float64)


@pytest.mark.parametrize("name", ["channels_last", "channels_last_3d"])
def test_memory_formats(name: str) -> None:
    order = getattr(tinyt, name)
    shape = (2, 3, 4, 5) if name == "channels_last" else (2, 3, 4, 5, 2)
    x = tinyt.arange(int(np.prod(shape))).reshape(shape)
    y = x.contiguous(memory_format=order)
    assert y.is_contiguous(memory_format=order)
    assert not y.is_contiguous()
    assert not x.is_contiguous(memory_format=order)
    assert y.stride()[1] == 1
    assert y.tolist() == x.tolist()
    assert y.contiguous(memory_format=order) is y
    assert x.clone(memory_format=order).is_contiguous(memory_format=order)
    assert x.to(memory_format=order).stride() == y.stride()
    assert copy.copy(order) is copy.deepcopy(order) is order
    assert repr(order) == f"tinyt.{name}"
    with pytest.raises(RuntimeError, match=rf"contiguous.*{name}.*\(3,\)"):
        tinyt.zeros(3).contiguous(memory_format=order)


# ------------------------------------------------------------------ in-place forms of views


def test_shapes_change_in_place() -> None:
    x = tinyt.arange(6).reshape(1, 2, 3)
    y = x[0]
    assert x.squeeze_(0) is x
    assert tuple(x.shape) == (2, 3)
    assert tuple(x.t_().shape) == (3, 2)
    assert tuple(x.unsqueeze_(-1).transpose_(0, 2).shape) == (1, 2, 3)
    assert tuple(x.swapaxes_(0, 1).swapdims_(0, 2).shape) == (3, 1, 2)
    x.fill_(7)
    assert y.tolist() == [[7] * 3] * 2
    assert x.as_strided_((2,), (3,), 1).storage_offset() == 1


def test_shapes_change_in_place_on_the_tape() -> None:
    leaf = tinyt.arange(6.0, requires_grad=True)
    x = (leaf * 2).reshape(2, 3).clone()
    x.t_()
    x.unsqueeze_(0)
    (x * tinyt.arange(6.0).reshape(1, 3, 2)).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [0.0, 4.0, 8.0, 2.0, 6.0, 10.0]
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.unsqueeze_(0)


def test_resize() -> None:
    x = tinyt.arange(6)
    memory = x.data_ptr()
    assert x.resize_(2, 2) is x
    assert (x.tolist(), x.data_ptr()) == ([[0, 1], [2, 3]], memory)
    assert x.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert x.resize_((3, 4)).flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert tuple(x.resize_as_(tinyt.zeros(2, 1)).shape) == (2, 1)
    with pytest.raises(RuntimeError, match=r"resize_.*-1"):
        x.resize_(-1)
    with pytest.raises(RuntimeError, match=r"resize_.*grad"):
        tinyt.ones(1, requires_grad=True).resize_(2)


def test_set() -> None:
    x, source = tinyt.zeros(1), tinyt.arange(6.0)
    x.set_(source)
    x[0] = 9
    assert source[0].item() == 9.0
    assert x.set_(source, 1, (2, 2)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert tuple(x.set_().shape) == (0,)
    with pytest.raises(RuntimeError, match=r"set_.*int64.*float32"):
        x.set_(tinyt.zeros(1, dtype=tinyt.int64))


def test_python_functions_of_the_elements() -> None:
    x = tinyt.arange(4.0).reshape(2, 2)
    assert x.t().apply_(lambda v: v * 10).tolist() == [[0.0, 20.0], [10.0, 30.0]]
    assert x.map_(tinyt.tensor([1.0, 2.0]), lambda a, b: a - b).tolist() == [
        [-1.0, 8.0],
        [19.0, 28.0],
    ]


# ------------------------------------------------------------------ views by strides on the tape

STRIDED: dict[str, Any] = {
    "of_a_transposed_tensor": lambda x: x.t().as_strided((2, 3), (1, 2), 1),
    "of_a_slice": lambda x: x[1:, ::2].as_strided((2, 2), (2, 4)),
    "overlapping": lambda x: x.as_strided((4, 3), (1, 2)),
    "of_an_expanded_tensor": lambda x: x[:1].expand(5, 4).as_strided((3, 2), (1, 1)),
    "windows_of_a_transposed_tensor": lambda x: x.t().unfold(0, 3, 1),
    "diagonal_of_a_slice": lambda x: x[:, 1:].diagonal(1),
}


@pytest.mark.parametrize("name", STRIDED)
def test_gradient_of_strided_views(name: str) -> None:
    """Every place of the view adds to the element it shows."""
    x = tinyt.arange(12.0).reshape(3, 4).requires_grad_()
    view = STRIDED[name](x)
    weights = tinyt.arange(1.0, view.numel() + 1).reshape(view.shape)
    (view * weights).sum().backward()
    want = np.zeros(12)
    np.add.at(want, to_numpy(view).astype(int).reshape(-1), to_numpy(weights).reshape(-1))
    assert x.grad is not None
    np.testing.assert_array_equal(to_numpy(x.grad).reshape(-1), want)


def test_write_through_a_strided_view_on_the_tape() -> None:
    leaf = tinyt.ones(3, 3, requires_grad=True)
    x = leaf * 2
    x.diagonal().mul_(5)
    x.unfold(0, 1, 1)[0].zero_()
    x.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[0.0, 0.0, 0.0], [2.0, 10.0, 2.0], [2.0, 2.0, 10.0]]


def test_strided_views_while_recording() -> None:
    from tinyt.compiler import record

    x = tinyt.arange(12.0).reshape(3, 4)

    def function(a: Any) -> Any:
        b = (a.t() * 2.0).t()
        return b.diagonal() + a.t().diagonal(), b.unfold(1, 2, 1) + 1.0, a[1:].diagonal(1) * 1.0

    for got, want in zip(record(function, x).run(), function(x), strict=True):
        assert got.tolist() == want.tolist()


# ------------------------------------------------------------------ writes at indices


def test_scatter_in_place_touches_only_what_it_changes() -> None:
    """In place on the memory itself: no copy of the rest is made."""
    x = tinyt.zeros(1000, 8)
    rows = tinyt.tensor([3, 999, 3])
    tinyt.memory.reset_peak()
    before = tinyt.memory.statistics()["current_bytes"]
    x[rows] = tinyt.ones(3, 8)
    x.index_add_(0, rows, tinyt.ones(3, 8))
    peak = tinyt.memory.statistics()["peak_bytes"]
    assert x[3, 0].item() == 3.0
    assert x.sum().item() == 8 * (3 + 2)
    assert peak - before < x.nbytes


def test_scatter_of_its_own_memory() -> None:
    x = tinyt.arange(4.0)
    x.scatter_(0, tinyt.tensor([3, 2, 1, 0]), x)
    assert x.tolist() == [3.0, 2.0, 1.0, 0.0]


def test_duplicates_in_index_order() -> None:
    index = tinyt.tensor([1, 1, 1])
    x = tinyt.zeros(2)
    x[index] = tinyt.tensor([5.0, 6.0, 7.0])
    assert x.tolist() == [0.0, 7.0]
    assert x.scatter(0, index, tinyt.tensor([1.0, 2.0, 3.0])).tolist() == [0.0, 3.0]
    small = tinyt.tensor([1.0, 2**-24, 2**-24])
    got = tinyt.zeros(2).scatter_add(0, index, small)[1].item()
    assert got == 1.0  # each addition rounds; the other order would give more


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "float16", "bfloat16", "bool"])
def test_reductions_of_narrow_dtypes(reduce: str, dtype: str) -> None:
    if dtype == "bool" and reduce == "mean":
        pytest.skip("no mean of bools")
    values = [1, 3, 2, 2] if dtype != "bool" else [1, 0, 1, 1]
    src = tinyt.tensor(values).to(getattr(tinyt, dtype))
    x = tinyt.ones(2, dtype=src.dtype)
    index = tinyt.tensor([0, 0, 1, 0])
    got = x.scatter_reduce(0, index, src, reduce, include_self=False)
    wide = x.long() if not dtype.startswith(("float", "b")) else x.double()
    want = wide.scatter_reduce(0, index, src.to(wide.dtype), reduce, include_self=False)
    assert got.dtype is src.dtype
    assert got.double().tolist() == want.to(src.dtype).double().tolist()


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_stack_is_a_view_of_nothing(dim: int) -> None:
    x, y = tinyt.randn(2, 3), tinyt.randn(2, 3).requires_grad_()
    assert tinyt.stack([x, x], dim)._base is None
    both = tinyt.stack([x, y], dim)
    assert both._base is None
    assert both.is_contiguous()
    both.mul_(2.0)
    both.select(dim, 1).mul_(3.0)
    both.sum().backward()
    assert y.grad.tolist() == [[6.0] * 3] * 2
