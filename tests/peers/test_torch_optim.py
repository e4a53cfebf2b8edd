"""Optimisers beside PyTorch's where float64 is the default dtype: steps, and what the state holds.

PyTorch keeps the numbers of a state (counts of steps, averaged rates) in float64 then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tinyt

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.05}),
    ("Adamax", {"lr": 0.05}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.05}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
    ("Adadelta", {"lr": 0.5}),
    ("ASGD", {"lr": 0.07, "lambd": 0.01, "t0": 3}),
    ("Rprop", {"lr": 0.05}),
]


@pytest.fixture
def wide() -> Iterator[None]:
    """Float64 as the default dtype of both libraries."""
    torch.set_default_dtype(torch.float64)
    tinyt.set_default_dtype(tinyt.float64)
    yield
    torch.set_default_dtype(torch.float32)
    tinyt.set_default_dtype(tinyt.float32)


def trained(lib: Any, kind: str, options: dict[str, Any]) -> tuple[list[float], dict[str, str]]:
    """A parameter after ten steps, and the dtypes in the optimiser's state."""
    w = lib.tensor(np.linspace(-1.0, 2.0, 6), requires_grad=True)
    scale = lib.tensor(np.arange(1.0, 7.0))
    optimizer = getattr(lib.optim, kind)([w], **options)
    for _ in range(10):
        optimizer.zero_grad()
        (w * scale).sin().sum().backward()
        optimizer.step()
    state = optimizer.state_dict()["state"].get(0, {})
    dtypes = {k: str(v.dtype).split(".")[-1] for k, v in state.items() if v is not None}
    return w.tolist(), dtypes


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(("kind", "options"), KINDS, ids=[kind for kind, _ in KINDS])
def test_steps_and_states_in_float64(kind: str, options: dict[str, Any]) -> None:
    ours, theirs = (trained(lib, kind, options) for lib in (tinyt, torch))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-12)
    assert ours[1] == theirs[1]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("kinds", "values"),
    [
        (("float32", "float64"), (0.0, 1e39)),
        (("float16", "float32"), (1.0, 1e5)),
        (("bfloat16", "float64"), (3.0, 4.0)),
    ],
)
def test_norms_of_gradients_of_several_dtypes(
    kinds: tuple[str, str], values: tuple[float, float], swapped: bool
) -> None:
    """In whatever order they come."""
    found = []
    for library in (tinyt, torch):
        params = []
        for kind, value in zip(kinds, values, strict=True):
            param = library.ones(1, dtype=getattr(library, kind)).requires_grad_()
            param.grad = library.full((1,), value, dtype=param.dtype)
            params.append(param)
        if swapped:
            params.reverse()
        total = library.nn.utils.clip_grad_norm_(params, 1.0)
        kind = str(total.dtype).partition(".")[2]
        found.append((kind, total.item(), [p.grad.item() for p in params]))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-3)
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-3, atol=1e-7)
