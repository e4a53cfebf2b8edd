"""Which classes catch an error, where PyTorch's differ from what one would expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt.utils.data import TensorDataset

NEAR, FAR = tinyt.tensor([0]), tinyt.tensor([3])
INDEXED: list[Callable[[Any, Any], Any]] = [
    lambda x, i: x.gather(0, i),
    lambda x, i: x.scatter(0, i, 1.0),
    lambda x, i: x.scatter_(0, i, 1.0),
    lambda x, i: x.scatter_add_(0, i, tinyt.ones(1)),
    lambda x, i: x.scatter_reduce(0, i, tinyt.ones(1), "amax"),
    lambda x, i: x.index_select(0, i),
    lambda x, i: F.embedding(i, x[:, None]),
    lambda x, i: F.embedding_bag(i, x[:, None], tinyt.tensor([0])),
    lambda x, i: F.multi_margin_loss(x[None], i),
    lambda x, i: F.nll_loss(x[None], i),
    lambda x, i: F.max_unpool1d(x[None, :1], i[None], 3),
]


@pytest.mark.parametrize("call", INDEXED)
@pytest.mark.parametrize("kind", [IndexError, RuntimeError, tinyt.OutOfRangeError])
def test_index_out_of_range(call: Callable[[Any, Any], Any], kind: type[Exception]) -> None:
    """PyTorch raises RuntimeError in some of these and IndexError in the others."""
    x = tinyt.tensor([1.0, 2.0, 3.0])
    with pytest.raises(kind, match=r"index 3 is out of range for dimension \d of size 3"):
        call(x, FAR)
    assert x.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("call", INDEXED)
def test_index_out_of_range_for_a_program(call: Callable[[Any, Any], Any]) -> None:
    """A compiled call raises what eager raises."""
    compiled = tinyt.compile(call)
    for _ in range(3):
        compiled(tinyt.tensor([1.0, 2.0, 3.0]), NEAR)
    x = tinyt.tensor([1.0, 2.0, 3.0])
    for function in (call, compiled):
        with pytest.raises(tinyt.OutOfRangeError, match="index 3 is out of range"):
            function(x, FAR)
    assert x.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("data", [None, [None], [1, None], {}, set(), object(), ..., [1, len]])
def test_tensor_of_what_is_no_number(data: Any) -> None:
    with pytest.raises(RuntimeError, match=r"tensor: cannot make a tensor from \w+"):
        tinyt.tensor(data)
    with pytest.raises(TypeError, match=r"tensor: cannot make a tensor from \w+"):
        tinyt.tensor(data, dtype=tinyt.float32)


@pytest.mark.parametrize("data", ["1", [1, "2"]])
def test_tensor_of_text(data: Any) -> None:
    for facts in ({}, {"dtype": tinyt.float32}):
        with pytest.raises(TypeError, match="tensor: cannot make a tensor from str"):
            tinyt.tensor(data, **facts)


def test_items_cannot_be_deleted() -> None:
    x = tinyt.ones(3)
    with pytest.raises(TypeError, match="does not support deleting items"):
        del x[0]
    with pytest.raises(TypeError, match="does not support deleting items"):
        del x[1:]
    assert x.tolist() == [1.0] * 3


def test_tensors_of_different_lengths_are_no_dataset() -> None:
    with pytest.raises(AssertionError, match=r"TensorDataset.*\(2,\), \(3, 1\)"):
        TensorDataset(tinyt.ones(2), tinyt.ones(3, 1))
