"""Graphs as text: what is written is read again, to the bit, and runs as the graph did."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tinyt
from drawn import functions, recorded, same
from fuzz.case import function_of, inputs_of, nets_of
from fuzz.draw import drawn
from op_rows import Op
from op_samples import OPS
from same_graphs import bytes_of, check_runs, plain
from sampling import build, flat
from tinyt import Tensor, _core
from tinyt._tensor import view_dtype
from tinyt.compiler import GraphSyntaxError, interpret, parse, simplify
from tinyt.compiler.graph.graph import Graph
from tinyt.compiler.graph.syntax import _WORDS
from tinyt.compiler.graph.text import PARTS, SOURCES
from tinyt.library import custom_op


def check(graph: Graph, inlines: Sequence[int] = (0, 10**9, 64)) -> Graph:
    """The graph that is read from its text is equal, and has the same text."""
    for inline in inlines:
        text, tensors = graph.text(inline), graph.tensors(inline)
        again = parse(text, tensors)
        again.verify()
        assert again.text(inline) == text
        assert plain(again) == plain(graph), text
    return again


# ---- round trips


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operation(op: Op, rng: np.random.Generator) -> None:
    """Each row of the samples, as recorded and as simplified."""
    function = op.function(tinyt)
    for number, dtype in enumerate(op.dtypes):
        for sample in list(op.samples(rng, dtype))[: None if number == 0 else 1]:
            args, kwargs = build(tinyt, (sample.args, sample.kwargs))

            def call(args: Any = args, kwargs: Any = kwargs) -> list[Tensor]:
                results = flat(function(*args, **kwargs))
                return [x for x in results if isinstance(x, Tensor)]

            try:
                recording = recorded(call)
            except tinyt.CaptureError:
                continue
            draws = [(7, 16 * i) for i in range(len(recording._recorder.draws))]
            for graph in (recording.graph, simplify(recording.graph)):
                check_runs(graph, check(graph, (64,)), draws)


@given(functions())
def test_drawn_functions(function: Callable[..., tuple[Tensor, ...]]) -> None:
    """Some write to the two tensors that they capture."""
    args = [tinyt.tensor([[1.5, -0.0, 0.0], [-2.5, float("inf"), 3.0]]), tinyt.tensor([0.5, 1.0])]
    before = [x.clone() for x in args]
    recording = recorded(function, *args)
    draws = [(5, 0)] * len(recording._recorder.draws)
    for graph in (recording.graph, simplify(recording.graph)):
        found = []
        for each in (graph, check(graph)):
            for x, old in zip(args, before, strict=True):
                x.copy_(old)
            found.append([*interpret(each, (), draws), *(x.clone() for x in args)])
            results = _core.Program(each.to_core()).run([], [], draws)
            assert results is not None
        for x, y in zip(*found, strict=True):
            same(x, y)


@pytest.mark.parametrize("part", range(4))
def test_fuzz_graphs(part: int, request: pytest.FixtureRequest) -> None:
    """What `tinyt.compile` captures of drawn graphs: backward passes, loops, branches, writes."""
    seed = request.config.getoption("--seed")
    written = 0
    with np.errstate(all="ignore"):
        for number in range(20 * part, 20 * part + 20):
            case = drawn(np.random.default_rng([seed, number]))
            written += check_case(case)
    assert written >= 5


def check_case(case: Any) -> bool:
    compiled = tinyt.compile(function_of(case, nets_of(case)))
    try:
        compiled(*inputs_of(case))
    except (RuntimeError, ValueError, IndexError, NotImplementedError):
        return False
    if not compiled.entries:
        return False
    capture = compiled.entries[0].capture
    try:
        capture.graph.text()
    except NotImplementedError:
        return False
    for graph in (capture.graph, simplify(capture.graph)):
        check_runs(graph, check(graph), [(7, 16 * i) for i in range(len(capture.draws))])
    return True


def test_nested_control_flow() -> None:
    def function(x: Tensor) -> Any:
        def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            more = tinyt.cond(row.sum() > 0, lambda u: u * 2, lambda u: u - x.sum(), (carry,))
            return more + tinyt.rand(4), carry.exp()

        carry, rows = tinyt.scan(step, tinyt.zeros(4), x, reverse=True)
        n, last = tinyt.while_loop(
            lambda n, y: n < 3, lambda n, y: (n + 1, y * 1.5), (tinyt.zeros(()), carry)
        )
        return carry, rows, n, last

    graph = recorded(function, tinyt.randn(3, 4)).graph
    for each in (graph, simplify(graph)):
        assert "    %" in each.text()
        check_runs(each, check(each), [(3, 0)])


def test_a_split_point() -> None:
    w = tinyt.randn(4, 5, requires_grad=True)

    def function(x: Tensor) -> Tensor:
        return (x @ w).tanh().sum()

    compiled = tinyt.compile(function)
    compiled(tinyt.randn(3, 4))
    graph = compiled.entries[0].capture.graph
    assert "\nsplit 1\n%" in graph.text()
    again = check(graph)
    for part in (1, 2):
        assert _core.Program(again.to_core(), part).steps()
        assert _core.Program(again.to_core(), part).uses() == (
            _core.Program(graph.to_core(), part).uses()
        )


def test_a_real_step() -> None:
    """A forward and backward pass of a network; large weights are named."""
    net = tinyt.nn.Sequential(
        tinyt.nn.Conv2d(3, 8, 3), tinyt.nn.BatchNorm2d(8), tinyt.nn.ReLU(), tinyt.nn.Flatten(),
        tinyt.nn.Linear(8 * 36, 10),
    )  # fmt: skip

    def step(x: Tensor, target: Tensor) -> Tensor:
        for p in net.parameters():
            p.grad = None
        loss = tinyt.nn.functional.cross_entropy(net(x), target)
        loss.backward()
        return loss.detach()

    compiled = tinyt.compile(step)
    compiled(tinyt.randn(2, 3, 8, 8), tinyt.tensor([1, 2]))
    graph = compiled.entries[0].capture.graph
    text = graph.text()
    assert 'tensor "t0" : float32[' in text
    assert "conv(" in text
    check_runs(graph, check(graph), [])
    check_runs(simplify(graph), check(simplify(graph)), [])


def test_memory_is_that_of_the_tensors_given() -> None:
    x = tinyt.ones(3)
    graph = recorded(lambda x: x.add_(1.0).sum(), x).graph
    assert list(graph.tensors()) == ["t0"]  # small, but written
    again = parse(graph.text(), graph.tensors())
    assert interpret(again)[0].tolist() == 6.0
    assert x.tolist() == [2.0, 2.0, 2.0]
    (result,) = _core.Program(again.to_core()).run([], [], []) or ()
    assert (result.tolist(), x.tolist()) == (9.0, [3.0, 3.0, 3.0])


def test_memory_that_parts_share_has_one_name() -> None:
    w = tinyt.ones(100)

    def function(x: Tensor) -> Tensor:
        y = x * w
        return tinyt.cond(y.sum() > 0, lambda y: y + w, lambda y: y - w.exp(), (y,))

    graph = recorded(function, tinyt.ones(100)).graph
    assert len(graph.tensors()) == 2
    check_runs(graph, check(graph), [])


VALUES = [0.0, -0.0, 1.5, -1 / 3, math.inf, -math.inf, math.nan, 5e-324, 2.0**-149, 2.0**-24, 1e300]


@pytest.mark.parametrize("t", [t for t in tinyt.dtypes.ALL], ids=lambda t: t.name)
def test_constants_of_every_dtype(t: Any, rng: np.random.Generator) -> None:
    """Any bits, NaNs with payloads among them."""
    if t is tinyt.bool:
        raw = bytes(rng.integers(0, 2, 48, dtype=np.uint8))
    else:
        raw = rng.bytes(32 * t.itemsize)
    drawn_bits = view_dtype(tinyt.frombuffer(bytearray(raw), dtype=tinyt.uint8), t)
    usual = [x > 0 if t is tinyt.bool else x for x in VALUES]
    if not (t.is_floating_point or t.is_complex or t is tinyt.bool):
        usual = [0, 1, 127]
    for x in (drawn_bits, tinyt.tensor(usual, dtype=t), tinyt.tensor([], dtype=t)):
        graph = recorded(lambda x: x.clone(), x.clone()).graph
        assert "constant [" in graph.text()
        again = check(graph)
        assert again.inputs[0].tensor is not None
        assert bytes_of(again.inputs[0].tensor) == bytes_of(x)


# ---- written by hand


@pytest.mark.host
def test_a_text_by_hand() -> None:
    graph = parse(
        """
        tinyt graph 1   # a comment

        def affine(%x, %w, %b) {
          %y = matmul(%x, %w)
          %z = add(%y, %b)
          return %z
        }
        def layer(%x, %w, %b) {
          %h = affine(%x, %w, %b)
          %r = relu(%h)
          return %r, %h
        }
        %x = argument 0 : float32[2, 2]
        %w = tensor "w" : float32[2, 3]
        %b = constant [0x1p+0, -2, 1e-1] : float32[3]
        %r, %h = layer(%x, %w, %b) : float32[2, 3], float32[2, 3]
        %one = number 1.5 : float64[]
        %out = mul(%r, %one) : float32[2, 3]
        %s, %at = sort(%out)
        return %out, %h as ([3], [1], 2), %s
        """,
        {"w": tinyt.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])},
    )
    assert [n.op for n in graph.nodes] == ["matmul", "add", "relu", "mul", "sort"]
    x = tinyt.tensor([[1.0, 2.0], [3.0, -4.0]])
    for out, h, s in (
        interpret(graph, [x]),
        _core.Program(simplify(graph).to_core()).run([x], [], []),
    ):
        want = x @ tinyt.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]) + tinyt.tensor([1, -2, 0.1])
        same(out, want.relu() * 1.5)
        same(h, want.reshape(-1)[2:5])
        same(s, (want.relu() * 1.5).sort().values)
    check(graph)


@pytest.mark.host
def test_results_that_are_written_are_the_memory() -> None:
    graph = parse(
        "tinyt graph 1\n%x = argument 0 : float32[2]\n%y = add(%x, %x)\n"
        "write %y to %x\nreturn %y, %y as ([1], [1], 1)\n"
    )
    x = tinyt.tensor([1.0, 2.0])
    y, part = _core.Program(graph.to_core()).run([x], [], []) or ()
    assert (x.tolist(), y.tolist(), part.tolist()) == ([2.0, 4.0], [2.0, 4.0], [4.0])
    assert y.data_ptr() == x.data_ptr()


OPTIMIZERS: list[Callable[..., Any]] = [
    lambda p: tinyt.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    lambda p: tinyt.optim.AdamW(p, lr=0.01, amsgrad=True),
    lambda p: tinyt.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    lambda p: tinyt.optim.Adagrad(p, lr=0.1),
    lambda p: tinyt.optim.Adamax(p, lr=0.1),
    lambda p: tinyt.optim.NAdam(p, lr=0.1),
]


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
def test_whole_training_steps(number: int, scaled: bool) -> None:
    """With steps of optimisers, numbers that are given or read of tensors, and what must hold."""
    if scaled and number >= 4:
        pytest.skip("its step cannot be left out in a program")
    net = tinyt.nn.Linear(3, 2)
    optimizer = OPTIMIZERS[number](net.parameters())
    scaler = tinyt.amp.GradScaler("cpu", enabled=scaled)

    @tinyt.compile
    def step(x: Tensor, rate: float) -> Tensor:
        optimizer.zero_grad()
        loss = ((net(x) * rate).square() / (rate + 1)).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    for rate in (0.5, 1.5, 2.5):
        step(tinyt.randn(4, 3), rate)
    entry = step.entries[0]
    again = check(entry.capture.graph, (0, 64))
    text = again.text(0)
    assert "_step(" in text or number >= 4
    assert "live 0 = given(0) : " in text
    x = tinyt.randn(4, 3)
    held = [w.target for w in again.writes if w.target is not None]
    before = [w.clone() for w in held]
    found = []
    for graph in (entry.capture.graph, again):
        for w, old in zip(held, before, strict=True):
            w.detach().copy_(old)
        program = _core.Program(graph.to_core(), 1 if graph.split_point.node >= 0 else 0)
        numbers = entry.given([x, 2.0])
        results = program.run([x], numbers, [])
        assert results is not None
        found.append([*results, *(w.clone() for w in held)])
    for a, b in zip(*found, strict=True):
        same(a.detach(), b.detach())


@pytest.mark.host
def test_live_numbers_are_those_of_the_text() -> None:
    graph = parse(
        """
        tinyt graph 1
        live 0 = given(0) : 2.0
        live 1 = item("w", 1) : 3.0
        live 2 = real_mul(0, 1) : 6.0
        live 3 = real : 1.0
        hold 2 gt 3 true
        %x = argument 0 : float32[2]
        %w = tensor "w" : float32[2]
        %n = cell 2 : float64[]
        %y = mul(%x, %n) : float32[2]
        return %y
        """,
        {"w": tinyt.tensor([5.0, 7.0])},
    )
    program, x = _core.Program(graph.to_core()), tinyt.ones(2)
    (y,) = program.run([x], [0.5], []) or ()
    assert y.tolist() == [3.5, 3.5]
    assert program.run([x], [0.1], []) is None  # the number must be more than 1


def test_a_custom_operation_has_no_text() -> None:
    @custom_op("tests::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @twice.register_fake
    def _(x: Tensor) -> Tensor:
        return tinyt.empty_like(x)

    graph = recorded(twice, tinyt.ones(2)).graph
    with pytest.raises(NotImplementedError, match=r"^text: tests::twice has no text: "):
        graph.text()


def test_types() -> None:
    with pytest.raises(TypeError, match="parse: expected a text, got bytes"):
        parse(b"tinyt graph 1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="parse: tensors must map names to tensors, got 'a'"):
        parse("tinyt graph 1\nreturn\n", {"a": 1.0})  # type: ignore[dict-item]
    assert issubclass(GraphSyntaxError, ValueError)
    assert parse("tinyt graph 1\nreturn\n").outputs == []


# ---- the page


@pytest.mark.host
def test_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Its programs run and print what it shows; its table has all words of the language."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "graph-text.md").read_text("utf-8")
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, "graph-text.md", "exec"), names)
    names.clear()
    gc.collect()
    shown = [text for kind, text in blocks if kind == "text"]
    loop = next(text for text in shown if "scan(" in text)
    assert capsys.readouterr().out == "\n".join(x for x in shown if x != loop)
    inputs = "%2 = constant [0, 0, 0, 0] : float32[4]\n%0 = argument 0 : float32[3, 4]\n"
    inputs += "%3 = number 1.5 : float64[]\n"
    text = f"tinyt graph 1\n{inputs}{loop}return %4, %5\n"
    with pytest.raises(GraphSyntaxError, match="argument 2 of body is another type"):
        parse(text)
    graph = parse(text.replace("number 1.5 : float64", "constant [1.5] : float32"))
    check_runs(graph, check(graph), [(1, 0)])
    words = {word for words in (_WORDS, PARTS, SOURCES) for word in words}
    assert words <= set(re.findall(r"\w+", page.partition("## Grammar")[0]))
    assert words <= set(re.findall(r"\w+", page.partition("```ebnf")[2])) | set(PARTS)
