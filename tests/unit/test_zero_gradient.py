"""Results that do not depend smoothly on anything still belong to the graph: with gradient 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import linalg

FLAT: dict[str, Callable[[Any], Any]] = {
    "floordiv": lambda x: x // 2,
    "floordiv_reversed": lambda x: 2 // x,
    "floordiv_both": lambda x: x // x,
    "floor_divide": lambda x: tinyt.floor_divide(x, 2),
    "div_floor": lambda x: tinyt.div(x, 2, rounding_mode="floor"),
    "div_trunc": lambda x: tinyt.div(x, 2, rounding_mode="trunc"),
    "norm": lambda x: x.norm(p=0),
    "vector_norm": lambda x: linalg.vector_norm(x, 0),
    "dist": lambda x: tinyt.dist(x, x + 1, p=0),
    "cdist": lambda x: tinyt.cdist(x[None], x[None], p=0),
    "matrix_power": lambda x: linalg.matrix_power(x.outer(x), 0),
    "sign": tinyt.sign,
    "sgn": tinyt.sgn,
    "floor": tinyt.floor,
    "ceil": tinyt.ceil,
    "trunc": tinyt.trunc,
    "round": tinyt.round,
    "round_decimals": lambda x: tinyt.round(x, decimals=1),
    "heaviside": lambda x: tinyt.heaviside(x, x),
    "nextafter": lambda x: tinyt.nextafter(x, x),
    "bernoulli": lambda x: tinyt.bernoulli(x * 0 + 0.5),
    "normal": lambda x: tinyt.normal(x, 1.0),
    "normal_std": lambda x: tinyt.normal(0.0, x),
}


CASES = [(name, tinyt.float32) for name in FLAT]
CASES += [(name, tinyt.bfloat16) for name in FLAT if name not in ("cdist", "nextafter")]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_gradient_is_zero(name: str, dtype: Any) -> None:
    x = tinyt.tensor([1.0, 2.5, 3.0], dtype=dtype, requires_grad=True)
    y = FLAT[name](x)
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    with tinyt.no_grad():
        assert not FLAT[name](x).requires_grad


def test_integers_are_outside_the_graph() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    assert not (x.int() // 2).requires_grad
    assert not tinyt.searchsorted(x, x).requires_grad
    assert not (x > 1).requires_grad


@pytest.mark.parametrize(
    "in_place", [lambda u: u.floor_divide_(2), lambda u: u.div_(2, rounding_mode="floor")]
)
def test_in_place(in_place: Any) -> None:
    x = tinyt.tensor([3.0, 5.0], requires_grad=True)
    u = x * 1
    in_place(u)
    assert u.tolist() == [1.0, 2.0]
    u.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_unique_gives_its_gradient_to_the_first_of_equal_elements() -> None:
    weight = tinyt.tensor([1.0, 10.0, 100.0])
    x = tinyt.tensor([2.0, 2.0, 1.0, 3.0, 3.0], requires_grad=True)
    (tinyt.unique_consecutive(x) * weight).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 10.0, 100.0, 0.0]
    x.grad = None
    (tinyt.unique(x) * weight).sum().backward()
    assert x.grad.tolist() == [10.0, 0.0, 1.0, 100.0, 0.0]


def test_unique_rows() -> None:
    x = tinyt.tensor([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]], requires_grad=True)
    values, inverse = tinyt.unique(x, dim=0, return_inverse=True)
    assert (values.tolist(), inverse.tolist()) == ([[0.0, 1.0], [1.0, 2.0]], [1, 0, 1])
    (values * tinyt.tensor([[1.0], [10.0]])).sum().backward()
    assert x.grad.tolist() == [[10.0, 10.0], [1.0, 1.0], [0.0, 0.0]]


def test_gradcheck_of_a_function_that_differentiates() -> None:
    def slope(x: Any) -> Any:
        return tinyt.autograd.grad((x**3).sum(), x, create_graph=True)[0]

    x = tinyt.tensor([1.0, 2.0], dtype=tinyt.float64, requires_grad=True)
    assert tinyt.autograd.gradcheck(slope, (x,))
    assert tinyt.autograd.gradgradcheck(slope, (x,))


def test_gradcheck_calls_the_function_in_grad_mode() -> None:
    """Also where it takes the differences; the function may differentiate inside."""
    modes: set[bool] = set()

    def penalty(x: Any) -> Any:
        modes.add(tinyt.is_grad_enabled())
        (grad,) = tinyt.autograd.grad((x * x * x).sum(), x, create_graph=True)
        return grad * x

    x = tinyt.tensor([1.0, -2.0], dtype=tinyt.float64, requires_grad=True)
    for check in (tinyt.autograd.gradcheck, tinyt.autograd.gradgradcheck):
        assert check(penalty, (x,))
    assert modes == {True}
