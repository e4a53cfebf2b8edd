"""LBFGS beside PyTorch's, in float64."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """What PyTorch's optimisers import at their first step keeps the frames below it alive."""
    param = torch.nn.Parameter(torch.zeros(1))
    param.grad = torch.ones(1)
    torch.optim.SGD([param]).step()


def network(tt: Any, params: list[Any], rng: np.random.Generator) -> Any:
    inputs = rng.normal(size=(40, 5))
    x, y = tt.tensor(inputs), tt.tensor(np.sin(inputs @ rng.normal(size=(5, 2))))
    return lambda: ((tt.tanh(x @ params[0] + params[1]) @ params[2] - y) ** 2).mean()


def rosenbrock(tt: Any, params: list[Any], rng: np.random.Generator) -> Any:
    """A narrow curved valley (Rosenbrock 1960)."""
    x = params[1]
    return lambda: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def quadratic(tt: Any, params: list[Any], rng: np.random.Generator) -> Any:
    scales = tt.tensor(np.geomspace(1, 1e4, 8))
    return lambda: (scales * params[1] ** 2).sum() + (params[0] ** 4).sum()


def flat(tt: Any, params: list[Any], rng: np.random.Generator) -> Any:
    """Gradients that are zero, and a parameter without any."""
    return lambda: (params[0] * 0).sum()


def run(
    tt: Any, make: Any, steps: int, compiled: bool = False, reload: int = -1, **options: Any
) -> tuple[list[float], list[Any], Any]:
    """Losses, parameters and the state after some steps."""
    rng = np.random.default_rng(7)
    values = [rng.normal(size=(5, 8)) * 0.5, rng.normal(size=8), rng.normal(size=(8, 2)) * 0.5]
    params = [tt.nn.Parameter(tt.tensor(value)) for value in values]
    optimizer = tt.optim.LBFGS(params, **options)
    loss_of = make(tt, params, rng)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    call = tinyt.compile(closure) if compiled else closure
    losses = []
    for step in range(steps):
        if step == reload:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = tt.optim.LBFGS(params, **options)
            optimizer.load_state_dict(state)
        losses.append(optimizer.step(call).item())
    return losses, [p.detach().numpy() for p in params], optimizer.state_dict()["state"][0]


OPTIONS: list[dict[str, Any]] = [
    {"line_search_fn": "strong_wolfe", "max_iter": 3},
    {"line_search_fn": "strong_wolfe", "max_iter": 2, "history_size": 3},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "max_eval": 5},
    {"line_search_fn": "strong_wolfe", "lr": 1e-3, "max_iter": 3},
    {"line_search_fn": "strong_wolfe", "lr": 50.0, "max_iter": 3},
    {"line_search_fn": "strong_wolfe", "max_iter": 20, "tolerance_change": 1e-2},
    {"lr": 0.1, "max_iter": 2},
    {"lr": 1e-3, "max_iter": 4, "history_size": 2},
    {"lr": 0.01, "max_iter": 20, "tolerance_grad": 0.5},
]


@pytest.mark.parametrize("make", [network, rosenbrock, quadratic, flat])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps(make: Any, options: dict[str, Any]) -> None:
    expected, params, state = run(torch, make, 6, **options)
    losses, ours, mine = run(tinyt, make, 6, **options)
    scale = np.maximum(1.0, np.abs(expected))
    np.testing.assert_allclose(losses / scale, expected / scale, rtol=1e-9, atol=1e-10)
    for a, b in zip(ours, params, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert set(mine) == set(state)
    for key in ("n_iter", "func_evals"):
        assert mine[key] == state[key]
    for key in ("old_dirs", "old_stps", "ro", "al"):
        if key in state:
            assert len(mine[key]) == len(state[key])


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_compiled_closures_and_saved_states(search: str | None) -> None:
    options = {"line_search_fn": search, "max_iter": 3, "lr": 0.5}
    plain = run(tinyt, network, 5, **options)[0]
    assert run(tinyt, network, 5, compiled=True, **options)[0] == plain
    assert run(tinyt, network, 5, reload=3, **options)[0] == plain


def test_errors() -> None:
    param = tinyt.nn.Parameter(tinyt.ones(1))
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        tinyt.optim.LBFGS([param], lr=-1)
    with pytest.raises(ValueError, match="1-element"):
        tinyt.optim.LBFGS([param], lr=tinyt.ones(2))
    with pytest.raises(ValueError, match="parameter groups"):
        tinyt.optim.LBFGS([{"params": [param]}, {"params": [tinyt.nn.Parameter(tinyt.ones(1))]}])
    with pytest.raises(TypeError, match="needs a closure"):
        tinyt.optim.LBFGS([param]).step()

    def closure() -> Any:
        param.grad = tinyt.ones(1)
        return (param**2).sum()

    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        tinyt.optim.LBFGS([param], line_search_fn="armijo").step(closure)
    optimizer = tinyt.optim.LBFGS([param])
    step = tinyt.compile(lambda: optimizer.step(closure))
    with pytest.raises(tinyt.CaptureError, match=r"how often LBFGS\.step calls its closure"):
        step()
