"""In-place forms, views and what a write through one of them reaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import assert_same_bits, build, dtype_name, flat, to_numpy

INPLACE = [op for op in OPS if op.inplace]
CASES = [pytest.param(op, t, id=f"{op.name}_-{t}") for op in INPLACE for t in op.dtypes]


def fits(want: Any, first: Any) -> bool:
    """An in-place form keeps shape and dtype."""
    return tuple(want.shape) == tuple(first.shape) and want.dtype == first.dtype


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_inplace_equals_function(op: Op, dtype: str, rng: np.random.Generator) -> None:
    for sample in op.samples(rng, dtype):
        first, *rest = build(tinyt, sample.args)
        kwargs = build(tinyt, sample.kwargs)
        want = op.function(tinyt)(first, *rest, **kwargs)
        if not fits(want, first):
            continue
        before = first._version
        assert getattr(first, op.name + "_")(*rest, **kwargs) is first
        assert_same_bits(first, want, op.name)
        assert first._version > before


@pytest.mark.parametrize("op", INPLACE, ids=lambda op: op.name + "_")
def test_inplace_through_a_strided_view(op: Op, rng: np.random.Generator) -> None:
    """Writes the elements of the view and no other."""
    for sample in op.samples(rng, op.dtypes[0]):
        first, *rest = build(tinyt, sample.args)
        kwargs = build(tinyt, sample.kwargs)
        want = op.function(tinyt)(first, *rest, **kwargs)
        if first.dim() == 0 or not fits(want, first):
            continue
        base = first.new_full((*first.shape[:-1], 2 * first.shape[-1] + 1), 77)
        view = base[..., 1::2]
        view.copy_(first)
        getattr(view, op.name + "_")(*rest, **kwargs)
        assert_same_bits(view.clone(), want, op.name)
        assert bool((base[..., ::2] == 77).all())
        assert base._version == view._version


@pytest.mark.parametrize("op", [op for op in OPS if op.view], ids=lambda op: op.name)
def test_view_shares_memory(op: Op, rng: np.random.Generator) -> None:
    for sample in op.samples(rng, "int64"):
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        base = args[0]
        for view in flat(op.function(tinyt)(*args, **kwargs)):
            if view.numel() == 0:
                continue
            version = base._version
            if op.name == "expand":
                base.fill_(1234)
                assert bool((view == 1234).all())
            else:
                view.fill_(1234)
                count = int((base == 1234).sum().item())
                assert count == view.numel()
                base.fill_(0)
                assert bool((view == 0).all())
            assert view._version == base._version > version


@pytest.mark.parametrize("op", [op for op in OPS if op.view], ids=lambda op: op.name)
def test_view_of_a_view(op: Op, rng: np.random.Generator) -> None:
    """Views keep nothing but the storage: the base may go first."""
    for sample in op.samples(rng, "float32"):
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        views = list(flat(op.function(tinyt)(*args, **kwargs)))
        want = [to_numpy(v) for v in views]
        del args
        for view, values in zip(views, want, strict=True):
            np.testing.assert_array_equal(to_numpy(view), values)


def test_reshape_is_a_view_where_strides_allow() -> None:
    x = tinyt.zeros(2, 6)
    assert x.reshape(3, 4).data_ptr() == x.data_ptr()
    assert x[:, ::2].reshape(2, 3, 1).data_ptr() == x.data_ptr()
    assert x.t().reshape(12).data_ptr() != x.data_ptr()
    assert x.contiguous() is x
    assert x.t().contiguous().is_contiguous()


def test_version_counts_writes() -> None:
    x = tinyt.zeros(4)
    y = x[1:3]
    assert (x._version, y._version) == (0, 0)
    y.add_(1)
    assert (x._version, y._version) == (1, 1)
    x[0] = 5
    assert y._version == 2
    assert (x + 1)._version == 0
    assert x.detach()._version == 2


WRITES: dict[str, Callable[[Any], Any]] = {
    "fill_": lambda x: x.fill_(3),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(tinyt.ones(x.shape)),
    "copy_broadcast": lambda x: x.copy_(tinyt.tensor(2.0)),
    "copy_cast": lambda x: x.copy_(tinyt.ones(x.shape, dtype=tinyt.int64)),
    "iadd": lambda x: x.__iadd__(2),
    "isub": lambda x: x.__isub__(2),
    "imul": lambda x: x.__imul__(2),
    "itruediv": lambda x: x.__itruediv__(2),
    "uniform_": lambda x: x.uniform_(2, 3),
    "normal_": lambda x: x.normal_(5, 0.1),
    "masked_fill_": lambda x: x.masked_fill_(x == 0, 4),
    "clamp_": lambda x: x.clamp_(min=1),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)])
def test_writes_return_self(name: str, shape: tuple[int, ...]) -> None:
    x = tinyt.zeros(shape)
    assert WRITES[name](x) is x
    assert dtype_name(x) == "float32"
    assert tuple(x.shape) == shape


def test_augmented_assignment_writes_in_place() -> None:
    x = tinyt.ones(3)
    y = x
    x += 1
    x *= 3
    x -= 1
    x /= 5
    assert y is x
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_transposed_copy() -> None:
    x = tinyt.arange(12).reshape(3, 4)
    y = tinyt.zeros(4, 3, dtype=tinyt.int64)
    y.t().copy_(x)
    assert y.tolist() == x.t().tolist()


def test_copy_to_itself_shifted() -> None:
    """Overlapping source and destination do not corrupt each other, or are refused."""
    x = tinyt.arange(6)
    try:
        x[1:].copy_(x[:-1].clone())
    except RuntimeError:
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
    else:
        assert x.tolist() == [0, 0, 1, 2, 3, 4]
