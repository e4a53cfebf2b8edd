"""Indices that need no Python frame: the same as the general functions of brackets."""

import numpy as np
import pytest

import tinyt
from tinyt.ops.index import indexing


def plain_indices(rng):
    """(shape, index) of one tensor of positions, or one mask of the leading dimensions."""
    yield (5, 3), tinyt.tensor([4, -5, 0, 0])
    yield (5, 3), tinyt.tensor([[1, 2, 3], [0, -1, 4]])
    yield (5,), tinyt.tensor([2, 2, -1], dtype=tinyt.int32)
    yield (5, 3), tinyt.tensor([], dtype=tinyt.int64)
    yield (5, 2, 3), tinyt.tensor([[[1]], [[-2]]])
    yield (0, 3), tinyt.tensor([], dtype=tinyt.int64)
    for shape, lead in (((4, 3), 1), ((4, 3), 2), ((2, 3, 4), 2), ((7,), 1), ((0, 3), 2)):
        yield shape, tinyt.from_numpy(rng.random(shape[:lead]) < 0.5)
    yield (4, 3), tinyt.zeros(4, 3, dtype=tinyt.bool)
    yield (3, 4), tinyt.from_numpy(rng.random((4, 3)) < 0.5).t()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("strided", [False, True])
def test_one_tensor_in_brackets(rng, requires_grad, strided):
    for shape, index in plain_indices(rng):
        x = tinyt.from_numpy(rng.standard_normal(tuple(2 * n for n in shape), np.float32))
        x = x[tuple(slice(None, None, 2) for _ in shape)]
        x = (x if strided else x.clone()).detach().requires_grad_(requires_grad)
        got = x[index]
        np.testing.assert_array_equal(got.detach().numpy(), x.detach().numpy()[index.numpy()])
        general = indexing.getitem(x, index)
        assert (got.shape, got.stride(), got.dtype) == (general.shape, general.stride(), x.dtype)
        assert got.requires_grad == requires_grad
        if requires_grad:
            weight = tinyt.from_numpy(rng.standard_normal(tuple(got.shape), np.float32))
            gradients = [tinyt.autograd.grad((y * weight).sum(), x)[0] for y in (got, general)]
            np.testing.assert_array_equal(*(g.numpy() for g in gradients))


def test_one_tensor_in_brackets_out_of_range():
    x = tinyt.randn(5, 3)
    for index in ([5], [-6], [0, 7]):
        with pytest.raises(IndexError, match="out of range for dimension 0 of size 5"):
            x[tinyt.tensor(index)]
    with pytest.raises(IndexError, match="the mask has shape"):
        x[tinyt.ones(4, dtype=tinyt.bool)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool", "complex64"])
@pytest.mark.parametrize("value", [0, 3, True, -1.5, 2**62 + 1, float("inf"), 1j])
def test_numbers_written_at_masks_and_positions(rng, dtype, value):
    start = tinyt.from_numpy(rng.integers(0, 2, (4, 3))).to(getattr(tinyt, dtype))
    mask = tinyt.from_numpy(rng.random((4, 3)) < 0.5)
    for x, its_mask in ((start, mask), (start[:, ::2], mask[:, ::2]), (start.t(), mask.t())):
        for index in (its_mask, 1, slice(3)):
            results = []
            for write in (indexing.setitem, tinyt.Tensor.__setitem__):
                target = x.clone() if x is start else x.clone().t().contiguous().t()
                try:
                    write(target, index, value)
                except (RuntimeError, TypeError, OverflowError) as error:
                    results.append((type(error), str(error)))
                else:
                    results.append((target.numpy().tobytes(), target._version))
            assert results[0] == results[1]


def test_writes_in_brackets_check_leaves_and_views():
    leaf = tinyt.ones(3, requires_grad=True)
    for index in (0, slice(2), tinyt.tensor([True, False, True])):
        with pytest.raises(RuntimeError, match="leaf"):
            leaf[index] = 0.0
    with tinyt.no_grad():
        leaf[0] = 5.0
        leaf[leaf == 1.0] = 7.0
    assert leaf.tolist() == [5.0, 7.0, 7.0]
    mask = tinyt.tensor([True, False, True])
    mask[mask] = False  # reads and writes the same memory
    assert mask.tolist() == [False, False, False]
    wide = tinyt.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="cannot write to an expanded tensor"):
        wide[tinyt.ones(3, dtype=tinyt.bool)] = 2.0
    with pytest.raises(TypeError, match="does not support deleting items"):
        del leaf[0]
    x = tinyt.zeros(2, 3)
    x[0] = tinyt.ones(1, 1, 3)  # leading dimensions of size 1 are dropped
    x[1] = tinyt.tensor([2, 3, 4])
    assert x.tolist() == [[1.0, 1.0, 1.0], [2.0, 3.0, 4.0]]
