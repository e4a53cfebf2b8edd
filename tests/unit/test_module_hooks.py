"""Hooks of modules and their state, extra state, assignment: as PyTorch's modules do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from both import plain, torch
from tinyt import nn

CASES: list[Callable[[Any], Any]] = []


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES.append(function)
    return function


def linear(tt: Any, n_in: int = 2, n_out: int = 2) -> Any:
    layer = tt.nn.Linear(n_in, n_out)
    with tt.no_grad():
        layer.weight.copy_(tt.arange(1.0, n_in * n_out + 1).reshape(n_out, n_in))
        layer.bias.zero_()
    return layer


@case
def full_backward_hooks(tt: Any) -> Any:
    net = tt.nn.Sequential(linear(tt), tt.nn.ReLU())
    seen: list[Any] = []

    def hook(module: Any, grad_input: Any, grad_output: Any) -> None:
        seen.append((type(module).__name__, plain(grad_input), plain(grad_output)))

    handles = [m.register_full_backward_hook(hook) for m in (net, *net)]
    x = tt.ones(1, 2, requires_grad=True)
    net(x).sum().backward()
    net(tt.ones(1, 2)).sum().backward()
    for handle in handles:
        handle.remove()
    net(x).sum().backward()
    return seen, x.grad


@case
def backward_hooks_replace_gradients(tt: Any) -> Any:
    class Two(tt.nn.Module):
        def forward(self, x: Any, scale: float, y: Any) -> Any:
            return x * scale, y * 2

    module, seen = Two(), []
    module.register_full_backward_pre_hook(lambda m, out: (out[0] * 10, out[1]))
    module.register_full_backward_hook(
        lambda m, grads, out: (seen.append(plain((grads, out))), (grads[0] + 1, None, grads[2]))[1]
    )
    x, y = tt.ones(1, requires_grad=True), tt.ones(1, requires_grad=True)
    a, b = module(x, 3.0, y)
    (a + b).sum().backward()
    return seen, x.grad, y.grad


@case
def forward_hooks(tt: Any) -> Any:
    layer, seen = linear(tt), []
    layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, kwargs), with_kwargs=True, prepend=True
    )
    layer.register_forward_hook(lambda m, args, out: out + 1)
    layer.register_forward_hook(
        lambda m, args, kwargs, out: seen.append(plain((args, kwargs, out))),
        with_kwargs=True,
        prepend=True,
    )
    return layer(tt.ones(1, 2)), seen


@case
def always_called(tt: Any) -> Any:
    class Fails(tt.nn.Module):
        def forward(self, x: Any) -> Any:
            raise LookupError("no")

    module, seen = Fails(), []
    module.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    module.register_forward_hook(lambda m, args, out: seen.append("never"))
    with pytest.raises(LookupError, match="no"):
        module(1)
    return seen


@case
def state_hooks(tt: Any) -> Any:
    net, seen = tt.nn.Sequential(linear(tt), linear(tt)), []
    net[0].register_state_dict_pre_hook(lambda m, prefix, keep: seen.append((prefix, keep)))

    def rename(module: Any, state: Any, prefix: str, metadata: Any) -> None:
        state[prefix + "w"] = state.pop(prefix + "weight")

    net[1].register_state_dict_post_hook(rename)
    state = net.state_dict()

    def restore(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        state[prefix + "weight"] = state.pop(prefix + "w") * 2

    net[1].register_load_state_dict_pre_hook(restore)
    net.register_load_state_dict_post_hook(
        lambda m, keys: seen.append((list(keys.missing_keys), list(keys.unexpected_keys)))
    )
    other = tt.nn.Sequential(linear(tt), linear(tt))
    other[1].register_load_state_dict_pre_hook(restore)
    other.load_state_dict(state)
    return list(state), seen, other[1].weight


@case
def extra_state(tt: Any) -> Any:
    class Counts(tt.nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        def get_extra_state(self) -> Any:
            return {"n": self.n}

        def set_extra_state(self, state: Any) -> None:
            self.n = state["n"]

    net = tt.nn.Sequential(Counts(3), linear(tt))
    state = net.state_dict()
    other = tt.nn.Sequential(Counts(0), linear(tt))
    keys = other.load_state_dict(state)
    missing = other.load_state_dict({}, strict=False).missing_keys
    return list(state), other[0].n, list(keys.missing_keys), sorted(missing)


@case
def one_function_registered_twice(tt: Any) -> Any:
    """A handle removes its own hook, once, and no other."""
    leaf, seen = tt.ones(1, requires_grad=True), []
    inner, layer = leaf * 1, linear(tt)
    other, optimizer = linear(tt), tt.optim.SGD([leaf], lr=0.1)
    registered = [
        leaf.register_hook,
        leaf.register_post_accumulate_grad_hook,
        inner.register_hook,
        optimizer.register_step_pre_hook,
        optimizer.register_step_post_hook,
        optimizer.register_state_dict_post_hook,
        layer.register_forward_hook,
        layer.register_forward_pre_hook,
        layer.register_full_backward_hook,
        layer.register_full_backward_pre_hook,
        other.register_state_dict_pre_hook,
        other.register_load_state_dict_post_hook,
    ]
    for register in registered:
        events: list[str] = []

        def first(*args: Any, events: list[str] = events) -> None:
            events.append("first")

        def second(*args: Any, events: list[str] = events) -> None:
            events.append("second")

        def run(events: list[str] = events) -> list[str]:
            events.clear()
            (inner.sum() + leaf.sum()).backward(retain_graph=True)
            optimizer.step()
            optimizer.state_dict()
            layer(tt.ones(1, 2, requires_grad=True)).sum().backward()
            other.load_state_dict(other.state_dict())
            return list(events)

        handles = [register(hook) for hook in (first, second, first)]
        seen.append(run())
        handles[2].remove()
        handles[2].remove()
        seen.append(run())
        handles[0].remove()
        seen.append(run())
        handles[1].remove()
        seen.append(run())
    return seen


@case
def assigned_state(tt: Any) -> Any:
    layer = linear(tt)
    layer.bias.requires_grad_(False)
    state = {"weight": tt.ones(2, 2, dtype=tt.float64), "bias": tt.zeros(2, dtype=tt.float64)}
    layer.load_state_dict(state, assign=True)
    return (
        str(layer.weight.dtype).split(".")[1],
        layer.weight.requires_grad,
        layer.bias.requires_grad,
        isinstance(layer.weight, tt.nn.Parameter),
        layer.weight.data_ptr() == state["weight"].data_ptr(),
    )


@case
def shared_parameters(tt: Any) -> Any:
    net = tt.nn.Sequential(linear(tt), linear(tt))
    net[1].weight = net[0].weight
    names = [n for n, _ in net.named_parameters()]
    doubled = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    twin = copy.deepcopy(net)
    again = pickle.loads(pickle.dumps(net)) if tt is torch else twin
    return (
        names,
        doubled,
        list(net.state_dict()),
        twin[0].weight is twin[1].weight,
        twin[0].weight is net[0].weight,
        again[0].weight.tolist(),
    )


@case
def buffers(tt: Any) -> Any:
    module = tt.nn.Module()
    module.mean = tt.nn.Buffer(tt.ones(2))
    module.scratch = tt.nn.Buffer(tt.zeros(2), persistent=False)
    module.mean = tt.full((2,), 3.0)
    return list(module.state_dict()), [n for n, _ in module.named_buffers()], module.mean


@case
def submodules(tt: Any) -> Any:
    net = tt.nn.Sequential(tt.nn.Sequential(linear(tt)))
    net.set_submodule("0.0", tt.nn.ReLU())
    net.set_submodule("0.1", tt.nn.Tanh())
    return repr(net), type(net.get_submodule("0.1")).__name__


@case
def conversions(tt: Any) -> Any:
    layer = linear(tt)
    layer.type(tt.float64)
    half = copy.deepcopy(layer).half()
    layer.to_empty(device="cpu")
    return [str(m.weight.dtype).split(".")[1] for m in (layer, half, layer.cpu().float())]


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_as_pytorch(function: Callable[[Any], Any]) -> None:
    assert plain(function(tinyt)) == plain(function(torch))


def test_a_module_is_pickled() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU())
    net[0].weight.requires_grad_(False)
    twin = pickle.loads(pickle.dumps(net))
    assert repr(twin) == repr(net)
    for a, b in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        assert a.tolist() == b.tolist()
    assert [p.requires_grad for p in twin.parameters()] == [False, True, True, True]
    assert isinstance(twin[0].weight, nn.Parameter)


def test_an_error_leaves_the_module_unchanged() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = net.state_dict()["0.weight"].tolist()
    state = {k: v * 0 for k, v in net.state_dict().items()}
    state["1.bias"] = tinyt.zeros(3)
    for assign in (False, True):
        with pytest.raises(RuntimeError, match=r"size mismatch for 1\.bias.*\(\[3\]\).*\(\[2\]\)"):
            net.load_state_dict(state, assign=assign)
    assert net.state_dict()["0.weight"].tolist() == before


def test_load_from_state_dict_reads_an_older_layout() -> None:
    class Scaled(nn.Module):
        _version = 2

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tinyt.zeros(2))

        def _load_from_state_dict(self, state: Any, prefix: str, meta: Any, *rest: Any) -> None:
            if meta.get("version", 1) < 2:
                state[prefix + "weight"] = state.pop(prefix + "w")
            super()._load_from_state_dict(state, prefix, meta, *rest)

    net = nn.Sequential(nn.ReLU(), Scaled())
    net.load_state_dict({"1.w": tinyt.ones(2)})
    state: Any = net.state_dict()
    assert dict(state._metadata) == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}
    twin = nn.Sequential(nn.ReLU(), Scaled())
    twin.load_state_dict(state)
    assert net[1].weight.tolist() == twin[1].weight.tolist() == [1, 1]


def test_hooks_before_loading_get_lists_to_fill() -> None:
    net = nn.Sequential(nn.Linear(1, 1))
    before = net[0].weight.item()

    def refuse(state: Any, prefix: str, meta: Any, strict: bool, *lists: list[str]) -> None:
        for found, text in zip(lists, ("gone", "surplus", "wrong"), strict=True):
            found.append(prefix + text)

    net[0]._register_load_state_dict_pre_hook(refuse)
    with pytest.raises(RuntimeError, match=r"(?s)0\.gone.*0\.surplus.*0\.wrong"):
        net.load_state_dict({"0.weight": tinyt.zeros(1, 1), "0.bias": tinyt.zeros(1)})
    assert net[0].weight.item() == before


def test_wrong_hooks_and_paths() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="must be callable, got int"):
        layer.register_forward_hook(3)  # type: ignore[arg-type]
    layer.register_full_backward_hook(lambda m, grads, out: (None, None))
    with pytest.raises(RuntimeError, match="got 2, but expected 1"):
        layer(tinyt.ones(1, 2, requires_grad=True)).sum().backward()
    layer = nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda m, grads, out: (tinyt.ones(1, 2),))
    with pytest.raises(RuntimeError, match="no input requires gradient"):
        layer(tinyt.ones(1, 2)).sum().backward()
    with pytest.raises(ValueError, match="without a target name"):
        layer.set_submodule("", layer)
    with pytest.raises(AttributeError, match="has no module 'x'"):
        layer.set_submodule("x", nn.ReLU(), strict=True)
    with pytest.raises(RuntimeError, match="a subclass must define it"):
        layer.get_extra_state()
    with pytest.raises(TypeError, match="data must be a Tensor"):
        nn.Buffer(3)  # type: ignore[arg-type]
