"""docs/coming-from-pytorch.md: its programs run, and its lists of names are true."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest

import tinyt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-pytorch.md"


def names_below(heading: str) -> list[str]:
    """What stands as code in the first column of the table below a heading."""
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)[1:]
    return [name for row in rows for name in re.findall(r"`([A-Za-z_][\w.]*)`", row)]


def is_there(path: str) -> bool:
    """Whether a name is found from `tinyt`, as an attribute or a module."""
    try:
        reduce(getattr, path.split("."), tinyt)
    except AttributeError:
        try:
            importlib.import_module(f"tinyt.{path}")
        except ImportError:
            return False
    return True


def test_the_programs_run_from_top_to_bottom(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 5
    # A file: compiled functions quote their lines, and children would import it.
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_lists_are_found() -> None:
    assert len(names_below("There, but doing less")) > 10
    assert len(names_below("Not there")) > 40


@pytest.mark.parametrize("name", ["linalg.cholesky", "onnx", "Tensor.add"])
def test_what_is_there_is_found(name: str) -> None:
    assert is_there(name)


@pytest.mark.parametrize("name", names_below("There, but doing less"))
def test_modules_that_do_less_are_there(name: str) -> None:
    if name == "utils.tensorboard":
        pytest.importorskip("tensorboard")
    assert is_there(name)


@pytest.mark.parametrize("name", names_below("Not there"))
def test_what_is_called_missing_is(name: str) -> None:
    """One that has come belongs off the page."""
    assert not is_there(name)
