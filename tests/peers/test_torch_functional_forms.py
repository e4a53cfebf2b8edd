"""Steps of optimisers as functions over lists: as PyTorch's, and as the optimisers do them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from tinyt.optim.functional_forms import _FORMS

# Options of each, beside those that `step` has as groups.
OPTIONS: dict[str, dict[str, Any]] = {
    "adam": {"betas": (0.8, 0.9), "amsgrad": True, "weight_decay": 0.1},
    "adamw": {"betas": (0.8, 0.9), "weight_decay": 0.1},
    "sgd": {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
    "adagrad": {"lr_decay": 0.1, "weight_decay": 0.1},
    "adadelta": {"rho": 0.8, "weight_decay": 0.1},
    "adamax": {"betas": (0.8, 0.9), "weight_decay": 0.1},
    "asgd": {"t0": 1.0, "weight_decay": 0.1},
    "nadam": {"betas": (0.8, 0.9), "weight_decay": 0.1},
    "radam": {"betas": (0.8, 0.9), "weight_decay": 0.1},
    "rmsprop": {"centered": True, "momentum": 0.5, "weight_decay": 0.1},
    "rprop": {"etas": (0.4, 1.3), "step_sizes": (1e-5, 1.0)},
}
PARTS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
CLASSES = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "asgd": "ASGD", "nadam": "NAdam"}
CLASSES |= {"radam": "RAdam", "rmsprop": "RMSprop"}


def form(tt: Any, name: str) -> Any:
    return getattr(importlib.import_module(f"{tt.__name__}.optim.{name}"), name)


def called(tt: Any, name: str) -> list[Any]:
    """Parameters and states after three steps of the function, from the state of an optimiser."""
    values = np.random.default_rng(3).uniform(-1, 1, (4, 2, 3))
    params = [tt.nn.Parameter(tt.tensor(values[0])), tt.nn.Parameter(tt.tensor(values[1, 0]))]
    kind = getattr(tt.optim, CLASSES.get(name, name.capitalize()))
    options = dict(OPTIONS[name])
    optimizer = kind(params, lr=0.1, **options)
    for param in params:  # makes the states
        param.grad = tt.ones_like(param)
    optimizer.step()
    states = [optimizer.state[param] for param in params]
    lists = dict(entry.split("=") for entry in _FORMS[name][0].split())
    columns = {
        argument: [state[key] for state in states] if key in states[0] else []
        for argument, key in lists.items()
    }
    group = optimizer.param_groups[0]
    named = {}
    for option in _FORMS[name][2].split():
        pair = next((p for p, parts in PARTS.items() if option in parts), None)
        named[option] = group[pair][PARTS[pair].index(option)] if pair else group[option]
    if name == "rprop":
        assert "lr" not in named
    for t in range(1, 3):
        grads = [tt.tensor(values[t + 1]), tt.tensor(values[t + 1, 1])]
        with tt.no_grad():
            form(tt, name)([*params], grads, *columns.values(), **named)
    return [
        *(param.tolist() for param in params),
        *({key: value.tolist() for key, value in state.items()} for state in states),
    ]


def assert_close(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = [ours[key] for key in theirs], list(theirs.values())
    if isinstance(theirs, list):
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)
    else:
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", OPTIONS)
def test_steps(name: str) -> None:
    assert_close(called(tinyt, name), called(torch, name))


@pytest.mark.parametrize("name", OPTIONS)
def test_arguments(name: str) -> None:
    def arguments(tt: Any) -> list[tuple[Any, ...]]:
        found = inspect.signature(form(tt, name)).parameters.values()
        return [(p.name, p.kind, p.default) for p in found]

    assert arguments(tinyt) == arguments(torch)


def test_every_form_is_tested() -> None:
    assert OPTIONS.keys() == _FORMS.keys()


@pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])
def test_the_first_momentum_goes_into_the_list(tt: Any) -> None:
    params, momenta = [tt.tensor([1.0])], [None]
    form(tt, "sgd")(
        params, [tt.tensor([2.0])], momenta, weight_decay=0.0, momentum=0.9, lr=0.5,
        dampening=0.0, nesterov=False, maximize=False,
    )  # fmt: skip
    assert momenta[0].tolist() == [2]
    assert params[0].tolist() == [0]


@pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])
def test_misuse(tt: Any) -> None:
    one = [tt.tensor([1.0])]
    options: dict[str, Any] = {
        "amsgrad": False, "beta1": 0.9, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.0, "eps": 1e-8,
        "maximize": False,
    }  # fmt: skip
    with pytest.raises(TypeError):
        form(tt, "adam")(one, one, one, one, [], [tt.tensor(0.0)])
    with pytest.raises(RuntimeError):
        form(tt, "adam")(one, one, one, one, [], [0], **options)


@pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])
def test_inner_names_of_lbfgs(tt: Any) -> None:
    params = [tt.nn.Parameter(tt.ones(2)), tt.nn.Parameter(tt.ones(1, 2))]
    optimizer = tt.optim.LBFGS(params)
    params[1].grad = tt.full((1, 2), 3.0)
    assert optimizer._numel() == 4
    assert all(a is b for a, b in zip(optimizer._params, params, strict=True))
    assert optimizer._gather_flat_grad().tolist() == [0, 0, 3, 3]
