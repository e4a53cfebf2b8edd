"""Files that the project's pages name are there, and hold the names that pages give of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for folder in ("", "benchmarks/", "docs/", "examples/", "src/", "tests/")
    for page in ROOT.glob(f"{folder}**/*.md" if folder else "*.md")
    if page.name != "CHANGELOG.md"  # of other states of the code
)
FILE = r"(?:src|python|tests|tools|benchmarks|docs|examples|cmake|\.ci)/[\w./*{},-]*"
PATH = re.compile(rf"`({FILE})`")
# `a/file.h` (`name`, `other`): words of the file.
NAMED = re.compile(rf"`({FILE})` \(((?:`[^`]+`(?:, )?)+)\)")


def spellings(path: str) -> list[str]:
    """``a.{h,cpp}`` as its two meanings."""
    found = re.match(r"(.*)\{([^{}]*)\}(.*)", path)
    if found is None:
        return [path]
    return [s for part in found[2].split(",") for s in spellings(found[1] + part + found[3])]


@pytest.mark.parametrize("page", PAGES)
def test_paths(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = [s for path in PATH.findall(text) for s in spellings(path)]
    missing = [path for path in named if not any(ROOT.glob(path.rstrip("/")))]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_names(page: str) -> None:
    missing = []
    for path, names in NAMED.findall((ROOT / page).read_text(encoding="utf-8")):
        text = (ROOT / path).read_text(encoding="utf-8")
        missing += [
            f"{name} in {path}"
            for name in re.findall(r"`([^`]+)`", names)
            if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        ]
    assert not missing


TASKS = re.split(
    r"^### \d+\. ", (ROOT / "docs/contributing.md").read_text(encoding="utf-8"), flags=re.MULTILINE
)[1:]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.partition("\n")[0])
def test_tasks(task: str) -> None:
    """Each begins with a file to open; its number of files is that of those that it lists."""
    title, _, text = task.partition("\n")
    text = text.partition("\n## ")[0].strip()
    assert text.startswith("First ")
    if found := re.search(r"\((\d+) files?\)", title):
        listed = re.split("here it applies", text)[0]
        files = {path for path in PATH.findall(listed) if not path.endswith("/")}
        assert len(files) == int(found[1]), sorted(files)


def test_there_are_tasks() -> None:
    assert len(TASKS) >= 20


def test_the_page_on_backends_follows_the_test_device() -> None:
    """Its functions, those of the device's own among them, in the order of the file."""
    source = (ROOT / "tests/host2/host2.c").read_text(encoding="utf-8")
    page = (ROOT / "docs/adding-a-backend.md").read_text(encoding="utf-8")
    functions = re.findall(
        r"^(?:static|const) [^=;(]*?(\w+)\((?:[^;]*?)\) \{$", source, re.MULTILINE
    )
    assert "tinyt_backend" in functions
    assert re.findall(r"\*\*`(\w+)`\*\*", page) == functions
