"""What reports, pages and traces show of control flow: what it runs, each time and in sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tinyt
from tinyt import Tensor
from tinyt.compiler.api import compile

STEPS, ROWS, WIDTH = 5, 2, 4
PRODUCT = 2 * ROWS * WIDTH * WIDTH
ELEMENTS = ROWS * WIDTH


def row_of(report: Any, op: str) -> Any:
    (found,) = [row for row in report.rows if row.ops == (op,)]
    return found


def warm(function: Any, *args: Any) -> Any:
    compiled = compile(function)
    for _ in range(3):
        compiled(*args)
    return compiled


def recurrent() -> tuple[Any, Tensor]:
    w = tinyt.randn(WIDTH, WIDTH)

    def run(xs: Tensor) -> Any:
        start = tinyt.zeros(ROWS, WIDTH)
        return tinyt.scan(lambda c, x: (tinyt.tanh(c @ w + x), c.exp()), start, xs)

    xs = tinyt.randn(STEPS, ROWS, WIDTH)
    return warm(run, xs), xs


def test_a_scan_shows_one_step_and_counts_all() -> None:
    compiled, xs = recurrent()
    row = row_of(compiled.report(xs), "scan")
    (part,) = row.inside
    assert (part.name, part.times) == ("step", STEPS)
    assert part.flops == PRODUCT + 3 * ELEMENTS  # sum, tanh, exp
    assert row.flops == STEPS * part.flops
    assert part.flops == sum(inner.flops for inner in part.rows)
    assert part.bytes_read == sum(inner.bytes_read for inner in part.rows)
    assert {op for inner in part.rows for op in inner.ops} >= {"matmul_add", "tanh", "exp"}
    report = compiled.report()
    assert report.totals[0].flops == sum(r.flops for r in report.rows) >= row.flops


def test_the_text_has_the_steps_below_the_scan() -> None:
    compiled, xs = recurrent()
    lines = str(compiled.report(xs)).splitlines()
    at = next(i for i, line in enumerate(lines) if " scan " in line)
    assert "step, 5 times:" in lines[at + 1]
    assert "in all" in lines[at + 1]
    number = lines[at].split()[0]
    assert lines[at + 2].split()[0] == f"{number}a0"
    assert lines[-1].startswith("total:")


def test_a_branch_shows_both_and_counts_what_was_run() -> None:
    def run(x: Tensor) -> Any:
        return tinyt.cond(x.sum() > 0, lambda x: x.exp().sin(), lambda x: -x, (x,))

    x = tinyt.ones(ELEMENTS)
    compiled = compile(run)
    compiled(x)
    unknown = row_of(compiled.report(), "cond")
    assert [(part.name, part.times) for part in unknown.inside] == [
        ("if false", -1),
        ("if true", -1),
    ]
    assert unknown.flops == 2 * ELEMENTS
    for value, times in ((x, [0, 1]), (-x, [1, 0])):
        row = row_of(compiled.report(value), "cond")
        assert [part.times for part in row.inside] == times
        assert row.flops == (2 if times[1] else 1) * ELEMENTS


@pytest.mark.parametrize("limit", [0, 3])
def test_a_loop_counts_its_turns(limit: int) -> None:
    def run(x: Tensor, limit: Tensor) -> Any:
        return tinyt.while_loop(
            lambda x, n: n < limit, lambda x, n: (x * 2.0, n + 1), (x, tinyt.tensor(0))
        )

    args = tinyt.ones(ELEMENTS), tinyt.tensor(limit)
    compiled = warm(run, *args)
    row = row_of(compiled.report(*args), "while_loop")
    assert [(part.name, part.times) for part in row.inside] == [
        ("condition", limit + 1),
        ("body", limit),
    ]
    condition, body = row.inside
    assert (condition.flops, body.flops) == (1, ELEMENTS + 1)
    assert row.flops == (limit + 1) + limit * (ELEMENTS + 1)


def test_loops_in_loops() -> None:
    def run(xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            return tinyt.scan(lambda c, y: (c + y, c * 1.5), c, x)[0], c.sum()

        return tinyt.scan(step, tinyt.zeros(()), xs)

    xs = tinyt.randn(3, 4)
    row = row_of(warm(run, xs).report(xs), "scan")
    (inner,) = [r for r in row.inside[0].rows if r.ops == ("scan",)]
    assert inner.inside[0].times == 4
    assert inner.flops == 4 * inner.inside[0].flops
    assert row.flops == 3 * row.inside[0].flops


def test_pages_and_traces_name_the_steps_inside(tmp_path: Path) -> None:
    compiled, xs = recurrent()
    compiled.profile(str(tmp_path / "trace.json"), xs)
    events = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    (scan,) = [event for event in events if event["name"] == "scan"]
    assert "matmul" in scan["args"]["step, 5 times"]
    assert scan["args"]["FLOP"] >= STEPS * PRODUCT
    compiled.graph().save(str(tmp_path / "graph.html"))
    assert "step, 5 times" in (tmp_path / "graph.html").read_text(encoding="utf-8")
