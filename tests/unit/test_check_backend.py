"""`tinyt check-backend`: its calls of every operation, on the CPU and on the test device; the pages
of the tree's devices are what it finds there now."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import host2
import tinyt
from apart import has_device, run
from standin import standin
from tinyt.cli.__main__ import main
from tinyt.cli.backends import check as checking
from tinyt.cli.backends import command, updates
from tinyt.cli.backends.check import ROWS, Outcome, Way, check
from tinyt.cli.backends.report import mark, short
from tinyt.dtypes import ALL

CPU = tinyt.device("cpu")
ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "conformance"


@pytest.mark.parametrize("name", ROWS)
def test_every_operation_is_right_on_the_cpu(name: str) -> None:
    found = {dtype: check(name, dtype, CPU) for dtype in ALL}
    wrong = {dtype.name: outcome for dtype, outcome in found.items() if outcome.is_wrong}
    assert not wrong
    assert any(outcome.way is Way.KERNEL for outcome in found.values()), "no dtype has calls"
    assert all(outcome.bits for outcome in found.values())


def test_it_has_every_update_row() -> None:
    """They are in no table of Python's."""
    rows = (ROOT / "src/core/ops/ops.def").read_text(encoding="utf-8")
    assert re.findall(r"^UPDATE_OP\((\w+)\)", rows, re.M) == list(updates.NAMES)


def test_marks() -> None:
    assert mark(Outcome(Way.KERNEL)) == "**k**"
    assert mark(Outcome(Way.DECOMPOSED, 0.5, False)) == "d"
    assert mark(Outcome(Way.REFUSED)) == "r"
    assert mark(Outcome(Way.UNDEFINED)) == "."
    assert mark(Outcome(Way.KERNEL, 1.5, False)) == "x"
    assert mark(Outcome(Way.KERNEL, float("nan"), False)) == "x"


def test_names_of_dtypes() -> None:
    names = ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128"]
    assert [short(dtype) for dtype in ALL] == names


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("add", lambda x: x + 1),
        ("add", lambda x: x * (1 + 1e-6)),
        ("erfcx", lambda x: x * (1 + 1e-6)),  # float64 has no form of these
        ("erfcx", lambda x: x * float("nan")),
        ("nextafter", lambda x: x * (1 + 5e-7)),
        ("cholesky", lambda x: x * (1 + 1e-5) if x.is_floating_point() else x),
        ("nonzero", lambda x: x + 1),
        ("sort", lambda x: x.flip(0) if x.is_floating_point() else x),
    ],
)
def test_spoilt_results_are_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, spoil: Callable[[tinyt.Tensor], tinyt.Tensor]
) -> None:
    """Of the device; what the CPU makes is made before."""
    assert not check(name, tinyt.float32, CPU).is_wrong
    defined = checking._defined_calls(name, tinyt.float32, 0)
    run = checking._run
    monkeypatch.setattr(checking, "_defined_calls", lambda *given: defined)
    monkeypatch.setattr(checking, "_run", lambda *given: tuple(map(spoil, run(*given))))
    assert check(name, tinyt.float32, CPU).is_wrong


def test_wrong_results_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Outcome(Way.KERNEL, 2.0, False, "at (0,) 1 instead of 2")
    monkeypatch.setattr(command, "check", lambda *given: wrong)
    assert main(["check-backend", "cpu", "--op", "add"]) == 1
    assert "add int64: wrong: at (0,) 1 instead of 2\n" in capsys.readouterr().out


def test_too_many_kernels_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for built, code in ((command.MOST_KERNELS, 0), (command.MOST_KERNELS + 1, 1)):
        counts = iter((7, 7 + built))
        monkeypatch.setattr(command, "_kernels", lambda place, counts=counts: next(counts))
        for fact in ("arithmetic", "limits"):  # of which the CPU has none
            monkeypatch.setattr(command, fact, lambda place: "")
        assert main(["check-backend", "cpu", "--op", "add"]) == code
        assert f"{built:,} kernels were built, of 2,500 at most." in capsys.readouterr().out


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["cpu:3"], "cpu has only index 0"),
        (["nothing"], "'nothing' is no device"),
        (["./nothing.so"], "nothing.so"),
        (["cpu", "--report", "none/page.md"], "there is no folder none for the report"),
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


DEVICES = ("cuda", "opencl", "webgpu")
PARTS = 40


@pytest.mark.parametrize("name", DEVICES)
def test_pages_have_every_operation(name: str) -> None:
    assert list(rows_of(PAGES / f"{name}.md")) == list(ROWS)


@pytest.mark.parametrize("name", DEVICES)
def test_only_what_the_language_lacks_is_refused(name: str) -> None:
    """On WebGPU, arithmetic of float64 and of complex numbers with such parts."""
    for op, row in rows_of(PAGES / f"{name}.md").items():
        refused = {short(dtype) for dtype, way in zip(ALL, row, strict=True) if way == "r"}
        assert refused <= ({"f64", "c128"} if name == "webgpu" else set()), op


def check_part(name: str, part: int, folder: Path) -> None:
    """Every so many operations are as the page says; on CUDA of the library that stands for it."""
    variables = (standin() or {}) if name == "cuda" else {}
    if not (variables or has_device(name)):
        pytest.skip(f"needs a device of {name}")
    again = folder / "page.md"
    ops = [word for op in list(ROWS)[part::PARTS] for word in ("--op", op)]
    done = run("-m", "tinyt.cli", "check-backend", name, *ops, "--report", str(again), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    known = rows_of(PAGES / f"{name}.md")
    for op, row in rows_of(again).items():
        assert row == known[op], f"{op}: make the page anew: tinyt check-backend {name}"


@pytest.mark.parametrize("name", DEVICES)
def test_a_part_of_the_pages_is_current(name: str, tmp_path: Path) -> None:
    check_part(name, 3, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", DEVICES)
def test_pages_are_current(name: str, part: int, tmp_path: Path) -> None:
    check_part(name, part, tmp_path)
