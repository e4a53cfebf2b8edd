"""Passes: what they make of a graph, shown as text; that its meaning stays, bit for bit; and what
the core refuses to take back."""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

import tinyt
from drawn import recorded, same
from tinyt import Tensor, _core
from tinyt.compiler import Graph, Node, Value, interpret, record
from tinyt.compiler.passes import PASSES, copies, dead, identities, simplify

BY_NAME = dict(PASSES)
DTYPES = tinyt.dtypes.ALL


def text(graph: Graph) -> list[str]:
    """The nodes and results, values numbered in the order they appear, inputs by letters."""
    names: dict[str, str] = {}
    inputs = {f"%{item.value}": "abcdefgh"[i] for i, item in enumerate(graph.inputs)}
    lines = []
    for line in str(graph).splitlines():
        if " = input " in line or " = argument " in line:
            continue
        for name in re.findall(r"%\d+", line):
            if name not in inputs:
                names.setdefault(name, f"%{len(names)}")
        lines.append(re.sub(r"%\d+", lambda m: inputs.get(m[0]) or names[m[0]], line))
    return lines


def after(names: str, function: Callable[..., Any], *args: Tensor) -> list[str]:
    """The text of the graph after these passes; the meaning must be what it was, for the
    interpreter and for a program."""
    graph = recorded(function, *args).graph
    want = interpret(graph)
    for name in names.split():
        graph = BY_NAME[name](graph)
        graph.verify()
    program = _core.Program(graph.to_core()).run([], [], [])
    assert program is not None
    for x, y, z in zip(want, interpret(graph), program, strict=True):
        same(y, x)
        same(z, x)
    return text(graph)


# ---- the way back into the core


def attention_like(x: Tensor) -> tuple[Tensor, ...]:
    y = tinyt.softmax(x @ x.t(), 1)
    y[1:, 0] = 2.0
    return y, y.sum(0), x.flatten(), tinyt.full((2,), -0.0)


def test_a_graph_goes_back_as_it_came() -> None:
    recording = recorded(attention_like, tinyt.randn(3, 3))
    graph = recording.graph
    again = Graph.from_core(graph.to_core())
    assert str(again) == str(graph)
    assert again.values == graph.values
    assert _core.Program(graph.to_core()).steps() == recording.steps()
    # Nodes that are made anew are the same, too: attributes go there and come back.
    made = graph._replace(nodes=[n._replace(origin=-1) for n in graph.nodes])
    assert str(Graph.from_core(made.to_core())) == str(graph)


def test_every_recorded_attribute_goes_back() -> None:
    """-0.0, infinities, NaN and large integers are attributes, too."""
    for value in (-0.0, float("inf"), float("nan"), 0.1, 2**60 + 1):
        graph = recorded(lambda v=value: tinyt.full((2,), v)).graph
        made = graph._replace(nodes=[n._replace(origin=-1) for n in graph.nodes])
        (got,) = interpret(Graph.from_core(made.to_core()))
        same(got, tinyt.full((2,), value))


def changed(graph: Graph, node: int, **fields: Any) -> Graph:
    nodes = [*graph.nodes]
    nodes[node] = nodes[node]._replace(**fields)
    return graph._replace(nodes=nodes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: changed(g, 0, inputs=(0, 99)), "reads %99 too early"),
        (lambda g: changed(g, 0, inputs=(0, -5)), "reads %-5 too early"),
        (lambda g: changed(g, 0, inputs=(0,)), r"takes 2 values, not 1"),
        (lambda g: changed(g, 0, outputs=()), r"makes 1 values, not 0"),
        (lambda g: changed(g, 1, outputs=g.nodes[0].outputs), "anew"),
        (lambda g: changed(g, 0, op="sub", origin=-1, inputs=(0, 0)), None),
        (lambda g: changed(g, 0, op="eq", origin=-1), "makes bool"),
        (lambda g: changed(g, 0, op="sum", attrs=((0,), False), origin=-1, inputs=(0,)), "makes"),
        (lambda g: changed(g, 0, origin=7), "no node 7 was recorded"),
        (lambda g: changed(g, 0, op="normal", attrs=((2,), 8, 0, 0, 0), origin=-1),
         "cannot be added"),
        (lambda g: changed(g, 0, op="as_strided", attrs=((9,), (1,), 0), origin=-1,
                           inputs=(0,)), "as_strided"),
        (lambda g: g._replace(outputs=[g.outputs[0]._replace(value=77)]), "value 77"),
        (lambda g: g._replace(outputs=[]), "outputs are others"),
        (lambda g: g._replace(writes=[]), "writes are others"),
        (
            lambda g: g._replace(split_point=g.split_point._replace(node=1)),
            "the split point is at node 1",
        ),
        (lambda g: g._replace(recorded=3), "values, not 3"),
        (lambda g: g._replace(nodes=g.nodes[::-1]), "too early"),
        (lambda g: g._replace(nodes=g.nodes[:1]), "before it is made"),
    ],
)  # fmt: skip
def test_what_is_no_graph_is_refused(change: Callable[[Graph], Graph], message: str | None) -> None:
    x = tinyt.ones(2)

    def function(a: Tensor) -> Tensor:
        a.add_(1.0)
        return a * 2.0

    graph = recorded(function, x).graph
    if message is None:
        change(graph).to_core()
        return
    with pytest.raises((RuntimeError, ValueError), match=message):
        change(graph).to_core()


def test_a_damaged_array_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any length, with any word changed."""
    graph = recorded(attention_like, tinyt.randn(3, 3)).graph
    graph = graph._replace(nodes=[n._replace(origin=-1) for n in graph.nodes])
    arrays: list[bytes] = []

    class Spy:
        def rewritten(self, flat: bytes, inputs: Sequence[Tensor], parts: Any) -> Any:
            arrays.append(flat)

    graph._replace(core=Spy()).to_core()  # type: ignore[arg-type]
    words = array("q", arrays[0])
    core = graph.core
    for end in range(len(words)):
        with pytest.raises(RuntimeError):
            core.rewritten(words[:end].tobytes())
    with pytest.raises(RuntimeError, match="int64s"):
        core.rewritten(arrays[0][:-1])
    random = Random(0)
    taken = 0
    for at, value in itertools.product(
        range(len(words)), (-1, 0, 1, 3, 2**40, -(2**63), 2**63 - 1)
    ):
        damaged = words[:]
        damaged[at] = value if random.random() < 0.7 else random.randint(-4, 40)
        try:
            made = core.rewritten(damaged.tobytes())
            _core.Program(made)
            taken += 1
        except (RuntimeError, ValueError, IndexError, TypeError, MemoryError):
            pass
    assert taken < len(words) * 7 / 2


def test_opaque_nodes_and_writes_come_back() -> None:
    p = tinyt.ones(3, requires_grad=True)
    p.grad = tinyt.ones(3)
    optimizer = tinyt.optim.AdamW([p], lr=0.1)
    optimizer.step()
    recording = record(lambda: optimizer.step())
    before = p.detach().clone()
    graph = simplify(recording.graph)
    assert [n.op for n in graph.nodes] == ["Adam"]
    again = Graph.from_core(graph.to_core())
    interpret(again, [p.grad])
    assert not tinyt.equal(p.detach(), before)


# ---- dead code


def test_dead_nodes_go() -> None:
    def function(x: Tensor) -> Tensor:
        (x * 3.0).exp()
        return x + 1.0

    assert after("dead", function, tinyt.randn(3)) == ["%0 = add(a, c) float32[3]", "return %0"]


def test_what_raises_stays() -> None:
    """An index out of range, an integer divided by 0: eager's error, whether the result is used or
    not. Floats divide by 0."""

    def gather(x: Tensor, i: Tensor) -> Tensor:
        tinyt.gather(x, 0, i)
        return x + 1.0

    assert len(after("dead", gather, tinyt.randn(3), tinyt.tensor([0, 2]))) == 3

    def divide(x: Tensor, y: Tensor) -> Tensor:
        x // y
        return x + 1

    ints = tinyt.tensor([7, 8]), tinyt.tensor([2, 3])
    assert len(after("dead", divide, *ints)) == 3
    assert len(after("dead", divide, tinyt.randn(2), tinyt.randn(2))) == 2
    compiled = tinyt.compile(divide)
    for _ in range(3):
        compiled(*ints)
    with pytest.raises(RuntimeError, match="by zero"):
        compiled(ints[0], tinyt.tensor([0, 1]))


def test_dead_draws_advance_the_generator() -> None:
    def function(x: Tensor) -> Tensor:
        tinyt.randn(5)
        return x + tinyt.rand(3)

    tinyt.manual_seed(3)
    want = [function(tinyt.zeros(3)) for _ in range(3)]
    state = tinyt.get_rng_state()
    tinyt.manual_seed(3)
    compiled = tinyt.compile(function)
    got = [compiled(tinyt.zeros(3)) for _ in range(3)]
    for x, y in zip(got, want, strict=True):
        same(x, y)
    same(tinyt.get_rng_state(), state)
    graph = simplify(compiled.entries[0].capture.graph)
    assert [n.op for n in graph.nodes] == ["uniform", "add"]


# ---- common subexpressions


def test_equal_nodes_become_one() -> None:
    def function(x: Tensor) -> Tensor:
        return (x * 2.0).exp() + (x * 2.0).exp()

    assert after("common dead", function, tinyt.randn(3)) == [
        "%0 = mul(a, b) float32[3]",
        "%1 = exp(%0) float32[3]",
        "%2 = add(%1, %1) float32[3]",
        "return %2",
    ]


def test_draws_are_never_equal() -> None:
    graph = recorded(lambda: (tinyt.rand(3), tinyt.rand(3))).graph
    assert BY_NAME["common"](graph) is graph


def test_zeros_of_two_signs_are_not_equal() -> None:
    assert len(after("common dead", lambda: (tinyt.full((), 0.0), tinyt.full((), -0.0)))) == 3
    assert len(after("common dead", lambda: (tinyt.full((), 1.0), tinyt.full((), 1.0)))) == 2


def test_a_large_value_is_not_kept_for_a_second_use() -> None:
    """As where a part is computed anew in a backward pass, to save memory."""

    def function(x: Tensor) -> Tensor:
        first = x.exp().sum(0).sin().sum()
        return (x.cos().sum(0) + first) @ x.exp()

    large, small = tinyt.randn(100, 100), tinyt.randn(3, 3)
    count = sum("exp" in line for line in after("common dead", function, large))
    assert count == 2
    assert sum("exp" in line for line in after("common dead", function, small)) == 1


# ---- copies and casts


def test_copies_go() -> None:
    assert after("copies dead", lambda x: x.exp().clone() + 1.0, tinyt.randn(3)) == [
        "%0 = exp(a) float32[3]",
        "%1 = add(%0, b) float32[3]",
        "return %1",
    ]


def test_a_copy_that_saves_memory_stays() -> None:
    """The row of a large value that nothing else reads."""

    def function(x: Tensor) -> Tensor:
        row = x.exp()[0].clone()
        return (x.cos().sum(0) + row) @ x.t()

    assert any("copy" in line for line in after("copies dead", function, tinyt.randn(90, 90)))


def test_a_copy_of_scattered_memory_stays_for_several_readers() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        once, twice, rows = x.exp().t().clone(), x.exp().t().clone(), x.exp()[1:].clone()
        return once.sin(), twice.sin(), twice.cos(), rows.sin(), rows.cos()

    lines = after("copies dead", function, tinyt.randn(3, 4))
    assert sum("copy" in line for line in lines) == 1


def test_casts_by_way_of_a_wider_dtype() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        wide = x.exp().float()
        return wide.bfloat16(), wide.double()

    assert after("copies dead", function, tinyt.randn(3).bfloat16()) == [
        "%0 = exp(a) bfloat16[3]",
        "%1 = cast(%0) (9,) float64[3]",
        "return %0, %1",
    ]


def special(dtype: Any) -> Tensor:
    """Values that tell: signed zeros, infinities, NaN, subnormals, extremes, halves."""
    if dtype is tinyt.bool:
        return tinyt.tensor([False, True])
    if dtype.is_complex:
        parts = special(tinyt.float32 if dtype is tinyt.complex64 else tinyt.float64)
        real, imag = tinyt.meshgrid(parts, parts, indexing="ij")
        return tinyt.complex(real.flatten(), imag.flatten())
    if dtype.is_floating_point:
        facts = tinyt.finfo(dtype)
        some = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 100.0, 127.0, 128.0, 255.0, 256.0, 65504.0, 2.0**31]
        some += [facts.max, facts.tiny, facts.tiny * facts.eps, facts.tiny * 0.75, facts.eps]
        some += [1 + facts.eps, 0.1, 1 / 3, 2.0**62, float("inf"), float("nan")]
        values = tinyt.tensor(some, dtype=tinyt.float64).to(dtype)
        return tinyt.cat([values, -values])
    facts = tinyt.iinfo(dtype)
    some = [
        0,
        1,
        2,
        3,
        7,
        100,
        127,
        facts.max,
        facts.max - 1,
        facts.min,
        facts.min + 1,
        facts.max // 3,
    ]
    some += [] if facts.min == 0 else [-1, -2, -3, -100]
    return tinyt.tensor(some, dtype=dtype)


@pytest.mark.parametrize("first", DTYPES, ids=lambda t: t.name)
def test_which_casts_may_be_skipped(first: Any) -> None:
    """All that the pass skips, over special values."""
    x = special(first)
    for by, last in itertools.product(DTYPES, DTYPES):
        if copies.skips(first, by, last):
            same(x.to(by).to(last), x.to(last))


def test_how_many_casts_may_be_skipped() -> None:
    """The rule is no weaker than it looks."""
    names = {(a.name, b.name) for a, b in itertools.product(DTYPES, DTYPES) if copies.holds(b, a)}
    assert {("bfloat16", "float32"), ("int32", "float64"), ("uint8", "bfloat16")} <= names
    assert {("int8", "int16"), ("float64", "complex128"), ("bool", "float16")} <= names
    assert not {("int64", "float64"), ("float16", "bfloat16"), ("int8", "uint8")} & names
    assert not {("int32", "float32"), ("uint8", "int8"), ("complex64", "float64")} & names


# ---- identities


CONSTANTS = (0.0, -0.0, 1.0, 0, 1, False, True)


def unchanged(function: Callable[[Tensor], Tensor], x: Tensor) -> bool | None:
    """Whether the pass leaves nothing of a function; None where it does not exist. What it makes
    of it must have the same bits."""
    try:
        function(x)
    except (RuntimeError, TypeError):
        return None
    graph = recorded(function, x).graph
    simpler = dead.run(identities.run(graph))
    for a, b in zip(interpret(graph), interpret(simpler), strict=True):
        same(b, a)
    return len(simpler.nodes) < len(graph.nodes)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_identities_of_every_dtype(dtype: Any) -> None:
    """Every identity, with every constant it could be applied to, over special values."""
    x = special(dtype)
    applied = set()
    # `x` is computed: what is an input would be copied anyway.
    for op in identities.INVOLUTIONS | identities.IDEMPOTENT:
        f = getattr(tinyt, op)
        if unchanged(lambda a, f=f: f(f(a.flip(0))), x):
            applied.add(op)
    for op in identities.SELF:
        f = getattr(tinyt, op)

        def itself(a: Tensor, f: Any = f) -> Tensor:
            y = a.flip(0)
            return f(y, y)  # type: ignore[no-any-return]

        if unchanged(itself, x):
            applied.add(op)
    for op, c in itertools.product(identities.NEUTRAL, CONSTANTS):
        f = getattr(tinyt, op)
        for function in (
            lambda a, f=f, c=c: f(a.flip(0), c),
            lambda a, f=f, c=c: f(a.flip(0), tinyt.full((), c, dtype=a.dtype)),
            lambda a, f=f, c=c: f(a.flip(0), tinyt.full_like(a, c)),
            lambda a, f=f, c=c: f(tinyt.full_like(a, c), a.flip(0)),
        ):
            if unchanged(function, x):
                applied.add(f"{op} {c!r}")
    if dtype.is_floating_point:
        assert {"neg", "relu", "maximum", "add -0.0", "sub 0.0", "mul 1", "div 1"} <= applied
        assert not {"add 0.0", "add 0", "sub -0.0"} & applied
    if dtype is tinyt.int64:
        assert {"neg", "bitwise_not", "add 0", "sub 0", "mul 1", "bitwise_or 0"} <= applied
        assert "div 1" not in applied
    if dtype.is_complex:
        assert applied <= {"neg", "conj_physical", "abs"}  # abs is real


def test_where_of_one_branch() -> None:
    def function(c: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        yes = tinyt.ones(3, dtype=tinyt.bool)
        return tinyt.where(c, y, y), tinyt.where(yes, y, x), tinyt.where(~yes, y.cos(), y.sin())

    assert after(
        "constants identities dead", function, tinyt.tensor([True] * 3), tinyt.randn(3)
    ) == [
        "%0 = exp(a) float32[3]",
        "%1 = sin(%0) float32[3]",
        "return %0, %0, %1",
    ]


def test_a_larger_shape_or_another_dtype_is_no_identity() -> None:
    """Broadcasting by the constant, or promotion by it."""
    wide = lambda x: x.exp() * tinyt.ones(2, 3)  # noqa: E731
    assert after("identities", wide, tinyt.randn(3))[-1:] == ["return %2"]
    assert len(after("identities dead", lambda x: (x + x) * 1.0, tinyt.tensor([1, 2]))) == 3


# ---- views


def test_a_chain_of_views_is_one() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        return (
            y.reshape(2, 12).reshape(6, 4).sin(),
            y.permute(1, 2, 0).permute(1, 0, 2).contiguous().sin(),
            y.narrow(1, 1, 2).narrow(1, 1, 1).sin(),
            y[:1].expand(5, 3, 4).select(0, 2).sin(),
            y.unsqueeze(0).transpose(1, 3).sin(),
        )

    assert after("views copies dead", function, tinyt.randn(2, 3, 4)) == [
        "%0 = exp(a) float32[2, 3, 4]",
        "%1 = reshape(%0) ((6, 4),) float32[6, 4]",
        "%2 = sin(%1) float32[6, 4]",
        "%3 = permute(%0) ((2, 1, 0),) float32[4, 3, 2]",
        "%4 = sin(%3) float32[4, 3, 2]",
        "%5 = slice(%0) (1, 2, 3, 1) float32[2, 1, 4]",
        "%6 = sin(%5) float32[2, 1, 4]",
        "%7 = as_strided(%0) ((3, 4), (4, 1), 0) float32[3, 4]",
        "%8 = sin(%7) float32[3, 4]",
        "%9 = as_strided(%0) ((1, 4, 3, 2), (0, 1, 4, 12), 0) float32[1, 4, 3, 2]",
        "%10 = sin(%9) float32[1, 4, 3, 2]",
        "return %2, %4, %6, %8, %10",
    ]


def test_inverse_permutes_cancel() -> None:
    def function(x: Tensor) -> Tensor:
        return (
            x.exp().permute(2, 0, 1).permute(1, 2, 0).t_().sin()
            if x.dim() == 2
            else (x.exp().permute(2, 0, 1).permute(1, 2, 0).sin())
        )

    assert after("views dead", function, tinyt.randn(2, 3, 4)) == [
        "%0 = exp(a) float32[2, 3, 4]",
        "%1 = sin(%0) float32[2, 3, 4]",
        "return %1",
    ]


def test_a_reshape_that_copies_is_not_repeated() -> None:
    """Its views are views of the copy."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.exp().t().reshape(12)
        return y.reshape(2, 6) + 1.0, y.reshape(6, 2).reshape(3, 4) + 1.0

    lines = after("views dead", function, tinyt.randn(3, 4))
    assert [line.split(" = ")[-1].split(" ")[0] for line in lines[2:6]] == [
        "reshape(%1)",
        "reshape(%2)",
        "add(%3,",
        "reshape(%2)",
    ]


def test_empty_and_single_values_keep_their_views() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        return y[:0].reshape(0, 3).t() + 1.0, y[:1, :1].reshape(()).expand(2) + 1.0

    after("views copies joins dead", function, tinyt.randn(2, 2))


def test_elementwise_ops_between_inverse_permutes() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.exp().permute(0, 2, 3, 1)
        y = ((y * 2.0).relu().double() - 1.0).permute(0, 3, 1, 2)
        return y + 1.0

    assert after("permutes dead", function, tinyt.randn(2, 3, 4, 5)) == [
        "%0 = exp(a) float32[2, 3, 4, 5]",
        "%1 = mul(%0, b) float32[2, 3, 4, 5]",
        "%2 = relu(%1) float32[2, 3, 4, 5]",
        "%3 = cast(%2) (9,) float64[2, 3, 4, 5]",
        "%4 = sub(%3, c) float64[2, 3, 4, 5]",
        "%5 = add(%4, d) float64[2, 3, 4, 5]",
        "return %5",
    ]


def test_permutes_stay_where_something_else_reads_between() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp().t().sin()
        z = x.cos().t() * x.t()
        return y.t() + 1.0, y, z.t() + 1.0, x.sin().permute(1, 0).relu().permute(0, 1) + 1.0

    assert (
        sum("permute" in line for line in after("permutes dead", function, tinyt.randn(3, 3))) == 7
    )


def test_permutes_sink_below_elementwise_ops() -> None:
    def function(x: Tensor, y: Tensor, large: Tensor) -> tuple[Tensor, ...]:
        heads = ((x * 2.0).tanh() + x.new_ones(())).transpose(1, 2).contiguous()
        return heads, y.exp().t().sin(), (large * large).t().tanh()

    args = tinyt.randn(2, 3, 4, 32), tinyt.randn(5, 6), tinyt.randn(1100, 1000)
    assert after("sink copies dead", function, *args)[1:] == [
        "%1 = permute(a) ((0, 2, 1, 3),) float32[2, 4, 3, 32]",
        "%2 = mul(%1, b) float32[2, 4, 3, 32]",
        "%3 = tanh(%2) float32[2, 4, 3, 32]",
        "%4 = add(%3, %0) float32[2, 4, 3, 32]",
        "%5 = permute(c) ((1, 0),) float32[6, 5]",
        "%6 = exp(%5) float32[6, 5]",
        "%7 = sin(%6) float32[6, 5]",
        "%8 = permute(d) ((1, 0),) float32[1000, 1100]",
        "%9 = mul(%8, %8) float32[1000, 1100]",
        "%10 = tanh(%9) float32[1000, 1100]",
        "return %4, %7, %10",
    ]


def test_numbers_stay_above_permutes_that_sink() -> None:
    def function(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return ((a.exp() * 2.0 + b) * x).t().sin()

    args = tinyt.randn(5, 7), tinyt.randn(()), tinyt.randn(())
    assert after("sink dead", function, *args) == [
        "%0 = exp(a) float32[]",
        "%1 = mul(%0, b) float32[]",
        "%2 = add(%1, c) float32[]",
        "%3 = permute(d) ((1, 0),) float32[7, 5]",
        "%4 = mul(%2, %3) float32[7, 5]",
        "%5 = sin(%4) float32[7, 5]",
        "return %5",
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: (y * 2.0).t().sum(1),  # no reader element by element
        lambda x, y, z: y.exp().t() @ y,
        lambda x, y, z: (x * 2.0).transpose(0, 1).contiguous(),  # short rows
        lambda x, y, z: z.half().t().sin(),  # large, and wider before
        lambda x, y, z: z.exp().t().contiguous(),  # large, and no reader to join
        lambda x, y, z: (y * x[0, 0, 0] * z[:6, :6]).t().sin(),  # two operands
        lambda x, y, z: x.sum().exp().transpose(0, -1).clone(),  # nothing is turned
        lambda x, y, z: (lambda kept: (kept, kept.t().exp()))(y.cos()),  # read elsewhere, too
    ],
)
def test_permutes_that_stay(function: Callable[..., Any]) -> None:
    args = tinyt.randn(3, 4, 5), tinyt.randn(6, 6), tinyt.randn(2200, 1000)
    graph = recorded(function, *args).graph
    assert BY_NAME["sink"](graph) is graph


# ---- concatenations, paddings, writes of parts


def test_a_part_of_a_concatenation() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        z = tinyt.cat([x.exp(), y.exp()])
        return z[:2].sin(), z[3:5].cos()

    assert after("dead joins dead", function, tinyt.randn(2, 3), tinyt.randn(3, 3)) == [
        "%0 = exp(a) float32[2, 3]",
        "%1 = exp(b) float32[3, 3]",
        "%2 = sin(%0) float32[2, 3]",
        "%3 = slice(%1) (0, 1, 3, 1) float32[2, 3]",
        "%4 = cos(%3) float32[2, 3]",
        "return %2, %4",
    ]


def test_neighbouring_parts_joined() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        a, b, c = y.chunk(3)
        return tinyt.cat([a, b, c]).sin(), tinyt.cat([b, c, a]).sin(), tinyt.cat([y[:0], y]).cos()

    assert after("dead joins dead", function, tinyt.randn(6, 2)) == [
        "%0 = exp(a) float32[6, 2]",
        "%1 = sin(%0) float32[6, 2]",
        "%2 = slice(%0) (0, 2, 6, 1) float32[4, 2]",
        "%3 = slice(%0) (0, 0, 2, 1) float32[2, 2]",
        "%4 = cat(%2, %3) (0,) float32[6, 2]",
        "%5 = sin(%4) float32[6, 2]",
        "%6 = cos(%0) float32[6, 2]",
        "return %1, %5, %6",
    ]


def test_gradients_of_slices_are_a_concatenation() -> None:
    """Each is added to zeros, which makes 0.0 of -0.0: the additions stay."""
    q, k, v = (tinyt.randn(2, 3) for _ in range(3))

    def function(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        with tinyt.enable_grad():
            a, b, c = (x * 1.0).chunk(3)
            (a * q + b * k + c * v).sum().backward()
        assert x.grad is not None
        return x.grad

    lines = after(
        "common copies identities views dead joins dead expands dead", function, tinyt.randn(6, 3)
    )
    assert not any("update" in line or "pad" in line for line in lines)
    assert sum("cat" in line for line in lines) == 1


def test_writes_of_parts() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        a, b, c = x.exp(), x.sin(), x.cos()
        a[1] = 1.0
        a[1] = 2.0
        b[:] = x[0]
        c[:, ::2] = 3.0
        return a, b, c

    lines = after("dead joins dead", function, tinyt.randn(2, 4))
    assert sum("update" in line for line in lines) == 2
    assert not any("sin" in line for line in lines)


def test_a_large_value_is_not_joined_anew_for_a_small_write() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        z = tinyt.cat([x.exp(), y.exp()])
        z[2:3] = 0.0
        return z

    lines = after("dead joins dead", function, tinyt.randn(2, 3), tinyt.randn(3, 3))
    assert sum("update" in line for line in lines) == 1


# ---- repetition


def test_what_is_repeated_is_computed_once() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x.exp().expand(4, 5).neg() * y

    assert after("expands dead expands dead", function, tinyt.randn(4, 1), tinyt.randn(4, 5)) == [
        "%0 = exp(a) float32[4, 1]",
        "%1 = neg(%0) float32[4, 1]",
        "%2 = mul(%1, b) float32[4, 5]",
        "return %2",
    ]


def test_promotion_is_not_changed_by_it() -> None:
    """A 0-d operand counts for less than one of more dimensions."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return y.exp().expand(3) * x

    x, y = tinyt.randn(3).bfloat16(), tinyt.randn(())
    assert "float32[3]" in after("expands dead", function, x, y)[-2]


# ---- constants


@pytest.mark.host
def test_constants_are_computed_once() -> None:
    def function(x: Tensor) -> Tensor:
        return x * ((tinyt.full((3,), 2.0) + 1.0) / 4.0).to(tinyt.float64)

    assert after("constants dead", function, tinyt.randn(3)) == [
        "%0 = fill() ((), 9, 0.75, 0, 0.0, 0) float64[]",
        "%1 = expand(%0) ((3,),) float64[3]",
        "%2 = mul(c, %1) float64[3]",
        "return %2",
    ]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_constants_of_every_dtype(dtype: Any) -> None:
    for number in special(dtype).tolist()[:30]:

        def function(n: Any = number) -> tuple[Tensor, ...]:
            x = tinyt.full((2,), n, dtype=dtype)
            return x | x if not dtype.is_floating_point and not dtype.is_complex else x * 1, x

        after("constants dead", function)


def test_live_numbers_and_inputs_are_no_constants() -> None:
    lr = tinyt.full((), 2.0)

    def function(x: Tensor, scale: float) -> Tensor:
        return x * (lr * 2.0 + scale * 3.0)

    compiled = tinyt.compile(function)
    x = tinyt.ones(2)
    for scale in (1.0, 1.0, 2.0, 3.0):
        same(compiled(x, scale), function(x, scale))
    lr.fill_(5.0)
    same(compiled(x, 1.0), function(x, 1.0))
    assert len(compiled.entries) == 1


def test_what_would_raise_is_not_computed() -> None:
    def function(x: Tensor) -> Tensor:
        return x + tinyt.full((), 3) // tinyt.full((), 0)

    graph = recorded(function, tinyt.tensor([1])).graph
    assert any(n.op == "floor_divide" for n in simplify(graph).nodes)


# ---- two parts


@pytest.mark.parametrize("t", [tinyt.bfloat16, tinyt.float64])
def test_what_runs_later_reads_no_argument_for_a_pass(t: Any) -> None:
    """The caller may write to an argument before the backward pass, which has eager's value saved:
    the later part reads what it read before. (A cast of the saved value is added by hand.)"""
    w = tinyt.ones(2, requires_grad=True)
    compiled = tinyt.compile(lambda x: w * x.float())
    compiled(tinyt.ones(2).bfloat16())
    graph = compiled.entries[0].capture.graph
    (wide,) = [n for n in graph.nodes if n.op == "cast"]
    assert graph.split_point.node > graph.nodes.index(wide)
    values = [*graph.values, Value((2,), t, len(graph.nodes))]
    added = Node("cast", (t.number,), wide.outputs, (len(graph.values),))
    graph = graph._replace(nodes=[*graph.nodes, added], values=values)
    graph.verify()
    assert copies.run(graph) is graph
    # In one part it is shorter.
    assert copies.run(graph._replace(split_point=graph.split_point._replace(node=-1))) is not graph


# ---- cost


@pytest.mark.parametrize("step", [
    lambda y: y.t(),
    lambda y: y.reshape(3, 2).reshape(2, 3),
    lambda y: (y.t().clone() * 1.0).t(),
    lambda y: tinyt.cat(list(y.chunk(2))),
    lambda y: y.sin(),
])  # fmt: skip
def test_long_chains(step: Callable[[Tensor], Tensor]) -> None:
    """No recursion, nothing that takes time by the square of the length."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x.exp()
        for _ in range(4000):
            y = step(y)
        return y.clone() * 1.0, y + 1.0

    graph = recorded(function, tinyt.randn(2, 3)).graph
    simpler = simplify(graph)
    for x, y in zip(interpret(simpler), interpret(graph), strict=True):
        same(x, y)
