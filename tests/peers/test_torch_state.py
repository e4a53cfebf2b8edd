"""The protocol of state dicts, run by tinyt and by PyTorch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tinyt

torch = pytest.importorskip("torch")

CASES: list[Callable[[Any], Any]] = []


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES.append(function)
    return function


def versioned(tt: Any) -> Any:
    class Scaled(tt.nn.Module):
        """Version 1 kept `w`; version 2 keeps `weight`."""

        _version = 2

        def __init__(self) -> None:
            super().__init__()
            self.weight = tt.nn.Parameter(tt.zeros(2))
            self.seen: list[Any] = []

        def _load_from_state_dict(self, state: Any, prefix: str, meta: Any, *rest: Any) -> None:
            self.seen.append((prefix, dict(meta), sorted(state)))
            if meta.get("version", 1) < 2 and prefix + "w" in state:
                state[prefix + "weight"] = state.pop(prefix + "w")
            super()._load_from_state_dict(state, prefix, meta, *rest)
            self.seen.append(self.weight.tolist())

    return Scaled


@case
def override_reads_an_older_layout(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(1, 1), versioned(tt)())
    old = {"0.weight": tt.ones(1, 1), "0.bias": tt.ones(1), "1.w": tt.full((2,), 3.0)}
    keys = net.load_state_dict(old)
    return net[1].seen, net[1].weight.tolist(), [list(k) for k in keys]


@case
def override_with_assign(tt: Any) -> Any:
    net = tt.nn.Sequential(versioned(tt)())
    net.load_state_dict(net.state_dict(), assign=True)
    return net[0].seen, net[0].weight.requires_grad


@case
def metadata(tt: Any) -> Any:
    net = tt.nn.Sequential(versioned(tt)(), tt.nn.Sequential(tt.nn.BatchNorm1d(2)))
    state = net.state_dict(prefix="p.")
    copies = [copy.copy(state), copy.deepcopy(state)]
    return [dict(s._metadata) for s in (net.state_dict(), state, *copies)], type(state).__name__


@case
def pickled_metadata(tt: Any) -> Any:
    return dict(pickle.loads(pickle.dumps(tt.nn.BatchNorm1d(2).state_dict()))._metadata)


@case
def private_hooks(tt: Any) -> Any:
    net, seen = tt.nn.Sequential(tt.nn.Linear(1, 1), tt.nn.ReLU()), []

    def before(state: Any, prefix: str, meta: Any, strict: bool, *lists: Any) -> None:
        seen.append((prefix, dict(meta), strict, sorted(state), [list(x) for x in lists]))
        state[prefix + "weight"] = state.pop(prefix + "w")

    def after(module: Any, state: Any, prefix: str, meta: Any) -> Any:
        seen.append((type(module).__name__, prefix, dict(meta)))
        state[prefix + "w"] = state.pop(prefix + "weight")

    net[0]._register_load_state_dict_pre_hook(before)
    net[1]._register_load_state_dict_pre_hook(
        lambda module, *rest: seen.append(type(module).__name__), with_module=True
    )
    saving = net[0]._register_state_dict_hook(after)
    net._register_state_dict_hook(lambda module, state, prefix, meta: {**state, "more": tt.ones(1)})
    state = net.state_dict()
    del state["more"]
    net.load_state_dict(state)
    saving.remove()
    return seen, sorted(state), sorted(net.state_dict())


@case
def hooks_around_saving(tt: Any) -> Any:
    net, seen = tt.nn.Sequential(tt.nn.Linear(1, 1)), []
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))
    net.register_state_dict_post_hook(lambda m, s, prefix, meta: seen.append((list(s), meta)))
    net.state_dict(keep_vars=True)
    return seen


@case
def post_hook_settles_the_keys(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(1, 1), tt.nn.Linear(1, 1))
    seen: list[Any] = []

    def settle(module: Any, keys: Any) -> None:
        seen.append(([*keys.missing_keys], [*keys.unexpected_keys], module[1].bias.tolist()))
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    net.register_load_state_dict_post_hook(settle)
    keys = net.load_state_dict({"1.bias": tt.full((1,), 5.0), "2.x": tt.ones(1)})
    return seen, [list(k) for k in keys]


@case
def saved_by_hand(tt: Any) -> Any:
    class Named(tt.nn.Linear):
        def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "note"] = tt.ones(1)

        def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
            state.pop(prefix + "note")
            super()._load_from_state_dict(state, prefix, *rest)

    net = tt.nn.Sequential(Named(1, 1))
    state = net.state_dict()
    net.load_state_dict(state)
    return list(state)


@case
def keys_that_do_not_match(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Linear(1, 1), tt.nn.BatchNorm1d(1), tt.nn.InstanceNorm1d(1))
    state = {"0.weight": tt.ones(1, 1), "0.more": tt.ones(1), "3.x": tt.ones(1), "y": tt.ones(1)}
    keys = net.load_state_dict(state, strict=False)
    return [list(k) for k in keys]


@case
def old_batch_norm(tt: Any) -> Any:
    layer = tt.nn.BatchNorm1d(2)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    texts = []
    for given in (dict(state), state):
        try:
            layer.load_state_dict(given)
            texts.append("loaded")
        except RuntimeError as error:
            texts.append(str(error).replace('"', "'"))
    return texts


@case
def called_directly(tt: Any) -> Any:
    layer, lists = tt.nn.Linear(1, 1), ([], [], [])
    state = {"a.weight": tt.full((1, 1), 4.0), "a.c": tt.ones(1), "b": tt.ones(1)}
    layer._load_from_state_dict(state, "a.", {}, True, *lists)
    return layer.weight.tolist(), lists


@case
def scalars_of_one_element(tt: Any) -> Any:
    module = tt.nn.Module()
    module.scale = tt.nn.Parameter(tt.tensor(1.0))
    module.load_state_dict({"scale": tt.tensor([2.0])})
    return module.scale.tolist()


@case
def assigned_parameters(tt: Any) -> Any:
    layer = tt.nn.Linear(1, 1)
    layer.bias.requires_grad_(False)
    given = {"weight": tt.nn.Parameter(tt.ones(1, 1)), "bias": tt.nn.Parameter(tt.ones(1))}
    layer.load_state_dict(given, assign=True)
    return layer.bias.requires_grad, layer.weight is given["weight"]


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_as_pytorch(function: Callable[[Any], Any]) -> None:
    ours, theirs = function(tinyt), function(torch)
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("assign", [False, True])
def test_an_error_beside_an_override_leaves_the_modules_unchanged(assign: bool) -> None:
    net = tinyt.nn.Sequential(versioned(tinyt)(), tinyt.nn.Linear(1, 1))
    before, tensors = [p.tolist() for p in net.parameters()], list(net.parameters())
    state = {k: v + 1 for k, v in net.state_dict().items()}
    state["1.bias"] = tinyt.zeros(3)
    with pytest.raises(RuntimeError, match=r"size mismatch for 1\.bias"):
        net.load_state_dict(state, assign=assign)
    assert [p.tolist() for p in net.parameters()] == before
    assert all(a is b for a, b in zip(net.parameters(), tensors, strict=True))
