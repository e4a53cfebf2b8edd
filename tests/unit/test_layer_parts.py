"""Hooks of all modules in compiled functions, and `nn.parallel` on the one device."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, namedtuple
from typing import Any

import pytest

import tinyt
from tinyt import nn
from tinyt.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

Pair = namedtuple("Pair", ["a", "b"])


def doubled(module: nn.Module, args: Any, output: Any) -> Any:
    return output * 2 if isinstance(module, nn.Linear) else None


def test_modules_have_no_hooks_before_and_after() -> None:
    layer = nn.Linear(1, 1)
    assert layer._call_hooks is None
    with register_module_forward_hook(doubled):
        assert layer._call_hooks is not None
    x = tinyt.ones(1)
    assert layer(x).equal(layer.forward(x))
    assert layer._call_hooks is None
    assert "_call_hooks" not in vars(layer)


def test_looking_at_tables_makes_none() -> None:
    layer = nn.Linear(1, 1)
    for name in ("_forward_hooks", "_backward_hooks", "_state_dict_hooks"):
        assert len(getattr(layer, name)) == 0
    assert "_call_hooks" not in vars(layer)
    assert "_state_hooks" not in vars(layer)


@pytest.mark.parametrize("backward", [False, True])
def test_compiled_functions_follow_hooks_of_all_modules(backward: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    x = tinyt.rand(3, 2)

    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        out = net(x)
        if backward:
            for parameter in net.parameters():
                parameter.grad = None
            out.sum().backward()
        return out

    def grads() -> list[Any]:
        return [None if p.grad is None else p.grad.tolist() for p in net.parameters()]

    compiled = tinyt.compile(step)

    def check() -> None:
        for _ in range(3):
            found, of_compiled = compiled(x).tolist(), grads()
            assert (found, of_compiled) == (step(x).tolist(), grads())

    check()
    with register_module_forward_hook(doubled):
        check()
        with register_module_forward_pre_hook(lambda module, args: (args[0] + 1,)):
            check()
        check()
    check()


def test_what_is_not_callable() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        register_module_forward_hook(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be callable"):
        nn.modules.module.register_module_buffer_registration_hook(3)


def test_scatter_and_gather() -> None:
    x = tinyt.arange(6).reshape(3, 2)
    cpu = ["cpu", tinyt.device("cpu")]
    first, second = nn.parallel.scatter({"x": x, "n": [3, Pair(x, (x,))]}, cpu)
    assert first["x"].tolist() == [[0, 1], [2, 3]]
    assert second["n"][0] == 3
    assert isinstance(second["n"][1], Pair)
    assert second["n"][1].b[0].tolist() == [[4, 5]]
    rows = [{"x": part["x"], "n": [part["n"][1], None]} for part in (first, second)]
    joined = nn.parallel.gather(rows, "cpu")
    assert joined["x"].equal(x)
    assert joined["n"][0].b[0].equal(x)
    assert joined["n"][1] is None
    with pytest.raises(ValueError, match="same number of keys"):
        nn.parallel.gather([{"x": x}, {}], "cpu")
    assert nn.parallel.gather([tinyt.tensor(1.0), tinyt.tensor(2.0)], -1).tolist() == [1.0, 2.0]
    args, kwargs = nn.parallel.scatter_gather.scatter_kwargs((x,), {"y": 1}, cpu)
    assert len(args) == len(kwargs) == 2
    args, kwargs = nn.parallel.scatter_gather.scatter_kwargs((), {"y": 1}, cpu)
    assert (args, kwargs) == (((), ()), ({"y": 1}, {"y": 1}))
    parts = nn.parallel.scatter(x, ["cpu"] * 3, dim=1)
    assert [tuple(part.shape) for part in parts] == [(3, 1), (3, 1)]


@pytest.mark.parametrize("device", [0, "xpu:1", "xpu"])
def test_other_devices_are_not_here(device: Any) -> None:
    x, layer = tinyt.ones(2, 1), nn.Linear(1, 1)
    for call in (
        lambda: nn.parallel.scatter(x, [device]),
        lambda: nn.parallel.gather([x], device),
        lambda: nn.parallel.replicate(layer, [device]),
        lambda: nn.parallel.parallel_apply([layer], [x], devices=[device]),
        lambda: nn.parallel.comm.broadcast(x, [device]),
    ):
        with pytest.raises(RuntimeError, match=r"xpu|accelerator"):
            call()


def test_replicas_share_parameters() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    net.again = net[0]
    first, second = nn.parallel.replicate(net, ["cpu", "cpu"])
    x = tinyt.rand(4, 2)
    outputs = nn.parallel.parallel_apply([first, second], nn.parallel.scatter(x, ["cpu", "cpu"]))
    nn.parallel.gather(outputs, "cpu").square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    assert first[0] is not net[0]
    assert first.again is first[0]
    assert first[0].weight is net[0].weight
    (detached,) = nn.parallel.replicate(net, ["cpu"], detach=True)
    assert list(detached.parameters()) == []
    assert not detached[0].weight.requires_grad
    assert detached(x).shape == (4, 2)
    with pytest.raises(AssertionError, match="number of inputs"):
        nn.parallel.parallel_apply([net], [])


def test_sums_and_parts_between_devices() -> None:
    comm = nn.parallel.comm
    x = tinyt.arange(4.0)
    assert comm.reduce_add([x, x, x]).equal(x * 3)
    assert comm.reduce_add_coalesced([[x, x], [x, x]])[1].equal(x * 2)
    assert [part.tolist() for part in comm.scatter(x, ["cpu"] * 2, [1, 3])] == [[0], [1, 2, 3]]
    assert comm.gather(comm.broadcast(x, ["cpu", "cpu"])).equal(tinyt.cat([x, x]))
    assert comm.broadcast_coalesced([x], ["cpu", "cpu"])[1][0] is x
    with pytest.raises(ValueError, match="must agree"):
        comm.reduce_add([x, x[:1]])


def test_data_parallel_has_its_parts() -> None:
    model = nn.DataParallel(nn.Linear(1, 1))
    x = tinyt.ones(2, 1)
    inputs, kwargs = model.scatter((x,), {}, ["cpu", "cpu"])
    replicas = model.replicate(model.module, ["cpu", "cpu"])
    outputs = model.parallel_apply(replicas, inputs, kwargs)
    assert model.gather(outputs, "cpu").equal(model(x))
    assert model.device_ids == []


def test_set_flat_weights() -> None:
    layer = nn.GRU(1, 1)
    weights = [nn.Parameter(w.detach() * 0) for w in layer._flat_weights]
    layer._flat_weights = weights
    assert layer.weight_ih_l0 is weights[0]
    assert layer(tinyt.ones(1, 1))[0].tolist() == [[0.0]]


def test_fractional_pooling_draws() -> None:
    x = tinyt.rand(2, 3, 9, 9)
    tinyt.manual_seed(3)
    first = nn.FractionalMaxPool2d(2, output_size=(4, 5))(x)
    second = nn.FractionalMaxPool2d(2, output_size=(4, 5))(x)
    tinyt.manual_seed(3)
    assert nn.FractionalMaxPool2d(2, output_size=(4, 5))(x).equal(first)
    assert not first.equal(second)
    assert first.shape == (2, 3, 4, 5)


def test_fractional_pooling_compiled() -> None:
    layer = nn.FractionalMaxPool2d(2, output_ratio=0.5)
    x = tinyt.rand(2, 3, 9, 8)
    compiled = tinyt.compile(lambda x: layer(x))
    for _ in range(3):
        tinyt.manual_seed(3)
        eager = layer(x)
        tinyt.manual_seed(3)
        assert compiled(x).equal(eager)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((tinyt.ones(2, 2), 2, 1), "rank 3 or 4"),
        ((tinyt.ones(1, 4, 4).long(), 2, 1), "not defined for dtype"),
        ((tinyt.ones(1, 4, 4), 3, 3), r"at most the input's sizes.*\(3, 3\).*\(4, 4\)"),
        ((tinyt.ones(1, 4, 4), 2, 1, None, False, tinyt.ones(1, 2, 2)), "_random_samples"),
    ],
)
def test_misuse_of_fractional_pooling(arguments: Any, message: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=message):
        nn.functional.fractional_max_pool2d(*arguments)


def test_misuse_of_gradients_of_convolutions() -> None:
    x = tinyt.ones(1, 1, 4)
    with pytest.raises(RuntimeError, match="conv2d_input"):
        nn.grad.conv2d_input((1, 1, 4), x, x)
    with pytest.raises(RuntimeError, match="conv1d_weight"):
        nn.grad.conv1d_weight(x, (1, 3), x)


def test_gradients_of_gradients_of_convolutions() -> None:
    weight = tinyt.rand(1, 1, 2, dtype=tinyt.float64).requires_grad_()
    grad = tinyt.rand(1, 1, 3, dtype=tinyt.float64).requires_grad_()
    form = nn.grad.conv1d_input
    assert tinyt.autograd.gradcheck(lambda w, g: form((1, 1, 4), w, g), (weight, grad))


def test_older_pickles_of_modules() -> None:
    """`__setstate__` takes the attributes of a module that was kept without some tables."""
    layer = nn.Linear(1, 1)
    state = {"training": True, "_parameters": OrderedDict(layer._parameters), "in_features": 1}
    other = nn.Linear.__new__(nn.Linear)
    other.__setstate__(state)
    assert other.weight is layer.weight
    assert list(other.state_dict()) == ["weight", "bias"]
    assert other(tinyt.ones(1)).equal(layer(tinyt.ones(1)))


def test_what_comes_with_its_first_use() -> None:
    late = ["functional_parts", "fractional_pooling", "global_hooks", "lazy", "uninitialized"]
    late += ["grad", "common_types", "_reduction", "adaptive", "parallel.comm"]
    names = [f"tinyt.nn.{name}" for name in late] + ["tinyt.ops.nn.fractional_pooling"]
    code = f"import sys, tinyt, tinyt.nn; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
