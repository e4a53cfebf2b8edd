"""Programs as graphs: edges, layout, DOT, and the page, opened in a browser."""

from __future__ import annotations

import html.parser
import json
import os
import re
import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
import tinyt.nn as nn
import tinyt.nn.functional as F
from tinyt.compiler.inspect.facts import read_entry
from tinyt.compiler.inspect.layout import Edge, bars_of, edges_of, spots_of
from training import training_step

NASTY = "</script><img src=x onerror=alert(1)>&\"'\\"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def compiled_step(name="step"):
    """A training step that has been measured."""
    tinyt.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    step = tinyt.compile(training_step(model), name=name)
    x, target = tinyt.randn(64, 64), tinyt.randint(0, 10, (64,))
    for _ in range(2):
        step(x, target)
    step.measure(x, target)
    return step


def program_of(function, *args):
    compiled = tinyt.compile(function)
    compiled(*args)
    return read_entry(compiled.entries[0])[0]


def flow(program):
    """The edges as pairs of op names."""
    names = [" ".join(step.ops) for step in program.steps]
    return sorted((names[e.source], names[e.target]) for e in edges_of(program))


def test_edges_are_what_a_step_reads_of_another():
    a, b = tinyt.randn(40, 40), tinyt.randn(40, 40)
    program = program_of(lambda a, b: F.softmax((a @ b).t() @ a, 1), a, b)
    assert flow(program) == [("matmul", "matmul"), ("matmul", "softmax")]


def test_memory_that_is_used_again_makes_no_edge():
    def function(a):
        x = F.softmax(a @ a, 1)
        y = F.softmax(x @ a, 1)
        return F.softmax(y @ a, 1)

    program = program_of(function, tinyt.randn(20, 20))
    assert [(e.source, e.target) for e in edges_of(program)] == [(i, i + 1) for i in range(5)]


def test_a_write_over_a_part_leaves_the_rest_as_it_was():
    def function(a):
        x = a @ a
        x[0] = x[1] @ a
        return F.softmax(x, 1)

    program = program_of(function, tinyt.randn(4, 4))
    names = [step.ops[0] for step in program.steps]
    into = {e.source for e in edges_of(program) if names[e.target] == "softmax"}
    assert {names[i] for i in into} == {"matmul", "copy"}


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), min_size=1, max_size=30))
def test_a_layout_goes_down_and_keeps_steps_apart(reads):
    """Step i reads from some steps before it."""
    edges = [
        Edge(source, target, None)
        for target, sources in enumerate(reads)
        for source in {s for s in sources if s < target}
    ]
    spots = spots_of(len(reads), edges)
    assert all(spots[e.source].row < spots[e.target].row for e in edges)
    rows = {}
    for spot in spots:
        rows.setdefault(spot.row, []).append(spot.column)
    for columns in rows.values():
        columns.sort()
        assert all(b - a > 1 - 1e-9 for a, b in pairwise(columns))
    assert spots == spots_of(len(reads), edges)


def test_the_memory_of_a_run_never_overlaps_in_the_drawing():
    program = read_entry(compiled_step().entries[0])[0]
    bars = bars_of(program)
    assert {bar.kind for bar in bars} == {"arena", "block", "result"}
    for i, a in enumerate(bars):
        for b in bars[:i]:
            in_time = a.first <= b.last and b.first <= a.last
            in_space = a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
            assert not (in_time and in_space), (a, b)
    in_arena = [bar for bar in bars if bar.kind == "arena"]
    first, last = min(bar.first for bar in in_arena), max(bar.last for bar in in_arena)
    for number, step in enumerate(program.steps):
        alive = [bar for bar in bars if bar.first <= number <= bar.last and bar.kind != "arena"]
        arena = program.arena_bytes if first <= number <= last else 0
        assert arena + sum(bar.nbytes for bar in alive) == step.held_bytes


def test_dot():
    step = compiled_step(name='one "step" \\ of ours')
    text = step.graph().dot()
    lines = text.split("\n")
    assert lines[0] == "digraph {"
    assert '  label="one \\"step\\" \\\\ of ours";' in lines
    string = r'"(?:[^"\\]|\\.)*"'
    statement = re.compile(
        rf"digraph {{|  node \[shape=box\];| +label={string};|  subgraph cluster_\d+ {{|  }}|}}|"
        rf"    p\d+s\d+( -> p\d+s\d+)? \[label={string}\];|"
    )
    assert all(statement.fullmatch(line) for line in lines)
    program = read_entry(step.entries[0])[0]
    assert sum(" -> " in line for line in lines) == len(edges_of(program))
    assert sum(line.startswith("    p0s") for line in lines) == len(program.steps) + len(
        edges_of(program)
    )


def test_saving_by_suffix(tmp_path):
    picture = compiled_step().graph()
    picture.save(tmp_path / "a.html")
    picture.save(str(tmp_path / "a.dot"))
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == picture.html()
    assert (tmp_path / "a.dot").read_text(encoding="utf-8") == picture.dot()
    for name in ("a.htm", "a.HTML", "b.gv", "b.DOT"):
        picture.save(tmp_path / name)
        expected = picture.html() if name.startswith("a") else picture.dot()
        assert (tmp_path / name).read_text(encoding="utf-8") == expected


@pytest.mark.parametrize("name", ["x.png", "x.svg", "x.pdf", "x.json", "x.html.gz", "x", ".html"])
def test_an_ending_that_is_not_written(name, tmp_path):
    picture = compiled_step().graph()
    with pytest.raises(ValueError, match=r"save: the name must end in .html, .*dot -Tsvg"):
        picture.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


class Page(html.parser.HTMLParser):
    """Its elements, and the text of each script by the element's id."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.scripts, self.title = [], [], {}, ""
        self._inside = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag in ("script", "title"):
            self._inside = tag, dict(attrs).get("id", "")

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, text):
        if self._inside and self._inside[0] == "script":
            self.scripts[self._inside[1]] = self.scripts.get(self._inside[1], "") + text
        elif self._inside:
            self.title += text


def test_the_page_needs_nothing_else_and_names_stay_text():
    step = compiled_step(name=NASTY)
    text = step.graph().html()
    page = Page(text)
    assert "img" not in page.tags
    assert page.title == NASTY
    assert not {"src", "href", "onerror"} & {name for name, _ in page.attributes}
    assert page.tags.count("script") == 2
    assert "default-src 'none'" in dict(page.attributes)["content"] or "default-src" in text
    addresses = set(re.findall(r"\w+://[^\s\"')]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a language
    data = json.loads(page.scripts["data"])
    assert data["name"] == NASTY
    (program,) = data["programs"]
    assert len(program["nodes"]) == len(step.report().rows)


def test_values_are_shown_of_measured_runs_only():
    function = tinyt.compile(lambda x: (x * 2, x > 1))
    x = tinyt.tensor([0.5, 1.25, float("nan"), -3.0, 1e10, 7.0, 8.0])
    for _ in range(2):
        function(x)

    def shown():
        (program,) = json.loads(Page(function.graph().html()).scripts["data"])["programs"]
        return [
            text for node in program["nodes"] for key, text in node["details"] if key == "values"
        ]

    assert shown() == []
    function.measure(x)
    assert shown() == ["1, 2.5, nan, -6, 2e+10, 14, …", "False, True, False, False, True, True, …"]


# ---- in a browser

PROBE = """
<script>
window.addEventListener("load", () => {
  const report = {};
  const graph = document.getElementById("graph"), view = document.getElementById("view");
  const transform = () => view.getAttribute("transform");
  const area = graph.getBoundingClientRect();
  const x = Math.round(area.left + 100), y = Math.round(area.top + 80);
  report.pointer = [x - area.left, y - area.top];
  const pointer = (type, x, y) =>
    graph.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, bubbles: true }));
  report.fitted = transform();
  const wheel = { deltaY: -400, clientX: x, clientY: y, cancelable: true };
  graph.dispatchEvent(new WheelEvent("wheel", wheel));
  report.zoomed = transform();
  pointer("pointerdown", x, y);
  pointer("pointermove", x + 30, y - 20);
  pointer("pointerup", x + 30, y - 20);
  pointer("pointermove", x + 300, y);
  report.panned = transform();
  document.getElementById("fit").click();
  report.again = transform();
  const box = document.querySelectorAll(".node")[1];
  box.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  report.details = document.getElementById("details").textContent;
  report.picked = document.querySelectorAll(".node.picked").length;
  report.near = document.querySelectorAll(".edge.near").length;
  const rects = [...document.querySelectorAll(".node rect")];
  const fills = () => rects.map((rect) => rect.getAttribute("fill"));
  report.colours = ["time", "memory", "kind"].map((name) => {
    const colour = document.getElementById("colour");
    colour.value = name;
    colour.dispatchEvent(new Event("change"));
    return new Set(fills()).size;
  });
  const find = document.getElementById("find");
  find.value = "matmul";
  find.dispatchEvent(new Event("input"));
  report.faded = document.querySelectorAll(".node.faded").length;
  report.boxes = [...document.querySelectorAll(".node")].map((node) => {
    const r = node.querySelector("rect").getBoundingClientRect();
    return [r.left - area.left, r.top - area.top, r.right - area.left, r.bottom - area.top];
  });
  report.area = [area.width, area.height];
  report.bars = document.querySelectorAll("#timeline .bar").length;
  report.text = document.getElementById("name").textContent;
  report.images = document.images.length;
  document.documentElement.dataset.report = JSON.stringify(report);
});
</script>
"""


class Root(html.parser.HTMLParser):
    """The attributes of the first element, and the tags of all."""

    def __init__(self, text):
        super().__init__()
        self.root, self.tags = {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs).get("class", "")))
        if tag == "html":
            self.root = dict(attrs)


def browse(path):
    """The page after it was loaded, as a parsed document; fails where the console has errors."""
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={path.parent / 'browser'}",
        "--window-size=1200,900",
        "--virtual-time-budget=5000",
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
        path.as_uri(),
    ]
    # A sanitizer's runtime, preloaded into Python, is not for the browser.
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=env
    )
    said = [line for line in result.stderr.split("\n") if "CONSOLE" in line]
    assert not said, said
    return Root(result.stdout)


needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@needs_chromium
def test_the_page_draws_the_graph_in_a_browser(tmp_path):
    step = compiled_step(name=NASTY)
    picture, path = step.graph(), tmp_path / "page.html"
    path.write_text(picture.html() + PROBE, encoding="utf-8")
    page = browse(path)
    program = read_entry(step.entries[0])[0]
    steps, edges = len(program.steps), edges_of(program)
    assert page.root["data-drawn"] == str(steps)
    assert sum("node" in cls.split() for _, cls in page.tags) == steps
    assert sum("edge" in cls.split() for _, cls in page.tags) == len(edges)
    report = json.loads(page.root["data-report"])
    assert report["text"] == NASTY
    assert report["images"] == 0
    assert report["bars"] == len(bars_of(program))
    # Zooming keeps the point under the pointer, dragging moves by as much as the pointer.
    fitted, zoomed, panned, again = (
        tuple(map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", report[name])))
        for name in ("fitted", "zoomed", "panned", "again")
    )
    assert zoomed[2] > fitted[2]
    for k, pointer in enumerate(report["pointer"]):
        before = (pointer - fitted[k]) / fitted[2]
        assert (pointer - zoomed[k]) / zoomed[2] == pytest.approx(before)
    assert panned == pytest.approx((zoomed[0] + 30, zoomed[1] - 20, zoomed[2]))
    assert again == pytest.approx(fitted)
    # All steps are inside of the area, and apart.
    width, height = report["area"]
    for left, top, right, bottom in report["boxes"]:
        assert -1 <= left < right <= width + 1
        assert -1 <= top < bottom <= height + 1
    for i, a in enumerate(report["boxes"]):
        for b in report["boxes"][:i]:
            assert a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1
    assert report["picked"] == 1
    assert report["near"] == sum(1 in (e.source, e.target) for e in edges)
    assert f"1: {' '.join(program.steps[1].ops)}" in report["details"]
    assert "values" in report["details"]
    assert min(report["colours"][:2]) > 3
    assert report["colours"][2] == len({step.kind for step in program.steps})
    matching = sum("matmul" in step.ops for step in program.steps)
    assert report["faded"] == steps - matching


@needs_chromium
def test_pages_of_small_functions(tmp_path):
    cases = {
        "nothing": (tinyt.compile(lambda x: x), tinyt.ones(3)),
        "one": (tinyt.compile(lambda x: x * 2), tinyt.ones(3)),
        "empty": (tinyt.compile(lambda x: x * 2), tinyt.zeros(0, 4)),
        "module": (tinyt.compile(nn.Linear(3, 4)), tinyt.ones(2, 3)),
    }
    for name, (function, x) in cases.items():
        for _ in range(2):
            function(x)
        compiled = getattr(function, "compiled", function)
        if name != "one":
            compiled.measure(x)
        compiled.graph().save(tmp_path / f"{name}.html")
        page = browse(tmp_path / f"{name}.html")
        (first, *_) = read_entry(compiled.entries[0])
        assert page.root["data-drawn"] == str(len(first.steps))
        assert sum(tag == "option" for tag, _ in page.tags) == 3 + (2 if name == "module" else 1)


@needs_chromium
def test_an_error_of_a_page_would_be_seen(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<!doctype html><script>undefined_function()</script>", encoding="utf-8")
    with pytest.raises(AssertionError, match="undefined_function"):
        browse(path)
