"""Reports and pages say which line of the user's code, and which module, each step comes from."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt import Tensor, nn
from tinyt.compiler.api import compile
from tinyt.compiler.capture.sources import Source

HERE = Path(__file__).name


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x).flip(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())
        self.heads = nn.ModuleDict({"out": nn.Linear(8, 3)})

    def forward(self, x: Tensor) -> Tensor:
        for block in self.layers:
            x = block(x)
        return self.heads["out"](x).flip(1)


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def warm(function: Any, *args: Any, **options: Any) -> Any:
    compiled = compile(function, **options)
    for _ in range(2):
        compiled(*args)
    return compiled


def sources(report: Any, op: str, program: str = "call") -> list[Source]:
    return [
        source
        for row in report.rows
        if op in row.ops and row.program == program
        for source in row.sources
    ]


def spread(x: Tensor, weight: Tensor) -> Tensor:
    h = (x @ weight).flip(0)
    h = h.cumsum(1)
    return h.sort(1).values


@pytest.mark.parametrize("options", [{}, {"max_memory": "1 MiB"}, {"dynamic": True}])
def test_lines(options: dict[str, Any]) -> None:
    args = tinyt.randn(4, 6), tinyt.randn(6, 5)
    compiled = warm(spread, *args, **options)
    for op, text in (("matmul", "x @ weight"), ("cumsum", "cumsum"), ("sort", "sort")):
        for report in (compiled.report(), compiled.report(*args)):
            assert sources(report, op) == [Source(__file__, line_of(spread, text))]
    if options:
        return
    for n in (4, 7, 9):  # simplified as before
        compiled(tinyt.randn(n, 6), args[1])
        assert sources(compiled.report(), "cumsum") == [Source(__file__, line_of(spread, "cumsum"))]


def test_derived_programs() -> None:
    weight = tinyt.randn(6, 5)
    compiled = compile(spread, dynamic=True)
    for n in (4, 4, 7, 7, 9):
        compiled(tinyt.randn(n, 6), weight)
    assert "derived" in compiled.explain()
    assert sources(compiled.report(), "sort") == [Source(__file__, line_of(spread, "sort"))]


def test_modules() -> None:
    model = Net()

    def run(x: Tensor) -> Tensor:
        return model(x)

    report = warm(run, tinyt.randn(4, 8)).report()
    found = {str(s) for row in report.rows for s in row.sources}
    line = line_of(Block.forward, "self.norm(")
    for block in ("model.layers.0", "model.layers.1"):
        assert f"{block} {HERE}:{line}" in found  # the flip
        assert f"{block}.linear {HERE}:{line}" in found
        assert f"{block}.norm {HERE}:{line}" in found
    head = line_of(Net.forward, "self.heads")
    assert {f"model {HERE}:{head}", f"model.heads.out {HERE}:{head}"} <= found


def test_names_of_the_outermost_module() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = nn.Sequential(nn.Linear(8, 8))

        def run(self, x: Tensor) -> Tensor:
            return self.net(x)

    x = tinyt.randn(4, 8)
    for function, name in (
        (Trainer().run, "self.net.0"),
        (lambda x: [LAYERS][0](x), "LAYERS.0"),
        (LAYERS[0].forward, "Linear"),
    ):
        (found,) = sources(warm(function, x).report(), "linear")
        assert found.module == name
    (found,) = sources(warm(LAYERS, x).compiled.report(), "linear")
    assert found.module == "Sequential.0"


LAYERS = nn.Sequential(nn.Linear(8, 8))


def test_steps_of_several_lines() -> None:
    def run(x: Tensor) -> Tensor:
        y = x * 2
        y = y.exp()
        return y + 1

    compiled = warm(run, tinyt.randn(4, 8))
    (row,) = compiled.report().rows
    lines = [line_of(run, text) for text in ("x * 2", "exp", "+ 1")]
    assert row.sources == tuple(Source(__file__, n) for n in lines)
    head, line = str(compiled.report()).splitlines()[1:3]
    assert line[head.index("source") :].startswith(f"{HERE}:{lines[0]} +2 ")


def test_gradients_come_from_the_call_of_backward() -> None:
    model = Net()

    def step(x: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        return loss.detach()

    report = warm(step, tinyt.randn(4, 8), tinyt.tensor([0, 1, 2, 0])).report()
    at = Source(__file__, line_of(step, "loss.backward()"))
    assert any(at in row.sources for row in report.rows)
    assert all(row.sources or row.ops == ("copy",) for row in report.rows)  # into `.grad`


def test_backward_outside() -> None:
    model = Net()
    compiled = compile(lambda x: model(x).square().sum())
    for _ in range(2):
        compiled.measure(tinyt.randn(4, 8)).backward()
    report = compiled.report()
    assert {row.program for row in report.rows} == {"call", "backward"}
    model.zero_grad()


def test_the_page() -> None:
    model = Net()
    compiled = warm(lambda x: model(x), tinyt.randn(4, 8))
    text = compiled.graph().html()
    found = re.search(r'type="application/json"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found is not None
    nodes = json.loads(found[1])["programs"][0]["nodes"]
    shown = {value for node in nodes for what, value in node["details"] if what == "source"}
    line = line_of(Block.forward, "self.norm(")
    assert f"model.layers.0.linear, {__file__}:{line}" in shown


def test_long_names_are_cut() -> None:
    from tinyt.compiler.inspect.report import source_text

    source = Source("/somewhere/" + "x" * 60 + ".py", 12, "model")
    assert len(source_text([source])) == 40
    assert source_text([source]).endswith("x.py:12")
    assert source_text([]) == ""
