"""`autograd.Function`: what forward leaves for backward, and what is refused.

Each case is one function of the library to use, run with tinyt and, where installed, PyTorch.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from both import plain, torch
from tinyt.autograd.function import once_differentiable

CASES: list[Callable[[Any], Any]] = []


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES.append(function)
    return function


def cube_of(tt: Any) -> Any:
    class Cube(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x

    return Cube


def leaf(tt: Any, *values: float) -> Any:
    return tt.tensor(values, dtype=tt.float64, requires_grad=True)


@case
def first_to_third_derivative(tt: Any) -> Any:
    x = leaf(tt, 2.0, -1.0)
    y, seen = cube_of(tt).apply(x), []
    for _ in range(3):
        (y,) = tt.autograd.grad(y.sum(), x, create_graph=True)
        seen.append(y.tolist())
    return seen


@case
def setup_context_form(tt: Any) -> Any:
    class Scale(tt.autograd.Function):
        @staticmethod
        def forward(x: Any, factor: float) -> Any:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.factor = inputs[1]
            ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (output,) = ctx.saved_tensors
            return grad * ctx.factor + 0 * output, None

    x = leaf(tt, 1.0, 2.0)
    Scale.apply(x, 5.0).sum().backward()
    return x.grad


@case
def several_outputs_numbers_among_them(tt: Any) -> Any:
    seen = []

    class Split(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, name: str) -> Any:
            seen.append((ctx.needs_input_grad, tt.is_grad_enabled(), name))
            return x * 2, 7, y * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            seen.append(plain((a, b, c)))
            return a * 2, c * 3, None

    x, y = leaf(tt, 1.0), leaf(tt, 2.0)
    p, seven, q = Split.apply(x, y, "n")
    q.sum().backward()
    Split.apply(x.detach(), y, "m")
    return seen, seven, p.requires_grad, x.grad, y.grad


@case
def gradients_are_not_materialized(tt: Any) -> Any:
    seen = []

    class Two(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append((a is None, b is None))
            return b * 3

    x = leaf(tt, 1.0)
    Two.apply(x)[1].sum().backward()
    return seen, x.grad


@case
def non_differentiable_output(tt: Any) -> Any:
    class Sorted(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            signs = tt.sign(x)
            ctx.mark_non_differentiable(signs)
            ctx.save_for_backward(signs)
            return x * signs, signs, x > 0

        @staticmethod
        def backward(ctx: Any, grad: Any, unused: Any, positive: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x = leaf(tt, 1.0, -2.0)
    a, s, p = Sorted.apply(x)
    a.sum().backward()
    return a, a.requires_grad, s, s.requires_grad, p, p.requires_grad, x.grad


@case
def in_place_function(tt: Any) -> Any:
    class Double(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    x = leaf(tt, 1.0, 2.0)
    y = x * 3
    view = y[0:1]
    z = Double.apply(y)
    (z * z + view.sum()).sum().backward()
    return z is y, y, x.grad


@case
def an_input_returned_as_it_is(tt: Any) -> Any:
    class Same(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 10

    x = leaf(tt, 1.0)
    y = Same.apply(x)
    y.sum().backward()
    return y is x, x.grad


@case
def gradient_is_reduced_and_converted(tt: Any) -> Any:
    class Add(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    x, y = leaf(tt, 1.0, 2.0), tt.ones(3, 1, requires_grad=True)
    Add.apply(x, y).sum().backward()
    return x.grad, y.grad, str(y.grad.dtype).split(".")[1]


@case
def none_for_an_unused_input(tt: Any) -> Any:
    class First(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, z: Any = None) -> Any:
            ctx.save_for_backward(None, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            nothing, y = ctx.saved_tensors
            return (grad * y if nothing is None else None), None, None, None

    x, y = leaf(tt, 1.0), leaf(tt, 5.0)
    First.apply(x, y, None).sum().backward()
    return x.grad, y.grad


@case
def backward_twice_where_nothing_was_saved(tt: Any) -> Any:
    class Negate(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return -x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return -grad

    x = leaf(tt, 1.0)
    y = Negate.apply(x).sum()
    y.backward()
    y.backward()
    return x.grad


@case
def under_no_grad(tt: Any) -> Any:
    with tt.no_grad():
        return cube_of(tt).apply(leaf(tt, 2.0)).requires_grad


@case
def names(tt: Any) -> Any:
    y = cube_of(tt).apply(leaf(tt, 2.0))
    return y.grad_fn.name(), y.is_leaf, len(y.grad_fn.next_functions)


@case
def hooks_on_its_output(tt: Any) -> Any:
    x = leaf(tt, 2.0)
    y = cube_of(tt).apply(x)
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return x.grad


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_as_pytorch(function: Callable[[Any], Any]) -> None:
    assert plain(function(tinyt)) == plain(function(torch))


def test_values_by_hand() -> None:
    assert first_to_third_derivative(tinyt) == [[12.0, 3.0], [12.0, -6.0], [6.0, 6.0]]
    assert plain(in_place_function(tinyt)) == [True, [6.0, 12.0], [84.0, 144.0]]


def test_gradcheck_of_a_function() -> None:
    x = tinyt.tensor([0.5, -1.5], dtype=tinyt.float64, requires_grad=True)
    function = cube_of(tinyt)
    assert tinyt.autograd.gradcheck(function.apply, (x,))
    assert tinyt.autograd.gradgradcheck(function.apply, (x,))


def returning(*grads: Any) -> Any:
    class Returns(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grads

    return Returns


@pytest.mark.parametrize(
    ("grads", "kind", "message"),
    [
        ((), RuntimeError, r"ReturnsBackward.*number of gradients \(expected 2, got 0\)"),
        ((None, None, 1), RuntimeError, r"expected 2, got 3"),
        ((tinyt.ones(3), None), RuntimeError, r"index 0: got shape \(3,\).*\(2,\)"),
        ((None, tinyt.ones(1)), RuntimeError, r"different than None at position 2"),
        ((1.0, None), TypeError, r"position 1, got float"),
    ],
)
def test_wrong_gradients(grads: Any, kind: type[Exception], message: str) -> None:
    y = returning(*grads).apply(leaf(tinyt, 1.0, 2.0), 3)
    with pytest.raises(kind, match=message):
        y.sum().backward()


def test_wrong_use() -> None:
    cube = cube_of(tinyt)
    with pytest.raises(RuntimeError, match=r"not instantiated.*Cube\.apply"):
        cube()
    with pytest.raises(NotImplementedError, match="forward"):
        tinyt.autograd.Function.apply(tinyt.ones(1))

    class Half(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x if x.sum() > 0 else 3)
            return x * 1

    with pytest.raises(TypeError, match="argument 0 is of type int"):
        Half.apply(leaf(tinyt, -1.0))
    y = Half.apply(leaf(tinyt, 1.0))
    with pytest.raises(NotImplementedError, match="backward"):
        y.sum().backward()


def test_second_backward_through_freed_memory() -> None:
    y = cube_of(tinyt).apply(leaf(tinyt, 1.0)).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time \(at CubeBackward\)"):
        y.backward()


def test_saved_tensor_was_written() -> None:
    x = leaf(tinyt, 1.0, 2.0) * 1
    y = cube_of(tinyt).apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match=r"(?s)\(2,\).*saved by CubeBackward.*version 1"):
        y.sum().backward()


def test_in_place_on_a_leaf() -> None:
    class Double(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Double.apply(leaf(tinyt, 1.0))


def test_once_differentiable() -> None:
    class Square(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            assert not tinyt.is_grad_enabled()
            return 2 * grad * ctx.saved_tensors[0]

    x = leaf(tinyt, 3.0)
    w = leaf(tinyt, 1.0)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]
    (g,) = tinyt.autograd.grad((w * Square.apply(x)).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"twice.*once_differentiable"):
        g.sum().backward()


def test_saving_an_output_makes_no_cycle() -> None:
    class Exp(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[1]

    gc.disable()
    y = Exp.apply(leaf(tinyt, 0.0))
    gone = weakref.ref(y)
    (g,) = tinyt.autograd.grad(y.sum(), y, retain_graph=True)
    del y, g
    assert gone() is None


def test_second_derivative_through_a_saved_output() -> None:
    class Exp(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

    x = leaf(tinyt, 0.5, -0.25)
    assert tinyt.autograd.gradgradcheck(Exp.apply, (x,))
