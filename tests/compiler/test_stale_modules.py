"""What changes of a module or an optimiser after the first call: eager's value, always."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import Tensor, nn, optim
from tinyt.compiler.api import compile

MODULE_CHANGES: dict[str, Callable[[nn.Module], Any]] = {
    "eval": lambda m: m.eval(),
    "dropout": lambda m: setattr(m[1], "p", 0.9),
    "replaced layer": lambda m: m.__setitem__(0, nn.Linear(3, 3)),
    "appended layer": lambda m: m.append(nn.ReLU()),
    "replaced parameter": lambda m: setattr(m[0], "weight", nn.Parameter(tinyt.ones(3, 3))),
    "no bias": lambda m: setattr(m[0], "bias", None),
    "hook": lambda m: m[0].register_forward_hook(lambda m, a, y: y * 2),
    "attribute": lambda m: setattr(m[2], "negative_slope", 0.5),
}


@pytest.mark.parametrize("name", MODULE_CHANGES)
def test_a_changed_module_is_seen(name: str) -> None:
    found = []
    for is_compiled in (False, True):
        tinyt.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.LeakyReLU(0.1))
        call: Any = compile(net.forward) if is_compiled else net
        for i in range(6):
            if i == 3:
                MODULE_CHANGES[name](net)
            tinyt.manual_seed(i)
            found.append(call(tinyt.ones(2, 3)).tolist())
    assert found[:6] == found[6:]


def dropped_weight() -> tuple[Callable[[Tensor], Any], Callable[[], Any]]:
    """A weight of an LSTM as a plain attribute, as weight dropping sets it."""
    net = nn.LSTM(3, 3)
    del net.weight_hh_l0
    net.weight_hh_l0 = tinyt.ones(12, 3)
    return lambda x: net(x)[0], lambda: setattr(net, "weight_hh_l0", tinyt.zeros(12, 3))


def wrapped_module() -> tuple[Callable[[Tensor], Any], Callable[[], Any]]:
    """An attribute behind a compiled module."""
    net = nn.Linear(3, 3)
    net.scale = 2.0
    wrapped = compile(net)
    return lambda x: x * wrapped.scale, lambda: setattr(net, "scale", 3.0)


def parameter_by_path() -> tuple[Callable[[Tensor], Any], Callable[[], Any]]:
    net = nn.Sequential(nn.Linear(3, 3))
    return lambda x: x * net.get_parameter("0.weight").detach().sum(), lambda: setattr(
        net[0], "weight", nn.Parameter(tinyt.ones(3, 3))
    )


def parameter_list() -> tuple[Callable[[Tensor], Any], Callable[[], Any]]:
    held = nn.ParameterList([tinyt.ones(3), 2.0])
    return lambda x: x * held[0].detach() * held[1], lambda: held.__setitem__(1, 3.0)


def hook_beside_one_of_all_modules() -> tuple[Callable[[Tensor], Any], Callable[[], Any]]:
    net = nn.Tanh()
    net.register_forward_hook(lambda module, args, y: y * 2)
    return net, lambda: net.register_forward_hook(lambda module, args, y: y + 1)


BEHIND = [dropped_weight, wrapped_module, parameter_by_path, parameter_list]


@pytest.mark.parametrize("make", [*BEHIND, hook_beside_one_of_all_modules])
def test_a_change_behind_the_library_s_own_code_is_seen(make: Callable[[], Any]) -> None:
    handle = None
    if make is hook_beside_one_of_all_modules:
        handle = nn.modules.module.register_module_forward_hook(lambda module, args, y: y * 3)
    try:
        read, change = make()
        compiled, x = compile(lambda x: read(x)), tinyt.ones(2, 3)
        for i in range(6):
            if i == 3:
                change()
            assert compiled(x).tolist() == read(x).tolist()
    finally:
        if handle is not None:
            handle.remove()


def step_of(net: nn.Module, optimizer: optim.Optimizer) -> Callable[[Tensor], Tensor]:
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


OPTIMIZER_CHANGES: dict[str, Callable[[nn.Module, Any], Any]] = {
    "lr": lambda m, o: o.param_groups[0].update(lr=0.5),
    "lr int": lambda m, o: o.param_groups[0].update(lr=1),
    "betas": lambda m, o: o.param_groups[0].update(betas=(0.5, 0.6)),
    "decay": lambda m, o: o.param_groups[0].update(weight_decay=0.1),
    "maximize": lambda m, o: o.param_groups[0].update(maximize=True),
    "frozen": lambda m, o: m[0].weight.requires_grad_(False),
    "group": lambda m, o: o.add_param_group({"params": [m[2].weight], "lr": 0.3}),
    "dropped": lambda m, o: o.param_groups[0]["params"].pop(),
    "state": lambda m, o: o.load_state_dict(o.state_dict()),
    "state's tensor": lambda m, o: o.state[m[0].bias].update(exp_avg=tinyt.full((3,), 0.5)),
    "state's step": lambda m, o: o.state[m[0].weight].update(step=tinyt.tensor(1.0)),
    "state in place": lambda m, o: o.state[m[0].weight]["exp_avg_sq"].fill_(2.0),
    "states": lambda m, o: o.state.clear(),
    "data": lambda m, o: setattr(m[0].weight, "data", tinyt.full((3, 3), 0.25)),
}


@pytest.mark.parametrize("name", OPTIMIZER_CHANGES)
def test_a_changed_optimizer_is_seen(name: str) -> None:
    found = []
    for is_compiled in (False, True):
        tinyt.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3, bias=False))
        optimizer = optim.AdamW(net[0].parameters(), lr=0.1)
        step: Any = step_of(net, optimizer)
        step = compile(step) if is_compiled else step
        for i in range(7):
            if i == 3:
                OPTIMIZER_CHANGES[name](net, optimizer)
            found.append(step(tinyt.arange(6.0).reshape(2, 3)).tolist())
        found.append([p.tolist() for p in net.parameters()])
        states = [state.values() for state in optimizer.state.values()]
        found.append([x.tolist() for state in states for x in state])
    assert found[:9] == found[9:]


KINDS: dict[str, Callable[[nn.Module, float], object]] = {
    "parameter": lambda m, v: setattr(m, "w", nn.Parameter(tinyt.full((2,), v))),
    "buffer": lambda m, v: m.register_buffer("w", tinyt.full((2,), v)),
    "tensor": lambda m, v: setattr(m, "w", tinyt.full((2,), v)),
    "float": lambda m, v: setattr(m, "w", v),
}


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_a_name_that_moves_between_tables(first: str, second: str) -> None:
    """Also where a float was read anew at each run, whose place is gone."""

    class Scale(nn.Module):
        w: Any

        def forward(self, x: Tensor) -> Tensor:
            return x * self.w

    model = Scale()
    compiled = compile(model)
    for i, kind in enumerate([first, "float", "float", second, "float", first, second]):
        if "w" in {**vars(model), **model._parameters, **model._buffers}:
            del model.w
        KINDS[kind](model, i + 1.0)
        for _ in range(3):
            assert compiled(tinyt.ones(2)).tolist() == [i + 1.0] * 2
