"""The arithmetic of `benchmarks.compare`: no timing, no other library."""

import json
import math
import random
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from benchmarks import compare, limits, report
from benchmarks.case import Case, Work, moving, normal, with_backward
from benchmarks.cases import GROUPS, collect, find
from benchmarks.floors import FLOORS, SHARES, faults, group_means, judge
from benchmarks.protocol import Job, Row
from benchmarks.stats import geometric_mean, ratio_of_bests, upper_bound

from tinyt.cli.timing import best, rounds_of

GOOD = Row("elementwise", "a", tinyt=1.0, torch=2.0, ratio=2.0, upper=2.1)
SLOW = Row("elementwise", "b", tinyt=2.0, torch=1.0, ratio=0.5, upper=0.6)


class Clock:
    """Time passes only when a function says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def taking(self, *seconds):
        """A function whose calls take these seconds, the last one from then on."""
        left = list(seconds)

        def function():
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return function


# ---- timing


def test_best_is_the_fastest_batch():
    clock = Clock()
    assert best(clock.taking(5.0, 3.0, 1.0, 2.0), 10.0, clock) == 1.0


def test_best_calls_long_functions_once():
    clock = Clock()
    assert best(clock.taking(9.0, 7.0), 0.5, clock) == 9.0
    assert clock.now == 9.0


def test_rounds_take_turns_in_alternating_order():
    clock, turns = Clock(), []

    def named(name, seconds):
        wait = clock.taking(seconds)

        def function():
            if not turns or turns[-1] != name:
                turns.append(name)
            wait()

        return function

    found = rounds_of([named("a", 1.0), named("b", 2.0)], 3, 2.0, lambda: turns.append("-"), clock)
    assert found == [[1.0] * 3, [2.0] * 3]
    assert "".join(turns) == "-a-b-b-a-a-b"


def test_the_first_call_after_a_rest_is_not_timed():
    clock = Clock()
    slow_then_fast = clock.taking(9.0, 5.0, 9.0, 5.0)
    rests = []
    found = rounds_of([slow_then_fast], 2, 1.0, lambda: rests.append(clock.now), clock)
    assert found == [[5.0, 5.0]]
    assert rests == [0.0, 14.0]


def test_libraries_rest_long_enough_for_spinning_threads_to_sleep(monkeypatch):
    rests = []
    monkeypatch.setattr("tinyt.cli.timing.time.sleep", rests.append)
    clock = Clock()
    rounds_of([clock.taking(1.0)] * 2, 2, 0.1, clock=clock)
    assert rests == [0.03] * 4


@pytest.mark.parametrize(("at_most", "rounds"), [(1.0, 3), (90.0, 5), (1e9, 9)])
def test_rounds_of_slow_functions_are_fewer(at_most, rounds):
    clock = Clock()
    functions = [clock.taking(4.0), clock.taking(6.0)]
    found = rounds_of(functions, 9, 0.1, lambda: None, clock, at_most)
    assert found == [[4.0] * rounds, [6.0] * rounds]


# ---- statistics


def test_geometric_mean():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert math.isnan(geometric_mean([]))


def test_upper_bound_without_noise_is_the_ratio():
    assert upper_bound([1.0] * 5, [2.0] * 5) == ratio_of_bests([1.0] * 5, [2.0] * 5) == 2.0


def test_upper_bound_grows_with_noise_and_the_level():
    ours, theirs = [1.0, 1.2, 1.4, 1.1, 1.3], [2.2, 2.6, 2.0, 2.4, 2.5]
    ratio = ratio_of_bests(ours, theirs)
    half, bound = upper_bound(ours, theirs, 0.5), upper_bound(ours, theirs)
    assert ratio == 2.0
    assert ratio <= half <= bound <= 2.6
    assert bound > ratio
    assert bound == upper_bound(ours, theirs)  # seeded


def test_upper_bound_covers_the_truth():
    # Two equal programs with one-sided noise: the bound is rarely below 1.
    rng = np.random.default_rng(3)
    below = 0
    for _ in range(200):
        ours, theirs = 1 + rng.exponential(0.05, (2, 9))
        below += upper_bound(ours, theirs, draws=200) < 1
    assert below < 0.25 * 200


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1.0], [1.0, 2.0])])
def test_upper_bound_needs_pairs(ours, theirs):
    with pytest.raises(ValueError, match="in pairs"):
        upper_bound(ours, theirs)


# ---- the table of floors


def test_floors_for_each_group():
    assert list(dict.fromkeys(key.partition(" ")[0] for key in FLOORS)) == list(GROUPS)


def test_faults():
    assert faults(GOOD) == []
    assert faults(SLOW) == ["ratio 0.50 (at most 0.60) is below 1.0"]
    assert faults(replace(SLOW, upper=1.0)) == []  # may be noise
    assert faults(replace(SLOW, group="attention", ratio=1.05, upper=1.08)) != []
    assert faults(Row("copies", "c", error="TypeError: no")) == ["failed: TypeError: no"]


def test_share_of_the_limit():
    row = replace(GOOD, demand="stream", limit=0.85)
    assert row.share == 0.85
    assert faults(row) == []
    assert faults(replace(row, limit=0.5)) == ["50% of the limit is below 80% (stream)"]
    assert faults(replace(row, limit=None)) == ["its share of the limit could not be measured"]
    assert GOOD.share is None


def test_memory():
    row = replace(GOOD, tinyt_bytes=2 << 20, torch_bytes=4 << 20)
    assert row.memory_ratio == 2.0
    assert faults(row) == []
    worse = replace(row, tinyt_bytes=5_000_000, torch_bytes=0)
    assert faults(worse) == ["peak memory of 5000000 bytes, PyTorch's is 0"]
    assert replace(row, tinyt_bytes=200_000, torch_bytes=0).memory_ratio is None


def test_means_leave_errors_out():
    rows = [GOOD, replace(GOOD, ratio=8.0), Row("elementwise", "x", error="no"), SLOW]
    assert group_means(rows) == {"elementwise": pytest.approx(2.0)}


def test_a_case_counts_only_when_it_is_slow_in_every_run():
    rows = [replace(GOOD, ratio=9.0), SLOW]
    assert judge([rows]) == ["elementwise/b: ratio 0.50 (at most 0.60) is below 1.0"]
    assert judge([rows, [SLOW], [replace(SLOW, upper=1.2)]]) == []
    worse = replace(SLOW, ratio=0.4)
    assert judge([rows, [SLOW], [worse]]) == [
        "elementwise/b: ratio 0.40 (at most 0.60) is below 1.0"
    ]


def test_a_mean_counts_as_measured_first():
    assert judge([[replace(GOOD, ratio=1.4)], []]) == [
        "elementwise: geometric mean 1.40 is below 1.5"
    ]


# ---- cases


def test_cases_are_many_and_distinct():
    cases = collect(1)
    assert len(cases) >= 150
    assert len({case.id for case in cases}) == len(cases)
    assert {case.group for case in cases} == set(GROUPS)
    for case in cases:
        assert case.demand in ("", *SHARES)
        assert not case.part or case.part in FLOORS
        # Of training steps, compiled or not.
        assert case.memory == ("step" in FLOORS[case.part or case.group].title)
        # Only calls are without work, so everything else has a limit.
        work = case.work
        assert (work.flops + work.reads + work.writes > 0) == (case.group != "overhead")
        assert work.peak in limits.KINDS


def test_seeds_decide_what_is_drawn():
    names = [case.id for case in collect(1)]
    assert names == [case.id for case in collect(1)]
    other = [case.id for case in collect(2)]
    assert names != other
    assert [n for n in names if "drawn" not in n] == [n for n in other if "drawn" not in n]


def test_values_depend_on_seed_and_name():
    case = Case("a", (normal(3), normal(2, dtype="float64")), lambda lib, x, y: lambda: x)
    first, again, other = case.arrays(1), case.arrays(1), case.arrays(2)
    assert [a.dtype.name for a in first] == ["float32", "float64"]
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])
    assert not np.array_equal(first[0], replace(case, name="b").arrays(1)[0])


def test_work_of_known_cases():
    by_name = {case.name: case.work for case in collect(1)}
    assert by_name["x + y 1M"] == Work(reads=2 << 22, writes=1 << 22)
    assert by_name["1024x1024 @ 1024x1024"].flops == 2 * 1024**3
    stem = by_name["2d 16x3x224x224 to 64, 7x7 /2 (ResNet-50 stem)"]
    assert stem.flops == 2 * 16 * 64 * 112**2 * 3 * 49
    assert stem.writes == 4 * 16 * 64 * 112**2
    assert by_name["1x12x1024x64 causal (GPT-2)"].flops == 2 * 12 * 1024**2 * 64
    assert moving((normal(3), normal(2, dtype="int64")), 5) == Work(reads=28, writes=5)


def test_with_backward_gives_every_gradient():
    import tinyt

    case = Case(
        "a", (normal(3, grad=True), normal(3)), with_backward(lambda lib, x, y: x * y * 2.0)
    )
    arrays = case.arrays(0)
    (grad,) = case.call(tinyt, arrays)()
    output = np.random.default_rng(0).standard_normal(3, np.float32)
    np.testing.assert_allclose(np.asarray(grad), 2 * arrays[1] * output, rtol=1e-6)


def test_find():
    assert find("overhead/t", 0).name == "t"
    with pytest.raises(KeyError):
        find("overhead/no such", 0)


# ---- limits


@pytest.mark.parametrize(
    ("reads", "writes", "mix"),
    [
        (8, 4, (2, 1)),
        (5, 0, (1, 0)),
        (0, 9, (0, 1)),
        (4, 8, (1, 2)),
        (9, 8, (1, 1)),
        (4, 1, (3, 1)),
    ],
)
def test_nearest_mix(reads, writes, mix):
    assert limits.nearest_mix(reads, writes) == mix


def test_footprint():
    assert [limits.footprint(n) for n in (1, 1 << 20, (1 << 20) + 1)] == [1 << 14, 1 << 20, 1 << 21]


def test_least_seconds(monkeypatch):
    machine = limits.Limits.__new__(limits.Limits)
    monkeypatch.setattr(machine, "rate", lambda kind: 100.0, raising=False)
    monkeypatch.setattr(machine, "bandwidth", lambda mix, nbytes: 10.0, raising=False)
    assert machine.seconds(Work()) is None
    assert machine.seconds(Work(flops=500)) == 5.0
    assert machine.seconds(Work(flops=500, reads=60, writes=20)) == 8.0


# ---- the command


def test_environment_holds_one_instruction_set(monkeypatch):
    monkeypatch.setenv("TINYT_ISA", "x86-64-v2")
    job = Job(2, "avx2", 0, (), 1, 0.1, False)
    found = compare.environment(job)
    assert found["TINYT_ISA"] == "x86-64-v3"
    assert found["ATEN_CPU_CAPABILITY"] == "avx2"
    assert found["OMP_NUM_THREADS"] == found["TINYT_NUM_THREADS"] == "2"
    assert "TINYT_ISA" not in compare.environment(replace(job, isa="native"))


@pytest.mark.parametrize(
    "arguments", [["--threads", "0"], ["--isa", "mmx"], ["--groups", "overhead,nothing"]]
)
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit):
        compare.parse(arguments)
    assert "error" in capsys.readouterr().err


def test_seeds_are_fresh():
    assert compare.parse(["--seed", "5"]).seed == 5
    assert len({compare.parse([]).seed for _ in range(4)}) > 1


@pytest.fixture
def worker(monkeypatch):
    """Workers that find what the test says, and remember their jobs."""
    jobs = []

    def run(job, show):
        jobs.append(job)
        rows = []
        for case in job.cases:
            group, _, name = case.partition("/")
            slow = run.slow and name == "t"
            ratio = 0.5 if slow else random.Random(name).uniform(3, 4)
            rows.append(Row(group, name, 1.0, ratio, ratio, ratio))
            show(rows[-1])
        peaks = {"rates": {"float32": 1e9}, "bandwidths": {"1:1": {"1048576": 2e9}}}
        if job.threads > 1:
            peaks["round_trips"] = [6.5e-8, 3.1e-7]
        facts = {"level": "some", "threads": job.threads, "torch": "2.13", "torch_level": "any"}
        return compare.Result(facts, rows, peaks)

    run.slow, run.jobs = False, jobs
    monkeypatch.setattr(compare, "run_worker", run)
    return run


ARGUMENTS = ["--check", "--seed", "7", "--groups", "overhead", "--threads", "1,2"]


def test_check_passes(worker, capsys, tmp_path):
    assert compare.main([*ARGUMENTS, "--json", str(tmp_path / "r.json")]) == 0
    out = capsys.readouterr().out
    assert "every floor holds" in out
    assert out.count("from core to core and back: 65 ns to 310 ns") == 1
    assert out.count("seed 7") == 2
    assert [job.threads for job in worker.jobs] == [1, 2]
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["seed"] == 7
    assert [c["isa"] for c in written["combinations"]] == ["native", "native"]
    assert len(written["combinations"][0]["cases"]) == len(worker.jobs[0].cases)
    assert str(tmp_path) not in (tmp_path / "r.json").read_text()


def test_check_fails_after_three_runs(worker, capsys):
    worker.slow = True
    assert compare.main(ARGUMENTS) == 1
    assert "native, 2 threads: overhead/t: ratio 0.50" in capsys.readouterr().out
    assert [len(job.cases) for job in worker.jobs[1:3]] == [1, 1]
    assert len(worker.jobs) == 6


def test_page_of_record(worker, tmp_path):
    """One column of means a combination, and what it missed."""
    worker.slow = True
    assert compare.main([*ARGUMENTS, "--json", str(tmp_path / "r.json")]) == 1
    record = json.loads((tmp_path / "r.json").read_text())
    lines = list(report.page({"r.json": record}))
    assert sum(line.startswith(("| 1 | r.json", "| 2 | r.json")) for line in lines) == 2
    mean = record["combinations"][0]["means"]["overhead"]
    assert f"| call overhead | 2.0 | {mean:.2f} | {mean:.2f} |" in lines
    assert not any(line.startswith("| elementwise |") for line in lines)  # not measured
    missed = [line for line in lines if line.startswith("- overhead/t: ratio 0.50")]
    assert len(missed) == 2
    assert "| t | 0.50 | 0.50 |" in lines
    record["combinations"][1]["missed"] = []
    assert "- nothing" in report.page({"r.json": record})
    assert compare.main([*ARGUMENTS[1:], "--json", str(tmp_path / "r.json")]) == 0  # no --check
    record = json.loads((tmp_path / "r.json").read_text())
    assert not any("missed" in line for line in report.page({"r.json": record}))
    assert report.cell(replace(GOOD, limit=0.5)) == "2.00, 50%"
    assert report.cell(Row("copies", "c", error="TypeError: no")) == "failed"


def test_cases_by_name(worker, capsys):
    assert (
        compare.main(["--seed", "7", "--cases", "BERT base, 8x512, proj", "--groups", "matmul"])
        == 0
    )
    assert worker.jobs[0].cases == ("matmul/linear 4096x768 to 768 (BERT base, 8x512, projection)",)
    assert "below" in capsys.readouterr().out
    assert compare.main(["--seed", "7", "--list", "--cases", "overhead/item$"]) == 0
    assert capsys.readouterr().out == "overhead/item\n"


def crashing(*outcomes):
    """Workers that finish so many cases, then end with a status."""
    left = list(outcomes)

    def start(job, result, show):
        done, status = left.pop(0)
        if done is not None:
            result.facts = {"level": "some"}
            result.rows += [Row(*case.split("/"), 1.0, 1.0, 1.0, 1.0) for case in job.cases[:done]]
        return status

    return start


def test_a_case_that_ends_its_process_is_a_row(monkeypatch):
    monkeypatch.setattr(compare, "start_worker", crashing((1, -11), (0, 1), (1, 0)))
    shown = []
    job = Job(1, "native", 0, ("copies/a", "copies/b", "copies/c", "copies/d"), 1, 0.1, False)
    result = compare.run_worker(job, shown.append)
    assert [row.name for row in result.rows] == ["a", "b", "c", "d"]
    assert [row.error for row in shown] == [
        "the process ended with status -11",
        "the process ended with status 1",
    ]


def test_a_worker_that_cannot_begin_ends_the_run(monkeypatch):
    monkeypatch.setattr(compare, "start_worker", crashing((None, 1)))
    with pytest.raises(SystemExit, match="before it began"):
        compare.run_worker(Job(1, "native", 0, ("copies/a",), 1, 0.1, False), print)


# ---- the table


def test_lines(capsys):
    table = report.Table(["elementwise/a", "elementwise/longer"])
    table.row(replace(GOOD, limit=0.5))
    table.row(Row("elementwise", "longer", error="TypeError: no"))
    blank, head, *lines = capsys.readouterr().out.splitlines()
    assert not blank
    assert head.startswith("elementwise")
    assert re.split(r"  +", lines[0]) == ["a", "1 s", "2 s", "2.00", "2.10", "50%"]
    assert lines[1] == "longer  TypeError: no"


@pytest.mark.parametrize(
    ("seconds", "text"), [(1e-9, "1 ns"), (2.345e-6, "2.35 us"), (0.5, "500 ms"), (3, "3 s")]
)
def test_duration(seconds, text):
    assert report.duration(seconds) == text


def test_rows_travel_as_json():
    row = replace(GOOD, limit=0.5, tinyt_bytes=3)
    assert Row(**json.loads(json.dumps(asdict(row)))) == row
