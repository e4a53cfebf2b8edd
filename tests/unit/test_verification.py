"""The table of what passed: a shard holds until code changes, whatever its commit."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "verification.py"
ROW = "| slow | 871 passed | 1534 | 2026-11-24 | `{}` | x86-64-v4 |\n"

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists() or shutil.which("git") is None, reason="runs in a checkout, with git"
)


def git(project: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    return subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=True
    ).stdout.strip()


def ask(project: Path, command: str) -> str:
    script = project / ".ci" / SCRIPT.name
    return subprocess.run(
        [sys.executable, script, command], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def project(tmp_path):
    for folder in (".ci", "docs", "src"):
        (tmp_path / folder).mkdir()
    shutil.copy(SCRIPT, tmp_path / ".ci")
    (tmp_path / "src" / "a.cpp").write_text("int a;\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "first")
    page = tmp_path / "docs" / "verification.md"
    page.write_text(ROW.format(git(tmp_path, "rev-parse", "--short=12", "HEAD")))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "the page itself")
    return tmp_path


def test_a_shard_holds_while_only_notes_change(project):
    (project / "CHANGELOG.md").write_text("words\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "words")
    assert ask(project, "current") == "slow\n"
    assert ask(project, "stale") == ""


def test_a_shard_is_stale_after_a_change_of_code(project):
    (project / "src" / "a.cpp").write_text("int b;\n")
    git(project, "commit", "-q", "-a", "-m", "code")
    assert ask(project, "current") == ""
    assert ask(project, "stale").startswith("slow: ")


def test_an_unknown_commit_is_stale(project):
    (project / "docs" / "verification.md").write_text(ROW.format("0123456789ab"))
    assert ask(project, "stale") == "slow: 0123456789ab, 2026-11-24\n"
