"""Floats of a recorded call are of a class of their own, which the function must not notice."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt.compile import compile


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
