"""`benchmarks.compare --against`: its arithmetic with builds that are made up, and one real run."""

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from benchmarks import builds, compare
from benchmarks.builds import BuildRow, first_ratio, judge, suspects
from benchmarks.floors import group_means
from benchmarks.protocol import Job

JOB = Job(1, "native", 7, ("overhead/t", "overhead/item"), 3, 0.001, memory=False)
EVEN = BuildRow("overhead/t", "overhead", 1.0, 1.0, 1.0, 1.0)
SLOW = BuildRow("overhead/item", "overhead", 2.0, 1.0, 0.5, 0.6)


class FakeBuild:
    """Answers as a process would; `log` holds who was asked what."""

    log: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, python, environment):
        self.name = python.parts[-3]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, command, *args):
        self.log.append((self.name, command))
        slow = self.name == "ours" and "item" in str(self.case if command != "prepare" else args)
        if command == "prepare":
            self.case = args[0]
            return None
        return {"time": 2.0 if slow else 1.0, "first": 0.5 if slow else None}[command]


def test_what_is_slower_in_three_runs_counts():
    both = [EVEN, SLOW]
    assert suspects(both) == {"overhead/t": "overhead", "overhead/item": "overhead"}
    assert judge([both] * 3) == [
        f"overhead: geometric mean {math.sqrt(0.5):.3f} is below 0.98",
        "overhead/item: ratio 0.500 is below 0.93",
    ]
    once = [EVEN, replace(SLOW, ratio=0.95)]
    assert suspects(once) == suspects(both)  # the group's mean
    assert judge([both, both, once]) == [
        f"overhead: geometric mean {math.sqrt(0.95):.3f} is below 0.98"
    ]
    assert judge([both, both, [EVEN, replace(SLOW, ratio=1.0)]]) == []
    assert judge([both, both]) == judge([[EVEN]]) == []


def test_a_slow_case_of_a_fast_group_is_measured_again_alone():
    rows = [replace(EVEN, ratio=2.0), replace(SLOW, ratio=0.9)]
    assert suspects(rows) == {"overhead/item": "overhead"}
    assert judge([rows, rows[1:], rows[1:]]) == ["overhead/item: ratio 0.900 is below 0.93"]


def test_what_fails_in_one_build_is_a_complaint():
    failed = BuildRow("overhead/item", "overhead", error="this build: ValueError: no")
    assert judge([[EVEN, failed], [failed], [failed]]) == [
        "overhead/item: this build: ValueError: no"
    ]
    assert group_means([EVEN, failed]) == {"overhead": 1.0}


def test_first_calls_are_ours_by_theirs():
    row = replace(EVEN, first_ours=2.0, first_theirs=8.0)
    noise = replace(EVEN, first_ours=0.5, first_theirs=8.0)  # less than a call takes
    assert first_ratio([row, SLOW, noise]) == 0.25
    assert math.isnan(first_ratio([EVEN]))


def test_builds_take_turns_and_suspects_run_again(monkeypatch, capsys, tmp_path):
    FakeBuild.log = []
    monkeypatch.setattr(builds, "Build", FakeBuild)
    monkeypatch.setattr(sys, "executable", "/ours/bin/python")
    (tmp_path / "theirs" / "bin").mkdir(parents=True)
    (tmp_path / "theirs" / "bin" / "python").touch()
    keys = dict.fromkeys(JOB.cases, "overhead")
    rows, complaints = builds.compare(keys, tmp_path / "theirs", JOB, {})
    assert [row.ratio for row in rows] == [1.0, 0.5]
    assert complaints[-1] == "overhead/item: ratio 0.500 is below 0.93"
    turns = [name for name, command in FakeBuild.log if command == "time"]
    assert turns[:6] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert len(turns) == 6 * 6  # both cases three times, as their group is slow
    assert "again, run 3 of 3" in capsys.readouterr().out


def test_a_place_without_python_is_told(tmp_path):
    with pytest.raises(SystemExit, match="has no bin/python"):
        builds.compare({}, tmp_path, JOB, {})


def test_a_build_beside_itself(tmp_path, capsys):
    """Two processes; only the ratio's form is looked at."""
    record = tmp_path / "r.json"
    argv = ["--against", sys.prefix, "--quick", "--threads", "1", "--seed", "7"]
    assert compare.main([*argv, "--cases", "^overhead/t$", "--json", str(record)]) == 0
    ((entry,),) = [json.loads(record.read_text())["combinations"]]
    assert [row["case"] for row in entry["cases"]] == ["overhead/t"]
    assert isinstance(entry["cases"][0]["ratio"], float)
    assert not entry["cases"][0]["error"]
    assert "call overhead" in capsys.readouterr().out


def test_a_build_that_ends_is_told(capfd):
    with (
        builds.Build(Path(sys.executable), dict(os.environ)) as build,
        pytest.raises(SystemExit, match="a build ended with status 1"),
    ):
        build.ask("unknown")
    assert "KeyError" in capfd.readouterr().err
