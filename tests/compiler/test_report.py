"""Reports of compiled functions: measured calls, planned memory, rows and their text."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

import tinyt
import tinyt.nn as nn
from tinyt.compiler.inspect import machine
from tinyt.compiler.inspect.report import in_bytes, in_seconds, scaled, shortened
from tinyt.testing import assert_kernels
from training import cnn, mlp, training_step, transformer


def bits(x):
    """The bytes of a tensor's elements."""
    return x.detach().contiguous().numpy(force=True).tobytes()


def chain():
    function = tinyt.compile(lambda x, y: (((x * y).exp() + 1.5).sum(1), x + y))
    return function, (tinyt.randn(300, 400), tinyt.randn(400))


def views_and_arguments():
    return tinyt.compile(lambda x: (x, x.t(), (x + 1)[::2], x.sum())), (tinyt.randn(200, 300),)


def nothing_to_do():
    return tinyt.compile(lambda x: x), (tinyt.randn(5),)


def no_elements():
    return tinyt.compile(lambda x: (x * 2, x.sum())), (tinyt.zeros(0, 7),)


def in_place():
    def function(x):
        x.mul_(0.5).add_(1)
        return x[:3].clone()

    return tinyt.compile(function), (tinyt.randn(100, 200),)


CASES = [
    mlp,
    cnn,
    transformer,
    chain,
    views_and_arguments,
    nothing_to_do,
    no_elements,
    in_place,
]


def used_beyond(before):
    return tinyt.memory.statistics()["peak_bytes"] - before


def clear_grads(function):
    """What a training step replaces is gone before, as it is when its program starts."""
    for leaf, *_ in function.entries[0].capture.set_grads:
        leaf.grad = None


@pytest.mark.tiles
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("make", CASES)
def test_planned_memory_is_what_a_run_holds(make, threads):
    tinyt.manual_seed(0)
    tinyt.set_num_threads(threads)
    function, args = make()
    function(*args)
    planned = function.peak_bytes  # before the program has run
    program = function.entries[0].program_object
    function(*args)
    report = function.report(*args)
    measures = function.entries[0].profile.call
    assert [held for _, _, held, _, _ in measures.steps()] == program.held_bytes()
    assert [scratch for *_, scratch, _ in measures.steps()] == program.scratch_bytes()
    (total,) = report.totals
    assert (total.peak_bytes, total.measured_peak_bytes) == (planned, planned)
    clear_grads(function)
    before = tinyt.memory.statistics()["current_bytes"]
    tinyt.memory.reset_peak()
    result = function(*args)
    used = used_beyond(before)
    assert used == planned
    del result, report


@pytest.mark.tiles
def test_memory_without_scratch_is_known_to_the_byte():
    function, args = chain()
    function(*args)
    planned = function.peak_bytes
    function(*args)
    before = tinyt.memory.statistics()["current_bytes"]
    tinyt.memory.reset_peak()
    result = function(*args)
    assert used_beyond(before) == planned == 4 * 300 * 400 + 4 * 300
    del result


def test_one_step_is_no_plural():
    compiled = tinyt.compile(lambda x: x @ x)
    for _ in range(2):
        compiled(tinyt.ones(8, 8))
    title, *_, total = str(compiled.report()).split("\n")
    assert title.startswith("call: 1 step, arena ")
    assert total.endswith(f", {2 * 8**3 / 1000:.3g} kFLOP")
    compiled = tinyt.compile(lambda x: x + 1)
    for _ in range(2):
        compiled(tinyt.ones(8))
    assert str(compiled.report()).endswith(", 8 FLOP")


def test_a_backward_program_has_its_own_plan_and_measures():
    tinyt.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.Tanh(), nn.Linear(96, 40), nn.Softmax(-1))
    compiled = tinyt.compile(model)
    x = tinyt.randn(200, 64)
    for _ in range(2):
        compiled(x)
    report = compiled.compiled.report(x)
    assert [total.program for total in report.totals] == ["call", "backward"]
    assert report.totals[0].seconds is not None
    assert report.totals[1].seconds is None
    (report.result**2).sum().backward()
    call, backward = compiled.compiled.report().totals
    assert backward.seconds is not None
    assert backward.measured_peak_bytes == backward.peak_bytes > 0
    backward = compiled.compiled.entries[0].capture.backward.program
    measured = compiled.compiled.entries[0].profile.backward
    assert [held for _, _, held, _, _ in measured.steps()] == backward.held_bytes()
    assert "backward: " in str(compiled.compiled.report())
    assert call.peak_bytes == compiled.compiled.peak_bytes


def weights_after(calls):
    tinyt.manual_seed(3)
    step, args = mlp()
    losses = [call(step, args) for call in calls]
    model = step.function.__closure__
    optimizer = next(c.cell_contents for c in model if hasattr(c.cell_contents, "param_groups"))
    return [bits(x) for x in losses], [bits(p) for p in optimizer.param_groups[0]["params"]]


def test_a_measured_call_is_one_call():
    def plain(step, args):
        return step(*args)

    def measured(step, args):
        return step.measure(*args)

    def reported(step, args):
        return step.report(*args).result

    def only_looking(step, args):
        loss = step(*args)
        step.report(), step.graph().html(), step.peak_bytes
        return loss

    expected = weights_after([plain] * 5)
    for calls in (
        [measured] * 5,
        [reported] * 5,
        [plain, plain, reported, measured, plain],
        [plain, only_looking, only_looking, only_looking, plain],
    ):
        assert weights_after(calls) == expected


def test_a_measured_call_counts_as_a_call():
    step, args = mlp()
    step(*args)
    step.report(*args)
    step.report()
    assert step.cache_info()[:2] == (1, 1)


def test_the_first_call_has_no_times_yet():
    function, args = chain()
    report = function.report(*args)
    assert bits(report.result[1]) == bits(args[0] + args[1])
    assert report.rows
    assert all(row.seconds is None and row.share is None for row in report.rows)
    assert "limit" not in str(report)
    again = function.report(*args)
    assert all(row.seconds is not None and row.seconds > 0 for row in again.rows)
    assert all(row.share is not None and row.share > 0 for row in again.rows)


def test_without_a_program_there_is_nothing_to_report():
    function, args = chain()
    for look in (
        function.report,
        function.graph,
        lambda: function.peak_bytes,
        lambda: assert_kernels(function, 1),
    ):
        with pytest.raises(RuntimeError, match="has no program yet"):
            look()
    function(*args)
    function.cache_clear()
    with pytest.raises(RuntimeError, match="has no program yet"):
        function.report()


def test_each_geometry_has_its_report_and_the_last_used_is_shown():
    function = tinyt.compile(lambda x: x.exp() * 2)
    small, large = tinyt.randn(5), tinyt.randn(7, 9)
    for x in (small, large, small, large):
        function(x)
    assert function.report().rows[0].outputs[0].shape == (7, 9)
    function(small)
    assert function.report().rows[0].outputs[0].shape == (5,)
    assert function.report(large).rows[0].outputs[0].shape == (7, 9)


def test_a_run_that_fails_leaves_the_measures_and_the_peak_as_they_were():
    table, index = tinyt.randn(10, 4), tinyt.tensor([1, 2])
    function = tinyt.compile(lambda i: table[i] * 2)
    for _ in range(2):
        function(index)
    before = [row.seconds for row in function.report(index).rows]
    large = tinyt.zeros(1_000_000)
    peak = tinyt.memory.statistics()["peak_bytes"]
    del large
    with pytest.raises(IndexError):
        function.measure(tinyt.tensor([1, 20]))
    assert tinyt.memory.statistics()["peak_bytes"] == peak
    assert [row.seconds for row in function.report().rows] == before
    function.report(index)
    assert tinyt.memory.statistics()["peak_bytes"] == peak


def test_a_row_says_what_a_step_is():
    x, y = tinyt.randn(300, 400), tinyt.randn(400)
    function = tinyt.compile(lambda x, y: ((x * y).exp() + 1.5).sum(1))
    function(x, y)
    (row,) = function.report().rows
    assert (row.program, row.number, row.kind) == ("call", 0, "region")
    assert row.ops == ("mul", "exp", "add", "sum")
    assert [str(operand) for operand in row.inputs[:2]] == ["float32[300, 400]", "float32[400]"]
    assert [str(operand) for operand in row.outputs] == ["float32[300]"]
    assert row.flops == 4 * 300 * 400
    assert row.bytes_written == row.held_bytes == 4 * 300
    assert row.reason == "a result"
    assert row.boundary_bytes == 0


def test_the_limit_is_the_nearer_of_two(monkeypatch):
    monkeypatch.setattr(machine, "bandwidth", lambda nbytes, again=False: 1e9)
    monkeypatch.setattr(machine, "peak", lambda t, default, again=False: 1e10)
    a, b = tinyt.randn(64, 64), tinyt.randn(64, 64)
    function = tinyt.compile(lambda a, b: (a @ b, a + b))
    for _ in range(2):
        function(a, b)
    rows = {row.ops: row for row in function.report(a, b).rows}
    product, addition = rows["matmul",], rows["add",]
    # 524288 operations take longer than 49152 bytes; 4096 do not.
    assert (product.bound, addition.bound) == ("arithmetic", "memory")
    assert product.share * product.seconds == pytest.approx(2 * 64**3 / 1e10)
    assert addition.share * addition.seconds == pytest.approx(3 * 4 * 64**2 / 1e9)


def test_a_limit_that_a_step_beats_is_measured_again(monkeypatch):
    rates = iter([1.0, 1.0, 5.0, 2.0, 7.0])
    monkeypatch.setattr(machine, "_measured", {})
    monkeypatch.setattr(tinyt._core, "copy_rate", lambda nbytes: next(rates))
    assert machine.bandwidth(5000) == 1.0
    assert machine.bandwidth(5000) == 1.0
    assert [machine.bandwidth(5000, again=True) for _ in range(4)] == [1.0, 5.0, 5.0, 5.0]
    assert machine.bandwidth(100_000) == 2.0
    with tinyt.num_threads(tinyt.get_num_threads() + 1):
        assert machine.bandwidth(5000) == 7.0


def test_the_machine_is_measured_once():
    for t in (tinyt.float32, tinyt.float64, tinyt.bfloat16):
        rate = machine.peak(t, tinyt.float32)
        assert 1e7 < rate < 1e15
        assert machine.peak(t, tinyt.float32) == rate
    assert machine.peak(tinyt.int64, tinyt.float32) == machine.peak(tinyt.float32, tinyt.float32)
    for nbytes in (0, 1, 5000, 1 << 20):
        rate = machine.bandwidth(nbytes)
        assert 1e7 < rate < 1e15
        assert machine.bandwidth(nbytes) == rate
    with pytest.raises(tinyt.DTypeError, match="product_rate: expected a floating dtype"):
        tinyt._core.product_rate(tinyt.int64.number)


@pytest.mark.tiles
def test_the_text_is_a_table():
    wide = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    step = tinyt.compile(training_step(nn.Sequential(*wide)))
    args = tinyt.randn(64, 64), tinyt.randint(0, 10, (64,))
    for _ in range(2):
        step(*args)
    report = step.report(*args)
    title, head, *lines, total = str(report).split("\n")
    assert title.startswith(f"call: {len(report.rows)} steps, arena ")
    assert " as planned, " in title
    assert len(lines) == len(report.rows)
    assert head.split() == [
        "#", "step", "source", "result", "lane", "read", "written", "FLOP", "held", "time", "limit",
        "cost", "ends",
    ]  # fmt: skip
    ends = head.index("ends")
    for line, row in zip(lines, report.rows, strict=True):
        assert line[:ends].endswith("  ")
        assert line[ends:] == row.reason
        assert line.split()[:2] == [str(row.number), row.ops[0]]
        assert line[head.index("step") :].startswith(shortened(row.ops))
    assert total.startswith("total: ")
    assert repr(report) == str(report)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (102400, "100 KiB"),
        (1048064, "1 MiB"),
        (3 << 30, "3 GiB"),
        (5 << 40, "5 TiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_bytes_as_text(nbytes, text):
    assert in_bytes(nbytes) == text


def test_times_and_counts_as_text():
    assert [in_seconds(x) for x in (0, 4e-8, 1.25e-5, 0.0999, 2.5)] == [
        "0 ns", "40 ns", "12.5 us", "99.9 ms", "2.5 s",
    ]  # fmt: skip
    assert [scaled(x) for x in (0, 999, 1000, 12345, 2.5e9)] == [
        "0",
        "999",
        "1 k",
        "12.3 k",
        "2.5 G",
    ]


def test_names_of_many_ops_are_shortened():
    assert shortened(["mul", "exp"]) == "mul exp"
    text = shortened([f"op{i}" for i in range(30)])
    assert len(text) <= 40
    assert text.startswith("op0 op1 ")
    assert text.endswith("… op29 (30)")
    assert shortened(["a" * 60, "b"]) == "… b (2)"


def test_assert_kernels():
    x, y = tinyt.randn(30, 40), tinyt.randn(40)
    function = tinyt.compile(lambda x, y: ((x * y).exp() + 1.5).sum(1))
    function(x, y)
    assert_kernels(function, at_most=1)
    two = tinyt.compile(lambda x, y: (x @ y, x.exp()))
    two(x, y)
    assert_kernels(two, 2)
    with pytest.raises(AssertionError) as caught:
        assert_kernels(two, at_most=1)
    lines = str(caught.value).split("\n")
    del caught
    assert lines[0] == "The call takes 2 steps, not at most 1:"
    assert [line.split(",")[0] for line in lines[1:]] == ["  0: matmul", "  1: exp"]


def test_assert_kernels_of_a_backward_pass():
    model = tinyt.compile(nn.Linear(4, 3))
    x = tinyt.randn(5, 4)
    model(x)
    rows = model.compiled.report().rows
    backward = sum(row.program == "backward" for row in rows)
    assert backward > 1
    assert_kernels(model, 1, backward_at_most=backward)
    with pytest.raises(AssertionError, match=f"The backward takes {backward} steps"):
        assert_kernels(model, 1, backward_at_most=1)
    with tinyt.no_grad():
        model(x)
        with pytest.raises(RuntimeError, match="no backward program"):
            assert_kernels(model, 1, backward_at_most=1)
    with pytest.raises(TypeError, match="returned, got function"):
        assert_kernels(lambda x: x, 1)


def test_functions_may_share_a_run_of_measures_between_threads():
    """Two threads that measure one function wait for each other, and each has its own."""
    from concurrent.futures import ThreadPoolExecutor

    function, args = chain()
    for _ in range(2):
        function(*args)
    expected = bits(function(*args)[0])
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: function.report(*args), range(8)))
    for report in reports:
        assert bits(report.result[0]) == expected
        assert len(report.rows) == len(function.report().rows)
    assert math.isfinite(sum(row.seconds for row in function.report(*args).rows))


def test_the_compiler_and_its_reports_are_loaded_when_they_are_used():
    """Importing tinyt stays quick."""
    code = (
        "import sys, tinyt\n"
        "assert tinyt.compiler.__all__\n"
        "names = [name.split('.') for name in sys.modules if name.startswith('tinyt.compiler.')]\n"
        "loaded = {name[2] for name in names}\n"
        "assert loaded == {'api', 'lazy', 'switches', 'types'}, loaded\n"
        "function = tinyt.compile(lambda x: x + 1)\n"
        "loaded = {name for name in sys.modules if name.startswith('tinyt.compiler.inspect.')}\n"
        "assert loaded == {'tinyt.compiler.inspect.views'}, loaded\n"
        "function(tinyt.ones(2))\n"
        "assert len(function.report().rows) == 1\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
