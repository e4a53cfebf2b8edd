"""`tinyt check-backend`: its calls of every operation, on the CPU and on the test device; the pages
of the tree's devices are what it finds there now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import host2
import tinyt
from apart import has_device, run
from tinyt.cli.__main__ import main
from tinyt.cli.backends import command
from tinyt.cli.backends.check import ROWS, Outcome, Way, check, dtypes
from tinyt.cli.backends.report import mark

CPU = tinyt.device("cpu")
PAGES = Path(__file__).parents[2] / "docs" / "conformance"


@pytest.mark.parametrize("name", ROWS)
def test_every_operation_is_right_on_the_cpu(name: str) -> None:
    found = {dtype: check(name, dtype, CPU) for dtype in dtypes()}
    wrong = {dtype.name: outcome for dtype, outcome in found.items() if outcome.is_wrong}
    assert not wrong
    assert any(outcome.way is Way.KERNEL for outcome in found.values()), "no dtype has calls"
    assert all(outcome.bits for outcome in found.values())


def test_marks() -> None:
    assert mark(Outcome(Way.KERNEL)) == "**k**"
    assert mark(Outcome(Way.DECOMPOSED, 0.5, False)) == "d"
    assert mark(Outcome(Way.REFUSED)) == "r"
    assert mark(Outcome(Way.UNDEFINED)) == "."
    assert mark(Outcome(Way.KERNEL, 1.5, False)) == "x"
    assert mark(Outcome(Way.KERNEL, float("nan"), False)) == "x"


def test_wrong_results_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Outcome(Way.KERNEL, 2.0, False, "at (0,) 1 instead of 2")
    monkeypatch.setattr(command, "check", lambda *given: wrong)
    assert main(["check-backend", "cpu", "--op", "add"]) == 1
    assert "add int64: wrong: at (0,) 1 instead of 2\n" in capsys.readouterr().out


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["cpu:3"], "cpu has only index 0"),
        (["nothing"], "'nothing' is no device"),
        (["cpu", "--op", "none"], "there is no operation 'none'"),
        (["meta"], "the device meta holds no numbers"),
    ):
        assert main(["check-backend", *arguments]) == 1
        assert re.search(message, capsys.readouterr().err)


def rows_of(page: Path) -> dict[str, list[str]]:
    """What stands for each dtype, by operation."""
    found = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found[cells[0].strip("`")] = [cell.strip("*") for cell in cells[1:-1]]
    return found


def test_a_library_of_its_own(tmp_path: Path) -> None:
    library = host2.library()
    if library is None:
        pytest.skip("needs a C compiler")
    page = tmp_path / "page.md"
    ops = ("--op", "add", "--op", "softmax", "--op", "sort")
    arguments = ("-m", "tinyt.cli", "check-backend", str(library), *ops, "--report", str(page))
    done = run(*arguments, HOST2_LACKS="softmax,sort")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sort float32: refused: sort: no kernel on host2:0" in done.stdout
    assert rows_of(page)["add"] == ["k"] * 12
    assert set(rows_of(page)["softmax"]) == {"d", "."}
    assert set(rows_of(page)["sort"]) == {"r", "."}


@pytest.mark.parametrize("name", ["opencl", "webgpu"])
def test_pages_are_current(name: str, tmp_path: Path) -> None:
    """A part of the operations; `.ci/full` has all of them."""
    page = PAGES / f"{name}.md"
    known = rows_of(page)
    assert list(known) == list(ROWS), f"make it anew: tinyt check-backend {name} --report {page}"
    if not has_device(name):
        pytest.skip(f"needs a device of {name}")
    some = list(ROWS)[3::40]
    again = tmp_path / "page.md"
    ops = [word for op in some for word in ("--op", op)]
    done = run("-m", "tinyt.cli", "check-backend", name, *ops, "--report", str(again))
    assert done.returncode == 0, done.stdout + done.stderr
    for op, row in rows_of(again).items():
        assert row == known[op], f"{op}: make the page anew: tinyt check-backend {name}"
