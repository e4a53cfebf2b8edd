"""Classes that programs derive from `Tensor` and `Parameter`, `Variable`, `Size`, and texts in
batches: each test says what both libraries give."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

import tinyt

BOTH = pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# ------------------------------------------------------------------ classes of tensors


@BOTH
def test_a_parameter_with_arguments_of_its_own(tt: Any) -> None:
    class Marked(tt.nn.Parameter):  # type: ignore[misc]
        def __new__(cls, data: Any, mark: Any = None) -> Any:
            return super().__new__(cls, data)

        def __init__(self, data: Any, mark: Any = None) -> None:
            self.mark = mark

    values = tt.ones(2)
    x = Marked(values, mark="x")
    assert (x.tolist(), x.mark, x.requires_grad) == ([1.0, 1.0], "x", True)
    assert type(x) is Marked
    assert x.data_ptr() == values.data_ptr()
    module = tt.nn.Module()
    module.weight = x
    assert next(iter(module.parameters())) is x


@BOTH
def test_a_tensor_with_arguments_of_its_own(tt: Any) -> None:
    class Boxes(tt.Tensor):  # type: ignore[misc]
        def __new__(cls, values: Any, size: int) -> Any:
            return super().__new__(cls, values)

        def __init__(self, values: Any, size: int) -> None:
            super().__init__()
            self.size_of_image = size

    boxes = Boxes([1.0, 2.0], 7)
    assert (boxes.tolist(), boxes.size_of_image, type(boxes)) == ([1.0, 2.0], 7, Boxes)


@BOTH
def test_values_of_a_class_that_only_has_an_init(tt: Any) -> None:
    class Named(tt.Tensor):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            self.title = "named"

    assert Named([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert Named([1.0]).title == "named"
    assert tuple(Named(2, 3).shape) == (2, 3)


@BOTH
def test_arguments_that_only_the_class_knows(tt: Any) -> None:
    class Quantised(tt.nn.Parameter):  # type: ignore[misc]
        def __new__(cls, data: Any = None, requires_grad: bool = True, half: bool = False) -> Any:
            made = tt.Tensor._make_subclass(cls, data, requires_grad)
            made.half_precision = half
            return made

    x = Quantised(tt.ones(2), False, True)
    assert (x.tolist(), x.requires_grad, x.half_precision) == ([1.0, 1.0], False, True)

    class Cast(tt.Tensor):  # type: ignore[misc]
        def __new__(cls, x: Any, **options: Any) -> Any:
            return tt.as_tensor(x).as_subclass(cls)

    assert Cast([1, 2], q=1).tolist() == [1, 2]


@BOTH
def test_wrong_arguments_are_refused(tt: Any) -> None:
    for call in (
        lambda: tt.Tensor([1.0], wrong=1),
        lambda: tt.nn.Parameter(tt.ones(1), wrong=1),
        lambda: tt.nn.Parameter("x"),
        lambda: tt.Tensor([1.0], [2.0]),
    ):
        with pytest.raises((TypeError, AttributeError)):
            call()


@BOTH
def test_copies_and_pickles_of_buffers_and_parameters(tt: Any) -> None:
    for x in (tt.nn.Parameter(tt.ones(2)), tt.nn.Buffer(tt.ones(2), persistent=False)):
        again = copy.deepcopy(x)
        assert (type(again), again.tolist()) == (type(x), [1.0, 1.0])
    assert pickle.loads(pickle.dumps(tt.nn.Parameter(tt.ones(2)))).requires_grad


# ------------------------------------------------------------------ Variable


@BOTH
def test_a_variable_is_a_new_leaf_over_the_same_memory(tt: Any) -> None:
    from_autograd = tt.autograd.Variable
    w = tt.ones(2, requires_grad=True)
    u = from_autograd(w * 2, requires_grad=True)
    (u * 3).sum().backward()
    assert w.grad is None
    assert u.grad.tolist() == [3.0, 3.0]
    x = tt.ones(3)
    for _ in range(2):
        leaf = from_autograd(x, requires_grad=True)
        (leaf * 2).sum().backward()
        assert leaf.grad.tolist() == [2.0, 2.0, 2.0]
    assert not x.requires_grad
    leaf.data[0] = 5.0
    assert x[0].item() == 5.0
    assert not from_autograd(w).requires_grad
    assert type(from_autograd(tt.nn.Parameter(tt.ones(1)))) is tt.Tensor
    tt.optim.SGD([from_autograd(w * 2, requires_grad=True)], lr=0.1)


@BOTH
def test_a_variable_is_a_type(tt: Any) -> None:
    kind = tt.autograd.Variable
    assert isinstance(kind, type)
    assert isinstance(tt.ones(1), kind)
    assert not isinstance(1.0, kind)
    assert kind().numel() == 0
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        kind([1.0])
    with pytest.raises(RuntimeError):
        kind(tt.ones(1, dtype=tt.int64), requires_grad=True)
    with pytest.warns(UserWarning, match="volatile was removed"):
        kind(tt.ones(1), volatile=True)


# ------------------------------------------------------------------ Size


@BOTH
def test_what_stays_a_size(tt: Any) -> None:
    size = tt.Size([3, 4])
    for made, want in (
        ((5,) + size[1:], [5, 4]),
        (size + (1,), [3, 4, 1]),
        (size + size, [3, 4, 3, 4]),
        (size * 2, [3, 4, 3, 4]),
        (2 * size, [3, 4, 3, 4]),
        (size[:1], [3]),
        (tt.broadcast_shapes((2, 1), (3,)), [2, 3]),
    ):
        assert type(made) is tt.Size
        assert list(made) == want
    with pytest.raises(TypeError):
        [1] + size
    with pytest.raises(TypeError):
        size * 1.5


# ------------------------------------------------------------------ collate


@BOTH
def test_text_in_batches(tt: ModuleType) -> None:
    samples = [(0, "a.png", {"name": "a"}, ["x"]), (1, "b.png", {"name": "b"}, ["y"])]
    found = tt.utils.data.default_collate(samples)
    assert found[1] == ("a.png", "b.png")
    assert found[2] == {"name": ["a", "b"]}
    assert found[3] == [("x", "y")]
    assert tt.utils.data.default_collate(["a", "b"]) == ["a", "b"]
