"""A recording that differs from another one in sizes alone is simplified as that was, where every
pass would decide alike, and means what it means simplified anew."""

from __future__ import annotations

import contextlib
import gc
import itertools
import operator
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, note

import tinyt
from drawn import functions, recorded, same
from tinyt import Tensor, _core, nn
from tinyt._capture import SizeGuards
from tinyt.compiler import Graph, interpret, passes, rewrite, simplify
from tinyt.compiler.capture.recording import collection_paused
from tinyt.compiler.passes import common, identities, joins, views
from training import training_step


def simplified(graph: Graph) -> SizeGuards:
    """What passes asked of a graph."""
    noting = simplify(graph.noting_sizes())
    noting.to_core()
    assert noting.sizes is not None
    return noting.sizes


def resized(function: Callable[..., Any], first: Sequence[Tensor], then: Sequence[Tensor]) -> str:
    """Why what was made of the first recording is not made of the second; "" where it is, and means
    the same."""
    one, other = recorded(function, *first), recorded(function, *then)
    found = simplified(one.graph).of(other.graph.core)
    if isinstance(found, str):
        return found
    core = other.graph.core.rewritten(found)
    want = interpret(other.graph)
    for results in (interpret(Graph.from_core(core)), _core.Program(core).run([], [], [])):
        assert results is not None
        for x, y in zip(results, want, strict=True):
            same(x, y)
    return ""


# ---- what is asked

ASKED: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "lt", "le", "eq", "ne", "gt", "ge")
}


def lengths(*numbers: int) -> tuple[Any, ...]:
    """SizeGuards that note what is asked, as the passes see them."""
    return recorded(lambda x: x * 1, tinyt.empty(*numbers)).graph.noting_sizes().values[0].shape


@pytest.mark.parametrize("name", ASKED)
def test_sizes_are_as_integers(name: str) -> None:
    for a, b in itertools.product((0, 1, 2, 7, 12), repeat=2):
        if name in ("floordiv", "mod") and b == 0:
            for left, right in ((lengths(a, b)), (a, lengths(b)[0]), (lengths(a)[0], b)):
                with pytest.raises(ZeroDivisionError):
                    ASKED[name](left, right)
            continue
        want = ASKED[name](a, b)
        x, y = lengths(a, b)
        for left, right in ((x, y), (a, y), (x, b), (-x, y), (x, -y)):
            got = ASKED[name](left, right)
            again = ASKED[name](int(left), int(right))
            assert (int(got), type(again)) == (
                again,
                int if type(got).__name__ == "SymInt" else bool,
            )
        assert int(ASKED[name](x, y)) == want


def test_sizes_stand_where_integers_do() -> None:
    x, y = lengths(3, 0)
    assert hash(x) == hash(3)
    assert (x, y) == (3, 0)
    assert {(3, 0): "known"}[x, y] == "known"
    assert bool(x)
    assert not y
    assert 0 in (x, y)
    assert sorted([x, y, 1]) == [0, 1, 3]
    assert [1, 2, 3, 4][x] == 4
    assert repr(x) == "3"
    assert float(x) == 3.0
    assert x != "3"
    assert type(x + 1.5) is float
    assert x + 1.5 == 4.5
    assert x * 2**62 == 3 * 2**62  # the plain number


def test_a_value_that_is_taken_as_it_is_is_held() -> None:
    def count(x: Tensor) -> Tensor:
        return x.reshape(-1)

    for take in (operator.index, int, float, repr, [0, 1, 2].__getitem__, lambda n: range(n)):
        graph = recorded(count, tinyt.ones(2, 5)).graph.noting_sizes()
        assert graph.sizes is not None
        take(graph.values[0].shape[0])
        graph.to_core()
        assert isinstance(graph.sizes.of(recorded(count, tinyt.ones(2, 6)).graph.core), bytes)
        why = graph.sizes.of(recorded(count, tinyt.ones(3, 5)).graph.core)
        assert why == "2 == 2 before, now 3 > 2"


# ---- decisions that depend on sizes

X = tinyt.ones

SAME: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "elementwise": (lambda x: (x * 1.0).neg().neg().clone() + 2.0, (3, 4), (5, 7)),
    "views": (lambda x: x.t().t().reshape(-1).exp().reshape(x.shape), (3, 4), (5, 7)),
    "parts": (lambda x: tinyt.cat(x.chunk(2, 1), 1).exp(), (3, 4), (5, 8)),
    "swapped": (lambda x: tinyt.cat(x.chunk(2, 1)[::-1], 1).exp(), (3, 4), (6, 8)),
    "mean": (lambda x: x.mean() * (1.0 / x.numel()), (3, 4), (5, 7)),
    "rows": (lambda x: x - x.sum(1, keepdim=True).expand_as(x), (3, 4), (5, 7)),
}


@pytest.mark.parametrize("name", SAME)
def test_sizes_that_change_no_decision(name: str) -> None:
    function, first, then = SAME[name]
    assert resized(function, [tinyt.randn(*first)], [tinyt.randn(*then)]) == ""


OTHERWISE: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "a reshape to what is there": (lambda x: (x * 2).reshape(3, -1).exp(), (3, 4), (6, 4)),
    "a transposed row": (lambda x: (x * 2).t().reshape(-1).exp(), (1, 4), (3, 4)),
    "nothing": (lambda x: (x * 2).t().exp(), (3, 4), (0, 4)),
    "a row that is repeated": (lambda x: (x + 1).expand(4, 4).exp(), (4, 4), (1, 4)),
    "two equal reshapes": (
        lambda x: (x.exp().reshape(6, -1), x.exp().reshape(len(x) + 2, -1)), (4, 6), (10, 6),
    ),
    "what is kept for longer": (
        lambda x: (x.exp().t().clone().t(), x.exp()), (8, 8), (800, 800),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_sizes_that_change_a_decision(name: str) -> None:
    function, first, then = OTHERWISE[name]
    assert "before, now" in resized(function, [tinyt.randn(*first)], [tinyt.randn(*then)])


@pytest.mark.parametrize(("first", "then"), [(3, 6), (1, 2), (2, 1), (4, 0)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x + n,  # an operand alone
        lambda x, n: x * n,  # 1 changes nothing, 0 does not
        lambda x, n: x + (tinyt.full((), 2) * n).to(x.dtype),  # computed once
        lambda x, n: (x + n) * (x + n) - 6,  # two that are one
        lambda x, n: (x + n) * (x + 3),
    ],
)
def test_numbers_that_depend_on_sizes(function: Any, first: int, then: int) -> None:
    """`1 / n` and the like are Python's, and others at other sizes."""
    calls = [tinyt.randn(n, 3) for n in (first, then)]
    why = resized(lambda x: function(x, x.shape[0]), calls[:1], calls[1:])
    assert why in ("", "a number that it was simplified by is another") or "before, now" in why


def test_a_number_that_decides_nothing_may_be_another() -> None:
    for function, is_alike in (
        (lambda x: x * (1 / len(x)) + x * (1 / len(x)), True),
        (lambda x: x * (1 / len(x)) + x * 0.25, False),
        (lambda x: x + (tinyt.full((), 2.0) / len(x)), False),
    ):
        calls = [tinyt.randn(4, 3)], [tinyt.randn(5, 3)]
        assert (resized(function, *calls) == "") is is_alike


def test_what_is_no_other_size() -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range(x.shape[0]):
            x = x * 2
        return x.sum(x.dim() - 1)

    assert resized(function, [X(2, 3)], [X(3, 3)]) == ("operation 2 was sum, now it is mul")
    assert resized(lambda x: x.exp() if len(x) > 2 else x.log(), [X(2)], [X(3)]) == (
        "operation 0 was log, now it is exp"
    )
    assert resized(function, [X(2, 3)], [X(2, 3, 3)]) == (
        "a value has another dtype, device or number of dimensions"
    )
    why = resized(lambda x: x.exp(), [X(2)], [X(2).double()])
    assert why == "operation 0 (exp) is another"
    why = resized(lambda x: x.sum(-1, keepdim=len(x) > 2), [X(2)], [X(3)])
    assert why == "operation 0 (sum) is another"
    assert "returned" in resized(lambda x: (x.exp(),) * len(x), [X(2)], [X(3)])


PASSES = {"views": views, "joins": joins, "common": common, "identities": identities}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_asks_so_much_for_so_many_nodes(name: str) -> None:
    """Not more for each node of a longer graph."""

    def asked(n: int) -> int:
        def function(x: Tensor) -> Tensor:
            for _ in range(n):
                a, b = (x * 1.0).chunk(2, 1)
                x = tinyt.cat([b, a], 1).reshape(-1).reshape(x.shape).t().clone().t()
            return x

        graph = recorded(function, tinyt.ones(4, 6)).graph.noting_sizes()
        PASSES[name].run(graph)
        assert graph.sizes is not None
        return graph.sizes.guards

    assert asked(80) <= 2.2 * asked(40) + 50


# ---- drawn functions and sizes


@given(
    functions(),
    st.tuples(*[st.integers(0, 9)] * 4),
    st.sampled_from([tinyt.float32, tinyt.int64, tinyt.bfloat16]),
)
def test_drawn_functions_of_drawn_sizes(
    function: Callable[..., Any], sizes: tuple[int, int, int, int], dtype: Any
) -> None:
    def arguments(rows: int, cols: int) -> list[Tensor]:
        x = (tinyt.arange(rows * cols).reshape(rows, cols) - 3).to(dtype)
        return [x, tinyt.arange(cols).to(dtype)]

    first, then = arguments(*sizes[:2]), arguments(*sizes[2:])
    one, other = recorded(function, *first), recorded(function, *then)
    draws = [(5, 0)] * len(other._recorder.draws)
    found = simplified(one.graph).of(other.graph.core)
    note(f"{one.graph}\n{other.graph}\n{found if isinstance(found, str) else 'alike'}")
    if isinstance(found, str):
        return
    core = other.graph.core.rewritten(found)
    fresh = simplify(other.graph)
    program = _core.Program(core)

    def meaning(of: Callable[[], Any]) -> list[Tensor]:
        for x, fresh in zip(then, arguments(*sizes[2:]), strict=True):
            x.copy_(fresh)
        return [*of(), *(x.clone() for x in then)]

    want = meaning(lambda: interpret(other.graph, (), draws))
    for of in (
        lambda: interpret(Graph.from_core(core), (), draws),
        lambda: interpret(fresh, (), draws),
        lambda: program.run([], [], draws),
    ):
        for x, y in zip(meaning(of), want, strict=True):
            assert x.stride() == y.stride()
            same(x, y)


@given(functions(), st.lists(st.integers(1, 9), min_size=3, max_size=6))
def test_drawn_compiled_functions(function: Callable[..., Any], rows: list[int]) -> None:
    """Of leaves with gradients, at one size after another."""

    def run(f: Callable[..., Any]) -> list[Any]:
        found: list[Any] = []
        for n in rows:
            tinyt.manual_seed(n)
            w = (tinyt.arange(3 * n).reshape(n, 3) - 4.0).requires_grad_()
            x = tinyt.full((n, 3), 0.5)
            try:
                loss, *results = f(w, x)
                loss.backward()
            except tinyt.CaptureError:
                return ["refused"]
            except RuntimeError as error:
                found.append(str(error)[:30])
                continue
            found += [w.grad, loss.detach(), *results]
        return found

    def of(w: Tensor, x: Tensor) -> Any:
        results = function(w * 1.5, x * 1.0)
        loss = sum((y.float().sum() for y in results if y.is_floating_point()), w.sum() * 0)
        return loss, *(y.detach() for y in results)

    compiled = tinyt.compile(of)
    got = run(compiled)
    if got != ["refused"]:
        for x, y in zip(got, run(of), strict=True):
            if isinstance(y, Tensor):
                same(x, y)
            else:
                assert x == y


# ---- compiled functions


def dropout_step() -> Callable[[Tensor, Tensor], Tensor]:
    tinyt.manual_seed(0)
    return training_step(
        nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 5))
    )


def test_a_training_step_of_any_batch() -> None:
    random = Random(0)
    sizes = [7, 7, *(random.randrange(2, 40) for _ in range(20)), 1, 9]
    found = []
    for make in (lambda f: f, tinyt.compile):
        step = make(dropout_step())
        tinyt.manual_seed(1)
        found.append([step(tinyt.randn(n, 6), tinyt.arange(n) % 5).item() for n in sizes])
    assert found[0] == found[1]
    lines = step.explain().splitlines()
    assert lines[0] == "1: the first call"
    assert lines[1] == (
        f"2: argument 0: shape ({sizes[2]}, 6), not (7, 6); simplified as before, with other sizes"
    )
    assert sum("simplified as before" in line for line in lines) >= len(lines) - 3


def test_explain_says_what_is_decided_anew() -> None:
    compiled = tinyt.compile(lambda x: (x * 2.0).reshape(3, -1).exp())
    for n in (3, 6, 9, 3, 6):
        compiled(X(n, 2))
    assert compiled.explain().splitlines() == [
        "1: the first call",
        "2: argument 0: shape (6, 2), not (3, 2); simplified anew: 3 == 3 before, now 3 < 6",
        "3: argument 0: shape (9, 2), not (6, 2); simplified as before, with other sizes",
    ]
    compiled.cache_clear()
    assert compiled(X(6, 2)).shape == (3, 4)
    assert compiled.explain() == "1: the first call"


def test_registered_rewrites_are_looked_for_at_every_size() -> None:
    compiled = tinyt.compile(lambda x: x.sigmoid() * x)
    compiled(X(3))
    handle = rewrite(lambda x: x.sigmoid() * x, lambda x: nn.functional.silu(x), tolerance=1e-6)
    try:
        assert handle is not None
        compiled(X(4))
        assert [len(entry.program_object.steps()[0]) for entry in compiled.entries] == [1, 2]
    finally:
        handle.remove()


def test_a_wrong_graph_of_another_size_is_found() -> None:
    """``verify=True`` looks at it as at what passes make."""
    compiled = tinyt.compile(lambda x: (x * 2.0).exp(), verify=True)
    compiled(X(3))

    class Wrong:
        def of(self, core: _core.Graph) -> bytes:
            graph = Graph.from_core(core)
            wrong = graph.nodes[1]._replace(op="sin", origin=-1)
            return graph._replace(nodes=[graph.nodes[0], wrong]).to_bytes()

    compiled._simplified._known.appendleft((Wrong(), [0, 1]))
    with pytest.raises(tinyt.VerificationError, match="simplified with other sizes") as caught:
        compiled(X(4))
    error = caught.value.with_traceback(None)
    del caught
    assert (error.stage, error.name) == ("pass", "sizes")


# ---- the work of a capture


def calls(n: int) -> int:
    """How many functions the first call of a compiled function of so many operations calls."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(n // 8):
            a, b = (x * y).tanh().chunk(2, 1)
            x = tinyt.cat([b, a], 1).t().clone().t() - y
        return x

    compiled, count = tinyt.compile(function), 0

    def note(frame: Any, event: str, what: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    args = tinyt.ones(3, 4), tinyt.ones(4)
    sys.setprofile(note)
    try:
        compiled(*args)
    finally:
        sys.setprofile(None)
    return count


def test_a_capture_is_linear_in_the_nodes() -> None:
    calls(8)
    one, two, four = (calls(n) for n in (400, 800, 1600))
    assert two - one > 800
    assert four - two < 2.05 * (two - one)


def test_a_capture_is_linear_in_the_arguments() -> None:
    def seconds(count: int) -> float:
        parts = list(tinyt.ones(count, 2).clone().unbind())
        compiled = tinyt.compile(lambda *xs: xs[0] + xs[-1])
        start = time.perf_counter()
        compiled(*(x.clone() for x in parts))
        return time.perf_counter() - start

    seconds(8)
    assert seconds(40_000) < 25 * seconds(5_000)  # 60 were it quadratic


def test_another_size_is_no_work_for_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tinyt.compile(dropout_step())
    for n in (7, 7):
        compiled(tinyt.randn(n, 6), tinyt.arange(n) % 5)

    def never(graph: Graph) -> Graph:
        raise AssertionError("a pass ran")

    monkeypatch.setattr(passes, "PASSES", (("never", never),))
    monkeypatch.setattr(Graph, "from_core", never)
    compiled(tinyt.randn(9, 6), tinyt.arange(9) % 5)
    assert compiled.cache_info().currsize == 2


def test_sizes_hold_no_tensors() -> None:
    before = _core.live_tensors()
    compiled = tinyt.compile(lambda x: x * tinyt.ones(3), recompile_limit=1)
    for n in (1, 2, 3):
        compiled(tinyt.ones(n, 3))
    kept = _core.live_tensors()
    for n in range(4, 9):
        compiled(tinyt.ones(n, 3))
    assert _core.live_tensors() == kept > before


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_as_it_was(is_enabled: bool) -> None:
    was = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    compiled = tinyt.compile(lambda x: x.exp())
    refused = tinyt.compile(lambda x: x.exp().tolist())
    try:
        for _ in range(3):
            compiled(tinyt.ones(2))
            with contextlib.suppress(tinyt.CaptureError):
                refused(tinyt.ones(2))
            assert gc.isenabled() is is_enabled
        with collection_paused(), collection_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was else gc.disable)()
