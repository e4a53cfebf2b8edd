"""Parameter containers, buffers as attributes, and the initialisers beyond the common ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tinyt
from tinyt import nn
from tinyt.nn import init

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")


def filled_list(tt: Any) -> Any:
    held = tt.nn.ParameterList([tt.ones(2, 3), tt.nn.Parameter(tt.zeros(1)), 5])
    held.append(tt.ones(()))
    held[1] = tt.ones(4)
    held += [tt.zeros(2)]
    return held


def filled_dict(tt: Any) -> Any:
    held = tt.nn.ParameterDict({"a": tt.ones(2), "b": tt.nn.Parameter(tt.zeros(3)), "c": "text"})
    held["d"] = tt.ones(1)
    held.update({"a": tt.zeros(4)})
    del held["b"]
    return held


@needs_torch
@pytest.mark.parametrize("make", [filled_list, filled_dict])
def test_parameter_containers_equal_pytorchs(make: Callable[[Any], Any]) -> None:
    ours, theirs = make(tinyt), make(torch)
    assert [*ours.state_dict()] == [*theirs.state_dict()]
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert len(ours) == len(theirs)
    if make is filled_list:
        assert repr(ours).replace("tinyt.", "torch.") == repr(theirs)
        assert repr(ours[1:3]).replace("tinyt.", "torch.") == repr(theirs[1:3])
    with pytest.raises(RuntimeError, match="should not be called"):
        ours()


def test_parameters_without_names_are_those_with_names() -> None:
    shared = nn.Linear(3, 3)
    inner = nn.Sequential(shared, nn.ReLU(), nn.Linear(3, 2, bias=False))
    net = nn.ModuleList([inner, shared, nn.Sequential(inner, nn.Linear(2, 1)), filled_list(tinyt)])
    net[2][1].weight = shared.weight
    net.register_module("none", None)
    named = [param for _, param in net.named_parameters()]
    assert [id(p) for p in net.parameters()] == [id(p) for p in named]
    assert len(named) == 8

    class Chosen(nn.Linear):
        def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
            return [("weight", self.weight)]

    only = Chosen(2, 2)
    assert [p is only.weight for p in only.parameters()] == [True]


def test_parameter_list() -> None:
    held = filled_list(tinyt)
    assert held[-1].tolist() == [0.0, 0.0]
    assert held[2] == 5
    assert [type(v) for v in held].count(nn.Parameter) == 4
    with pytest.raises(IndexError, match=r"7.*5"):
        held[7]
    with pytest.raises(TypeError, match="Tensor"):
        held.extend(tinyt.ones(2))
    other = nn.ParameterList(
        [tinyt.full((2, 3), 7.0), tinyt.ones(4), 0, tinyt.ones(()), tinyt.ones(2)]
    )
    held.load_state_dict(other.state_dict())
    assert held[0].tolist() == [[7.0] * 3] * 2


def test_parameter_dict() -> None:
    held = filled_dict(tinyt)
    assert list(held) == ["a", "c", "d"]
    assert list(reversed(held)) == ["d", "c", "a"]
    assert held["c"] == "text"
    assert isinstance(held["d"], nn.Parameter)
    assert held.a is held["a"]
    assert "b" not in held
    assert held.get("b") is None
    assert held.setdefault("e", tinyt.ones(1)) is held["e"]
    assert held.popitem()[0] == "e"
    both = held | {"f": tinyt.ones(2)}
    assert list(both) == ["a", "c", "d", "f"]
    assert both["a"] is held["a"]
    assert list({"z": tinyt.ones(1)} | held) == ["z", "a", "c", "d"]
    assert list(held.fromkeys(["x", "y"], 3).values()) == [3, 3]
    held["a"] = "no parameter any more"
    assert [n for n, _ in held.named_parameters()] == ["d"]
    with pytest.raises(KeyError):
        held["b"]
    held.clear()
    assert len(held) == 0


def test_buffer_as_attribute() -> None:
    module = nn.Module()
    module.mean = nn.Buffer(tinyt.ones(2))
    module.scratch = nn.Buffer(tinyt.zeros(1), persistent=False)
    assert [n for n, _ in module.named_buffers()] == ["mean", "scratch"]
    assert list(module.state_dict()) == ["mean"]
    assert not list(module.parameters())
    assert repr(module.mean) == "tensor([1., 1.])"
    module.mean = tinyt.zeros(3)
    assert module.get_buffer("mean").tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(TypeError, match="list"):
        nn.Buffer([1.0])


# ------------------------------------------------------------------ initialisers


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0, 1, -2, 2), (1, 2, 0, 1.5), (0, 1, 2, 4)])
def test_trunc_normal(mean: float, std: float, a: float, b: float) -> None:
    tinyt.manual_seed(0)
    x = init.trunc_normal_(tinyt.empty(50_000), mean, std, a, b).double().numpy()
    assert x.min() >= a
    assert x.max() <= b
    law = stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    assert stats.kstest(x, law.cdf).pvalue > 1e-3
    assert tinyt.get_rng_state().tolist() == [0, 12_500]


@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (4, 7), (6, 2, 3), (1, 1)])
@pytest.mark.parametrize("gain", [1.0, 2.5])
def test_orthogonal(shape: tuple[int, ...], gain: float) -> None:
    tinyt.manual_seed(0)
    x = init.orthogonal_(tinyt.empty(shape), gain).double().numpy().reshape(shape[0], -1)
    product = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, gain**2 * np.eye(len(product)), atol=1e-5)


def test_orthogonal_is_uniform() -> None:
    """A rotation of the plane by every angle: without the signs of R half of them is missing."""
    tinyt.manual_seed(0)
    first = [init.orthogonal_(tinyt.empty(2, 2)).numpy()[:, 0] for _ in range(1000)]
    angles = np.arctan2(*np.array(first).T) / (2 * math.pi) + 0.5
    assert stats.kstest(angles, "uniform").pvalue > 1e-3


def test_sparse() -> None:
    tinyt.manual_seed(0)
    x = init.sparse_(tinyt.empty(50, 40), 0.31, std=2.0).numpy()
    assert ((x == 0).sum(0) == math.ceil(0.31 * 50)).all()
    assert abs(x[x != 0].std() - 2) < 0.2
    assert len({tuple(np.flatnonzero(c)) for c in x.T}) == 40


@needs_torch
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 2, 3, 4), (2, 3, 1, 2, 3), (6, 1, 5)])
def test_dirac_and_eye(shape: tuple[int, ...], groups: int) -> None:
    ours, theirs = tinyt.empty(shape), torch.empty(shape)
    assert init.dirac_(ours, groups) is ours
    assert ours.tolist() == torch.nn.init.dirac_(theirs, groups).tolist()
    assert init.eye_(tinyt.empty(shape[:2])).tolist() == np.eye(*shape[:2]).tolist()


def test_initialisers_of_parameters() -> None:
    """They write into leaves and record nothing."""
    for fill in (init.trunc_normal_, init.orthogonal_, init.eye_, lambda p: init.sparse_(p, 0.5)):
        p = nn.Parameter(tinyt.empty(3, 4))
        assert fill(p) is p
        assert p.is_leaf
        assert p.requires_grad


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: init.eye_(tinyt.ones(3)), r"eye_.*\(3,\)"),
    (lambda: init.orthogonal_(tinyt.ones(3)), r"orthogonal_.*\(3,\)"),
    (lambda: init.sparse_(tinyt.ones(3), 0.1), r"sparse_.*\(3,\)"),
    (lambda: init.dirac_(tinyt.ones(3, 3)), r"dirac_.*\(3, 3\)"),
    (lambda: init.dirac_(tinyt.ones(3, 3, 3), 2), r"dirac_.*3.*2"),
    (lambda: init.trunc_normal_(tinyt.ones(3), a=2.0, b=1.0), r"trunc_normal_.*2\.0.*1\.0"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_initialisation(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def copied_parameter(tt: Any) -> Any:
    class Named(tt.nn.Parameter):
        pass

    net, p = tt.nn.Linear(3, 2), Named(tt.ones(2, 3).t(), False)
    plain = tt.ones(2, requires_grad=True)
    for x in (net.weight, plain):
        (x * x).sum().backward()
        x.tag = 3
        x.register_hook(lambda g: 0 / 0)
    optimizer = tt.optim.SGD(net.parameters(), lr=0.1)
    twin, (again, same), q, leaf, steps = copy.deepcopy(
        (net, [net.weight] * 2, p, plain, optimizer)
    )
    (twin.weight * 2).sum().backward()
    seen = twin.weight.grad.tolist()
    return (
        seen, twin.bias.grad, hasattr(twin.weight, "tag"), twin.weight.requires_grad,
        again is same is twin.weight is steps.param_groups[0]["params"][0],
        type(q) is Named, q.requires_grad, q.stride(),
        leaf.grad.tolist(), leaf.tag, net.weight.grad is None,
    )  # fmt: skip


def test_a_deep_copy_of_a_parameter_has_its_values_alone() -> None:
    """No gradient, hook or attribute; of a leaf that is no parameter all but the hooks."""
    got = copied_parameter(tinyt)
    values = [[2.0] * 3] * 2, None, False, True, True, True, False, (1, 3), [2.0, 2.0], 3, False
    assert got == values
    assert torch is None or got == copied_parameter(torch)
