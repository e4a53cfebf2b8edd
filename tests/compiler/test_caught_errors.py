"""CaptureErrors that the function itself catches: its fallback must not become the program."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import CaptureError, Tensor, nn, optim
from tinyt.compiler.api import compile
from tinyt.compiler.capture.recording import record


def guarded(x: Tensor) -> Tensor:
    loss = x.sum()
    try:
        if not loss.isfinite():  # here
            return loss.detach() * 0
    except Exception:
        pass
    return loss


def falls_back(x: Tensor) -> Any:
    try:
        return x * x.sum().item()  # here
    except Exception:
        return -x


def suppresses(x: Tensor) -> Any:
    with contextlib.suppress(RuntimeError):
        return x * float(x.sum())  # here
    return -x


def in_a_callee(x: Tensor) -> Any:
    def total() -> float:
        return x.sum().item()  # here

    try:
        return x * total()
    except RuntimeError:
        return -x


def catches_twice(x: Tensor) -> Any:
    try:
        n = x.sum().item()  # here
    except RuntimeError:
        n = 1.0
    try:
        return x * n * x.numpy(force=True)
    except RuntimeError:
        return -x


def refused_state(x: Tensor) -> Any:
    try:
        tinyt.manual_seed(0)  # here
    except RuntimeError:
        return -x
    return x


def in_a_branch(x: Tensor) -> Any:
    def branch(x: Tensor) -> Tensor:
        try:
            return x * x.sum().item()  # here
        except RuntimeError:
            return -x

    return tinyt.cond(x.sum() > 0, branch, lambda x: x * 1, (x,))


@pytest.mark.parametrize(
    "function",
    [guarded, falls_back, suppresses, in_a_callee, catches_twice, refused_state, in_a_branch],
)
def test_an_error_that_the_function_catches(function: Callable[..., Any]) -> None:
    code = function.__code__
    with open(code.co_filename, encoding="utf-8") as file:
        lines = file.read().splitlines()
    here = next(n for n in range(code.co_firstlineno, len(lines)) if "# here" in lines[n - 1])
    for mode in (None, True):
        with pytest.raises(CaptureError, match=f"{code.co_filename}:{here} .*the call has run"):
            compile(function, dynamic=mode)(tinyt.ones(3))


def test_the_guard_of_a_loss_stays() -> None:
    """Reproduced as reported: a NaN went through."""
    compiled = compile(guarded)
    for _ in range(3):
        with pytest.raises(CaptureError, match="isfinite"):
            compiled(tinyt.full((3,), float("nan")))


def test_a_recording_by_hand() -> None:
    with pytest.raises(CaptureError, match="not known while recording"):
        record(falls_back, tinyt.ones(3))


def test_other_errors_may_be_caught() -> None:
    def step(x: Tensor) -> Tensor:
        try:
            return x @ tinyt.ones(7, 2)
        except RuntimeError:
            return x * 2

    compiled = compile(step)
    for _ in range(4):
        assert compiled(tinyt.ones(3)).tolist() == [2.0] * 3
    assert compiled.cache_info().hits > 0


def test_a_gradient_that_nobody_asks_for_may_be_refused() -> None:
    """What the library itself catches is none of the function's."""

    def step(x: Tensor) -> Tensor:
        y = tinyt.cond(x.sum() > 0, lambda x: x.cos(), lambda x: x.sin(), (x,))
        return y.detach() * 2

    compiled = compile(step)
    x = tinyt.ones(3, requires_grad=True)
    for _ in range(4):
        assert compiled(x).tolist() == (x.detach().cos() * 2).tolist()


def test_a_step_whose_error_is_caught_is_done() -> None:
    """The states of a parameter that has been frozen do not exist yet."""

    def train(compiled: bool) -> list[Any]:
        tinyt.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        model[0].requires_grad_(False)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            with contextlib.suppress(RuntimeError):
                optimizer.step()
            return loss.detach()

        call = compile(step) if compiled else step
        losses = []
        for epoch in range(8):
            model[0].requires_grad_(epoch >= 4)
            losses.append(call(tinyt.arange(6.0).reshape(2, 3)).item())
        return losses + [p.tolist() for p in model.parameters()]

    assert train(True) == train(False)
