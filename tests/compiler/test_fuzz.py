"""Random graphs in all ways: so many of one seed here, more by `python -m tests.fuzz`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from fuzz.case import Body, Case, Input, Ref, Step, text
from fuzz.check import check, compare
from fuzz.draw import KINDS, drawn
from fuzz.run import Fuzzer
from fuzz.shrink import shrunk
from tinyt.compiler import passes
from tinyt.compiler.graph.graph import Graph

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("part", range(4))
def test_graphs(part: int, request: pytest.FixtureRequest) -> None:
    fuzzer = Fuzzer(request.config.getoption("--seed"))
    for number in range(30 * part, 30 * part + 30):
        report = fuzzer.report(number)
        assert not report, report
    assert fuzzer.refused < 10
    assert fuzzer.steps > 150


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_many_graphs(part: int, request: pytest.FixtureRequest) -> None:
    fuzzer = Fuzzer(request.config.getoption("--seed"))
    for number in range(1000 + 500 * part, 1500 + 500 * part):
        report = fuzzer.report(number)
        assert not report, report


def test_all_kinds_are_drawn() -> None:
    called: Counter[str] = Counter()
    for number in range(60):
        for step in drawn(np.random.default_rng([0, number])).steps:
            called[step.call if isinstance(step.call, str) else "row"] += 1
    assert {"row", "gradient", "train", "assign", "F.dropout", "Tensor.transpose"} <= called.keys()
    assert {"cond", "scan", "while_loop", "gradients"} <= called.keys()
    assert abs(sum(weight for _, weight in KINDS) - 1) < 1e-9


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (tinyt.linalg.cholesky, [[4.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
        (tinyt.bernoulli, [0.5, 0.25], [0.5, 2.0]),
        (lambda x: F.binary_cross_entropy(x, x), [0.5, 0.25], [0.5, 2.0]),
        (lambda x: F.gaussian_nll_loss(x, x, x), [0.5, 0.25], [0.5, -2.0]),
        (lambda x: tinyt.multinomial(x, 1), [0.5, 0.25], [0.5, -2.0]),
        (lambda x: tinyt.normal(0.0, x), [0.5, 0.25], [0.5, -2.0]),
        (tinyt.poisson, [0.5, 0.25], [0.5, -2.0]),
        (lambda x: tinyt.binomial(x, x * 0 + 0.5), [2.0, 3.0], [2.0, -3.0]),
        (
            lambda x: F.ctc_loss(
                tinyt.zeros(4, 2, 3), tinyt.ones(2, 2).long(), x.long(), x.long() * 0 + 1
            ),
            [3.0, 4.0],
            [3.0, 5.0],
        ),
    ],
)
def test_errors_that_only_eager_finds_in_values(
    function: Callable[..., Any], good: Any, bad: Any
) -> None:
    """They are none of the compiler's: docs/compile.md says so of each."""
    with pytest.raises((RuntimeError, ValueError)):
        function(tinyt.tensor(bad))
    given = [good, good, good, bad]
    found = compare(lambda _: function, lambda call: [tinyt.tensor(given[call])], lambda: [])
    assert found is None


def planted(graph: Graph) -> Graph:
    """Takes every square for the tensor itself."""
    nodes = [
        node._replace(op="abs", origin=-1) if node.op == "square" else node for node in graph.nodes
    ]
    return graph._replace(nodes=nodes) if nodes != graph.nodes else graph


def wrong_case() -> Case:
    """A square among what has nothing to do with it."""
    x = Input(np.array([1.0, 2.0, 3.0], np.float32), "float32", "stepped")
    steps = (
        Step(("row", "exp"), (Ref(0),)),
        Step(("row", "square"), (Ref(1),)),
        Step("Tensor.add_", (Ref(3), Ref(0))),
        Step(("row", "neg"), (Ref(2),)),
    )
    return Case((x, x), (), steps, (2, 4, 5))


def test_a_planted_error_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    case = wrong_case()
    assert check(case) is None
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, ("planted", planted)))
    assert "planted" in str(check(case))
    small = shrunk(case, lambda smaller: bool(check(smaller)))
    assert [step.call for step in small.steps] == [("row", "square")]
    assert len(small.inputs) == 1
    assert small.inputs[0].layout == "contiguous"
    program = text(small, "a note")
    assert "# a note" in program
    assert "v1 = row('square')(v0)" in program


def test_a_planted_error_in_a_scan_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input(np.array([[1.0, 2.0, 3.0]] * 2, np.float32), "float32")
    steps = (
        Step(("row", "exp"), (Ref(0),)),
        Step(("row", "square"), (Ref(1),)),
        Step("Tensor.add_", (Ref(3), Ref(2))),
        Step(("row", "add"), (Ref(4), Ref(2))),
    )
    body = Body(2, (Ref(2),), steps, (5, 6))
    start = Step(("row", "sum"), (Ref(1),), (("dim", 0),))
    scan = Step("scan", (body, 1, False, Ref(2), Ref(0)))
    case = Case((x, x), (), (start, scan), (3,))
    assert check(case) is None
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, ("planted", planted)))
    assert "planted" in str(check(case))
    small = shrunk(case, lambda smaller: bool(check(smaller)))
    (left,) = (step.args[0] for step in small.steps if step.call == "scan")
    assert [step.call for step in left.steps] == [("row", "square")]
    program = text(small)
    assert "= row('square')(" in program
    assert "    def v" in program


def test_a_drawn_graph_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, ("planted", planted)))
    fuzzer = Fuzzer(0)
    reports = [fuzzer.report(number) for number in range(12)]
    found = [report for report in reports if report]
    assert found
    assert all("VerificationError" in report for report in found)


def test_the_printed_program_runs(tmp_path: Path) -> None:
    """It compares again; here there is nothing wrong."""
    path = tmp_path / "program.py"
    path.write_text(text(wrong_case()), encoding="utf-8")
    program = (
        f"import sys, runpy; sys.path.insert(0, {str(TESTS)!r}); runpy.run_path({str(path)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr


def test_the_seed_decides() -> None:
    one, other = (text(drawn(np.random.default_rng([3, 4]))) for _ in range(2))
    assert one == other
