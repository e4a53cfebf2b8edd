"""`tinyt.compiler`'s switches of PyTorch, `_dynamo`, and `Module.compile`."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import tinyt
from tinyt import compiler, nn
from tinyt.nn.global_hooks import register_module_forward_hook


def test_is_compiling() -> None:
    seen = []

    @tinyt.compile
    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        return x * 2 if compiler.is_compiling() else x * 3

    for _ in range(4):
        seen.append(step(tinyt.ones(2)).tolist())
    assert seen == [[2.0, 2.0]] * 4
    assert not compiler.is_compiling()
    assert not compiler.is_dynamo_compiling()
    assert not compiler.is_exporting()


def test_is_compiling_verified() -> None:
    step = tinyt.compile(lambda x: x + compiler.is_compiling(), verify=True)
    for _ in range(3):
        assert step(tinyt.zeros(2)).tolist() == [1.0, 1.0]
    assert step.verifications()


def test_is_compiling_ends_with_an_error() -> None:
    @tinyt.compile
    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        step(tinyt.ones(1))
    assert not compiler.is_compiling()


def test_disable() -> None:
    def f(x: Any) -> Any:
        return x + 1

    for disabled in (compiler.disable(f), compiler.disable(recursive=False)(f)):
        assert disabled is not f
        assert tinyt.compile(disabled) is disabled
        assert disabled(tinyt.zeros(1)).tolist() == [1.0]
    assert tinyt.compile(f) is not f
    module = nn.Linear(2, 2)
    assert compiler.disable(module) is module
    assert tinyt.compile(module) is module
    inside = tinyt.compile(lambda x: disabled(x) * 2)
    for _ in range(3):
        assert inside(tinyt.zeros(1)).tolist() == [2.0]
    with pytest.raises(TypeError, match="got int"):
        compiler.disable(3)


def test_switches_leave_things_as_they_are() -> None:
    def f(x: Any) -> Any:
        return x

    assert compiler.allow_in_graph(f) is f
    assert compiler.assume_constant_result(f) is f
    assert compiler.substitute_in_graph(len)(f) is f
    compiler.reset()
    compiler.cudagraph_mark_step_begin()
    assert compiler.list_backends() == ["inductor"]
    with compiler.set_stance("default"):
        pass
    with pytest.raises(NotImplementedError, match="force_eager"):
        compiler.set_stance("force_eager")
    assert compiler.compile is tinyt.compile
    assert compiler.compile(lambda x: x + 1)(tinyt.ones(1)).tolist() == [2.0]


def test_dynamo() -> None:
    import tinyt._dynamo
    import tinyt._dynamo.config

    tinyt._dynamo.config.suppress_errors = True
    tinyt._dynamo.config.suppress_errors = False
    tinyt._dynamo.reset()
    assert tinyt._dynamo.optimize()(lambda x: x + 1)(tinyt.ones(1)).tolist() == [2.0]
    assert tinyt._dynamo.disable is compiler.disable
    with pytest.raises(NotImplementedError, match="explain"):
        tinyt._dynamo.explain(len)


@pytest.fixture
def collected() -> Iterator[None]:
    """A module that compiles its calls is part of a cycle, which the collector takes."""
    gc.collect()
    before = tinyt.memory.live_tensors()
    yield
    gc.collect()
    assert tinyt.memory.live_tensors() == before


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
        return self.b(self.a(x).relu())


@pytest.mark.usefixtures("collected")
def test_module_compile() -> None:
    net = Net()
    same = copy.deepcopy(net)
    assert net.compile() is None
    net.register_forward_hook(lambda module, args, out: out * 2)
    for i in range(4):
        x = tinyt.full((2, 3), i + 1.0)
        out = net(x)
        assert tinyt.equal(out, same(x) * 2)
        out.sum().backward()
        (same(x) * 2).sum().backward()
    for p, q in zip(net.parameters(), same.parameters(), strict=True):
        assert tinyt.equal(p.grad, q.grad)
    assert net._call_hooks.compiled.cache_info().hits >= 1
    assert list(net.state_dict()) == list(same.state_dict())
    assert isinstance(net, Net)


@pytest.mark.usefixtures("collected")
def test_copies_of_a_compiled_module_are_not_compiled() -> None:
    net = Net()
    net.compile(dynamic=False)
    x = tinyt.rand(2, 3)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert not hasattr(other._call_hooks, "compiled")
        assert tinyt.equal(other(x), net(x))
    with pytest.raises(RuntimeError, match="mode must be one of"):
        net.compile(mode="fastest")


@pytest.mark.usefixtures("collected")
def test_a_compiled_module_in_a_compiled_step() -> None:
    net = Net()
    net.compile()
    step = tinyt.compile(lambda x: net(x).sum())
    x = tinyt.rand(2, 3)
    for _ in range(3):
        assert tinyt.equal(step(x), net(x).sum())
    assert step.cache_info().hits >= 1


@pytest.mark.usefixtures("collected")
def test_a_compiled_module_follows_hooks_of_all_modules() -> None:
    layer, x = nn.Linear(2, 2), tinyt.ones(1, 2)
    layer.compile()
    plain = layer.forward(x)
    assert tinyt.equal(layer(x), plain)
    with register_module_forward_hook(lambda module, args, output: output * 2):
        for _ in range(3):
            assert tinyt.equal(layer(x), plain * 2)
    for _ in range(3):
        assert tinyt.equal(layer(x), plain)


class Switched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor, self.layer, self.drop = 2.0, nn.Linear(2, 2), nn.Dropout(0.5)

    def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
        return self.drop(self.layer(x)) * self.factor if self.training else self.layer(x)


@pytest.mark.usefixtures("collected")
def test_a_compiled_module_follows_its_state() -> None:
    net, x = Switched().eval(), tinyt.ones(1, 2)
    net.compile()

    def check() -> None:
        for _ in range(3):
            tinyt.manual_seed(1)
            got = net(x)
            tinyt.manual_seed(1)
            assert tinyt.equal(got, net.forward(x))

    check()
    net.train()
    check()
    net.factor = 3.0
    check()
    net.layer = nn.Linear(2, 2)
    check()
    with tinyt.no_grad():
        net.layer.weight.fill_(2.0)
    check()
    net.drop.p = 0.0
    check()
