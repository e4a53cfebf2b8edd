"""The page on programs as files runs, and so do the commands that take one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tinyt
from tinyt import nn

PAGE = Path(__file__).resolve().parents[2] / "docs" / "programs.md"


def blocks(kind: str) -> list[str]:
    found = re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found


def run(*arguments: str | Path, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout


def test_the_page(tmp_path: Path) -> None:
    assert run("-c", "\n".join(blocks("python")), cwd=tmp_path) == "".join(blocks("text"))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    compiled = tinyt.compile(lambda x: net(x).detach(), name="two layers")
    compiled(tinyt.ones(3, 4))
    compiled.save(tmp_path / "net.tinyt", net.state_dict())
    return tmp_path / "net.tinyt"


def test_a_program_is_exported_without_its_code(program: Path) -> None:
    folder = program.parent
    run("-m", "tinyt", "export", program, "--out", "made", "--name", "net", cwd=folder)
    assert "NET_INPUT_0_SIZE 12 " in (folder / "made" / "net.h").read_text("utf-8")
    other = run("-m", "tinyt", "export", program, "--input", "float32[2,4]", cwd=folder, code=1)
    assert "no program of the file is for this call: argument 0: shape (2, 4), not" in other
    named = run("-m", "tinyt", "export", program, "--arguments", "x", cwd=folder, code=1)
    assert "--arguments names something of a Python file" in named


def test_a_program_is_compiled_for_other_targets(program: Path) -> None:
    folder = program.parent
    assert "linear" in run("-m", "tinyt", "compile", program, cwd=folder)
    made = run("-m", "tinyt", "compile", program, "--target", "opencl", cwd=folder)
    assert "tt_relu_float32" in made
    (folder / "odd").write_bytes(bytes(range(256)))
    assert "neither a text in UTF-8 nor a file of programs" in (
        run("-m", "tinyt", "compile", "odd", cwd=folder, code=1)
    )
    wrong = run("-m", "tinyt", "compile", program, "--tensors", program, cwd=folder, code=1)
    assert "--tensors is for a text" in wrong
    (folder / "cut").write_bytes(program.read_bytes()[:100])
    assert "the header claims" in run("-m", "tinyt", "export", "cut", cwd=folder, code=1)
