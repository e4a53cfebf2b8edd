"""`tinyt.profiler` and `autograd.profiler`: events, their nesting, tables, schedules, traces."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

import tinyt
from tinyt import nn, profiler
from tinyt.autograd import profiler as autograd_profiler
from tinyt.autograd.profiler_util import EventList, FunctionEvent, format_memory, format_time
from tinyt.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def counts(prof: Any) -> dict[str, int]:
    return {event.key: event.count for event in prof.key_averages()}


def test_operations_are_events() -> None:
    x, y = tinyt.rand(4, 3), tinyt.rand(3, 5)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as p:
        for _ in range(3):
            z = x @ y
        z.add_(1)
        z.copy_(tinyt.ones(4, 5))
        z.t()  # a view: no kernel
    assert counts(p) == {"matmul": 3, "add": 1, "fill": 1, "copy_": 1}
    products = [e for e in p.events() if e.name == "matmul"]
    assert [e.input_shapes for e in products] == [[[4, 3], [3, 5]]] * 3
    assert products[0].input_dtypes == ["float32", "float32"]
    assert all(e.self_cpu_memory_usage >= 4 * 5 * 4 for e in products)
    (added,) = (e for e in p.events() if e.name == "add")
    assert added.self_cpu_memory_usage == 0  # in place
    starts = [e.time_range.start for e in p.events()]
    assert starts == sorted(starts)
    assert all(e.cpu_time_total >= 0 for e in p.events())
    before = len(p.events())
    x + x
    assert len(p.events()) == before


def test_blocks_hold_what_runs_in_them() -> None:
    x = tinyt.ones(8)
    with autograd_profiler.profile() as p, record_function("outer"):
        x.exp()
        with record_function("inner"):
            x.sin()
    outer, inner = (next(e for e in p.function_events if e.name == n) for n in ("outer", "inner"))
    assert [e.name for e in outer.cpu_children] == ["exp", "inner"]
    assert [e.name for e in inner.cpu_children] == ["sin"]
    assert inner.cpu_parent is outer
    inside = sum(e.cpu_time_total for e in outer.cpu_children)
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inside)
    total = p.self_cpu_time_total
    assert total == pytest.approx(outer.cpu_time_total)
    assert p.total_average().count == 4


def test_block_as_a_decorator_of_a_recursive_function() -> None:
    @record_function("fib")
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    with profile() as p:
        assert fib(4) == 3
    (average,) = p.key_averages()
    top = next(e for e in p.events() if e.cpu_parent is None)
    assert average.count == 9
    assert average.cpu_time_total == pytest.approx(top.cpu_time_total)  # inner ones not again


def test_training_step_by_name() -> None:
    model = nn.Linear(3, 2)
    optimizer = tinyt.optim.SGD(model.parameters(), lr=0.1)
    with profile() as p:
        model(tinyt.ones(4, 3)).sum().backward()
        optimizer.step()
    found = {e.name: e for e in p.events()}
    assert {e.name for e in found["backward"].cpu_children} >= {"matmul"}
    step = found["Optimizer.step#SGD.step"]
    assert [e.name for e in step.cpu_children] == ["sgd_step"]


def test_compiled_functions_are_one_event() -> None:
    run = tinyt.compile(lambda x: (x.exp() + 1).sum())
    x = tinyt.rand(10)
    for _ in range(3):
        run(x)
    with profile() as p:
        run(x)
        run(x)
    assert counts(p) == {"compiled program": 2}
    # A program that is planned while a profile is on runs the plain kernels afterwards.
    other = tinyt.compile(lambda x: (x @ x).sum())
    y = tinyt.rand(4, 4)
    with profile():
        results = [other(y) for _ in range(3)]
    assert all(tinyt.equal(r, (y @ y).sum()) for r in (*results, other(y)))


def test_blocks_in_compiled_functions() -> None:
    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        with record_function("inside"):
            y = x.exp()
        return y + 1

    run, x = tinyt.compile(step), tinyt.rand(5)
    for i in range(4):
        if i == 2:
            with profile() as p:
                run(x), step(x)
            assert counts(p) == {"compiled program": 1, "exp": 1, "add": 1, "inside": 1}
        assert tinyt.equal(run(x), step(x))
    with profile():  # captured while a profile is on
        other = tinyt.compile(step)
        assert all(tinyt.equal(other(x), step(x)) for _ in range(3))
    assert tinyt.equal(other(x), step(x))


def test_results_are_the_same_bits() -> None:
    x = tinyt.rand(33, 17)
    want = (x @ x.t()).softmax(-1).cumsum(0)
    with profile(record_shapes=True):
        got = (x @ x.t()).softmax(-1).cumsum(0)
    assert tinyt.equal(got, want)


def test_threads_have_events_of_their_own() -> None:
    def work(name: str) -> None:
        with record_function(name):
            tinyt.ones(4).exp()

    with profile() as p:
        threads = [threading.Thread(target=work, args=(f"thread {i}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    blocks = [e for e in p.events() if e.name.startswith("thread")]
    assert len({e.thread for e in blocks}) == 3
    for block in blocks:
        assert [e.name for e in block.cpu_children] == ["fill", "exp"]


def test_errors_end_a_profile() -> None:
    with pytest.raises(RuntimeError), profile() as p:
        tinyt.ones(2) @ tinyt.ones(3)
    assert p.events() is not None
    with profile(), pytest.raises(RuntimeError, match="a profile is on already"):
        profile().start()
    with pytest.raises(RuntimeError, match="no profile is on"):
        tinyt._core.stop_profile()
    finished = autograd_profiler.profile()
    with pytest.raises(RuntimeError, match="didn't finish running"):
        finished.table()
    with finished:
        pass
    with pytest.raises(RuntimeError, match="not reentrant"), finished:
        pass
    with autograd_profiler.profile(enabled=False) as off:
        tinyt.ones(2)
    assert off.function_events is None
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[ProfilerActivity.CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available"):
        autograd_profiler.profile(use_cuda=True)
    assert profiler.supported_activities() == {ProfilerActivity.CPU}


def made_events() -> EventList:
    """Two threads; a: 0-100 holds b: 10-30 and b: 40-80, which holds c: 50-60."""
    rows = [
        ("a", 1, 0, 100), ("b", 1, 10, 30), ("b", 1, 40, 80), ("c", 1, 50, 60), ("a", 2, 20, 50)
    ]  # fmt: skip
    events = EventList(
        [
            FunctionEvent(i, name, thread, start, end, [[2, 3]] if name == "b" else ())
            for i, (name, thread, start, end) in enumerate(rows)
        ]
    )
    events.nest()
    return events


def test_sums() -> None:
    found = {e.key: e for e in made_events().key_averages()}
    assert {k: (e.count, e.cpu_time_total, e.self_cpu_time_total) for k, e in found.items()} == {
        "a": (2, 130, 70),
        "b": (2, 60, 50),
        "c": (1, 10, 10),
    }
    assert found["a"].cpu_time == 65
    assert made_events().self_cpu_time_total == 130


def test_table() -> None:
    averages = made_events().key_averages(group_by_input_shape=True)
    lines = averages.table(sort_by="count", row_limit=2, header="mine").splitlines()
    assert lines[1] == "mine"
    assert [c.strip() for c in lines[3].split("  ") if c.strip()] == [
        "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls",
        "Input Shapes",
    ]  # fmt: skip
    assert lines[5].split() == [
        "a", "53.85%", "70.000us", "100.00%", "130.000us", "65.000us", "2", "[]"
    ]  # fmt: skip
    assert lines[6].split()[:2] == ["b", "38.46%"]
    assert lines[-1] == "Self CPU time total: 130.000us"
    assert len({len(line) for line in lines[2:7]}) == 1
    by_own_time = averages.table(sort_by="self_cpu_time_total").splitlines()
    assert [line.split()[0] for line in by_own_time[3:6]] == ["a", "b", "c"]
    assert "c" not in made_events().table(top_level_events_only=True).splitlines()[3].split()
    with pytest.raises(AttributeError):
        averages.table(sort_by="beauty")
    averages.table(sort_by="cuda_time_total")
    long = EventList([FunctionEvent(1, "x" * 80, 1, 0, 1)]).table(max_name_column_width=20)
    assert "x" * 17 + "..." in long
    assert "x" * 18 not in long


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.000us"), (999.5, "999.500us"), (1500, "1.500ms"), (2e6, "2.000s")]
)
def test_times_as_text(value: float, text: str) -> None:
    assert format_time(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (-40000, "-39.06 KB"), (2**21, "2.00 MB"), (2**31, "2.00 GB")]
)
def test_sizes_as_text(value: int, text: str) -> None:
    assert format_memory(value) == text


def test_flops() -> None:
    with profile(with_flops=True) as p:
        tinyt.rand(2, 4, 3) @ tinyt.rand(3, 5)
        nn.functional.linear(tinyt.rand(6, 3), tinyt.rand(7, 3))
        tinyt.rand(8) * 2
    found = {e.key: e.flops for e in p.key_averages()}
    assert found["matmul"] == 2 * 2 * 4 * 3 * 5
    assert found["linear"] == 2 * 6 * 3 * 7
    assert found["mul"] == 8
    assert "Total FLOPs" in p.key_averages().table()


# Schedules ---------------------------------------------------------------------------------------


def test_schedule() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = [plan(i).name for i in range(10)]
    cycle = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    assert names == ["NONE", *cycle, *cycle, "NONE"]
    with pytest.raises(AssertionError, match="Invalid"):
        schedule(wait=1, warmup=1, active=0)
    with pytest.raises(AssertionError, match="non-negative"):
        plan(-1)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_steps_of_a_schedule() -> None:
    seen: list[tuple[int, list[str], int]] = []

    def ready(prof: profile) -> None:
        steps = [e.trace_name for e in prof.events() if e.name == "ProfilerStep*"]
        seen.append((prof.step_num, steps, counts(prof).get("exp", 0)))

    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=ready) as p:
        for _ in range(10):
            tinyt.ones(2).exp()
            p.step()
    assert seen == [
        (4, ["ProfilerStep#2", "ProfilerStep#3"], 2),
        (8, ["ProfilerStep#6", "ProfilerStep#7"], 2),
    ]


def test_without_a_schedule_the_end_is_ready() -> None:
    seen = []
    with profile(on_trace_ready=seen.append) as p:
        tinyt.ones(2).exp()
    assert seen == [p]
    assert counts(p) == {"fill": 1, "exp": 1}


def test_a_schedule_that_is_left_early() -> None:
    seen = []
    plan = schedule(wait=0, warmup=1, active=5)
    p = profile(schedule=plan, on_trace_ready=lambda prof: seen.append(counts(prof)["exp"]))
    p.start()
    for _ in range(3):
        tinyt.ones(2).exp()
        p.step()
    p.stop()
    assert seen == [2]


def test_records_that_are_followed_by_nothing_warn() -> None:
    actions = [ProfilerAction.RECORD, ProfilerAction.NONE]
    with (
        pytest.warns(UserWarning, match="RECORD followed by NONE"),
        profile(schedule=lambda step: actions[step]) as p,
    ):
        p.step()


# Traces ------------------------------------------------------------------------------------------


def test_chrome_trace(tmp_path: Path) -> None:
    with profile(record_shapes=True) as p, record_function("block"):
        tinyt.ones(2, 3).exp()
    p.add_metadata("key", "value")
    p.add_metadata_json("list", "[1, 2]")
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert (trace["key"], trace["list"]) == ("value", [1, 2])
    events = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert set(events) == {"block", "fill", "exp"}
    assert events["exp"]["args"]["Input Dims"] == [[2, 3]]
    assert (events["block"]["cat"], events["exp"]["cat"]) == ("user_annotation", "cpu_op")
    block, inner = events["block"], events["exp"]
    assert block["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= block["ts"] + block["dur"] + 1e-3
    with pytest.raises(NotImplementedError, match="cProfile"):
        p.export_stacks(str(tmp_path / "stacks"))


def test_handler_for_tensorboard(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    for zipped in (False, True):
        handler = tensorboard_trace_handler(str(folder), worker_name="w", use_gzip=zipped)
        with profile(on_trace_ready=handler):
            tinyt.ones(2)
    plain, zipped_file = sorted(folder.iterdir(), key=lambda f: f.name.endswith(".gz"))
    assert plain.name.startswith("w.")
    assert plain.name.endswith(".pt.trace.json")
    assert json.loads(gzip.decompress(zipped_file.read_bytes()))["traceEvents"]
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        tensorboard_trace_handler(str(tmp_path / "file" / "x"))(None)  # type: ignore[arg-type]
