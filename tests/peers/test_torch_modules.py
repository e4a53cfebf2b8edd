"""Modules that programs import: names, arguments and behaviour as in PyTorch."""

from __future__ import annotations

import inspect
import itertools
import json
import subprocess
import sys
import warnings
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed
import torch.jit
import torch.onnx
import torch.profiler
import torch.utils._pytree as torch_pytree
import torch.utils.benchmark
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd.profiler_util import FunctionEventAvg
from torch.nn.parallel import DistributedDataParallel as TorchDDP
from torch.utils.data.distributed import DistributedSampler as TorchSampler

import tinyt
from tinyt.utils import _pytree as pytree
from tinyt.utils.data import distributed as sampling

# Names ------------------------------------------------------------------------------------------

NAMES = {
    "jit": torch.jit.__all__,
    "distributed": [
        "init_process_group",
        "destroy_process_group",
        "is_available",
        "is_initialized",
        "get_rank",
        "get_world_size",
        "get_backend",
        "new_group",
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "gather",
        "scatter",
        "reduce_scatter",
        "all_to_all",
        "all_to_all_single",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "barrier",
        "monitored_barrier",
        "send",
        "recv",
        "isend",
        "irecv",
        "send_object_list",
        "recv_object_list",
        "batch_isend_irecv",
    ],
    "utils._pytree": [
        "tree_flatten",
        "tree_unflatten",
        "tree_map",
        "tree_map_",
        "tree_map_only",
        "tree_leaves",
        "tree_structure",
        "tree_iter",
        "tree_all",
        "tree_any",
        "tree_all_only",
        "tree_any_only",
        "tree_map_with_path",
        "tree_flatten_with_path",
        "tree_leaves_with_path",
        "keystr",
        "key_get",
    ],
    "compiler": [
        "disable",
        "is_compiling",
        "is_dynamo_compiling",
        "is_exporting",
        "reset",
        "allow_in_graph",
        "assume_constant_result",
        "cudagraph_mark_step_begin",
        "list_backends",
    ],
    "profiler": ["schedule", "tensorboard_trace_handler", "supported_activities", "profile"],
    "autograd.profiler": ["profile", "record_function"],
    "hub": [
        "list",
        "help",
        "load",
        "load_state_dict_from_url",
        "download_url_to_file",
        "get_dir",
        "set_dir",
    ],
    "multiprocessing": [
        "spawn",
        "start_processes",
        "get_sharing_strategy",
        "set_sharing_strategy",
        "get_all_sharing_strategies",
    ],
    "utils.benchmark": ["Timer", "Compare", "Measurement"],
    "nn.parallel": ["DistributedDataParallel", "DataParallel"],
    "utils.data.distributed": ["DistributedSampler"],
    "fx": [
        "symbolic_trace",
        "wrap",
        "Tracer",
        "GraphModule",
        "Interpreter",
        "Proxy",
        "Node",
        "Graph",
    ],
    "onnx": ["export", "is_in_onnx_export", "register_custom_op_symbolic"],
    "export": ["export", "load", "save", "Dim", "dims", "ExportedProgram", "unflatten"],
}
# Not taken, or with names of PyTorch's workings.
LEFT_OUT = {
    ("multiprocessing", "start_processes"): {"numa_options", "duplicate_stdout_filters"},
    ("multiprocessing", "spawn"): {"numa_options"},
    ("jit", "Future"): {"devices"},
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NAMES.items() for name in names]
)
def test_names_and_arguments(module: str, name: str) -> None:
    ours = getattr(import_module(f"tinyt.{module}"), name)
    theirs = getattr(import_module(f"torch.{module}"), name)
    try:
        wanted = inspect.signature(theirs).parameters
    except (TypeError, ValueError):
        return
    found = inspect.signature(ours).parameters
    if any(p.kind is p.VAR_KEYWORD for p in found.values()):
        return
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    unnamed += (inspect.Parameter.POSITIONAL_ONLY,)
    missing = {n for n, p in wanted.items() if p.kind not in unnamed}
    missing -= set(found) | LEFT_OUT.get((module, name), set())
    assert not {n for n in missing if not n.startswith("_")}
    both = [n for n in wanted if n in found]
    for n in both:
        plain = (bool, int, float, str, type(None))
        if isinstance(wanted[n].default, plain) and not n.startswith("_"):
            assert found[n].default == wanted[n].default, n


# Devices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [("cuda",), ("cuda:0",), ("cuda", 3), ("meta",), ("mps:0",), ("cpu",), ("xpu",), ("cpu:1",),
     ("foo",), ("cuda:",), ("cuda:01",), ("cuda:-1",), ("cuda:1", 1), ("cuda", -1), (0,), (1.5,),
     ("cuda", True)],
)  # fmt: skip
def test_devices(arguments: Any) -> None:
    def seen(tt: Any) -> Any:
        try:
            d = tt.device(*arguments)
            return str(d), repr(d), d.type, d.index
        except Exception as error:
            return type(error)

    assert seen(tinyt) == seen(torch)


# Trees -------------------------------------------------------------------------------------------

Point = namedtuple("Point", ["x", "y"])
LEAVES = st.one_of(st.integers(), st.none(), st.text(max_size=2))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=3).map(OrderedDict),
        st.lists(inner, max_size=3).map(lambda x: deque(x, maxlen=5)),
        st.tuples(inner, inner).map(lambda x: Point(*x)),
    ),
    max_leaves=12,
)


@given(TREES, TREES)
def test_trees(a: Any, b: Any) -> None:
    leaves, spec = pytree.tree_flatten(a)
    their_leaves, their_spec = torch_pytree.tree_flatten(a)
    assert leaves == their_leaves
    assert spec.num_leaves == their_spec.num_leaves
    assert spec.num_nodes == their_spec.num_nodes
    paths = [pytree.keystr(p) for p, _ in pytree.tree_leaves_with_path(a)]
    assert paths == [torch_pytree.keystr(p) for p, _ in torch_pytree.tree_leaves_with_path(a)]
    same = pytree.tree_structure(b) == spec
    assert same == (torch_pytree.tree_structure(b) == their_spec)

    def mapped(tt: Any) -> Any:
        try:
            return tt.tree_map(lambda x, y: (x, y), a, b)
        except ValueError:
            return ValueError

    assert mapped(pytree) == mapped(torch_pytree)
    wide = pytree._broadcast_to_and_flatten(b, spec)
    assert wide == torch_pytree._broadcast_to_and_flatten(b, their_spec)


# Samplers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 4, 10, 13])
@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_sampler(
    count: int, replicas: int, drop_last: bool, shuffle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In PyTorch's order, given PyTorch's draw for the same seed."""
    if drop_last and count < replicas:
        pytest.skip("nothing is left")

    def drawn(n: int, generator: tinyt.Generator) -> torch.Tensor:
        stream = torch.Generator().manual_seed(generator.initial_seed())
        return torch.randperm(n, generator=stream)

    monkeypatch.setattr(sampling, "randperm", drawn)
    for rank in range(replicas):
        options = dict(shuffle=shuffle, seed=3, drop_last=drop_last)
        ours = sampling.DistributedSampler(range(count), replicas, rank, **options)
        theirs = TorchSampler(range(count), replicas, rank, **options)
        for epoch in (0, 5):
            ours.set_epoch(epoch)
            theirs.set_epoch(epoch)
            assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


# A group of one ----------------------------------------------------------------------------------


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[None]:
    if not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    url = f"file://{tmp_path}/store"
    try:
        torch.distributed.init_process_group("gloo", init_method=url, rank=0, world_size=1)
    except RuntimeError as error:
        pytest.skip(f"gloo finds no network here: {error}")
    tinyt.distributed.init_process_group("gloo", init_method=url, rank=0, world_size=1)
    yield
    for tt in (torch, tinyt):
        tt.distributed.destroy_process_group()


def collected(tt: Any) -> list[Any]:
    """What each collective gives."""
    d = tt.distributed
    out: list[Any] = []

    def made() -> Any:
        return tt.arange(4.0).reshape(2, 2)

    def note(*tensors: Any) -> None:
        out.append([x.tolist() for x in tensors])

    x = made()
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        assert d.all_reduce(x, getattr(d.ReduceOp, op)) is None
        note(x)
    d.reduce(x, dst=0)
    d.broadcast(x, src=0)
    note(x)
    for call in (
        lambda to: d.all_gather([to], x),
        lambda to: d.gather(x, [to], dst=0),
        lambda to: d.scatter(to, [x], src=0),
        lambda to: d.reduce_scatter(to, [x]),
        lambda to: d.all_gather_single(to, x),
        lambda to: d.all_to_all_single(to, x),
    ):
        to = tt.zeros(2, 2)
        call(to)
        note(to)
    slots: list[Any] = [None]
    d.all_gather_object(slots, {"a": 1})
    out.append(slots)
    d.broadcast_object_list(slots, src=0)
    out.append(slots)
    work = d.all_reduce(x, async_op=True)
    work.wait()
    out.append(work.is_completed())
    out.append((d.get_rank(), d.get_world_size(), str(d.get_backend())))
    out.append(d.get_process_group_ranks(d.group.WORLD))
    return out


@pytest.mark.usefixtures("worlds")
def test_collectives() -> None:
    assert collected(tinyt) == collected(torch)


@pytest.mark.usefixtures("worlds")
@pytest.mark.parametrize(
    "call",
    [
        lambda tt: tt.distributed.broadcast(tt.ones(1), src=3),
        lambda tt: tt.distributed.all_gather([tt.ones(1)] * 2, tt.ones(1)),
        lambda tt: tt.distributed.gather(tt.ones(1)),
        lambda tt: tt.distributed.all_reduce([tt.ones(1)]),
        lambda tt: tt.distributed.send(tt.ones(1), 0),
        lambda tt: tt.distributed.init_process_group("gloo"),
    ],
)
def test_misuse_of_collectives(call: Any) -> None:
    for tt in (tinyt, torch):
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            call(tt)


@pytest.mark.usefixtures("worlds")
def test_ddp() -> None:
    def keys(tt: Any, ddp: Any) -> Any:
        model = ddp(tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.BatchNorm1d(3)))
        with model.no_sync():
            model(tt.ones(4, 2)).sum().backward()
        return list(model.state_dict()), [n for n, _ in model.named_parameters()]

    ours = tinyt.nn.parallel.DistributedDataParallel
    assert keys(tinyt, ours) == keys(torch, TorchDDP)
    for tt, ddp in ((tinyt, ours), (torch, TorchDDP)):
        with pytest.raises(RuntimeError, match="any parameter that requires a gradient"):
            ddp(tt.nn.ReLU())
        with pytest.raises(ValueError, match="device_ids"):
            ddp(tt.nn.Linear(1, 1), device_ids=[0])


def test_without_a_group() -> None:
    for tt in (tinyt, torch):
        assert not tt.distributed.is_initialized()
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            tt.distributed.get_rank()


# Profiles ----------------------------------------------------------------------------------------


PLANS = {
    "wait": (0, 2),
    "warmup": (1, 2),
    "active": (1, 3),
    "repeat": (0, 2),
    "skip_first": (0, 3),
    "skip_first_wait": (0, 1),
}


@pytest.mark.parametrize("values", list(itertools.product(*PLANS.values())))
def test_schedules(values: tuple[int, ...]) -> None:
    options: Any = dict(zip(PLANS, values, strict=True))
    ours, theirs = tinyt.profiler.schedule(**options), torch.profiler.schedule(**options)
    for step in range(20):
        assert ours(step).name == theirs(step).name


STEPS = """
import json
import {library} as tt

seen = []


def ready(prof):
    seen.append([prof.step_num, [e.name for e in prof.events() if e.name.startswith("Prof")]])


plan = tt.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
activities = [tt.profiler.ProfilerActivity.CPU]
with tt.profiler.profile(activities=activities, schedule=plan, on_trace_ready=ready) as prof:
    for _ in range(9):
        tt.ones(2).exp()
        prof.step()
print(json.dumps(seen))
"""


def test_steps_that_are_ready() -> None:
    """In processes of their own: PyTorch's profiler does not always survive another test."""

    def run(library: str) -> Any:
        program = STEPS.format(library=library)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    assert run("tinyt") == run("torch")


def test_attributes_of_averages() -> None:
    with tinyt.profiler.profile() as ours:
        tinyt.ones(2).exp()
    wanted = {n for n in dir(FunctionEventAvg()) if not n.startswith("_")}
    left_out = {"cpu_children", "cpu_parent", "device_time_str", "device_time_total_str", "scope"}
    left_out |= {"self_device_time_total_str"}
    assert wanted - left_out <= set(dir(ours.key_averages()[0]))


# Times -------------------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-7, 10.0), min_size=1, max_size=12), st.integers(1, 1000))
def test_measurements(times: list[float], number: int) -> None:
    found = []
    for benchmark in (tinyt.utils.benchmark, torch.utils.benchmark):
        common = benchmark if benchmark is tinyt.utils.benchmark else benchmark.utils.common
        m = common.Measurement(number, times, common.TaskSpec("f()", "pass"))
        found.append((m.mean, m.median, m.iqr, m.significant_figures, m.has_warnings, m.title))
    ours, theirs = found
    assert ours[:3] == pytest.approx(theirs[:3], rel=1e-9, abs=1e-18)
    assert abs(ours[3] - theirs[3]) <= 1  # PyTorch computes it in float32
    assert ours[4:] == theirs[4:]


# TensorBoard -------------------------------------------------------------------------------------


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what PyTorch's writer imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from torch.utils.tensorboard import SummaryWriter as TorchWriter

    rng = np.random.default_rng(0)
    values = rng.normal(size=100).astype(np.float32)
    image = rng.random((3, 5, 4)).astype(np.float32)
    batch = rng.random((9, 1, 2, 3)).astype(np.float32)
    labels = rng.integers(0, 2, 30)
    scores = rng.random(30).astype(np.float32)
    found = []
    for tt, kind in ((tinyt, tinyt.utils.tensorboard.SummaryWriter), (torch, TorchWriter)):
        folder = tmp_path / tt.__name__
        with kind(str(folder)) as w:
            w.add_scalar("s", tt.tensor(0.1), 3)
            w.add_scalar("n", 0.1, 3, new_style=True)
            w.add_histogram("h", tt.tensor(values), 1)
            w.add_histogram("a", tt.tensor(values), 1, bins="auto")
            w.add_image("i", tt.tensor(image))
            w.add_images("b", tt.tensor(batch))
            w.add_text("t", "text", 2)
            w.add_pr_curve("p", tt.tensor(labels), tt.tensor(scores))
        events = EventAccumulator(str(folder), {"tensors": 0}).Reload()
        h, a = (events.Histograms(tag)[0].histogram_value for tag in "ha")
        found.append(
            (
                [(e.step, e.value) for e in events.Scalars("s")],
                events.Tensors("n")[0].tensor_proto.SerializeToString(),
                [h.min, h.max, h.num, h.sum, h.sum_squares, list(h.bucket_limit), list(h.bucket)],
                (list(a.bucket), [round(x, 6) for x in a.bucket_limit]),
                events.Images("i")[0].encoded_image_string,
                events.Images("b")[0].encoded_image_string,
                events.Tensors("t/text_summary")[0].tensor_proto.SerializeToString(),
                np.round(events.Tensors("p")[0].tensor_proto.float_val, 5).tolist(),
            )
        )
    ours, theirs = found
    for i, (mine, wanted) in enumerate(zip(ours, theirs, strict=True)):
        if i == 2:  # sums in another order
            assert mine[:3] == wanted[:3]
            assert mine[3:5] == pytest.approx(wanted[3:5], rel=1e-5)
            assert mine[5:] == wanted[5:]
        else:
            assert mine == wanted, i
