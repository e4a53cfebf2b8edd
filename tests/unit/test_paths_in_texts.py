"""Files that the project's pages name are there."""

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
PATH = re.compile(
    r"`((?:src|python|tests|tools|benchmarks|docs|examples|cmake|\.ci)/[\w./*{},-]*)`"
)


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
