"""Shapes, views, pads and indices in PyTorch: values, dtypes, strides of views, error classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from sampling import dtype_name, flat, to_numpy

Call = Callable[[Any, Any, Any], Any]


def inputs(tt: Any) -> tuple[Any, Any]:
    """A matrix [3, 4] and an image [1, 2, 3, 4]."""
    return tt.arange(12.0).reshape(3, 4), tt.arange(24.0).reshape(1, 2, 3, 4)


def int32(tt: Any, *values: int) -> Any:
    return tt.tensor(values, dtype=tt.int32)


def pad(tt: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return tt.nn.functional.pad(x, *args, **kwargs)


# Views: their strides are compared too.
VIEWS: dict[str, Call] = {
    "t_of_a_vector": lambda tt, x, y: x[0].t(),
    "mT": lambda tt, x, y: y.mT,
    "permute": lambda tt, x, y: y.permute(3, 0, -2, 1),
    "movedim": lambda tt, x, y: y.movedim((0, 1), (-1, 0)),
    "swapdims": lambda tt, x, y: y.swapdims(0, -1),
    "expand": lambda tt, x, y: x[:, None].expand(-1, 2, 4),
    "broadcast_to": lambda tt, x, y: tt.broadcast_to(x[0], (2, 4)),
    "squeeze_two": lambda tt, x, y: y[..., :1].squeeze((0, -1)),
    "unflatten": lambda tt, x, y: x.unflatten(-1, (2, -1)),
    "diagonal": lambda tt, x, y: y.diagonal(1, -2, -1),
    "diagonal_below": lambda tt, x, y: x.t().diagonal(-1),
    "diagonal_empty": lambda tt, x, y: x.diagonal(5),
    "unfold": lambda tt, x, y: x.t().unfold(0, 2, 2),
    "unfold_nothing": lambda tt, x, y: x.unfold(1, 0, 1),
    "as_strided": lambda tt, x, y: x[1:].as_strided((2, 2), (1, 2)),
    "as_strided_offset": lambda tt, x, y: x[1:].as_strided((2, 2), (1, 2), 1),
    "narrow_tensor": lambda tt, x, y: x.narrow(1, tt.tensor(-2), 1),
    "select": lambda tt, x, y: y.select(-1, -1),
    "chunk": lambda tt, x, y: y.chunk(3, -1),
    "tensor_split": lambda tt, x, y: x.tensor_split(tt.tensor([1, 1, 9]), 1),
    "unbind": lambda tt, x, y: x.unbind(1),
    "slices": lambda tt, x, y: x[1:, ::3],
    "none_and_ellipsis": lambda tt, x, y: y[None, ..., None, 1],
    "bytes": lambda tt, x, y: x.view(tt.int16),
    "wider": lambda tt, x, y: x[1:].view(tt.float64),
    "channels_last": lambda tt, x, y: y.contiguous(memory_format=tt.channels_last),
    "atleast": lambda tt, x, y: (tt.atleast_3d(x[0]), *tt.atleast_2d(x[0], y)),
}
# Other results: values, shapes and dtypes.
VALUES: dict[str, Call] = {
    "roll_twice": lambda tt, x, y: x.roll((1, -3), (0, 0)),
    "flip_nothing": lambda tt, x, y: x.flip([]),
    "rot90": lambda tt, x, y: tt.rot90(y, 3, (3, 1)),
    "tril_batch": lambda tt, x, y: y.tril(1),
    "hstack": lambda tt, x, y: tt.hstack([x[0], tt.tensor(1)]),
    "block_diag_nothing": lambda tt, x, y: tt.block_diag(),
    "block_diag_promotes": lambda tt, x, y: tt.block_diag(x, tt.tensor([[1, 2]])),
    "meshgrid_xy": lambda tt, x, y: tt.meshgrid(x[0], x[:, 0], indexing="xy"),
    "repeats_of_positions": lambda tt, x, y: tt.repeat_interleave(tt.tensor([1, 0, 2])),
    "repeat_interleave_size": lambda tt, x, y: x.repeat_interleave(2, dim=0, output_size=6),
    "pad_bool": lambda tt, x, y: pad(tt, x > 2, (1, 1), value=True),
    "pad_integers": lambda tt, x, y: pad(tt, x.long(), (1, -1), value=2.5),
    "reflect_negative": lambda tt, x, y: pad(tt, y, (-1, 2, 1, 0), "reflect"),
    "circular_negative": lambda tt, x, y: pad(tt, y, (2, -1, 0, 0), "circular"),
    "circular_cut": lambda tt, x, y: pad(tt, y, (-1, 2, 0, 0), "circular"),
    "replicate_negative": lambda tt, x, y: pad(tt, y, (5, -1, -1, 0), "replicate"),
    "replicate_to_nothing": lambda tt, x, y: pad(tt, y, (-1, -3, 0, 0), "replicate"),
    "int32_gather": lambda tt, x, y: x.gather(0, int32(tt, 1, 0)[:, None]),
    "int32_scatter": lambda tt, x, y: x.scatter(0, int32(tt, 1)[:, None], 9.0),
    "int32_index_add": lambda tt, x, y: x.index_add(0, int32(tt, 1, 1), x[:2], alpha=2),
    "int32_brackets": lambda tt, x, y: x[int32(tt, 2, -1)],
    "mask_uint8": lambda tt, x, y: x[tt.tensor([1, 0, 1], dtype=tt.uint8)],
    "list": lambda tt, x, y: x[[0, 2]],
    "list_of_bools": lambda tt, x, y: x[[True, False, True]],
    "list_of_lists": lambda tt, x, y: x[[[0, 1], [1, 2]]],
    "list_with_a_slice": lambda tt, x, y: x[[0, slice(1, 3)]],
    "tensor_and_list": lambda tt, x, y: x[tt.tensor([0, 1]), [0, 1]],
    "range": lambda tt, x, y: x[range(2)],
    "empty_list": lambda tt, x, y: x[[]],
    "numpy": lambda tt, x, y: x[np.array([0, 2]), np.int64(1)],
    "zero_dim_index": lambda tt, x, y: x[tt.tensor(1), tt.tensor([0, 1])],
    "true": lambda tt, x, y: x[True, 1:],
    "bool_tensor": lambda tt, x, y: x[:, tt.tensor(False)],
    "integer_and_index": lambda tt, x, y: y[0, tt.tensor([1, 0]), :, tt.tensor([3, 1])],
    "mask_in_the_middle": lambda tt, x, y: y[:, :, x[:, 0] > 2, 1:3],
    "mask_and_index": lambda tt, x, y: y[:, tt.tensor([True, False]), :, tt.tensor([2])],
    "index_with_new_axes": lambda tt, x, y: x[tt.tensor([0, 1]), None, tt.tensor([2, 2])],
    "index_fill_negative": lambda tt, x, y: x.index_fill(0, tt.tensor([-1]), tt.tensor(3)),
    "take_along_negative": lambda tt, x, y: tt.take_along_dim(x, tt.tensor([[-1]]), 1),
    "masked_scatter": lambda tt, x, y: x.masked_scatter(tt.tensor([[True], [False], [True]]), -x),
    "scatter_reduce_max": lambda tt, x, y: x.scatter_reduce(0, x.long()[:1] * 0, -x, "max"),
    "sum_to_size": lambda tt, x, y: y.sum_to_size(3, 1),
    "unravel_index": lambda tt, x, y: tt.unravel_index(tt.tensor([-1, 5]), (2, 3)),
}
ERRORS: dict[str, Call] = {
    "squeeze_twice": lambda tt, x, y: x.squeeze((0, 0)),
    "flip_twice": lambda tt, x, y: x.flip(0, 0),
    "roll_list": lambda tt, x, y: x.roll([1, 2]),
    "unbind_0d": lambda tt, x, y: tt.tensor(1.0).unbind(),
    "narrow_vector": lambda tt, x, y: x.narrow(0, tt.tensor([1]), 1),
    "mT_of_a_vector": lambda tt, x, y: x[0].mT,
    "hstack_nothing": lambda tt, x, y: tt.hstack([]),
    "meshgrid_nothing": lambda tt, x, y: tt.meshgrid(),
    "mode_unknown": lambda tt, x, y: pad(tt, y, (1, 1), "mirror"),
    "too_many_wraps": lambda tt, x, y: pad(tt, y, (5, 0, 0, 0), "circular"),
    "cut_away": lambda tt, x, y: pad(tt, y, (-2, -3, 0, 0), "replicate"),
    "index_int8": lambda tt, x, y: x[tt.tensor([1], dtype=tt.int8)],
    "index_float": lambda tt, x, y: x[tt.tensor([])],
    "index_select_int8": lambda tt, x, y: x.index_select(0, tt.tensor([1], dtype=tt.int8)),
    "index_copy_int32": lambda tt, x, y: x.index_copy(0, int32(tt, 0), x[:1]),
    "index_fill_int32": lambda tt, x, y: x.index_fill(0, int32(tt, 0), 1.0),
    "take_int32": lambda tt, x, y: x.take(int32(tt, 0)),
    "index_select_negative": lambda tt, x, y: x.index_select(0, tt.tensor([-1])),
    "index_copy_negative": lambda tt, x, y: x.index_copy(0, tt.tensor([-1]), x[:1]),
    "scatter_dtypes": lambda tt, x, y: x.scatter(0, x.long()[:1] * 0, x.double()),
    "index_put_dtypes": lambda tt, x, y: x.index_put((tt.tensor([0]),), tt.tensor(1)),
    "masked_select_uint8": lambda tt, x, y: x.masked_select(x.to(tt.uint8)),
    "view_of_a_transposed_tensor": lambda tt, x, y: x.t().view(12),
    "bytes_of_a_transposed_tensor": lambda tt, x, y: x.t().view(tt.int8),
    "negative_step": lambda tt, x, y: x[::-1],
    "float_index": lambda tt, x, y: x[1.5],
    "assign_a_wrong_shape": lambda tt, x, y: x.__setitem__(tt.tensor([0, 1]), tt.ones(3, 4)),
}


def run(call: Call, tt: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(tt, *inputs(tt))


@pytest.mark.parametrize("name", [*VIEWS, *VALUES])
def test_result(name: str) -> None:
    call = VIEWS.get(name) or VALUES[name]
    ours, theirs = (list(flat(run(call, tt))) for tt in (tinyt, torch))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (dtype_name(a), tuple(a.shape)) == (dtype_name(b), tuple(b.shape))
        np.testing.assert_array_equal(to_numpy(a), to_numpy(b))
        if name in VIEWS and a.numel() > 1:
            long = [d for d, n in enumerate(a.shape) if n > 1]
            assert [a.stride(d) for d in long] == [b.stride(d) for d in long]
            assert a.storage_offset() == b.storage_offset()


@pytest.mark.parametrize("name", ERRORS)
def test_error_class(name: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run(ERRORS[name], torch)
    wanted = next(
        c
        for c in (IndexError, ValueError, TypeError, NotImplementedError, RuntimeError)
        if issubclass(caught.type, c)
    )
    del caught
    with pytest.raises(wanted):
        run(ERRORS[name], tinyt)


ASSIGNED: dict[str, Call] = {
    "column": lambda tt, x, y: x.__setitem__((slice(None), 1), 7.0),
    "mask": lambda tt, x, y: x.__setitem__(x > 5, -1.0),
    "mask_of_rows": lambda tt, x, y: x.__setitem__(x[:, 0] > 3, tt.tensor([1.0, 2.0, 3.0, 4.0])),
    "mask_one_element": lambda tt, x, y: x.__setitem__(x > 5, tt.tensor([9.0])),
    "mask_values": lambda tt, x, y: x.__setitem__(x > 9, tt.tensor([5.0, 6.0])),
    "pairs": lambda tt, x, y: x.__setitem__((tt.tensor([0, 2]), tt.tensor([-1, 0])), x[0, :2] + 9),
    "columns": lambda tt, x, y: x.__setitem__((slice(1, 3), [0, 3]), tt.tensor([[1.0], [2.0]])),
    "last_dimension": lambda tt, x, y: y.__setitem__((..., tt.tensor([1, 0])), 5.0),
    "apart": lambda tt, x, y: y.__setitem__((0, [1, 0], slice(None), [2, 3]), tt.ones(2, 3)),
    "transposed": lambda tt, x, y: x.t().__setitem__(tt.tensor([3, 1]), tt.zeros(3)),
    "nothing": lambda tt, x, y: x.__setitem__([], 1.0),
    "index_put": lambda tt, x, y: x.index_put_((tt.tensor([1, 1]),), tt.ones(4), accumulate=True),
    "add_at_a_mask": lambda tt, x, y: x[x > 3].add_(1),
    "put": lambda tt, x, y: x.t().put_(tt.tensor([-1, 1]), tt.tensor([5.0, 6.0])),
    "scatter_into_a_view": lambda tt, x, y: x.t().scatter_(0, tt.tensor([[2, 0, 1]]), 8.0),
    "index_copy_columns": lambda tt, x, y: x.index_copy_(1, tt.tensor([2, 0]), x[:, :2] * 3),
    "triu_": lambda tt, x, y: y.mT.triu_(1),
}


@pytest.mark.parametrize("name", ASSIGNED)
def test_writes(name: str) -> None:
    after = []
    for tt in (tinyt, torch):
        x, y = inputs(tt)
        ASSIGNED[name](tt, x, y)
        after.append((to_numpy(x), to_numpy(y)))
    for ours, theirs in zip(*after, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", [n for n in ASSIGNED if n != "add_at_a_mask"])
def test_gradient_of_writes(name: str) -> None:
    """Of what was written over, nothing; of the rest, everything."""
    found = []
    for tt in (tinyt, torch):
        leaves = [t.requires_grad_() for t in inputs(tt)]
        x, y = (leaf * 1 for leaf in leaves)
        ASSIGNED[name](tt, x, y)
        ((x * x).sum() + (y * y).sum()).backward()
        found.append([to_numpy(leaf.grad) for leaf in leaves])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
