"""Details that programs look at: what hooks get, names in texts, classes of errors, namespaces."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tinyt

BOTH = pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])


# ---- hooks of optimisers


def stepped(tt: Any, *given: Any, change: Any = None, **named: Any) -> list[Any]:
    """What hooks around one step of SGD get."""
    optimizer = tt.optim.SGD([tt.nn.Parameter(tt.ones(1))], lr=0.1)
    seen: list[Any] = []

    def hook(which: str, returned: Any) -> Callable[..., Any]:
        def called(owner: Any, args: Any, kwargs: Any) -> Any:
            assert owner is optimizer
            assert isinstance(args, tuple)
            seen.append((which, [x is optimizer for x in args], sorted(kwargs)))
            return returned and returned(args, kwargs)

        return called

    handles = [
        optimizer.register_step_pre_hook(hook("pre", change)),
        optimizer.register_step_pre_hook(hook("second", None)),
        optimizer.register_step_post_hook(hook("post", None)),
    ]
    try:
        seen.append(optimizer.step(*given, **named))
    finally:
        for handle in handles:  # the hooks hold the optimiser
            handle.remove()
    return seen


@BOTH
def test_hooks_get_the_optimizer_among_the_arguments(tt: Any) -> None:
    every = ("pre", "second", "post")
    assert stepped(tt) == [*((which, [True], []) for which in every), None]
    assert stepped(tt, lambda: 3)[:3] == [(which, [True, False], []) for which in every]
    assert stepped(tt, closure=lambda: 3)[-1] == 3


@BOTH
def test_what_a_hook_returns_takes_the_place_of_all_arguments(tt: Any) -> None:
    seen = stepped(tt, change=lambda args, kwargs: (args, {"closure": lambda: 5}))
    assert seen == [
        ("pre", [True], []),
        ("second", [True], ["closure"]),
        ("post", [True], ["closure"]),
        5,
    ]
    with pytest.raises((TypeError, IndexError)):  # without the optimiser
        stepped(tt, change=lambda args, kwargs: ((), {}))


# ---- rates that are tensors

SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "StepLR": lambda s, o: s.StepLR(o, 2),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda e: 0.5**e),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, total_iters=2),
    "LinearLR": lambda s, o: s.LinearLR(o, total_iters=3),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.5),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 4, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 3),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=6, cycle_momentum=False),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, patience=0),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ExponentialLR(o, 0.9), s.StepLR(o, 2)]),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, total_iters=2), s.ExponentialLR(o, 0.9)], [2]
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tensor", [True, False], ids=["tensor", "number"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_last_rates(name: str, tensor: bool) -> None:
    def rates(tt: Any) -> list[Any]:
        lr = tt.tensor(0.1) if tensor else 0.1
        optimizer = tt.optim.SGD([tt.nn.Parameter(tt.ones(1))], lr=lr)
        schedule = SCHEDULES[name](tt.optim.lr_scheduler, optimizer)
        kept = [schedule.get_last_lr()[0]]
        for _ in range(5):
            optimizer.step()
            schedule.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            kept.append(schedule.get_last_lr()[0])
        # What was handed out does not change with the next step.
        base = getattr(schedule, "base_lrs", [])
        return [isinstance(x, tt.Tensor) for x in [*kept, *base]], [
            float(x) for x in [*kept, *base]
        ]

    (ours, values), (theirs, expected) = rates(tinyt), rates(torch)
    assert ours == theirs
    assert values == pytest.approx(expected, rel=1e-5 if tensor else 1e-12, abs=1e-9)


# ---- errors

EMPTY: dict[str, Callable[[Any], Any]] = {
    "multinomial zeros": lambda tt: tt.multinomial(tt.zeros(3), 1),
    "multinomial negative": lambda tt: tt.multinomial(tt.tensor([-1.0, 1.0]), 1),
    "multinomial of nothing": lambda tt: tt.multinomial(tt.zeros(0), 1),
    "multinomial rows": lambda tt: tt.multinomial(tt.zeros(2, 3), 1),
    **{f"{op} whole": lambda tt, op=op: getattr(tt, op)(tt.zeros(0)) for op in (
        "argmax", "argmin", "max", "min", "amax", "amin", "aminmax", "mode")},
    **{f"{op} dim": lambda tt, op=op: getattr(tt, op)(tt.zeros(2, 0), dim=1) for op in (
        "argmax", "argmin", "max", "min", "amax", "amin", "aminmax", "mode", "median",
        "nanmedian")},
    **{f"{op} none": lambda tt, op=op: getattr(tt, op)(tt.zeros(2, 0), ()) for op in (
        "amax", "amin")},
    "kthvalue": lambda tt: tt.kthvalue(tt.zeros(2, 0), 1, 1),
    "kthvalue too large": lambda tt: tt.kthvalue(tt.zeros(2), 3),
    "nccl": lambda tt: tt.distributed.init_process_group("nccl", "tcp://127.0.0.1:0", None, 1, 0),
    "mpi": lambda tt: tt.distributed.init_process_group("mpi"),
}  # fmt: skip


def kinds(call: Callable[[], Any]) -> tuple[bool, bool]:
    """Whether the error that a call raises is an IndexError, a RuntimeError."""
    try:
        call()
    except (IndexError, RuntimeError) as error:
        return isinstance(error, IndexError), isinstance(error, RuntimeError)
    raise AssertionError("no error")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EMPTY)
def test_classes_of_errors(name: str) -> None:
    assert kinds(lambda: EMPTY[name](tinyt)) == kinds(lambda: EMPTY[name](torch))


# ---- texts of `tinyt run`

TEXTS = """
import torch
print(torch.max(torch.zeros(1, 1), 1))
layer = torch.nn.Linear(3, 3)
for act in (
    lambda: layer.load_state_dict({"weight": torch.zeros(2, 2), "bias": torch.zeros(3)}),
    lambda: setattr(layer, "weight", torch.zeros(2, 2)),
    lambda: setattr(layer, "weight", 3),
):
    try:
        act()
    except (RuntimeError, TypeError) as error:
        print(error)
"""


def test_texts() -> None:
    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command, "-c", TEXTS], capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run("-m", "tinyt", "run") == run()


# ---- namespaces

NAMESPACES = (
    *("", "optim", "optim.lr_scheduler", "nn", "nn.functional", "nn.utils", "nn.parallel"),
    *("utils", "utils.data", "distributed", "linalg", "special", "amp", "distributions"),
)


@pytest.mark.parametrize("name", NAMESPACES)
def test_namespaces_have_no_names_of_typing(name: str) -> None:
    """`[n for n in vars(optim) if n[0].isupper()]` is what programs offer as choices."""
    found = importlib.import_module(f"tinyt.{name}".rstrip("."))
    foreign = [
        key
        for key, value in vars(found).items()
        if not key.startswith("_")
        and getattr(value, "__module__", None) in ("typing", "typing_extensions", "collections.abc")
    ]
    assert foreign == []


def test_optimisers_by_capitals() -> None:
    def names(tt: Any) -> set[str]:
        return {name for name in vars(tt.optim) if name[0].isupper()}

    assert names(tinyt) <= names(torch)
