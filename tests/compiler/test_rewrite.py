"""Users' rewrites: verified when registered, found wherever they are meant, at any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor
from tinyt.compiler import record, rewrite, simplify
from tinyt.compiler.graph.interpreter import interpret
from tinyt.compiler.passes.rewrites import REGISTERED, run
from tinyt.library import CustomOpDef, custom_op


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    assert not REGISTERED
    yield
    REGISTERED.clear()


def ops(function: Callable[..., Any], *args: Tensor) -> list[str]:
    """Of the simplified graph; the program's results must be eager's."""
    recording = record(function, *args)
    want = function(*args)
    for x, y in zip(recording.run(), [want] if isinstance(want, Tensor) else want, strict=True):
        assert x.tolist() == y.tolist()
    return [node.op for node in simplify(recording.graph).nodes]


def test_a_pattern_is_replaced() -> None:
    """Of any shape, as often as it is there, and among other operations."""
    made = rewrite(lambda x: x * 2.0, lambda x: x + x)
    for shape in ((), (3,), (2, 5), (1, 2, 3)):
        assert ops(lambda x: (x * 2.0).exp(), tinyt.ones(shape)) == ["add", "exp"]
    assert ops(lambda x: x.sin() * 2.0 * 2.0, tinyt.ones(2)) == ["sin", "add", "add"]
    assert ops(lambda x: 2.0 * x, tinyt.ones(2)) == ["add"]
    assert ops(lambda x: x * 3.0, tinyt.ones(2)) == ["mul"]
    assert ops(lambda x: x * 2.0, tinyt.ones(2).double()) == ["add"]
    assert ops(lambda x: x.t() * 2.0, tinyt.ones(2, 3)) == ["permute", "add"]
    made.remove()
    made.remove()
    assert ops(lambda x: x * 2.0, tinyt.ones(2)) == ["mul"]


def test_large_tensors_and_chains_of_them() -> None:
    """What is put in has memory in the place of what it stands for."""
    rewrite(lambda x: x.exp() * 2.0, lambda x: (-(-x).neg().neg()).exp().add(x.exp()))

    def double(x: Tensor) -> Tensor:
        return x.exp() * 2.0

    x = tinyt.randn(64, 64) / 64
    assert ops(double, x) == ["exp", "add"]
    assert ops(lambda x: double(double(x @ x)) @ x, x) == ["matmul", *["exp", "add"] * 2, "matmul"]
    assert ops(lambda x: double(x.t()).t(), x) == ["permute", "exp", "add"]


def test_what_depends_on_shapes_is_part_of_the_pattern() -> None:
    """Attributes are those of the arguments that are found."""

    def mean(x: Tensor) -> Tensor:
        return (x.sum(-1, keepdim=True) / x.shape[-1]).expand(x.shape)

    def other(x: Tensor) -> Tensor:
        return x.sum(-1, keepdim=True).div(x.shape[-1]).expand_as(x)

    rewrite(lambda x: mean(x) + 1.0, lambda x: other(x) + 1.0 + 0, shapes=[[(3, 4)]])
    assert ops(lambda x: mean(x) + 1.0, tinyt.randn(2, 6)).count("add") == 2
    # The sum over another dimension is another function.
    wrong = tinyt.randn(4, 4)
    assert ops(lambda x: (x.sum(0, keepdim=True) / 4).expand(4, 4) + 1.0, wrong).count("add") == 1
    assert ops(lambda x: mean(x)[:1] + 1.0, tinyt.randn(2, 6)).count("add") == 1


def test_several_arguments_and_new_numbers() -> None:
    def pattern(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return (x * w + b).relu()

    def replacement(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = x * w + b
        return tinyt.where(y > 0.0, y, y.relu())

    rewrite(pattern, replacement)
    x, w, b = tinyt.randn(2, 3), tinyt.randn(3), tinyt.randn(())
    assert ops(pattern, x, w, b) == ["mul", "add", "gt", "relu", "where"]
    assert ops(lambda x: (x * x + x).relu(), x) == ["mul", "add", "gt", "relu", "where"]
    compiled = tinyt.compile(lambda x: pattern(x, w, b) * 1.5)
    for _ in range(3):
        assert compiled(x).tolist() == (pattern(x, w, b) * 1.5).tolist()


def test_an_argument_found_twice_must_be_one_value() -> None:
    rewrite(lambda x: x * x, lambda x: x.square())
    x, y = tinyt.randn(3), tinyt.randn(3)
    assert ops(lambda a, b: a * b, x, y) == ["mul"]
    assert ops(lambda a: a * a, x) == ["square"]


@pytest.mark.parametrize("name", ["maximum", "hypot", "bitwise_xor"])
def test_operands_of_commutative_ops_may_come_in_either_order(name: str) -> None:
    f, dtype = getattr(tinyt, name), tinyt.int64 if name == "bitwise_xor" else tinyt.float32
    made = rewrite(
        lambda x, y: f(x, -y).abs(), lambda x, y: f(x, -y).abs().neg().abs(), dtypes=[dtype]
    )
    x, y = tinyt.ones(2, dtype=dtype), tinyt.ones(2, dtype=dtype)
    for function in (lambda a, b: f(a, -b).abs(), lambda a, b: f(-b, a).abs()):
        assert ops(function, x, y) == ["neg", name, "abs", "neg", "abs"]
    made.remove()


def test_what_is_read_elsewhere_stays() -> None:
    rewrite(lambda x: x.neg().exp(), lambda x: (0.0 - x).exp(), tolerance=0.0)

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.neg()
        return y.exp(), y

    assert ops(function, tinyt.randn(3)) == ["neg", "exp"]
    assert ops(lambda x: x.neg().exp(), tinyt.randn(3)) == ["sub", "exp"]


def test_gradients_are_rewritten_too() -> None:
    w = tinyt.randn(3).requires_grad_()

    def step(x: Tensor) -> Tensor:
        w.grad = None
        (-(w * x).exp()).sum().backward()
        assert w.grad is not None
        return w.grad

    want = step(tinyt.ones(3)).tolist()
    rewrite(lambda x: -x, lambda x: x * -1.0)
    compiled = tinyt.compile(step)
    for _ in range(3):
        assert compiled(tinyt.ones(3)).tolist() == want
    graph = compiled.entries[0].capture.graph
    assert [node.op for node in graph.nodes].count("neg") == 2
    assert [node.op for node in run(graph).nodes].count("neg") == 0


@pytest.mark.parametrize(
    ("pattern", "replacement", "options", "message"),
    [
        (lambda x: x + 0.0, lambda x: x, {}, r"same bits; of float32\[.*-0.0.* is 0.0 and -0.0"),
        (lambda x: x.exp().log(), lambda x: x, {}, "same bits"),
        (lambda x: x.exp().log(), lambda x: x, {"tolerance": 1e-3}, "values within 0.001"),
        (lambda x: x * 2, lambda x: (x * 2).double(), {}, "replacement float64"),
        (lambda x: x.sum(), lambda x: x, {"shapes": [[(3,)]]}, "makes"),
        (lambda x: x, lambda x: x, {}, "computes nothing"),
        (lambda x, y: x.exp(), lambda x, y: x.exp(), {}, "does not read its argument 1"),
        (lambda x: x.exp(), lambda x, y: x.exp(), {}, "takes 1 tensors, the replacement 2"),
        (lambda x: x.mul_(2), lambda x: x * 2, {}, "must not write"),
        (lambda x: (x, x), lambda x: x, {}, "must return one tensor, got tuple"),
        (lambda *x: x[0].exp(), lambda x: x, {}, "plain functions"),
        (lambda x: x @ x.t(), lambda x: x @ x.t(), {"shapes": [[(2, 2), (2, 2)]]}, "2 tensors"),
        (lambda x: x.view(9, 9), lambda x: x.view(9, 9), {}, "takes none of the drawn"),
        (lambda x: x + tinyt.zeros_like(x).bernoulli(1.0), lambda x: x + 1.0, {}, "part of a"),
    ],
)  # fmt: skip
def test_what_is_refused(
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(ValueError, match=message):
        rewrite(pattern, replacement, **options)
    assert not REGISTERED


def test_numbers_of_a_backward_pass() -> None:
    """They are tensors there, of the dtype that they are used in."""
    w = tinyt.randn(3).requires_grad_()

    def step(x: Tensor) -> Tensor:
        w.grad = None
        ((w * x) * 2.0).exp().sum().backward()
        assert w.grad is not None
        return w.grad

    want = step(tinyt.ones(3)).tolist()
    made = rewrite(lambda x: x * 2.0, lambda x: x + x)
    compiled = tinyt.compile(step)
    for _ in range(3):
        assert compiled(tinyt.ones(3)).tolist() == want
    graph = run(compiled.entries[0].capture.graph)
    assert [node.op for node in graph.nodes].count("add") == 2
    number = tinyt.full((), 2.0, dtype=tinyt.float64)
    assert ops(lambda x: x * number, tinyt.ones(3)) == ["mul"]
    assert ops(lambda x: x * 3.0, tinyt.ones(3)) == ["mul"]
    made.remove()


def test_samples_of_ones_own() -> None:
    """For what drawn values are not made for."""

    def pattern(x: Tensor, i: Tensor) -> Tensor:
        return x.index_select(0, i) * 2.0

    def replacement(x: Tensor, i: Tensor) -> Tensor:
        return (x * 2.0).index_select(0, i)

    sample = tinyt.randn(4, 2), tinyt.tensor([3, 0])
    made = rewrite(pattern, replacement, shapes=[], samples=[sample])
    x, i = tinyt.randn(7, 3), tinyt.tensor([6, 1, 2])
    found = ops(pattern, x, i)
    assert found.index("mul") < found.index("gather")
    made.remove()


def test_a_tolerance_is_asked_for() -> None:
    def pattern(x: Tensor) -> Tensor:
        return x * 0.1 * 10.0

    with pytest.raises(ValueError, match="same bits"):
        rewrite(pattern, lambda x: x * 1.0)
    rewrite(pattern, lambda x: x * 1.0, tolerance=1e-6)
    x = tinyt.tensor([3.0, 0.7])
    assert len(simplify(record(pattern, x).graph).nodes) == 1


# ---- into operations of one's own


def twice(x: Tensor) -> Tensor:
    return x.exp() * 2.0


def twice_op() -> tuple[CustomOpDef, list[tuple[int, ...]]]:
    """The same, and the shapes that it was called with."""
    seen: list[tuple[int, ...]] = []

    @custom_op("tests::twice", mutates_args=())
    def op(x: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        return twice(x)

    op.register_fake(tinyt.empty_like)
    assert isinstance(op, CustomOpDef)
    return op, seen


def planned(function: Callable[..., Any], *args: Tensor) -> Any:
    """What its program gives, which runs from the second call on."""
    compiled = tinyt.compile(function)
    compiled(*args)
    return compiled(*args)


def test_a_replacement_is_a_custom_op() -> None:
    """As often as the pattern is there, beside other operations, at any shape."""
    op, seen = twice_op()
    with rewrite(twice, lambda x: op(x)):
        compiled = tinyt.compile(lambda x: twice(twice(x / 64) @ x + 1.0).sum(-1) - twice(x)[0])
        for n in (4, 4, 7):
            x = tinyt.randn(n, n) / 8
            want = twice(twice(x / 64) @ x + 1.0).sum(-1) - twice(x)[0]
            assert compiled(x).tolist() == want.tolist()
            seen.clear()
            assert compiled(x).tolist() == want.tolist()
            assert seen == [(n, n)] * 3
        assert ops(twice, tinyt.ones(3)).count("tests::twice") == 1
    seen.clear()
    for _ in range(2):
        assert compiled(tinyt.ones(9, 9)).shape == (9,)
    assert not seen


def test_what_a_rewritten_graph_means() -> None:
    op, seen = twice_op()
    x = tinyt.randn(3)
    with rewrite(twice, lambda x: op(x)):
        graph = simplify(record(lambda: twice(twice(x).sin())).graph)
    names = [node.op for node in graph.nodes]
    assert names.count("tests::twice") == len(graph.borrowed) == 2
    seen.clear()
    assert interpret(graph)[0].tolist() == twice(twice(x).sin()).tolist()
    assert seen == [(3,)] * 2
    assert [row[0] for row in graph.to_core().nodes()] == names
    with pytest.raises(RuntimeError, match="no recording has number -2"):
        graph.core.rewritten(graph.to_bytes())
    lender = graph.borrowed[0][0]
    other = record(lambda: op(tinyt.ones(2))).graph
    at = next(i for i, node in enumerate(other.nodes) if node.op == "tests::twice")
    for borrowed, message in (
        ((lender, 99), "node 99 is not one of"),
        ((lender, 0), "cannot be added"),
        ((other.core, at), "of other shapes, dtypes or devices"),
    ):
        with pytest.raises(RuntimeError, match=message):
            graph._replace(borrowed=(borrowed, borrowed)).to_core()


def test_functions_without_the_pattern_stay_as_they_are() -> None:
    op, seen = twice_op()
    with rewrite(twice, lambda x: op(x)):
        seen.clear()
        x = tinyt.ones(3)
        assert planned(lambda x: x.exp() * 3.0, x).tolist() == (x.exp() * 3.0).tolist()
        # Something else reads what is computed on the way.
        y, z = planned(lambda x: ((y := x.exp()) * 2.0, y), x)
        assert (y / z).tolist() == [2, 2, 2]
    assert not seen


def test_a_custom_op_is_put_where_it_was_asked_for() -> None:
    """At the dtypes of the samples, and the shapes where some are given."""
    op, seen = twice_op()
    with rewrite(twice, lambda x: op(x), shapes=[[(2, 3)]]):
        for x in (tinyt.ones(2, 3), tinyt.ones(3, 2), tinyt.ones(2, 3).double()):
            seen.clear()
            assert planned(twice, x).tolist() == twice(x).tolist()
            assert bool(seen) == (x.shape == (2, 3) and x.dtype is tinyt.float32)
    with rewrite(twice, lambda x: op(x), dtypes=[tinyt.float64]):
        for x in (tinyt.ones(9), tinyt.ones(9).double()):
            seen.clear()
            assert planned(twice, x).tolist() == twice(x).tolist()
            assert bool(seen) == (x.dtype is tinyt.float64)


def test_a_custom_op_in_a_training_step() -> None:
    """The pattern of a forward pass whose values a backward pass reads stays; others are put."""
    op, seen = twice_op()
    weight = tinyt.ones(3, 3, requires_grad=True)

    def step(x: Tensor) -> Tensor:
        loss = (twice(x) @ weight).sum()
        loss.backward()
        assert weight.grad is not None
        grad, weight.grad = weight.grad, None
        return grad

    x = tinyt.randn(2, 3)
    want = step(x).tolist()
    with rewrite(twice, lambda x: op(x)):
        seen.clear()
        assert planned(step, x).tolist() == want
    assert seen == [(2, 3)]


def test_a_custom_op_of_several_steps_and_in_control_flow() -> None:
    op, seen = twice_op()
    with rewrite(twice, lambda x: op(tinyt.where(op(x) > 7.0, x, x))):
        seen.clear()

        def f(x: Tensor) -> Tensor:
            return tinyt.cond(x.sum() > 0, lambda: twice(x), lambda: x.sin())

        compiled = tinyt.compile(f)
        for x in (tinyt.ones(3), -tinyt.ones(3)) * 2:
            assert compiled(x).tolist() == f(x).tolist()
    assert seen == [(3,)] * 2


def test_replacements_that_cannot_be_put_are_refused() -> None:
    op = custom_op("tests::unknown", lambda x: twice(x), mutates_args=(), schema="(Tensor x) -> T")
    with pytest.raises(ValueError, match=r"cannot be recorded: tests::unknown.*register_fake"):
        rewrite(twice, lambda x: op(x))
    with pytest.raises(ValueError, match=r"cond cannot be part of a replacement"):
        rewrite(twice, lambda x: tinyt.cond(x.sum() > 0, lambda: twice(x), lambda: twice(x)))
    with pytest.raises(ValueError, match=r"cannot be part of a replacement"):
        rewrite(twice, lambda x: twice(x + 0 * tinyt.rand_like(x)), tolerance=1e300)
    assert not REGISTERED
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(
        tinyt.compile(twice)(tinyt.from_numpy(x)).numpy(force=True),
        twice(tinyt.from_numpy(x)).numpy(force=True),
    )
