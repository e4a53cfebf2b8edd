"""Optimiser states that older files, or users, have in other forms."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

import tinyt
from tinyt import optim

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("RMSprop", {"momentum": 0.9}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adamax", {}),
    ("ASGD", {"t0": 2}),
    ("Rprop", {}),
    ("SGD", {"momentum": 0.9}),
]


def trained(kind: str, options: dict[str, Any], steps: int) -> tuple[Any, Any]:
    x = tinyt.tensor([1.0, -2.0, 3.0], requires_grad=True)
    optimiser = getattr(optim, kind)([x], lr=0.1, **options)
    advance(optimiser, x, steps)
    return optimiser, x


def advance(optimiser: Any, x: Any, steps: int) -> None:
    for _ in range(steps):
        optimiser.zero_grad()
        (x * x).sum().backward()
        optimiser.step()


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("number", [int, float])
def test_numbers_of_older_checkpoints_become_tensors(
    kind: str, options: dict[str, Any], number: type
) -> None:
    """Training goes on with the bits that it would have had."""
    first, x = trained(kind, options, 3)
    saved = deepcopy(first.state_dict())
    for key, value in saved["state"][0].items():
        if isinstance(value, tinyt.Tensor) and value.dim() == 0:
            plain = value.item()
            saved["state"][0][key] = number(plain) if plain == int(plain) else plain
    y = x.detach().clone().requires_grad_()
    second = getattr(optim, kind)([y], lr=0.1, **options)
    second.load_state_dict(saved)
    advance(first, x, 3)
    advance(second, y, 3)
    assert y.tolist() == x.tolist()
    kept = {k: v.dtype for k, v in first.state[x].items() if isinstance(v, tinyt.Tensor)}
    assert kept == {k: v.dtype for k, v in second.state[y].items() if isinstance(v, tinyt.Tensor)}


def test_counters_of_other_optimisers_stay_numbers() -> None:
    class Counting(optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            for param in self.param_groups[0]["params"]:
                state = self.state[param]
                state["step"] = state.get("step", 0) + 1

    x = tinyt.ones(1, requires_grad=True)
    first, second = Counting([x], {}), Counting([x], {})
    first.step()
    second.load_state_dict(first.state_dict())
    second.step()
    assert second.state[x] == {"step": 2}
    assert type(second.state[x]["step"]) is int


def test_states_under_other_keys_are_kept() -> None:
    x = tinyt.ones(1, requires_grad=True)
    first, second = optim.SGD([x], lr=0.1), optim.SGD([x], lr=0.1)
    first.state["foo"] = {"a": 1}
    saved = first.state_dict()
    assert saved["state"] == {"foo": {"a": 1}}
    saved["state"][7] = {"b": tinyt.ones(1)}
    second.load_state_dict(saved)
    assert second.state["foo"] == {"a": 1}
    assert second.state[7]["b"].tolist() == [1.0]
    assert set(second.state_dict()["state"]) == {"foo", 7}


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax"])
@pytest.mark.parametrize("betas", [(0.9,), (), (0.9, 0.99, 0.999)])
def test_betas_are_two(kind: str, betas: Any) -> None:
    with pytest.raises(IndexError, match="two numbers"):
        getattr(optim, kind)([tinyt.ones(1, requires_grad=True)], betas=betas)
