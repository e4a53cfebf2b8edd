"""Muon beside PyTorch's. Its iteration is in bfloat16 in both, so updates agree to some roundings
of that: 2**-8 each."""

from __future__ import annotations

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


@pytest.mark.parametrize("shape", [(8, 8), (12, 5), (5, 12), (1, 3)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"nesterov": False, "momentum": 0.5, "weight_decay": 0.0},
        {"adjust_lr_fn": "match_rms_adamw", "lr": 0.1},
        {"adjust_lr_fn": "original", "ns_steps": 3, "ns_coefficients": (3.0, -4.0, 2.0)},
    ],
)
def test_steps(shape: tuple[int, int], options: dict[str, Any], rng: np.random.Generator) -> None:
    start = rng.normal(size=shape).astype("f4")
    grads = [rng.normal(size=shape).astype("f4") for _ in range(4)]
    results, states = [], []
    for tt in (torch, tinyt):
        param = tt.nn.Parameter(tt.tensor(start))
        optimizer = tt.optim.Muon([param], **options)
        for grad in grads:
            param.grad = tt.tensor(grad)
            optimizer.step()
        results.append(param.detach().numpy())
        states.append(optimizer.state_dict())
    moved = np.abs(results[0] - start).max()
    np.testing.assert_allclose(results[1], results[0], atol=0.05 * moved)
    assert states[1]["param_groups"] == states[0]["param_groups"]
    np.testing.assert_allclose(
        states[1]["state"][0]["momentum_buffer"].numpy(),
        states[0]["state"][0]["momentum_buffer"].numpy(),
        rtol=1e-5,
        atol=1e-7,
    )


def test_singular_values(rng: np.random.Generator) -> None:
    """Of an update they are near 1, whatever those of the gradient."""
    from tinyt.optim._muon import orthogonalised

    grad = rng.normal(size=(16, 6)) @ np.diag([10.0, 5.0, 2.0, 1.0, 0.5, 0.3])
    update = orthogonalised(tinyt.tensor(grad), (3.4445, -4.775, 2.0315), 5, 1e-7)
    values = np.linalg.svd(update.float().numpy(), compute_uv=False)
    assert update.dtype is tinyt.bfloat16
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_compiled_steps() -> None:
    results = []
    for compiled in (False, True):
        tinyt.manual_seed(1)
        layer = tinyt.nn.Linear(6, 4, bias=False)
        optimizer = tinyt.optim.Muon(layer.parameters(), lr=0.1)

        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (layer(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        call = tinyt.compile(step) if compiled else step
        losses = [call(tinyt.ones(2, 6)).item() for _ in range(5)]
        results.append((losses, layer.weight.tolist()))
    assert results[0] == results[1]


def test_errors() -> None:
    param = tinyt.nn.Parameter(tinyt.ones(2, 2))
    for options, message in (
        ({"lr": -1.0}, "Learning rate"),
        ({"momentum": -1.0}, "momentum"),
        ({"weight_decay": -1.0}, "weight decay"),
        ({"adjust_lr_fn": "other"}, "not supported"),
        ({"ns_steps": 100}, "less than 100"),
        ({"ns_coefficients": (1.0, 2.0)}, "exactly 3"),
    ):
        with pytest.raises(ValueError, match=message):
            tinyt.optim.Muon([param], **options)
    with pytest.raises(ValueError, match="only supports 2D"):
        tinyt.optim.Muon([param, tinyt.nn.Parameter(tinyt.ones(2))])
