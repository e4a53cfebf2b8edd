"""The random caller: what it finds of planted faults, and a few hundred of its calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tinyt
from fuzz.calls import pool
from fuzz.calls.draw import INSTANCES, Drawer
from fuzz.calls.expr import Expr, call, sequence, smaller
from fuzz.calls.pool import Options, Worker, first_of
from fuzz.calls.run import Caller, function_of
from fuzz.calls.shrink import shrunk
from fuzz.calls.targets import EXCLUDED, EXCLUDED_MODULES, evaluated, find_targets

# A sanitizer reports a crash and ends the process itself.
SANITIZED = bool(tinyt._core.build_info()["sanitizers"])
CRASH = "exit status 1" if SANITIZED else "SIGSEGV"


@pytest.fixture
def planted() -> Iterator[Worker]:
    worker = Worker(Options(limit=0.6, planted=True))
    yield worker
    worker.close()


def reports_of(**options: object) -> tuple[Caller, list[str]]:
    reports: list[str] = []
    caller = Caller(Options(limit=0.6, planted=True), reports.append)
    caller.run(**options)  # type: ignore[arg-type]
    return caller, reports


def test_a_crash_is_found_and_made_small() -> None:
    caller, reports = reports_of(first=0, count=90, seconds=None, workers=1)
    crash = next(report for report in reports if report.startswith("crash"))
    lines = crash.splitlines()
    assert lines[0].endswith(CRASH)
    small = lines[lines.index("in short:") + 1].strip()
    assert small.startswith("planted.crash(")
    assert small.count(",") == 0
    assert "python -m tests.fuzz.calls --seed 0 --only" in crash
    assert ("AddressSanitizer" if SANITIZED else "string_at") in crash  # the stack
    hang = next(report for report in reports if report.startswith("hang"))
    assert "planted.hang([])" in hang
    assert "in hang" in hang  # the stack
    assert any("SystemError" in report and "planted.confuse(" in report for report in reports)
    assert caller.calls == 90


def test_a_worker_goes_on_after_each_trouble(planted: Worker) -> None:
    assert first_of(planted, text="planted.crash(1)") is None
    for text, kind, what in (
        ("planted.crash(0, 2**62)", "crash", CRASH),
        ("planted.hang([1])", "hang", "after"),
        ("planted.confuse('')", "finding", "SystemError"),
        ("[].pop()", "", ""),
        ("nothing_of_that_name", "finding", "NameError"),
        ("(lambda: planted.confuse(1, 2))()", "", ""),
    ):
        found = first_of(planted, text=text)
        assert (found.kind if found else "") == kind, text
        assert found is None or what in found.what


def test_no_worker_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "TESTS", pool.TESTS / "nowhere")
    with pytest.raises(RuntimeError, match=r"no worker starts:(.|\n)*No module named"):
        reports_of(first=0, count=4, seconds=None, workers=2)


def test_memory_is_bounded(planted: Worker) -> None:
    assert first_of(planted, text="bytearray(2**40)") is None  # MemoryError, not a killed process
    assert first_of(planted, text="tinyt.ones(2**33)") is None


def test_a_call_depends_on_seed_and_number_alone() -> None:
    texts = [Drawer(5).call(k).text() for k in (3, 400, 12)]
    again = Drawer(5)
    assert [again.call(k).text() for k in (12, 400, 3)] == texts[::-1]
    assert Drawer(6).call(3).text() != texts[0]


def test_the_targets_are_the_public_interface() -> None:
    targets = {target.path: target for target in find_targets()}
    called = {id(target.value) for target in targets.values()}
    for part in (tinyt, tinyt.nn, tinyt.nn.functional, tinyt.optim, tinyt.data):
        for name in part.__all__:
            value = getattr(part, name)
            error = isinstance(value, type) and issubclass(value, BaseException)
            if callable(value) and not error and f"tinyt.{name}" not in EXCLUDED:
                assert id(value) in called, name
    for path in (
        "tinyt.nn.functional.normalize",
        "tinyt.Tensor.__getitem__",
        "tinyt.nn.Module.load_state_dict",
        "tinyt.optim.lr_scheduler.StepLR",
        "tinyt.nn.init.orthogonal_",
        "tinyt.save",
        "tinyt.autograd.functional.hvp",
    ):
        assert path in targets
    assert all(EXCLUDED.values())
    assert all(EXCLUDED_MODULES.values())


def test_instances_are_of_their_classes() -> None:
    for path, texts in INSTANCES.items():
        for text in texts:
            if "bare(" not in text and path != "tinyt.data.Dataset":
                assert isinstance(evaluated(text), evaluated(path)), text


def test_smaller_calls_are_shorter() -> None:
    pair = sequence([Expr("None"), Expr("7777")], tuple)
    expr = call("f", Expr("12345"), pair, key=Expr("'text'"))
    assert expr.text() == "f(12345, (None, 7777), key='text')"
    assert all(len(x.text()) < len(expr.text()) for x in smaller(expr))
    small = shrunk(expr, lambda text: text.startswith("f") and "7777" in text)
    assert small.text() == "f((7777))"
    assert (
        function_of(call("exercise", call("compiled", Expr("tinyt.add"), Expr("1")))) == "tinyt.add"
    )


def test_a_few_hundred_calls(request: pytest.FixtureRequest) -> None:
    reports: list[str] = []
    caller = Caller(Options(seed=request.config.getoption("--seed")), reports.append)
    caller.run(first=0, count=400, seconds=None, workers=1)
    assert not any(report.startswith("hang") for report in reports), "\n".join(reports)
    assert caller.calls == 400
    assert caller.returned > 80
