"""Details that programs look at: what hooks get, names in texts, classes of errors, namespaces."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
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


# ---- names that programs import

MODULE_NAMES = {
    "utils.checkpoint": "CheckpointFunction CheckpointPolicy check_backward_validity "
    "create_selective_checkpoint_contexts detach_variable get_device_states set_device_states "
    "set_checkpoint_debug_enabled set_checkpoint_early_stop",
    "utils.collect_env": "get_env_info get_pretty_env_info main SystemEnv",
    "utils": "swap_tensors",
    "serialization": "default_restore_location",
    "distributed": "FileStore HashStore TCPStore",
    "distributed.algorithms.join": "Join JoinHook Joinable",
    "cpu": "Event Stream StreamContext current_stream stream synchronize",
}


@pytest.mark.parametrize("module", MODULE_NAMES)
@BOTH
def test_names(tt: Any, module: str) -> None:
    found = importlib.import_module(f"{tt.__name__}.{module}")
    assert [name for name in MODULE_NAMES[module].split() if not hasattr(found, name)] == []


@BOTH
def test_streams_of_the_cpu(tt: Any) -> None:
    from_start = tt.cpu.current_stream()
    mine = tt.cpu.Stream()
    with tt.cpu.stream(mine), tt.cpu.stream(None):
        assert tt.cpu.current_stream() is mine
    assert tt.cpu.current_stream("cpu") is from_start
    assert mine.wait_stream(from_start) is mine.record_event() is mine.wait_event(None) is None
    assert tt.cpu.Event().record() is tt.cpu.Event().wait() is tt.cpu.synchronize() is None


@BOTH
def test_checkpoint_functions(tt: Any) -> None:
    module = importlib.import_module(f"{tt.__name__}.utils.checkpoint")
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    module.CheckpointFunction.apply(lambda x: x.exp() * 2, True, x).sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * x.detach().exp()).tolist())
    assert module.get_device_states(x, 3) == ([], [])
    module.set_device_states([], [])
    with module.set_checkpoint_early_stop(False), module.set_checkpoint_debug_enabled(None):
        y = module.checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    (free,) = module.detach_variable((x,))
    assert (free.is_leaf, free.requires_grad, free.data_ptr()) == (True, True, x.data_ptr())
    with pytest.raises(RuntimeError):
        module.detach_variable([x])
    with pytest.warns(UserWarning, match="requires_grad"):
        module.check_backward_validity([x.detach()])
    assert [p.name for p in module.CheckpointPolicy][:2] == ["MUST_SAVE", "PREFER_SAVE"]


def test_no_selective_checkpoints() -> None:
    with pytest.raises(NotImplementedError, match="max_memory"):
        tinyt.utils.checkpoint.create_selective_checkpoint_contexts([])


@BOTH
def test_swapped_tensors(tt: Any) -> None:
    a, b = tt.ones(2), tt.nn.Parameter(tt.zeros(3, dtype=tt.float64))
    a.name_of_a = "a"
    b.grad = tt.full((3,), 5.0, dtype=tt.float64)
    tt.utils.swap_tensors(a, b)
    assert isinstance(a, tt.nn.Parameter)
    assert not isinstance(b, tt.nn.Parameter)
    assert (a.dtype, a.tolist(), a.grad.tolist()) == (tt.float64, [0, 0, 0], [5, 5, 5])
    assert (b.tolist(), b.grad, b.name_of_a) == ([1, 1], None, "a")
    assert (a.requires_grad, b.requires_grad) == (True, False)
    (a * 2).sum().backward()
    assert a.grad.tolist() == [7, 7, 7]


def test_no_swap_of_what_was_computed() -> None:
    a = tinyt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="computed"):
        tinyt.utils.swap_tensors(a * 2, a)
    with pytest.raises(TypeError, match="got int"):
        tinyt.utils.swap_tensors(3, a)  # type: ignore[arg-type]


@BOTH
def test_stores(tt: Any) -> None:
    store = tt.distributed.HashStore()
    assert store.compare_set("k", "", "v") == store.compare_set("k", "w", "u") == b"v"
    assert store.compare_set("k", "v", "u") == b"u"
    assert store.compare_set("q", "x", "u") == b"x"
    store.append("k", "z")
    store.multi_set(["a", "b"], ["1", "2"])
    assert (store.get("k"), store.multi_get(["a", "b"])) == (b"uz", [b"1", b"2"])
    assert not store.check(["q"])


def test_stores_of_one_process(tmp_path: Any) -> None:
    dist = tinyt.distributed
    for store in (
        dist.TCPStore("127.0.0.1", 0, 1, True),
        dist.TCPStore("127.0.0.1", 0, is_master=True),
        dist.FileStore(str(tmp_path / "store"), 1),
    ):
        store.set("a", "b")
        assert (store.get("a"), store.add("n", 3)) == (b"b", 3)
    for make in (
        lambda: dist.TCPStore("127.0.0.1", 0, 2, True),
        lambda: dist.TCPStore("127.0.0.1", 0, 1),
        lambda: dist.FileStore("x", 2),
    ):
        with pytest.raises(RuntimeError, match="one process"):
            make()


def test_join() -> None:
    from tinyt.distributed.algorithms.join import Join, Joinable, JoinHook

    calls: list[Any] = []

    class Hook(JoinHook):
        def post_hook(self, is_last_joiner: bool) -> None:
            calls.append(is_last_joiner)

    class Model(Joinable):
        def join_hook(self, **kwargs: Any) -> JoinHook:
            calls.append(kwargs)
            return Hook()

    with Join([Model(), tinyt.nn.Linear(1, 1)], divide=2):
        Join.notify_join_context(None)
    with Join([Model()], enable=False):
        pass
    assert calls == [{"divide": 2}, True, {}]


@BOTH
def test_restored_locations(tt: Any) -> None:
    module = importlib.import_module(f"{tt.__name__}.serialization")
    storage = tt.ones(2).untyped_storage()
    assert module.default_restore_location(storage, "cpu") is storage
    with pytest.raises(RuntimeError):
        module.default_restore_location(storage, "xpu:0")


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "tinyt.utils.collect_env"),
        ("-m", "tinyt", "run", "-c", "from torch.utils.collect_env import main; main()"),
    ],
)
def test_environment(command: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    lines = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
    assert lines["tinyt version"].strip() == tinyt.version.__version__
    assert lines["Is CUDA available"].strip() == "False"
    assert "instruction set" in lines


# ---- reductions of parts


@pytest.mark.parametrize("initial", [None, 0.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_segments(reduce: str, initial: float | None, axis: int) -> None:
    def run(tt: Any, by: str) -> tuple[Any, Any]:
        x = tt.tensor([[1.0, 2.0], [3.0, 2.0], [-4.0, 0.5]], dtype=tt.float64, requires_grad=True)
        lengths = tt.tensor([2, 0, 1] if axis == 0 else [[1, 1], [2, 0], [0, 2]])
        options = {"lengths": lengths}
        if by == "offsets":
            zero = tt.zeros((*lengths.shape[:-1], 1), dtype=tt.int64)
            options = {"offsets": tt.cat([zero, lengths.cumsum(-1)], -1)}
        y = tt.segment_reduce(x, reduce, axis=axis, initial=initial, unsafe=False, **options)
        y.nan_to_num(0, 0, 0).square().sum().backward()
        return y.tolist(), x.grad.tolist()

    theirs = run(torch, "lengths")
    for by in ("lengths", "offsets"):
        for ours, expected in zip(run(tinyt, by), theirs, strict=True):
            assert np.array(ours) == pytest.approx(np.array(expected), nan_ok=True)


SEGMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "too long": ({"lengths": [2, 2]}, "sum"),
    "negative": ({"lengths": [-1, 4]}, "sum"),
    "neither": ({}, "sum"),
    "shape": ({"lengths": [1, 2], "axis": 1}, "sum"),
    "indices": ({"lengths": [3], "indices": [1]}, "sum"),
    "name": ({"lengths": [3]}, "median"),
}


@pytest.mark.parametrize("name", SEGMENTS)
@BOTH
def test_segments_that_are_wrong(tt: Any, name: str) -> None:
    options, reduce = SEGMENTS[name]
    given = {k: tt.tensor(v) if isinstance(v, list) else v for k, v in options.items()}
    with pytest.raises(RuntimeError):
        tt.segment_reduce(tt.ones(3, 2), reduce, **given)


def test_segments_compiled() -> None:
    def step(x: Any, lengths: Any) -> Any:
        return tinyt.segment_reduce(x, "mean", lengths=lengths) * 2

    compiled = tinyt.compile(step)
    x, lengths = tinyt.rand(5, 2), tinyt.tensor([2, 3])
    for _ in range(4):
        assert compiled(x, lengths).tolist() == step(x, lengths).tolist()
