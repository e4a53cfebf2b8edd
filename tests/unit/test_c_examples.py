"""The examples of the C interface, built and run as their page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from c_library import ENVIRONMENT, compiles
from tinyt import _core

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "c-interface.md"
FLAGS = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
is_plain = pytest.mark.skipif(bool(_core.build_info()["sanitizers"]), reason="a runtime of its own")


def config(*options: str) -> list[str]:
    command = [sys.executable, "-m", "tinyt", "config", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "c" / "make_step.py"), str(made)], check=True
    )
    return made


def run(*command: str | Path, cwd: Path) -> str:
    return subprocess.run(
        [str(x) for x in command],
        check=True,
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    ).stdout


def is_as_the_page(printed: str) -> bool:
    """The page's lines, whose losses other processors have in their last digits."""
    (page,) = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    lines, want = printed.splitlines(), page.splitlines()
    last = [int(re.match(r"(\d+) of 64 right", text[-1])[1]) for text in (lines, want)]  # type: ignore[index]
    same = [re.sub(r"loss .*", "", x) for x in lines[:-1]] == [
        re.sub(r"loss .*", "", x) for x in want[:-1]
    ]
    return same and abs(last[0] - last[1]) <= 3


@is_plain
@compiles
def test_in_c(folder: Path, tmp_path: Path) -> None:
    source = ROOT / "examples" / "c" / "train.c"
    run("cc", *FLAGS, source, *config("--cflags", "--libs"), "-o", "train", cwd=tmp_path)
    printed = run(tmp_path / "train", cwd=folder)
    assert is_as_the_page(printed), printed
    wrong = subprocess.run(
        [tmp_path / "train", "nothing"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error 12: load: cannot open nothing")


@is_plain
@pytest.mark.skipif(shutil.which("luajit") is None, reason="needs LuaJIT")
def test_in_luajit(folder: Path) -> None:
    source = ROOT / "examples" / "c" / "train.lua"
    printed = run("luajit", source, *config("--library"), *config("--header"), cwd=folder)
    assert is_as_the_page(printed), printed


def test_config() -> None:
    assert config("--header")[0].endswith("tinyt.h")
    command = [sys.executable, "-m", "tinyt", "config"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "expected --cflags, --libs, --library or --header" in done.stderr
