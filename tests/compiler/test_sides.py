"""Steps of a program that run side by side: which ones do, in which memory, with which bits."""

from __future__ import annotations

import json
from itertools import combinations

import pytest

import tinyt
import tinyt.nn as nn
from tinyt import memory
from tinyt.dtypes import ALL
from training import training_step

pytestmark = pytest.mark.tiles


def bits(x):
    """The bytes of a tensor's elements."""
    return x.detach().contiguous().numpy(force=True).tobytes()


@pytest.fixture(autouse=True)
def threads():
    """Two threads, whatever the machine has, and as many as before afterwards."""
    before = tinyt.get_num_threads()
    tinyt.set_num_threads(2)
    tinyt.manual_seed(0)
    yield
    tinyt.set_num_threads(before)


def program_of(function, *args):
    """The program of a function, and its step descriptions."""
    compiled = tinyt.compile(function)
    for _ in range(2):
        compiled(*args)
    program = compiled.entries[0].program_object
    check_lanes(program)
    return program


def span(operand):
    """Place and bytes of an operand, as the plan has them."""
    place, first, shape, strides, dtype = operand
    size = ALL[dtype].itemsize
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return place, first, first + (reach + 1) * size


def overlap(a, b):
    """Whether two spans have bytes in common."""
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def check_lanes(program):
    """No lane touches what another one writes, and no two places of a group share memory. One lane
    at most takes memory while it runs."""
    steps, places = program.describe(), program.places()
    with tinyt.num_threads(1):  # of each step by itself
        scratch = program.scratch_bytes()
    for first, last, lanes in program.sides():
        assert len(lanes) >= 2
        assert sorted(step for lane in lanes for step in lane) == list(range(first, last + 1))
        assert all(lane == sorted(lane) and lane for lane in lanes)
        assert sum(any(scratch[step] for step in lane) for lane in lanes) <= 1
        touched = [
            (
                [span(x) for step in lane for x in (*steps[step][5], *steps[step][6])],
                [span(x) for step in lane for x in steps[step][6]],
            )
            for lane in lanes
        ]
        for (all_a, made_a), (all_b, made_b) in combinations(touched, 2):
            assert not any(overlap(x, y) for x in all_a for y in made_b)
            assert not any(overlap(x, y) for x in made_a for y in all_b)
        used = sorted({place for spans, _ in touched for place, *_ in spans})
        arena = [places[i] for i in used if places[i][0] == "arena"]
        for (_, size_a, at_a, *_), (_, size_b, at_b, *_) in combinations(arena, 2):
            assert at_a + size_a <= at_b or at_b + size_b <= at_a
        held = program.held_bytes()[first : last + 1]
        assert held == [held[0]] * len(held)


def ops_beside(program):
    """The ops of each lane, per group."""
    names = program.steps()
    return [[[names[step] for step in lane] for lane in lanes] for *_, lanes in program.sides()]


def training():
    """A small network's step, and what it changes."""
    tinyt.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    return training_step(model), list(model.parameters())


DATA = (tinyt.randn(64, 64), tinyt.randint(0, 10, (64,)))


def test_gradients_of_input_and_weight_run_beside_each_other():
    program = program_of(training()[0], *DATA)
    groups = ops_beside(program)
    products = [[sum("matmul" in step for step in lane) for lane in lanes] for lanes in groups]
    assert products == [[1, 1], [1, 1]]
    names = [name for lanes in groups for lane in lanes for name in lane]
    assert ("Adam",) not in names
    assert ("softmax_nll",) not in names


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bits_are_those_of_eager_for_any_number_of_threads(count):
    expected, parameters = training()
    losses = [bits(expected(*DATA)) for _ in range(20)]
    step, own = training()
    compiled = tinyt.compile(step)
    found = [bits(compiled(*DATA)) for _ in range(3)]
    assert compiled.entries[0].program_object.sides()
    tinyt.set_num_threads(count)
    found += [bits(compiled(*DATA)) for _ in range(17)]
    assert found == losses
    assert [bits(p) for p in own] == [bits(p) for p in parameters]
    assert [bits(p.grad) for p in own] == [bits(p.grad) for p in parameters]


def gates(x, a, b, c):
    """Three chains without a common step."""
    return (x @ a).relu(), (x @ b).sigmoid(), (x @ c).relu()


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_as_many_lanes_as_threads(count):
    tinyt.set_num_threads(count)
    args = [tinyt.randn(64, 96), *(tinyt.randn(96, 96) for _ in range(3))]
    program = program_of(gates, *args)
    assert [len(lanes) for *_, lanes in program.sides()] == [min(max(count, 2), 3)]
    compiled = tinyt.compile(gates)
    for _ in range(5):
        assert [bits(x) for x in compiled(*args)] == [bits(x) for x in gates(*args)]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: (x.t() + 1, y @ y.t()), [(16, 16), (4, 4)]),  # sharing out would take longer
        (lambda x, y: (x @ x, y @ y), [(700, 700), (700, 700)]),  # worth cutting up
        (lambda x, y: ((x @ y).exp() @ y).relu() @ y, [(64, 96), (96, 96)]),  # wait for each other
    ],
)
def test_what_runs_one_after_another(function, shapes):
    assert program_of(function, *(tinyt.randn(*shape) for shape in shapes)).sides() == []


def test_parts_of_one_memory_are_apart():
    def function(x, w):
        a, b = (x @ w).chunk(2, 1)
        return a.t() @ x, b.t() @ x, (a * b).sum()

    args = tinyt.randn(128, 96), tinyt.randn(96, 192)
    assert program_of(function, *args).sides()
    compiled = tinyt.compile(function)
    for _ in range(5):
        assert [bits(x) for x in compiled(*args)] == [bits(x) for x in function(*args)]


def test_writes_wait_for_reads():
    def function(x, w):
        h = x @ w
        first = h.t() @ x
        h.mul_(2.0)
        second = h.t() @ x
        h[:8] = x[:8] @ w
        return first, second, h

    args = tinyt.randn(96, 96), tinyt.randn(96, 96)
    program_of(function, *args)
    compiled = tinyt.compile(function)
    for _ in range(5):
        assert [bits(x) for x in compiled(*args)] == [bits(x) for x in function(*args)]


def test_converted_elements_wait_for_what_they_are_of():
    """A region reads one in the dtype it computes in, from memory of the program's."""

    def function(x, w):
        one = x[:1] @ w[:, :1]
        return x @ w, ((x + w) * one).exp(), x.t() @ w, ((w - x) * one).tanh()

    args = [tinyt.randn(64, 64).bfloat16() for _ in range(2)]
    program = program_of(function, *args)
    ((_, _, lanes),) = program.sides()
    copied = program.steps().index(("copy",))
    assert [copied, copied + 1] in lanes
    compiled = tinyt.compile(function)
    for _ in range(20):
        args[1] = args[1] * 0.5
        assert [bits(x.float()) for x in compiled(*args)] == [
            bits(x.float()) for x in function(*args)
        ]


def test_captured_memory_and_arguments_are_written_alone():
    state = tinyt.zeros(96, 96)

    def function(x, w):
        a, b = x @ w, x.t() @ w
        state.copy_(a)
        x.add_(b)
        return a

    program = program_of(function, tinyt.randn(96, 96), tinyt.randn(96, 96))
    places, steps = program.places(), program.describe()
    for *_, lanes in program.sides():
        for step in (step for lane in lanes for step in lane):
            assert all(places[x[0]][0] not in ("argument", "outside") for x in steps[step][6])


def test_steps_that_look_for_faults_run_alone():
    index, table = tinyt.randint(0, 96, (96,)), tinyt.randn(96, 96)

    def function(x):
        return x @ table, table[index] * 2.0, x.t() @ table

    program = program_of(function, tinyt.randn(96, 96))
    names = {
        name for lanes in ops_beside(program) for lane in lanes for step in lane for name in step
    }
    assert "index" not in names
    assert "gather" not in names


@pytest.mark.parametrize("count", [1, 2])
def test_a_failure_in_a_lane_leaves_the_next_run_right(count):
    """One of the lanes takes memory, which the system refuses. There is room for it beside what the
    last result needs."""

    def function(x, w, h):
        return x @ w, h.sum(0), x.t() @ w, x.repeat(4, 1)

    args = tinyt.randn(96, 96), tinyt.randn(96, 96), tinyt.randn(96, 96).half()
    compiled = tinyt.compile(function)
    expected = [bits(x) for x in function(*args)]
    for _ in range(2):
        compiled(*args)
    groups = ops_beside(compiled.entries[0].program_object)
    assert ("sum",) in [step for lanes in groups for lane in lanes for step in lane]
    tinyt.set_num_threads(count)
    failures = 0
    for n in range(1, 20):
        memory.fail_nth_allocation(n)
        try:
            assert [bits(x) for x in compiled(*args)] == expected
        except tinyt.OutOfMemoryError:
            failures += 1
        finally:
            memory.fail_nth_allocation(0)
        assert [bits(x) for x in compiled(*args)] == expected
    assert failures > 0


def test_what_is_seen(tmp_path):
    step = tinyt.compile(training()[0])
    for _ in range(2):
        step(*DATA)
    report = step.report(*DATA)
    program = step.entries[0].program_object
    lanes = {
        number: (lane, first, last)
        for first, last, group in program.sides()
        for lane, numbers in enumerate(group)
        for number in numbers
    }
    assert {row.number: tuple(row.lane) for row in report.rows if row.lane} == lanes
    lines = str(report).splitlines()
    at = lines[1].index("lane")
    for number, (lane, first, last) in lanes.items():
        assert lines[2 + number][at:].startswith(f"{lane} of {first}-{last} ")
        text = f"lane {lane} of {first}-{last}"
        (line,) = (
            x
            for x in step.graph().dot().splitlines()
            if f" p0s{number} [label" in x and "->" not in x
        )
        assert text in line
    html = step.graph().html()
    assert html.count("side by side") == len(lanes)
    step.profile(tmp_path / "trace.json", *DATA)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["args"]["step"]: e["args"]["lane"] for e in spans if "lane" in e["args"]} == {
        number: f"{lane} of {first}-{last}" for number, (lane, first, last) in lanes.items()
    }


def test_a_report_without_lanes_does_not_show_them():
    compiled = tinyt.compile(lambda x: x.exp())
    for _ in range(2):
        compiled(DATA[0])
    assert "lane" not in str(compiled.report())


def test_groups_take_no_more_memory_than_eager():
    """The peak is that of the plan's values one after another: what a group reads and makes must
    have room beside what is there anyway."""

    def function(x, w):
        a = x @ w
        b = (a.relu() @ w).relu()
        c = (x.t() @ w).relu()
        return (b @ w).sum() + (c @ w).sum()

    args = tinyt.randn(96, 96), tinyt.randn(96, 96)
    program = program_of(function, *args)
    assert program.peak_bytes <= 3 * 4 * 96 * 96 + 1024


def test_a_group_leaves_out_a_step_whose_scratch_memory_has_no_room():
    """The sum's is there before the products' results are."""

    def function(x, w, h):
        return h.sum(0), x @ w, x.t() @ w

    args = tinyt.randn(96, 96), tinyt.randn(96, 96), tinyt.randn(96, 96).half()
    program = program_of(function, *args)
    assert program.scratch_bytes()[0] > 0
    assert ops_beside(program) == [[[("matmul",)], [("matmul",)]]]
    with tinyt.num_threads(1):
        assert program.peak_bytes == 96 * 2 + 2 * 4 * 96 * 96


def test_steps_that_take_memory_run_in_one_lane():
    """Sums of halves over rows, for which there is room beside what the last result needs."""

    def function(x, w, g, h):
        return x @ w, g.sum(0), h.sum(0), x.t() @ w, (x @ x) @ w, x.repeat(4, 1)

    halves = [tinyt.randn(96, 96).half() for _ in range(2)]
    program = program_of(function, tinyt.randn(96, 96), tinyt.randn(96, 96), *halves)
    with tinyt.num_threads(1):
        assert sum(n > 0 for n in program.scratch_bytes()) == 2
    (lanes,) = ops_beside(program)
    assert sorted(lane.count(("sum",)) for lane in lanes) == [0, 2]


def test_results_of_a_body_take_no_memory_of_its_run():
    """Scratch memory has the room beside them that it has before they are made."""
    w = tinyt.randn(128, 512)

    def cell(total, x):
        g, y = x[:, :512], x[:, 512:]
        h = g @ w.t()
        return total + y.t() @ g, h

    def function(xs):
        return tinyt.scan(cell, tinyt.zeros(128, 512), xs)

    xs = tinyt.randn(6, 16, 640)
    compiled = tinyt.compile(function)
    for _ in range(2):
        compiled(xs)
    (scan,) = (row for row in compiled.report().rows if row.inside)
    (body,) = scan.inside
    lanes = {row.ops[0]: row.lane for row in body.rows if row.lane}
    assert lanes["matmul"] != lanes["matmul_add"]
    memory.reset_peak()
    before = memory.statistics()["current_bytes"]
    found = compiled(xs)
    assert memory.statistics()["peak_bytes"] - before == compiled.peak_bytes
    assert [bits(x) for x in found] == [bits(x) for x in function(xs)]


def test_nested_programs_have_lanes_of_their_own():
    w, u = tinyt.randn(96, 96), tinyt.randn(96, 96)

    def cell(h, x):
        new = (h @ w).tanh() * (x @ u).sigmoid()
        return new, new

    def function(xs):
        return tinyt.scan(cell, tinyt.zeros(64, 96), xs)

    xs = tinyt.randn(6, 64, 96)
    compiled = tinyt.compile(function)
    for _ in range(4):
        last, every = compiled(xs)
        expected = function(xs)
        assert (bits(last), bits(every)) == tuple(bits(x) for x in expected)
