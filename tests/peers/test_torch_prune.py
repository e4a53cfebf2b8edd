"""Pruning, as PyTorch has it."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")
importlib.import_module("torch.nn.utils.prune")  # PyTorch loads it when asked

VALUES = np.random.default_rng(3).normal(size=(4, 6, 3))
SCORES = np.random.default_rng(4).normal(size=(4, 6, 3))


def layer(tt: Any) -> Any:
    made = tt.nn.Conv1d(6, 4, 3, dtype=tt.float64)
    with tt.no_grad():
        made.weight.copy_(tt.tensor(VALUES))
        made.bias.copy_(tt.tensor(VALUES[:, 0, 0]))
    return made


def state(module: Any) -> Any:
    """All that pruning changes."""
    found = {name: value.tolist() for name, value in module.state_dict().items()}
    params = [name for name, _ in module.named_parameters()]
    return found, params, module.weight.tolist(), type(module.weight).__name__


def l1(tt: Any, prune: Any) -> Any:
    return state(prune.l1_unstructured(layer(tt), "weight", 0.3))


def l1_by_number(tt: Any, prune: Any) -> Any:
    return state(prune.l1_unstructured(layer(tt), "weight", 5))


def l1_by_scores(tt: Any, prune: Any) -> Any:
    return state(prune.l1_unstructured(layer(tt), "weight", 0.5, tt.tensor(SCORES)))


def none_and_all(tt: Any, prune: Any) -> Any:
    return [state(prune.l1_unstructured(layer(tt), "weight", x)) for x in (0, 0.0, 1.0, 72)]


def twice(tt: Any, prune: Any) -> Any:
    made = layer(tt)
    seen = []
    for amount in (0.5, 0.5, 3):
        prune.l1_unstructured(made, "weight", amount)
        seen.append(state(made))
    prune.ln_structured(made, "weight", 1, n=2, dim=0)
    prune.ln_structured(made, "weight", 0.5, n=1, dim=1)
    (hook,) = made._forward_pre_hooks.values()
    return seen, state(made), type(hook).__name__, len(hook), hook._tensor_name


def structured(tt: Any, prune: Any) -> Any:
    return [
        state(prune.ln_structured(layer(tt), "weight", amount, n, dim))
        for amount in (0.5, 2)
        for n, dim in ((2, 0), (1, -1), (float("inf"), 1))
    ]


def identity(tt: Any, prune: Any) -> Any:
    return state(prune.identity(layer(tt), "weight"))


def custom(tt: Any, prune: Any) -> Any:
    mask = tt.tensor((VALUES > 0).astype("i4"))
    made = prune.custom_from_mask(layer(tt), "weight", mask)
    first = state(made)
    prune.custom_from_mask(made, "weight", tt.tensor(SCORES > 0))
    return first, state(made)


def together(tt: Any, prune: Any) -> Any:
    made = layer(tt)
    prune.l1_unstructured(made, "bias", 1)
    parts = [(made, "weight"), (made, "bias")]
    prune.global_unstructured(parts, prune.L1Unstructured, amount=0.4)
    scores = {(made, "weight"): tt.tensor(SCORES)}
    first = state(made)
    prune.global_unstructured(parts, prune.L1Unstructured, scores, amount=5)
    return first, state(made), made.bias.tolist()


def removal(tt: Any, prune: Any) -> Any:
    made = layer(tt)
    seen = [prune.is_pruned(tt.nn.Sequential(made))]
    param = made.weight
    prune.l1_unstructured(made, "weight", 0.5)
    seen.append(prune.is_pruned(tt.nn.Sequential(made)))
    prune.remove(made, "weight")
    return seen, state(made), prune.is_pruned(made), made.weight is param


def training(tt: Any, prune: Any) -> Any:
    made = prune.l1_unstructured(layer(tt), "weight", 0.5)
    optimizer = tt.optim.SGD(made.parameters(), lr=0.1)
    for i in range(3):
        optimizer.zero_grad()
        (made(tt.full((1, 6, 4), 1.0 + i, dtype=tt.float64)) ** 2).sum().backward()
        optimizer.step()
    return np.round(made.weight.detach().numpy(), 6).tolist()


def by_hand(tt: Any, prune: Any) -> Any:
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    made = layer(tt)
    EveryOther.apply(made, "weight")
    pruned = prune.L1Unstructured(amount=2).prune(tt.tensor([1.0, -3.0, 2.0]))
    again = prune.L1Unstructured(1).prune(tt.ones(2), importance_scores=tt.tensor([3.0, 1.0]))
    return state(made), pruned.tolist(), again.tolist()


CASES = [l1, l1_by_number, l1_by_scores, none_and_all, twice, structured, identity, custom,
         together, removal, training, by_hand]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = case(torch, torch.nn.utils.prune)
    assert case(tinyt, tinyt.nn.utils.prune) == expected


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("amount", [0.25, 1])
def test_at_random(structured: bool, amount: float) -> None:
    prune = tinyt.nn.utils.prune
    made = layer(tinyt)
    if structured:
        prune.random_structured(made, "weight", amount, dim=0)
        gone = (made.weight == 0).all(2).all(1).sum().item()
        assert gone == 1
    else:
        prune.random_unstructured(made, "weight", amount)
        assert (made.weight == 0).sum().item() == (18 if amount == 0.25 else 1)


def test_compiled_steps() -> None:
    nets = [tinyt.nn.utils.prune.l1_unstructured(layer(tinyt), "weight", 0.5) for _ in range(2)]
    steps = []
    for net in nets:
        optimizer = tinyt.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any, net: Any = net, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (net(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    compiled = tinyt.compile(steps[1])
    for _ in range(4):
        x = tinyt.rand(2, 6, 5, dtype=tinyt.float64)
        assert compiled(x).item() == steps[0](x).item()
    assert nets[0].weight.tolist() == nets[1].weight.tolist()


ERRORS: list[tuple[Any, type[Exception]]] = [
    (lambda tt, p, m: p.l1_unstructured(m, "weight", 1.5), ValueError),
    (lambda tt, p, m: p.l1_unstructured(m, "weight", -1), ValueError),
    (lambda tt, p, m: p.l1_unstructured(m, "weight", "much"), TypeError),
    (lambda tt, p, m: p.l1_unstructured(m, "weight", 1000), ValueError),
    (lambda tt, p, m: p.ln_structured(m, "bias", 1, 2, 0), ValueError),
    (lambda tt, p, m: p.ln_structured(m, "weight", 1, 2, 3), IndexError),
    (lambda tt, p, m: p.remove(m, "weight"), ValueError),
    (lambda tt, p, m: p.custom_from_mask(m, "weight", tt.ones(2)), AssertionError),
    (lambda tt, p, m: p.l1_unstructured(m, "weight", 1, tt.ones(2)), AssertionError),
    (lambda tt, p, m: p.global_unstructured(3, p.L1Unstructured), TypeError),
    (lambda tt, p, m: p.global_unstructured([(m, "bias")], p.LnStructured, amount=1, n=2),
     TypeError),
    (lambda tt, p, m: p.PruningContainer().add_pruning_method(3), TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error"), ERRORS)
def test_errors(call: Any, error: type[Exception]) -> None:
    for tt in (torch, tinyt):
        made = layer(tt)
        before = sorted(made.state_dict())
        with pytest.raises(error):
            call(tt, tt.nn.utils.prune, made)
        assert sorted(made.state_dict()) == before
