"""`tinyt.jit`: scripted and traced code is what it was; what needs TorchScript says so."""

from __future__ import annotations

import typing
from typing import Any, Optional, Union

import pytest

import tinyt
from tinyt import jit, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    @jit.export
    def other(self, x: tinyt.Tensor) -> tinyt.Tensor:
        return self.layer(x) + 1

    @jit.ignore
    def ignored(self) -> int:
        return 1

    @jit.ignore(drop=True)
    def dropped(self) -> int:
        return 2

    @jit.unused
    def unused(self) -> int:
        return 3

    def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
        if jit.is_scripting() or jit.is_tracing():
            return x
        return self.layer(x)


def test_what_is_given_is_returned() -> None:
    net, x = Net(), tinyt.ones(1, 3)
    for made in (jit.script(net), jit.trace(net, (x,)), jit.trace_module(net, {"other": x})):
        assert made is net
    assert tinyt.equal(jit.script(net)(x), net.layer(x))
    assert (net.ignored(), net.dropped(), net.unused()) == (1, 2, 3)
    assert tinyt.equal(net.other(x), net.layer(x) + 1)
    assert jit.freeze(net.eval()) is net
    assert jit.optimize_for_inference(net) is net
    assert not isinstance(net, jit.ScriptModule)
    with pytest.raises(RuntimeError, match=r"\.eval\(\)"):
        jit.freeze(net.train())
    with pytest.raises(AttributeError, match="nothing"):
        jit.trace_module(net, {"nothing": x})
    with pytest.raises(RuntimeError):
        jit.trace(net)


def test_decorators_and_names() -> None:
    def f(x: int) -> int:
        return x + 1

    for decorate in (jit.script, jit.script_method, jit.unused, jit.export, jit.ignore):
        assert decorate(f) is f
    assert jit.script_if_tracing(f) is jit._script_if_tracing(f) is f
    assert jit.interface(Net) is Net
    assert jit.annotate(typing.List[int], [1]) == [1]  # noqa: UP006
    assert jit.Final is typing.Final
    assert jit.wait(jit.fork(f, 2)) == 3
    future: jit.Future[int] = jit.fork(f, x=4)
    assert future.wait() == future.value() == 5
    assert jit.Attribute(1, int).value == 1
    with jit.optimized_execution(True), jit.strict_fusion():
        pass
    with pytest.raises(RuntimeError, match="got 3"):
        jit.ignore(3)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1, 2], typing.List[int], True),  # noqa: UP006
        ([1, "a"], typing.List[int], False),  # noqa: UP006
        ({"a": 1}, dict[str, int], True),
        ({"a": 1.0}, dict[str, int], False),
        ((1, 2.0), tuple[int, float], True),
        ((1, 2.0), tuple[int, int], False),
        ((1, 2, 3), tuple[int, ...], True),
        (None, Optional[int], True),  # noqa: UP045
        ("a", Optional[int], False),  # noqa: UP045
        (2, Union[int, str], True),  # noqa: UP007
        (2, (float, int), True),
        (2, str, False),
        ([], list, True),
        ([[1], [2, 3]], list[list[int]], True),
    ],
)
def test_isinstance_of_containers(value: Any, kind: Any, expected: bool) -> None:
    assert jit.isinstance(value, kind) is expected


def test_older_paths() -> None:
    from tinyt.jit.annotations import BroadcastingList2, List, Optional

    assert BroadcastingList2[int] is Any
    assert jit.annotate(Optional[List[int]], None) is None
    assert issubclass(jit.TracerWarning, Warning)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert list(jit._unique_state_dict(tied)) == ["0.weight", "0.bias", "1.bias"]


def test_script_module() -> None:
    class Old(jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tinyt.ones(2))

        @jit.script_method
        def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
            return x * self.weight

    module = Old()
    assert module(tinyt.full((2,), 3.0)).tolist() == [3.0, 3.0]
    assert list(module.state_dict()) == ["weight"]
    with pytest.raises(NotImplementedError, match=r"no TorchScript.*tinyt\.save"):
        module.save("x.pt")
    with pytest.raises(NotImplementedError, match="no TorchScript"):
        _ = module.code


def test_files_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"jit\.save: there is no TorchScript"):
        jit.save(Net(), "x.pt")
    with pytest.raises(NotImplementedError, match=r"jit\.load: .*tinyt\.load"):
        jit.load("x.pt")
    with pytest.raises(NotImplementedError, match="CompilationUnit"):
        jit.CompilationUnit("def f(): pass")
    with pytest.raises(NotImplementedError, match="ScriptFunction"):
        jit.ScriptFunction()
    with pytest.raises(AttributeError, match=r"'save'.*TorchScript"):
        jit.script(Net()).save("x.pt")
