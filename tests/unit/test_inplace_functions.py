"""In-place functions of the package: each does what the method of its name does."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import assert_same_bits
from tinyt.ops.inplace import NAMES

# Arguments after the tensor, and the tensors of those that are not for positive floats.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "addmv_": (np.ones((3, 2), np.float32), np.ones(2, np.float32)),
    "as_strided_": ((2,), (1,), 1),
    "clamp_": (0.3, 0.6),
    "clamp_max_": (0.5,),
    "clamp_min_": (0.5,),
    "clip_": (0.3, 0.6),
    "fill_": (2.5,),
    "gcd_": (np.array([4, 6, 9]),),
    "index_put_": ((np.array([2, 0]),), np.array([7.0, 8.0], np.float32)),
    "lcm_": (np.array([4, 6, 9]),),
    "ldexp_": (np.array([1.0, 2.0, 3.0], np.float32),),
    "resize_as_": (np.ones((1, 2), np.float32),),
    "xlogy_": (np.array([4.0, 6.0, 9.0], np.float32),),
}


def tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(tensors, value))
    return tinyt.tensor(value) if isinstance(value, np.ndarray) else value


def example(name: str) -> tuple[tinyt.Tensor, tuple[Any, ...]]:
    whole = name in ("gcd_", "lcm_")
    x = tinyt.tensor([8, 12, 30] if whole else [0.25, 0.5, 0.75])
    return (x + 1 if name == "acosh_" or name == "arccosh_" else x), tensors(
        ARGUMENTS.get(name, ())
    )


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_method(name: str) -> None:
    x, args = example(name)
    want = getattr(x.clone(), name)(*args)
    assert getattr(tinyt, name)(x, *args) is x
    assert_same_bits(x, want)


@pytest.mark.parametrize("name", NAMES)
def test_takes_keywords(name: str) -> None:
    """The first argument is called input, as in PyTorch; every one can be named."""
    x, args = example(name)
    y = x.clone()
    function = getattr(tinyt, name)
    names = list(inspect.signature(function).parameters)
    assert names[0] == "input"
    function(**dict(zip(names, (x, *args), strict=False)))
    assert_same_bits(x, function(y, *args))


@pytest.mark.parametrize("name", NAMES)
def test_describes_itself(name: str) -> None:
    function = getattr(tinyt, name)
    assert function.__doc__
    assert name in ("clip_", function.__name__)
    assert name in tinyt.__all__


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [3, "a", None])
def test_needs_a_tensor(name: str, value: Any) -> None:
    _, args = example(name)
    function = getattr(tinyt, name)
    with pytest.raises(TypeError, match=rf"{function.__name__.strip('_')}.*{type(value).__name__}"):
        function(value, *args)


@pytest.mark.parametrize("name", ["exp_", "sinc_", "reciprocal_", "deg2rad_"])
def test_integers_cannot_hold_floats(name: str) -> None:
    x = tinyt.tensor([1, 2])
    with pytest.raises(RuntimeError, match=rf"{name[:-1]}.*float32.*int64"):
        getattr(tinyt, name)(x)
    assert x.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["sin_", "clamp_min_", "xlogy_"])
def test_is_differentiated(name: str) -> None:
    grads = []
    for call in (getattr(tinyt, name), getattr(tinyt, name[:-1])):
        x, args = example(name)
        x.requires_grad_()
        call(x * 1.0, *args).sum().backward()
        grads.append(x.grad)
    assert_same_bits(*grads)


def test_a_leaf_that_requires_grad_is_refused() -> None:
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"leaf"):
        tinyt.exp_(x)
    with tinyt.no_grad():
        assert tinyt.zero_(x) is x
    assert x.tolist() == [0.0, 0.0]


def test_embedding_renorm() -> None:
    table = tinyt.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    assert tinyt.embedding_renorm_(table, tinyt.tensor([[0, 1], [0, 0]]), 1.0, 2.0) is table
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)
    with pytest.raises(IndexError, match=r"embedding_renorm_.*3"):
        tinyt.embedding_renorm_(table, tinyt.tensor([3]), 1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"embedding_renorm_.*float32"):
        tinyt.embedding_renorm_(table, tinyt.tensor([1.0]), 1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"embedding_renorm_.*\(2,\)"):
        tinyt.embedding_renorm_(table[0], tinyt.tensor([1]), 1.0, 2.0)


@pytest.mark.parametrize("other", [(1,), [1], "a", b"a", {1}, None])
def test_addition_of_what_is_no_operand(other: Any) -> None:
    """An error as of the other operators; the name keeps its tensor."""
    x = same = tinyt.ones(3)
    with pytest.raises(TypeError):
        x += other
    with pytest.raises(TypeError):
        x.add_(other)
    assert x is same
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_addition_leaves_others_their_turn() -> None:
    class Other:
        def __radd__(self, x: tinyt.Tensor) -> float:
            return x.sum().item()

    x: Any = tinyt.ones(3)
    x += Other()
    assert x == 3.0
