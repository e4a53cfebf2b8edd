"""Optimisers in the style of public packages: written against `torch.optim.optimizer`, they run and
give PyTorch's numbers."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch

import tinyt

BOTH = pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])


def names(tt: Any) -> Any:
    return importlib.import_module(f"{tt.__name__}.optim.optimizer")


def lion(tt: Any) -> Any:
    """The sign of an interpolated momentum, with decoupled decay."""
    module = names(tt)

    class Lion(module.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(
            self,
            params: Any,
            lr: Any = module.required,
            betas: Any = (0.9, 0.99),
            weight_decay: float = 0.0,
        ) -> None:
            defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay}
            super().__init__(params, defaults)

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("maximize", False)

        @tt.no_grad()  # type: ignore[untyped-decorator]
        def step(self, closure: Any = None) -> Any:
            loss = None
            if closure is not None:
                with tt.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in filter(lambda p: p.grad is not None, group["params"]):
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = tt.zeros_like(p)
                    avg, (beta1, beta2) = state["exp_avg"], group["betas"]
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    update = avg.clone().mul_(beta1).add(p.grad, alpha=1 - beta1).sign_()
                    p.add_(update, alpha=-group["lr"])
                    avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)
            return loss

    return Lion


def lamb(tt: Any) -> Any:
    """Adam with a trust ratio for each layer, over lists of tensors."""
    module = names(tt)

    class Lamb(module.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, params: Any, lr: float = 1e-3, eps: float = 1e-6) -> None:
            defaults = {"lr": lr, "betas": (0.9, 0.999), "eps": eps, "differentiable": False}
            super().__init__(params, defaults)

        @module._use_grad_for_differentiable  # type: ignore[untyped-decorator]
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                beta1, beta2 = group["betas"]
                group["step"] = group.get("step", 0) + 1
                params = [p for p in group["params"] if p.grad is not None]
                grads = [p.grad for p in params]
                for p in params:
                    if not self.state[p]:
                        self.state[p].update(m=tt.zeros_like(p), v=tt.zeros_like(p))
                means = [self.state[p]["m"] for p in params]
                squares = [self.state[p]["v"] for p in params]
                tt._foreach_mul_(means, beta1)
                tt._foreach_add_(means, grads, alpha=1 - beta1)
                tt._foreach_mul_(squares, beta2)
                tt._foreach_addcmul_(squares, grads, grads, value=1 - beta2)
                correction = math.sqrt(1 - beta2 ** group["step"])
                scale = tt._foreach_sqrt(squares)
                tt._foreach_div_(scale, correction)
                tt._foreach_add_(scale, group["eps"])
                updates = tt._foreach_div(means, scale)
                tt._foreach_div_(updates, 1 - beta1 ** group["step"])
                ratios = [
                    float(a) / float(b) if float(a) > 0 and float(b) > 0 else 1.0
                    for a, b in zip(
                        tt._foreach_norm(params), tt._foreach_norm(updates), strict=True
                    )
                ]
                tt._foreach_mul_(updates, ratios)
                tt._foreach_add_(params, updates, alpha=-group["lr"])

    return Lamb


def lookahead(tt: Any) -> Any:
    """A wrapper that never calls the constructor of its base."""

    class Lookahead(tt.optim.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, optimizer: Any, k: int = 2, alpha: float = 0.5) -> None:
            self.optimizer = optimizer
            self.k, self.alpha = k, alpha
            self.param_groups = optimizer.param_groups
            self.state = defaultdict(dict)
            self.fast_state = optimizer.state
            self.defaults = {"k": k, "alpha": alpha, **optimizer.defaults}
            for group in self.param_groups:
                group["counter"] = 0

        def _update(self, group: Any) -> None:
            for fast in group["params"]:
                state = self.state[fast]
                if "slow" not in state:
                    state["slow"] = fast.detach().clone()
                state["slow"].add_(fast.data - state["slow"], alpha=self.alpha)
                fast.data.copy_(state["slow"])

        def step(self, closure: Any = None) -> Any:
            loss = self.optimizer.step(closure)
            for group in self.param_groups:
                group["counter"] += 1
                if group["counter"] % self.k == 0:
                    self._update(group)
            return loss

    return Lookahead


def train(tt: Any, make: Any) -> list[list[float]]:
    x = tt.tensor(np.linspace(-1, 1, 12).reshape(4, 3))
    w = tt.nn.Parameter(tt.tensor(np.linspace(0.1, 0.6, 6).reshape(3, 2)))
    b = tt.nn.Parameter(tt.tensor([0.5, -0.5], dtype=tt.float64))
    optimizer = make(tt, w, b)
    schedule = tt.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for _ in range(6):
        optimizer.zero_grad()
        ((x @ w + b).tanh() - 0.3).pow(2).sum().backward()
        optimizer.step()
        schedule.step()
    return [w.tolist(), b.tolist(), schedule.get_last_lr()]


def with_groups(make: Any) -> Any:
    def build(tt: Any, w: Any, b: Any) -> Any:
        optimizer = make(tt)([w], lr=0.01)
        optimizer.add_param_group({"params": b, "lr": 0.02})
        return optimizer

    return build


BUILDS = {
    "lion": with_groups(lion),
    "lamb": with_groups(lamb),
    "lookahead": lambda tt, w, b: lookahead(tt)(tt.optim.SGD([w, b], lr=0.1, momentum=0.9)),
    "lookahead of lion": lambda tt, w, b: lookahead(tt)(lion(tt)([w, b], lr=0.1)),
}


@pytest.mark.parametrize("name", BUILDS)
def test_steps(name: str) -> None:
    ours, theirs = train(tinyt, BUILDS[name]), train(torch, BUILDS[name])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@BOTH
def test_required_options(tt: Any) -> None:
    p = tt.nn.Parameter(tt.ones(2))
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        lion(tt)([p])
    assert repr(names(tt).required) == "<required parameter>"
    assert lion(tt)([p], lr=1.0).defaults["lr"] == 1.0


@BOTH
def test_copies_and_state_dicts(tt: Any) -> None:
    p = tt.nn.Parameter(tt.ones(2))
    optimizer = lion(tt)([p], lr=0.1)
    p.sum().backward()
    optimizer.step()
    twin = copy.deepcopy(optimizer)
    assert twin.param_groups[0]["maximize"] is False
    assert (
        next(iter(twin.state.values()))["exp_avg"].tolist()
        == optimizer.state[p]["exp_avg"].tolist()
    )
    fresh = lion(tt)([p], lr=0.5)
    fresh.load_state_dict(optimizer.state_dict())
    assert fresh.param_groups[0]["lr"] == 0.1
    assert fresh.state[p]["exp_avg"].tolist() == optimizer.state[p]["exp_avg"].tolist()
    sgd = pickle.loads(pickle.dumps(tt.optim.SGD([p], lr=0.1)))
    sgd.step()


@BOTH
def test_profile_names(tt: Any) -> None:
    optimizer = lion(tt)([tt.nn.Parameter(tt.ones(2))], lr=0.1)
    assert optimizer._zero_grad_profile_name == "Optimizer.zero_grad#Lion.zero_grad"
    assert callable(names(tt).Optimizer.profile_hook_step(lambda self: None))


@BOTH
def test_hooks_of_all_optimisers(tt: Any) -> None:
    calls: list[str] = []
    module = names(tt)
    handles = [
        module.register_optimizer_step_pre_hook(lambda o, a, k: calls.append("pre of all")),
        module.register_optimizer_step_post_hook(lambda o, a, k: calls.append("post of all")),
    ]
    p = tt.nn.Parameter(tt.ones(2))
    optimizer = tt.optim.SGD([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, a, k: calls.append("pre"))
    optimizer.register_step_post_hook(lambda o, a, k: calls.append("post"))
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert calls == ["pre of all", "pre", "post", "post of all", "pre", "post"]


@BOTH
def test_a_group_is_the_dict_that_was_given(tt: Any) -> None:
    group = {"params": [tt.nn.Parameter(tt.ones(2))]}
    optimizer = tt.optim.SGD([group], lr=0.1)
    assert optimizer.param_groups[0] is group
    assert group["lr"] == 0.1


MAKERS = {
    "SGD": lambda tt, params: tt.optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda tt, params: tt.optim.Adam(params, lr=0.1),
    "AdamW": lambda tt, params: tt.optim.AdamW(params, lr=0.1),
    "RMSprop": lambda tt, params: tt.optim.RMSprop(params, lr=0.1),
    "NAdam": lambda tt, params: tt.optim.NAdam(params, lr=0.1),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_parameter_that_is_twice_in_a_group(name: str) -> None:
    """It is updated twice with one state, and a warning says so."""
    found = []
    for tt in (tinyt, torch):
        p = tt.nn.Parameter(tt.tensor([1.0, 2.0], dtype=tt.float64))
        q = tt.nn.Parameter(tt.tensor([3.0], dtype=tt.float64))
        with pytest.warns(UserWarning, match="duplicate parameters"):
            optimizer = MAKERS[name](tt, [p, q, p])
        for _ in range(3):
            optimizer.zero_grad()
            (p.pow(2).sum() + q.sum()).backward()
            optimizer.step()
        packed = [group["params"] for group in optimizer.state_dict()["param_groups"]]
        found.append((p.tolist(), q.tolist(), packed, len(optimizer.state)))
        with pytest.raises(ValueError, match="more than one parameter group"):
            tt.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)
    assert found[0][2:] == found[1][2:]


@BOTH
def test_helpers(tt: Any) -> None:
    module = names(tt)
    assert module._get_value(tt.tensor(2.0)) == 2
    assert module._get_value(3) == 3
    assert module._to_scalar(tt.ones(1)).dim() == 0
    assert module._stack_if_compiling(1.5) == 1.5
    params = [tt.ones(2, dtype=tt.complex64), tt.ones(2)]
    grads = [tt.zeros(2, dtype=tt.complex64), tt.zeros(2)]
    module._view_as_real(params, grads)
    assert [tuple(p.shape) for p in params] == [(2, 2), (2,)]
    assert [tuple(g.shape) for g in grads] == [(2, 2), (2,)]
    grouped = tt.optim.Optimizer._group_tensors_by_device_and_dtype if tt is torch else None
    assert grouped is None or callable(grouped)
    for text in ("_foreach_doc", "_maximize_doc", "_capturable_doc", "_params_doc"):
        assert isinstance(getattr(module, text), str)


def test_groups_by_dtype() -> None:
    from tinyt.utils._foreach_utils import _group_tensors_by_device_and_dtype

    a, b, c = tinyt.ones(1), tinyt.ones(1, dtype=tinyt.float64), tinyt.ones(2)
    groups = _group_tensors_by_device_and_dtype([[a, b, c], [1, 2, 3]], with_indices=True)
    assert [(key[1], value) for key, value in groups.items()] == [
        (tinyt.float32, ([[a, c], [1, 3]], [0, 2])),
        (tinyt.float64, ([[b], [2]], [1])),
    ]


@pytest.mark.parametrize(
    "path",
    [
        *("adadelta.Adadelta", "adagrad.Adagrad", "adam.Adam", "adamax.Adamax", "adamw.AdamW"),
        *("asgd.ASGD", "lbfgs.LBFGS", "nadam.NAdam", "radam.RAdam", "rmsprop.RMSprop"),
        *("rprop.Rprop", "sgd.SGD", "sparse_adam.SparseAdam", "_adafactor.Adafactor"),
        *("_muon.Muon", "lr_scheduler._LRScheduler", "optimizer.Optimizer"),
        *("swa_utils.AveragedModel",),
    ],
)
@BOTH
def test_module_paths(tt: Any, path: str) -> None:
    module, _, name = path.partition(".")
    found = getattr(importlib.import_module(f"{tt.__name__}.optim.{module}"), name)
    assert isinstance(found, type)
    assert getattr(tt.optim, name, found) is found


def test_sparse_adam_says_what_to_do() -> None:
    with pytest.raises(NotImplementedError, match=r"use optim\.Adam"):
        tinyt.optim.SparseAdam([tinyt.nn.Parameter(tinyt.ones(2))])
