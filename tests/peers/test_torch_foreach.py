"""`_foreach_*`: names, results, forms of operands and errors as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from tinyt.foreach import _UNARY, EXPORTS

NAMES = sorted(name for name in dir(torch) if name.startswith("_foreach_"))
ONE = [f"_foreach_{op}{end}" for op in _UNARY for end in ("", "_")]
ONE += ["_foreach_clone", "_foreach_max", "_foreach_norm", "_foreach_zero_"]
PAIRS = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"]


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [
        rng.uniform(0.1, 0.9, (2, 3)),
        rng.uniform(0.1, 0.9, ()),
        np.array([0.25, np.nan, 0.75]),
    ]


def lists(tt: Any, count: int) -> list[Any]:
    """As many lists of tensors of the same shapes, of different values."""
    return [[tt.tensor(a * 0.9**i) for a in arrays()] for i in range(count)]


def check(call: Callable[[Any, list[Any]], Any], count: int = 3) -> None:
    """Both give the same results, and leave the same in the lists."""
    seen = []
    for tt in (tinyt, torch):
        given = lists(tt, count)
        result = call(tt, given)
        assert isinstance(result, (list, tuple))
        is_first = result is given[0]
        seen.append((is_first, type(result), [x.tolist() for x in result], given[0]))
    ours, theirs = seen
    assert ours[:2] == theirs[:2]
    for a, b in zip(ours[2], theirs[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    for a, b in zip(ours[3], theirs[3], strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12)


def test_every_name_is_there() -> None:
    assert sorted(EXPORTS) == NAMES
    assert all(getattr(tinyt, name) is EXPORTS[name] for name in NAMES)


@pytest.mark.parametrize("name", ONE)
def test_of_one_list(name: str) -> None:
    check(lambda tt, x: getattr(tt, name)(x[0]))


OPERANDS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "number": lambda tt, x: 0.5,
    "numbers": lambda tt, x: [0.5, 2, 0.25],
    "tensors": lambda tt, x: x[1],
}


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("end", ["", "_"])
@pytest.mark.parametrize("name", PAIRS)
def test_of_a_second_operand(name: str, end: str, operand: str) -> None:
    make = OPERANDS[operand]
    check(lambda tt, x: getattr(tt, f"_foreach_{name}{end}")(x[0], make(tt, x)))


FORMS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "add alpha": lambda tt, x: tt._foreach_add(x[0], x[1], alpha=2),
    "add_ alpha": lambda tt, x: tt._foreach_add_(x[0], x[1], alpha=2),
    "add tensor": lambda tt, x: tt._foreach_add(x[0], tt.tensor(2.0), alpha=0.5),
    "add scalar": lambda tt, x: tt._foreach_add(x[0], scalar=2),
    "add scalars": lambda tt, x: tt._foreach_add(x[0], scalars=[1, 2, 3]),
    "sub alpha": lambda tt, x: tt._foreach_sub(x[0], x[1], alpha=3),
    "mul tensor": lambda tt, x: tt._foreach_mul_(x[0], tt.tensor(2.0)),
    "mul keywords": lambda tt, x: tt._foreach_mul(self=x[0], other=x[1]),
    "div tensor": lambda tt, x: tt._foreach_div(x[0], tt.tensor(2.0)),
    "pow of number": lambda tt, x: tt._foreach_pow(2, x[0]),
    "pow exponent": lambda tt, x: tt._foreach_pow(x[0], exponent=[1, 2, 3]),
    "addcmul": lambda tt, x: tt._foreach_addcmul(x[0], x[1], x[2]),
    "addcmul value": lambda tt, x: tt._foreach_addcmul(x[0], x[1], x[2], value=0.5),
    "addcmul_ numbers": lambda tt, x: tt._foreach_addcmul_(x[0], x[1], x[2], [1, 2, 0.5]),
    "addcdiv": lambda tt, x: tt._foreach_addcdiv(x[0], x[1], x[2], 0.5),
    "addcdiv_ tensor": lambda tt, x: tt._foreach_addcdiv_(
        x[0], x[1], x[2], tt.tensor([1.0, 2.0, 3.0])
    ),
    "lerp": lambda tt, x: tt._foreach_lerp(x[0], x[1], 0.25),
    "lerp_ numbers": lambda tt, x: tt._foreach_lerp_(x[0], x[1], [0.25, 0.5, 1.0]),
    "lerp tensors": lambda tt, x: tt._foreach_lerp(x[0], tensors1=x[1], weights=x[2]),
    "norm 1": lambda tt, x: tt._foreach_norm(x[0], 1),
    "norm inf": lambda tt, x: tt._foreach_norm(x[0], ord=float("inf")),
    "powsum": lambda tt, x: tt._foreach_powsum(x[0], 3),
    "copy_": lambda tt, x: tt._foreach_copy_(x[0], x[1]),
    "mm": lambda tt, x: tt._foreach_mm([x[0][0]], [x[1][0].t()]),
    "int and float": lambda tt, x: tt._foreach_maximum([tt.tensor([1, 2])], 1.5),
    "int quotient": lambda tt, x: tt._foreach_div((tt.tensor([1, 2]),), 2),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    check(FORMS[name])


ERRORS: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "empty": (lambda tt: tt._foreach_add([], 1), RuntimeError),
    "short numbers": (lambda tt: tt._foreach_add([tt.ones(2)], [1, 2]), RuntimeError),
    "short tensors": (lambda tt: tt._foreach_lerp([tt.ones(2)], [], 0.5), RuntimeError),
    "no list": (lambda tt: tt._foreach_add(1, 1), TypeError),
    "no operand": (lambda tt: tt._foreach_add([tt.ones(2)]), TypeError),
    "alpha of numbers": (lambda tt: tt._foreach_add([tt.ones(2)], 1, alpha=2), TypeError),
    "tensor with sizes": (lambda tt: tt._foreach_mul([tt.ones(2)], tt.ones(2)), RuntimeError),
    "dtype": (lambda tt: tt._foreach_add_([tt.tensor([1])], 1.5), RuntimeError),
    "leaf": (lambda tt: tt._foreach_add_([tt.ones(2, requires_grad=True)], 1), RuntimeError),
    "max of none": (lambda tt: tt._foreach_max([tt.ones(0)]), RuntimeError),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])
def test_errors(tt: Any, name: str) -> None:
    call, kind = ERRORS[name]
    with pytest.raises(kind):
        call(tt)


def test_gradients() -> None:
    found = []
    for tt in (tinyt, torch):
        x = [tt.tensor([1.0, 2.0], requires_grad=True), tt.tensor([3.0], requires_grad=True)]
        y = tt._foreach_mul(tt._foreach_exp(x), [2.0, 3.0])
        (y[0].sum() + y[1].sum()).backward()
        found.append([p.grad.tolist() for p in x])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
