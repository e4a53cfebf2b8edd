"""What README and the user guide show is what runs: programs, commands, links."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        ROOT / "tests" / "README.md",
    ]
)
# Written by .ci/full, so it is missing until that has run once.
GENERATED = {ROOT / "docs" / "verification.md"}


def block(marker: str) -> str:
    """The code block of README that CI runs under this marker."""
    script = ROOT / ".ci" / "readme_block.py"
    return subprocess.run(
        [sys.executable, str(script), marker], check=True, capture_output=True, text=True
    ).stdout


def output_of(program: str, folder: Path) -> str:
    """What a new process prints that runs the program in the folder; it must succeed."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("library", ["tinyt", "torch"])
def test_example_runs(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    printed = output_of(re.sub(r"\btinyt\b", library, block("ci:example")), tmp_path)
    found = re.fullmatch(r"loss (\d\.\d{3}), accuracy (\d+\.\d)%\n", printed)
    assert found, printed
    assert float(found[1]) < 0.1
    assert float(found[2]) > 98.0


def test_example_is_short() -> None:
    code = [line for line in block("ci:example").splitlines() if line.strip()]
    assert len(code) <= 20


def test_user_guide_runs_from_top_to_bottom(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "user-guide.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    assert len(blocks) > 5
    output_of("\n".join(blocks), tmp_path)


def test_compiler_page_prints_what_it_shows(tmp_path: Path) -> None:
    """Each block of text is what the program above it prints."""
    page = (ROOT / "docs" / "contributing-to-the-compiler.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    programs = [code for kind, code in blocks if kind == "python"]
    shown = [text for kind, text in blocks if kind == "text"]
    assert len(programs) == len(shown) > 3
    assert output_of("\n".join(programs), tmp_path) == "".join(shown)


# What the page on compiling takes for granted.
BEFORE = """
import tinyt
from tinyt import nn, optim

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = optim.AdamW(model.parameters())
x, target = tinyt.randn(32, 8), tinyt.randint(0, 4, (32,))
inward, across = nn.Parameter(tinyt.randn(10, 128)), nn.Parameter(tinyt.randn(128, 128))
xs, classes = tinyt.randn(5, 16, 10), tinyt.randint(0, 128, (16,))


def train(x, target):
    return nn.functional.cross_entropy(model(x), target)
"""
CALLS = {"def step(x, target)": "step(x, target)", "def step(xs, target)": "step(xs, classes)"}


def test_the_page_on_compiling_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """With the file that a program of it is; steps are called until they run as programs."""
    page = (ROOT / "docs" / "compile.md").read_text(encoding="utf-8")
    lines = [BEFORE]
    for code in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        calls = [call for name, call in CALLS.items() if name in code]
        lines += [code, *(f"for _ in range(3):\n    {call}" for call in calls)]
        lines += ["assert step.cache_info().hits > 0"] * len(calls)
    assert len(lines) > 7
    (tmp_path / "page.py").write_text("\n".join(lines), encoding="utf-8")
    printed = output_of("import runpy; runpy.run_path('page.py')", tmp_path)
    # The table has the columns that the page shows, and the steps.
    head = next(line for line in page.splitlines() if line.startswith("#  step"))
    assert head.split() == next(x for x in printed.splitlines() if x.startswith("#  step")).split()
    assert "gelu sum div sub square sum" in printed


@pytest.mark.parametrize(("marker", "then"), [("demo", "tinyt train digits"), ("test", "pytest")])
def test_commands_use_what_the_package_declares(marker: str, then: str) -> None:
    assert block(f"ci:install-{marker}") == f'pip install -v ".[{marker}]" && {then}\n'
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(rf"^{marker} = \[", project, re.MULTILINE)
    assert re.search(r'^tinyt = "tinyt\.cli', project, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith(("http:", "https:"))]
    targets = {link: (page.parent / link).resolve() for link in local}
    missing = [link for link, at in targets.items() if at not in GENERATED and not at.exists()]
    assert not missing


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    targets = [((page.parent / name).resolve() if name else page, at) for name, at in links]
    assert not [(str(to), at) for to, at in targets if to.suffix == ".md" and at not in anchors(to)]
