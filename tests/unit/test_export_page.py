"""The page on exporting runs from top to bottom, as does the command it names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from c_library import ENVIRONMENT, compiles

PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"
MODEL = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
arguments = (torch.ones(2, 4),)
number = 3
"""


def blocks(kind: str) -> list[str]:
    found = re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints. A compiler is not to have a sanitizer loaded, Python needs it."""
    return subprocess.run(
        [str(part) for part in command],
        check=True,
        cwd=cwd,
        env=None if command[0] == sys.executable else ENVIRONMENT,
        capture_output=True,
        text=True,
    ).stdout


@compiles
def test_the_page(tmp_path: Path) -> None:
    printed = run(sys.executable, "-c", "\n".join(blocks("python")), cwd=tmp_path)
    assert printed == "".join(blocks("text"))
    folder = tmp_path / "iris"
    (folder / "main.c").write_text(blocks("c")[0], encoding="utf-8")
    line = next(x for x in PAGE.read_text("utf-8").splitlines() if x.startswith("Without CMake"))
    command = re.findall(r"`(cc .*)`", line)[0].split()
    run(*command, "-o", "iris", cwd=folder)
    scores = run("./iris", cwd=folder)
    assert len(scores.split()) == 3
    test = ["cc", "-O1", "training.c", "training_weights.c", "training_test.c", "-lm", "-o", "test"]
    run(*test, cwd=tmp_path / "training")
    assert "weight_0" in run("./test", cwd=tmp_path / "training")
    header = (tmp_path / "training" / "training.h").read_text("utf-8")
    assert "float32[16, 4]" in header


@compiles
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs CMake")
def test_the_project_builds(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    command = next(x for x in blocks("sh")[0].splitlines() if x.startswith("tinyt export"))
    run(sys.executable, "-m", *re.sub('"', "", command).replace(", ", ",").split(), cwd=tmp_path)
    for step in blocks("sh")[1].strip().split(" && "):
        run(*step.split(), cwd=tmp_path)


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(MODEL, encoding="utf-8")
    command = [sys.executable, "-m", "tinyt", "export", f"{file}:model", "--arguments", "arguments"]
    out = tmp_path / "made"
    printed = run(*command, "--out", out, "--name", "two", "--weights", "file", cwd=tmp_path)
    assert [Path(line).name for line in printed.split()] == [
        *("two.h", "two.c", "two_test.c", "CMakeLists.txt", "two.weights"),
    ]
    assert "TWO_INPUT_0_SIZE 8 " in (out / "two.h").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model.py"], "expected FILE.py:NAME"),
        (["nowhere.py:f"], "no such file"),
        (["model.py:nothing"], "has no nothing"),
        (["model.py:number"], "is a int, not a function"),
        (["model.py:model", "--input", "float33[2]"], "expected a type"),
        (["model.py:model", "--input", f"float32[{10**20}]"], "no tensor of type .*64 bits"),
        (["model.py:model", "--input", f"float32[{2**63 - 1}]"], "no tensor of type .*memory"),
        (["model.py:model", "--input", f"int64[{10**11},{10**11}]"], "no tensor of type .*64 bits"),
        (["model.py:model", "--input", "float32[2, 5]"], "inner dimensions|linear"),
        (["model.py:model", "--input", "float32[2, 4]", "--name", "2x"], "must be a name in C"),
    ],
)
def test_wrong_commands(
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "tinyt", "export", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
