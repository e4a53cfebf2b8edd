"""Functions that do another thing at each call: what is found, and what is a constant."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor
from tinyt.compiler.api import compile
from tinyt.compiler.types import VerificationError
from unseen import drawn, unseen


@pytest.mark.parametrize(
    "number",
    [
        drawn(range(100)),
        random.random,
        random.Random(0).gauss,
        np.random.rand,
        np.random.default_rng(0).random,
        time.perf_counter,
        lambda: datetime.datetime.now().timestamp(),
    ],
)
def test_a_number_that_is_drawn_or_a_time_is_an_error(number: Callable[..., Any]) -> None:
    args = (0.0, 1.0) if getattr(number, "__name__", "") == "gauss" else ()
    compiled = compile(lambda x: x * float(number(*args)))
    compiled(tinyt.ones(2))
    with pytest.raises(tinyt.CaptureError, match="the second call is not as the first"):
        compiled(tinyt.ones(2))


def test_a_number_that_changes_unseen_is_a_constant() -> None:
    """As the guide says; a verified function finds it."""
    number = unseen(range(100))
    compiled = compile(lambda x: x * number())
    assert [compiled(tinyt.ones(1)).item() for _ in range(4)] == [0, 1, 1, 1]
    number = unseen(range(100))
    with pytest.raises(VerificationError):
        compile(lambda x: x * number(), verify=True)(tinyt.ones(1))


def test_random_numbers_that_change_nothing_are_let_be() -> None:
    def step(x: Tensor) -> Tensor:
        return x * (2 if random.random() < 2 else time.time())

    compiled = compile(step)
    assert [compiled(tinyt.ones(1)).item() for _ in range(4)] == [2] * 4
