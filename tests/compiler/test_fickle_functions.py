"""Functions that do another thing at each call: what is found, and what is a constant."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor, nn
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


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_second_of_a_pair_of_normal_numbers(ahead: int) -> None:
    """It leaves NumPy's state as it is."""
    np.random.seed(0)
    np.random.randn(ahead)
    number = partial(np.random.standard_normal)
    compiled = compile(lambda x: x * number())
    compiled(tinyt.ones(2))
    with pytest.raises(tinyt.CaptureError, match="the second call is not as the first"):
        compiled(tinyt.ones(2))


def test_random_numbers_of_another_generator_of_numpy() -> None:
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(0))
    try:
        number = partial(np.random.rand)
        compiled = compile(lambda x: x * number())
        compiled(tinyt.ones(2))
        with pytest.raises(tinyt.CaptureError, match="the second call is not as the first"):
            compiled(tinyt.ones(2))
    finally:
        np.random.set_bit_generator(before)


def test_random_numbers_that_change_nothing_are_let_be() -> None:
    def step(x: Tensor) -> Tensor:
        return x * (2 if random.random() < 2 else time.time())

    compiled = compile(step)
    assert [compiled(tinyt.ones(1)).item() for _ in range(4)] == [2] * 4


def test_a_result_of_the_first_call_alone() -> None:
    """As whether a state was there: the recording has it as later calls do."""
    w = tinyt.ones(1, requires_grad=True)
    optimizer = tinyt.optim.Adam([w])

    @compile
    def step() -> bool:
        is_first = len(optimizer.state) == 0
        w.sum().backward()
        optimizer.step()
        return is_first

    assert [step() for _ in range(4)] == [True, False, False, False]


@pytest.mark.parametrize("kind", ["module", "parameter", "buffer", "float", "table", "shadow"])
def test_what_a_module_gets_later(kind: str) -> None:
    m = nn.Linear(1, 1)
    m.register_buffer("extra" if kind in ("table", "shadow") else "other", tinyt.ones(1))
    values: dict[str, Any] = {
        "module": nn.Linear(1, 1),
        "parameter": nn.Parameter(tinyt.ones(1)),
        "float": 2.0,
    }

    def change() -> None:
        if kind == "buffer":
            m.register_buffer("extra", tinyt.ones(1))
        elif kind == "table":
            m.__dict__["_buffers"] = {"extra": tinyt.full((1,), 5.0)}
        elif kind == "shadow":
            m.__dict__["extra"] = tinyt.full((1,), 5.0)
        else:
            m.extra = values[kind]

    def step(x: Tensor) -> Tensor:
        if not hasattr(m, "extra"):
            return x
        return x * (m.extra if kind in ("table", "shadow") else 2)

    compiled = compile(step)
    x = tinyt.ones(1)
    for i in range(6):
        if i == 2:
            change()
        if i == 4 and kind not in ("table", "shadow"):
            del m.extra
        assert compiled(x).tolist() == step(x).tolist()
