"""`utils.benchmark`: what is said of times, with a clock of the test's own."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

import tinyt
from tinyt.utils.benchmark import Compare, Language, Measurement, TaskSpec, Timer, select_unit


class Clock:
    """Each look at it costs a nanosecond; a statement adds to it what it takes."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-9
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


def timer_of(clock: Clock, stmt: str = "clock.work(1e-3)", **options: object) -> Timer:
    return Timer(stmt, timer=clock, globals={"clock": clock}, **options)  # type: ignore[arg-type]


def test_timeit() -> None:
    m = timer_of(Clock()).timeit(10)
    assert m.number_per_run == 10
    assert m.median == m.mean == pytest.approx(1e-3, rel=1e-5)
    assert m.times == [m.median]
    assert m.iqr == 0


def test_blocked_autorange() -> None:
    clock = Clock()
    seen: list[tuple[int, float]] = []
    m = timer_of(clock).blocked_autorange(
        callback=lambda number, taken: seen.append((number, taken)), min_run_time=0.25
    )
    assert sum(m.raw_times) >= 0.25
    assert [taken for _, taken in seen] == m.raw_times
    assert m.median == pytest.approx(1e-3, rel=1e-4)
    quick = timer_of(Clock(), "clock.work(1e-6)").blocked_autorange(min_run_time=0.01)
    assert quick.number_per_run == 10  # of one, the clock would be a thousandth
    assert quick.median == pytest.approx(1e-6, rel=1e-3)


def test_adaptive_autorange() -> None:
    m = timer_of(Clock()).adaptive_autorange()
    assert len(m.times) == 10  # 0.01 s at least
    restless = Clock()
    steps = iter(range(1000))
    restless.work = lambda s: Clock.work(restless, s * (1 + next(steps) % 5))  # type: ignore[method-assign]
    unsure = timer_of(restless, "clock.work(1e-1)").adaptive_autorange(1e-3, max_run_time=5.0)
    assert sum(unsure.raw_times) >= 5.0


def test_setup_threads_and_globals() -> None:
    seen: list[int] = []
    timer = Timer(
        "seen.append(tinyt.get_num_threads())",
        setup="import tinyt",
        globals={"seen": seen},
        num_threads=1,
    )
    before = tinyt.get_num_threads()
    timer.timeit(2)
    assert set(seen) == {1}
    assert tinyt.get_num_threads() == before


def measured(times: list[float], **names: object) -> Measurement:
    spec = TaskSpec(str(names.pop("stmt", "f()")), "pass", **names)  # type: ignore[arg-type]
    return Measurement(1, times, spec)


def test_statistics() -> None:
    times = [3e-6, 1e-6, 2e-6, 5e-6, 4e-6]
    m = measured(times)
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    assert m.iqr == pytest.approx(high - low)
    assert (m.median, m.mean) == (3e-6, pytest.approx(3e-6))
    assert m.has_warnings
    assert not measured([1e-6] * 5).has_warnings
    assert measured([1e-3] * 5).significant_figures == 4  # 1 ms against 25 ns
    assert measured([1e-7] * 5).significant_figures == 1
    with pytest.raises(RuntimeError, match="No measurements"):
        _ = measured([]).median
    with pytest.raises(AttributeError):
        _ = m.nonsense
    assert (m.stmt, m.num_threads, m.env) == ("f()", 1, "Unspecified env")


def test_text() -> None:
    text = repr(measured([1e-6, 1e-6, 1e-6, 3e-6], label="sum", sub_label="small", description="d"))
    for part in ("sum: small", "\nd\n", "Median: 1.00 us", "4 measurements, 1 runs per", "WARNING"):
        assert part in text
    single = repr(measured([2.0], stmt="g()"))
    assert "\n  2.00 s\n  1 measurement, 1 runs , 1 thread" in single


def test_merge() -> None:
    spec = TaskSpec("f()", "pass")
    merged = Measurement.merge([Measurement(2, [4.0], spec), Measurement(1, [3.0], spec)])
    assert [m.times for m in merged] == [[2.0, 3.0]]
    assert len(Measurement.merge([measured([1.0]), measured([1.0], label="x")])) == 2


@pytest.mark.parametrize(
    ("seconds", "unit"), [(2e-10, "ns"), (3e-8, "ns"), (1e-6, "us"), (5e-2, "ms"), (100.0, "s")]
)
def test_units(seconds: float, unit: str) -> None:
    assert select_unit(seconds)[0] == unit


def rows() -> list[Measurement]:
    return [
        measured([time * 1e-6], label="sums", sub_label=row, description=column, num_threads=n)
        for row, column, n, time in (
            ("small", "new", 1, 1.0), ("small", "old", 1, 2.0), ("large", "new", 1, 30.0),
            ("large", "new", 2, 16.0), ("large", "old", 2, 55.0),
        )
    ]  # fmt: skip


def test_table() -> None:
    text = str(Compare(rows()))
    lines = text.splitlines()
    assert lines[0].startswith("[---")
    assert " sums " in lines[0]
    assert lines[1].split("|")[1].strip() == "new"
    assert [line.split(": ")[0] for line in lines if "threads" in line] == [
        "1 threads",
        "2 threads",
    ]
    cells = [[c.strip() for c in line.split("|")] for line in lines if line.startswith("      ")]
    assert cells[1:] == [
        ["small", "1", "2"], ["large", "30", ""], ["large", "16", "55"]
    ]  # fmt: skip
    assert lines[-1] == "Times are in microseconds (us)."
    assert len(lines[0]) == len(next(line for line in lines if "1 threads" in line))


def test_marks_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    compare = Compare(rows()[:2])
    compare.extend_results([measured([1e-6, 1e-6, 2e-6, 9e-6], label="x", description="a")])
    compare.highlight_warnings()
    compare.trim_significant_figures()
    compare.colorize()
    compare.print()
    text = capsys.readouterr().out
    assert "(!)" in text
    assert "\033[92m" in text
    with pytest.raises(ValueError, match="got int"):
        compare.extend_results([3])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: Timer(len), ValueError),
        (lambda: Timer("1", language=Language.CPP), NotImplementedError),
        (lambda: Timer("1", global_setup="int x;"), ValueError),
        (lambda: Timer("1").repeat(), NotImplementedError),
        (lambda: Timer("1").autorange(), NotImplementedError),
        (lambda: Timer("1").collect_callgrind(), NotImplementedError),
        (lambda: Timer("1 +").timeit(1), SyntaxError),
    ],
)
def test_errors(call: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
