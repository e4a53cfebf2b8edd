"""Floats of a recorded call are of a class of their own, which the function must not notice."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor
from tinyt.compiler.api import compile


def same(function: Callable[..., Any], *rates: float) -> None:
    """Requires eager's results at every call, and their types."""
    compiled = compile(function)
    x = tinyt.tensor([1.0, 2.0])
    for rate in rates:
        got, want = compiled(x, rate), function(x, rate)
        assert repr(got) == repr(want)
        assert [type(y) for y in got] == [type(y) for y in want]


MADE: dict[str, Callable[[float], Any]] = {
    "mean": lambda r: statistics.mean([r, 1.0]),
    "nested": lambda r: {"a": [statistics.mean([r, 2.0])]},
}


@pytest.mark.parametrize("name", MADE)
def test_a_float_of_the_class_of_an_argument_is_returned(name: str) -> None:
    same(lambda x, r: (x * r, MADE[name](r), r), 2.0, 2.0, 2.0, 4.0, 3.0)


class Rates:
    """Has floats, and gives them."""

    def __init__(self) -> None:
        self.rate, self.rates = 2.0, [1.0, 2.0]

    def get(self) -> float:
        return self.rate

    def is_float(self) -> bool:
        return type(self.rate) is float


def by_branch(x: Tensor, r: float) -> Any:
    if type(r) is not float:
        raise TypeError("no float")
    return x * r, r


def by_name(x: Tensor, r: float) -> Any:
    kind = type(r)
    return x * r, kind.__name__, kind(3.5)


def by_match(x: Tensor, r: float) -> Any:
    match type(r) if r else None:
        case kind if kind is float:
            return x * 2, r
    return x, r


ASKED: dict[str, Callable[..., Any]] = {
    "is": lambda x, r: (x * (2.0 if type(r) is float else 3.0), r),
    "equals": lambda x, r: (x * (2.0 if type(r) == float else 3.0), r),  # noqa: E721
    "in": lambda x, r: (x * (2.0 if type(r) in (int, float) else 3.0), r * 2),
    "table": lambda x, r: (x * {float: 2.0, int: 3.0}.get(type(r), 5.0), r),
    "class": lambda x, r: (x * (2.0 if r.__class__ is float else 3.0), r),
    "makes": lambda x, r: (x * type(r)(3.5), type(r)(4.5)),
    "class makes": lambda x, r: (x * r.__class__(3.5), r.__class__(4.5)),
    "computed": lambda x, r: (x * (2.0 if type(r * 2) is float else 3.0), r),
    "loop": lambda x, r: (x * sum([type(v) is float for v in (r, 1.0)]), r),
    "map": lambda x, r: (x * (2.0 if list(map(type, [r])) == [float] else 3.0), r),
    "body": lambda x, r: (
        tinyt.cond(x.sum() > 0, lambda x: x * (type(r) is float), lambda x: x * r, (x,)), r,
    ),
    "branch": by_branch,
    "name": by_name,
    "match": by_match,
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_the_type_of_an_argument(name: str) -> None:
    same(ASKED[name], 2.0, 2.0, 2.0, 3.0, 2.0, 0.5, -1.0)


HELD: dict[str, Callable[[Tensor, Rates], Any]] = {
    "attribute": lambda x, o: x * o.rate * (2.0 if type(o.rate) is float else 3.0),
    "inside": lambda x, o: x * o.rate * (2.0 if o.is_float() else 3.0),
    "given": lambda x, o: x * o.rate * (2.0 if type(o.get()) is float else 3.0),
    "item": lambda x, o: x * o.rates[1] * (2.0 if type(o.rates[1]) is float else 3.0),
    "items": lambda x, o: x * o.rates[1] * sum(type(v) is float for v in o.rates),
    "class": lambda x, o: x * o.rate * (2.0 if o.rate.__class__ is float else 3.0),
    "class given": lambda x, o: x * o.rate * (2.0 if o.get().__class__ is float else 3.0),
}


@pytest.mark.parametrize("name", HELD)
def test_the_type_of_a_float_that_changes(name: str) -> None:
    function, rates = HELD[name], Rates()
    compiled = compile(lambda x: function(x, rates))
    x = tinyt.tensor([1.0, 2.0])
    for rate in (2.0, 2.0, 3.0, 3.0, 4.0, 5.0, 5.0, 2.0):
        rates.rate = rates.rates[1] = rate
        assert compiled(x).tolist() == function(x, rates).tolist()


def test_a_line_that_asks_for_no_type_of_a_float_leaves_it_live() -> None:
    compiled = compile(lambda x, r: x * r if isinstance(r, float) else x)
    for rate in (2.0, 3.0, 4.0, 5.0):
        compiled(tinyt.ones(2), rate)
    assert compiled.cache_info().currsize == 1


def test_the_type_of_an_item_of_a_tensor_is_refused() -> None:
    """It is read anew at every run."""
    weight = tinyt.ones(1)

    def step(x: Tensor) -> Any:
        value = weight.item()
        return x * (2.0 if type(value) is float else 3.0)

    with pytest.raises(tinyt.CaptureError, match=r"asks for a type.*test_number_types\.py:\d+"):
        compile(step)(tinyt.ones(2))


EXACT = 2**53 + 1  # no double
OTHERS: dict[str, Callable[[Tensor, float], Any]] = {
    "r // x": lambda x, r: (r // x, x * r),
    "x // r": lambda x, r: (x // r, x * r),
    "r % x": lambda x, r: (r % x, x * r),
    "x % r": lambda x, r: (x % r, x * r),
    "r // array": lambda x, r: (x * float((r // np.array([2.0, 0.3]))[1]),),
    "r % array": lambda x, r: (x * float((r % np.array([2.0, 0.3]))[1]),),
    "array // r": lambda x, r: (x * float((np.array([2.0, 0.3]) // r)[0]),),
    "divmod": lambda x, r: (x * divmod(r, 0.4)[1], x * divmod(7, r)[0]),
    "huge": lambda x, r: (x * r, r < 10**400, r > -(10**400), r == 10**400, r != 10**400),
    "exact": lambda x, r: (x * r, r == EXACT, r < EXACT, r >= EXACT, r != EXACT, r == 2**60),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_float_beside_what_is_none(name: str) -> None:
    same(OTHERS[name], 2.5, 2.5, 2.5, 1.25, float(2**53), float(2**53), 3.5)


def test_what_a_float_is_not_divided_by() -> None:
    def step(x: Tensor, r: float) -> list[str]:
        said = []
        for call in (lambda: r // "a", lambda: r % None, lambda: divmod([], r), lambda: 1j // r):
            try:
                call()  # type: ignore[no-untyped-call]
            except TypeError as error:
                said.append(str(error).replace("tinyt._capture.Number", "float"))
        return said

    same(step, 2.5, 2.5, 2.5)


@pytest.mark.parametrize("pair", [(0.0, -0.0), (-0.0, 0.0), (float("nan"), 1.0)])
def test_signs_of_zeros_and_nan(pair: tuple[float, float]) -> None:
    """A use that only C sees: the value is part of the call then."""

    def step(x: Tensor, r: float) -> tuple[Tensor, Tensor]:
        return x + r, x * (2.0 if math.copysign(1.0, r) < 0 else 3.0)

    same(step, *pair, *pair, pair[1], pair[0], 1.5)
