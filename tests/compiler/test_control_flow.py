"""Control flow: what it computes, beside loops in Python; compiled, eager's bits in one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from flow import Cell, bits, is_same, names
from tinyt import Tensor, nn, optim
from tinyt.compiler.api import compile
from unseen import drawn


def loop(step: Callable[..., Any], carry: Any, xs: Tensor, reverse: bool = False) -> Any:
    """What a scan is, in Python."""
    ys = [None] * len(xs)
    for i in range(len(xs))[:: -1 if reverse else 1]:
        carry, ys[i] = step(carry, xs[i])
    return carry, tinyt.stack(ys)  # type: ignore[arg-type]


# ---- scan


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_scan_is_a_loop(reverse: bool, dim: int) -> None:
    tinyt.manual_seed(0)
    init, w = (tinyt.randn(*shape, requires_grad=True) for shape in ((3, 4), (4, 4)))
    xs = tinyt.randn(5, 3, 4).movedim(0, dim).contiguous().requires_grad_()

    def step(c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = tinyt.tanh(c @ w + x)
        return h, h * 2

    def run(*args: Tensor) -> Any:
        c, ys = tinyt.scan(step, args[0], args[1], dim=dim, reverse=reverse)
        loss = (c * c).sum() + ys.sin().sum()
        return c.detach(), ys.detach(), *tinyt.autograd.grad(loss, [init, xs, w])

    found = run(init, xs)
    c, ys = loop(step, init, xs.movedim(dim, 0), reverse)
    ys = ys.movedim(0, dim)
    slopes = tinyt.autograd.grad((c * c).sum() + ys.sin().sum(), [init, xs, w])
    for x, y in zip(found, (c, ys, *slopes), strict=True):
        np.testing.assert_allclose(
            x.numpy(force=True), y.detach().numpy(force=True), rtol=2e-5, atol=1e-5
        )
    compiled = is_same(run, (init, xs))
    assert names(compiled).count("scan") == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_a_recurrent_network_is_one_node(threads: int) -> None:
    tinyt.manual_seed(1)
    cell = Cell(6, 8)
    before = tinyt.get_num_threads()
    tinyt.set_num_threads(threads)

    def run(xs: Tensor, h: Tensor, c: Tensor) -> Any:
        state, ys = tinyt.scan(cell, (h, c), xs)
        for p in cell.parameters():
            p.grad = None
        (ys * ys).mean().backward()
        return state[0].detach(), ys.detach(), *(p.grad for p in cell.parameters())

    try:
        args = tinyt.randn(40, 3, 6), tinyt.zeros(3, 8), tinyt.zeros(3, 8)
        compiled = is_same(run, args)
    finally:
        tinyt.set_num_threads(before)
    assert names(compiled).count("scan") == 2
    assert len(names(compiled)) < 30


def test_a_training_step_with_a_scan() -> None:
    def train(compiled: bool) -> Any:
        tinyt.manual_seed(2)
        cell, head = Cell(5, 7), nn.Linear(7, 3)
        params = [*cell.parameters(), *head.parameters()]
        optimizer = optim.AdamW(params, lr=1e-2)
        data = [(tinyt.randn(12, 4, 5), tinyt.randint(0, 3, (4,))) for _ in range(6)]

        def step(xs: Tensor, target: Tensor) -> Tensor:
            optimizer.zero_grad()
            (h, _), _ = tinyt.scan(cell, (tinyt.zeros(4, 7), tinyt.zeros(4, 7)), xs)
            loss = F.cross_entropy(head(F.dropout(h, 0.25)), target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compile(step) if compiled else step
        losses = [run(*pair) for pair in data]
        return bits(losses), bits([p.detach() for p in params]), bits(tinyt.rand(3))

    assert train(True) == train(False)


def test_nested_values() -> None:
    tinyt.manual_seed(3)
    xs = {"a": tinyt.randn(4, 3), "b": (tinyt.randn(4, 2),)}

    def step(carry: Any, x: Any) -> Any:
        total, count = carry["total"], carry["n"]
        y = [total * 2, {"k": x["b"][0] + 1, "none": None}]
        return {"total": total + x["a"], "n": count + 1}, y

    def run(xs: Any) -> Any:
        return tinyt.scan(step, {"total": tinyt.zeros(3), "n": tinyt.tensor(0)}, xs)

    carry, ys = run(xs)
    assert carry["n"].item() == 4
    assert carry["n"].dtype is tinyt.int64
    np.testing.assert_allclose(
        carry["total"].numpy(force=True), xs["a"].numpy(force=True).sum(0), rtol=1e-6
    )
    assert ys[1]["none"] is None
    assert ys[1]["k"].shape == (4, 2)
    is_same(run, (xs,))


def test_outputs_that_are_inputs_are_copies() -> None:
    w = tinyt.randn(3, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        c, ys = tinyt.scan(lambda c, x: (c, (x, c, w, w)), init, xs)
        slopes = tinyt.autograd.grad((c * ys[1] * ys[0] * ys[2]).sum(), [init, xs, w])
        return c.detach(), [y.detach() for y in ys], slopes

    init, xs = (tinyt.randn(*shape, requires_grad=True) for shape in ((3,), (4, 3)))
    c, ys, _ = run(init, xs)
    assert len({x.data_ptr() for x in (c, *ys, init, xs)}) == 7
    is_same(run, (init, xs))


def test_a_gradient_of_a_carry_that_starts_without() -> None:
    tinyt.manual_seed(4)
    w = tinyt.randn(4, requires_grad=True)

    def run(a: Tensor, b: Tensor, xs: Tensor) -> Any:
        def step(carry: Any, x: Tensor) -> Any:
            first, second = carry
            return (first + second * x, second * w), first * 2

        (first, second), ys = tinyt.scan(step, (a, b), xs)
        return tinyt.autograd.grad((first * second).sum() + ys.sum(), [w])

    is_same(run, (tinyt.randn(4), tinyt.randn(4), tinyt.randn(6, 4)))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_one_step_gives_no_gradient_to_what_only_further_steps_would(steps: int) -> None:
    w = tinyt.randn(4, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        c, ys = tinyt.scan(lambda c, x: (x * w, c * 1), init, xs)
        loss = (ys * tinyt.ones(4, requires_grad=True)).sum() + w.sum() * 0
        return c.requires_grad, ys.requires_grad, tinyt.autograd.grad(loss, [w])

    assert run(tinyt.ones(4), tinyt.ones(steps, 4))[:2] == (True, steps > 1)
    is_same(run, (tinyt.ones(4), tinyt.randn(steps, 4)))


@pytest.mark.parametrize("steps", [1, 3])
def test_a_carry_that_no_step_reads_gets_zeros(steps: int) -> None:
    """As slices that none reads, and as in PyTorch."""

    def run(init: Tensor, xs: Tensor, unread: Tensor) -> Any:
        (a, b), ys = tinyt.scan(
            lambda c, x: ((x[0] * 2, x[0] * 2), x[0]), (init, init), (xs, unread)
        )
        return tinyt.autograd.grad((a * b).sum() + ys.sum(), [init, xs, unread])

    args = [tinyt.randn(*shape, requires_grad=True) for shape in ((4,), (steps, 4), (steps, 2))]
    slopes = run(*args)
    assert [g.shape for g in slopes] == [x.shape for x in args]
    assert not slopes[0].any()
    assert not slopes[2].any()
    is_same(run, args)


def test_only_some_outputs_have_a_gradient() -> None:
    tinyt.manual_seed(5)
    w = tinyt.randn(4, 4, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            h = tinyt.tanh(c @ w + x)
            return h, (h.detach() * 2, h.argmax(-1), h * x)

        c, (plain, index, _) = tinyt.scan(step, init, xs)
        return plain, index, tinyt.autograd.grad(c.sum(), [w, init, xs])

    args = (tinyt.randn(2, 4, requires_grad=True), tinyt.randn(3, 2, 4, requires_grad=True))
    is_same(run, args)


def test_weights_used_outside_too_and_twice_inside() -> None:
    tinyt.manual_seed(6)
    w = nn.Parameter(tinyt.randn(4, 4) * 0.3)

    def run(init: Tensor, xs: Tensor) -> Any:
        init = init @ w
        doubled = w * 2
        c, ys = tinyt.scan(lambda c, x: (tinyt.sin(c @ w + x @ w @ doubled), c * 2), init, xs @ w)
        return tinyt.autograd.grad((c @ w).sum() + (ys @ doubled).sum(), [w])

    is_same(run, (tinyt.randn(2, 4), tinyt.randn(5, 2, 4)))


def test_scans_in_scans() -> None:
    tinyt.manual_seed(7)
    w = tinyt.randn(3, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        def row(c: Tensor, x: Tensor) -> Any:
            def step(d: Tensor, y: Tensor) -> Any:
                d = tinyt.tanh(d * w + y * c)
                return d, d + c

            d, ys = tinyt.scan(step, c, x, reverse=True)
            return d + w, ys.sum(0)

        c, ys = tinyt.scan(row, init, xs)
        return c.detach(), ys.detach(), tinyt.autograd.grad((c + ys).sum(), [w, init, xs])

    args = (tinyt.randn(3, requires_grad=True), tinyt.randn(4, 2, 3, requires_grad=True))
    assert "scan" in names(is_same(run, args))


def test_random_numbers_in_a_scan() -> None:
    w = tinyt.randn(5, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            c = F.dropout(c * w + x, 0.3) + tinyt.randn(5) * 0.1
            return c, tinyt.rand(3)

        before = tinyt.rand(2)
        c, ys = tinyt.scan(step, init, xs, reverse=True)
        return before, c.detach(), ys, tinyt.autograd.grad(c.sum(), [w]), tinyt.rand(7)

    args = tinyt.randn(5), tinyt.randn(4, 5)

    def stream(function: Any) -> Any:
        tinyt.manual_seed(8)
        return [bits(function(*args)) for _ in range(4)], bits(tinyt.rand(1))

    assert stream(compile(run)) == stream(run)


def test_numbers_that_change() -> None:
    xs, init = tinyt.randn(4, 3), tinyt.randn(3)

    def run(xs: Tensor, rate: float) -> Any:
        return tinyt.scan(lambda c, x: (c * rate + x * (1.0 - rate), c), init, xs)

    is_same(run, (xs, 0.5), (xs, 0.25), (xs, 0.125))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_numbers_that_change_in_gradients_around_and_inside(shape: tuple[int, ...]) -> None:
    w = tinyt.randn(shape, requires_grad=True)

    def run(xs: Tensor, rate: float) -> Any:
        first = tinyt.tanh(w * rate)

        def step(c: Tensor, x: Tensor) -> Any:
            c = c * rate

            def inner(d: Tensor, y: Tensor) -> Any:
                return d * rate + y * w, d * 1

            return tinyt.scan(inner, c, xs)[0] + x, tinyt.sin(c * rate) * rate

        c, ys = tinyt.scan(step, first, xs)
        return tinyt.autograd.grad((c + ys).sum(), [w])

    xs = tinyt.randn(4, *shape)
    is_same(run, (xs, 0.5), (xs, 0.25), (xs, 0.125))


def test_autocast_in_a_scan() -> None:
    tinyt.manual_seed(9)
    cell = Cell(6, 8)

    def run(xs: Tensor) -> Any:
        with tinyt.autocast("cpu", dtype=tinyt.bfloat16):
            first = cell.inward(xs[0])
            state = tinyt.zeros(2, 8), tinyt.zeros(2, 8)
            (h, _), ys = tinyt.scan(cell, state, xs)
        loss = h.float().sum() + ys.float().sum() + first.float().sum()
        return tinyt.autograd.grad(loss, list(cell.parameters()))

    is_same(run, (tinyt.randn(5, 2, 6),))


def test_backward_outside_of_the_compiled_function() -> None:
    tinyt.manual_seed(10)
    cell = Cell(4, 5)
    compiled = compile(lambda xs: tinyt.scan(cell, (tinyt.zeros(2, 5), tinyt.zeros(2, 5)), xs)[1])
    xs = tinyt.randn(6, 2, 4, requires_grad=True)
    found = []
    for function in (compiled.function, compiled, compiled, compiled):
        ys = function(xs)
        found.append(bits(tinyt.autograd.grad((ys * ys).sum(), [xs, *cell.parameters()])))
    assert found[1:] == found[:1] * 3


def test_gradients_twice_need_retain_graph() -> None:
    w = tinyt.randn(3, requires_grad=True)
    c, _ = tinyt.scan(lambda c, x: (c * w + x, c * 1), tinyt.zeros(3), tinyt.ones(2, 3))
    first = tinyt.autograd.grad(c.sum(), [w], retain_graph=True)
    assert bits(tinyt.autograd.grad(c.sum(), [w])) == bits(first)
    with pytest.raises(RuntimeError, match="second time"):
        tinyt.autograd.grad(c.sum(), [w])
    c, _ = tinyt.scan(lambda c, x: (c * w + x, c * 1), tinyt.zeros(3), tinyt.ones(2, 3))
    with pytest.raises(RuntimeError, match="create_graph"):
        tinyt.autograd.grad(c.sum(), [w], create_graph=True)


def test_what_a_scan_saved_must_not_be_written() -> None:
    w = tinyt.randn(3, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        c, _ = tinyt.scan(lambda c, x: (c * w * x, c * 1), init, xs)
        xs.mul_(2.0)
        return tinyt.autograd.grad(c.sum(), [w])

    for function in (run, compile(run)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(tinyt.ones(3), tinyt.ones(2, 3))


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (RuntimeError, "callable", lambda f, c, xs: tinyt.scan(3, c, xs)),
        (RuntimeError, "at least one", lambda f, c, xs: tinyt.scan(f, c, xs[:0])),
        (RuntimeError, "same number", lambda f, c, xs: tinyt.scan(f, c, (xs, xs[:1]))),
        (RuntimeError, "reverse must be",
         lambda f, c, xs: tinyt.scan(f, c, xs, reverse=1)),
        (RuntimeError, "dim must be an int", lambda f, c, xs: tinyt.scan(f, c, xs, dim="a")),
        (IndexError, r"dim must be in \[-2, 1\], got 2",
         lambda f, c, xs: tinyt.scan(f, c, xs, dim=2)),
        (RuntimeError, "init must have", lambda f, c, xs: tinyt.scan(f, (), xs)),
        (RuntimeError, "init must consist", lambda f, c, xs: tinyt.scan(f, 1.0, xs)),
        (RuntimeError, "xs must consist", lambda f, c, xs: tinyt.scan(f, c, [xs, 1])),
        (RuntimeError, r"leaf 0 is float64\[3\], not float32\[3\]",
         lambda f, c, xs: tinyt.scan(lambda c, x: (c.double(), x), c, xs)),
        (RuntimeError, r"leaf 0 is float32\[1\]",
         lambda f, c, xs: tinyt.scan(lambda c, x: (c[:1], x), c, xs)),
        (RuntimeError, "nested as init",
         lambda f, c, xs: tinyt.scan(lambda c, x: ((c,), x), c, xs)),
        (RuntimeError, "two things", lambda f, c, xs: tinyt.scan(lambda c, x: c, c, xs)),
        (RuntimeError, "what combine_fn returns",
         lambda f, c, xs: tinyt.scan(lambda c, x: (c, 1), c, xs)),
    ],
)  # fmt: skip
def test_wrong_scans(mode: str, error: type[Exception], match: str, call: Any) -> None:
    def run(c: Tensor, xs: Tensor) -> Any:
        return call(lambda c, x: (c + x, c * 1), c, xs)

    function = run if mode == "eager" else compile(run)
    with pytest.raises(error, match=match):
        function(tinyt.zeros(3), tinyt.ones(2, 3))


def test_no_slices_at_all() -> None:
    init = tinyt.zeros(3)
    carry, ys = tinyt.scan(lambda c, x: (c, x), init, [])
    assert carry is init
    assert ys == []


# ---- cond


def test_a_branch_that_depends_on_data_is_one_node() -> None:
    tinyt.manual_seed(11)
    w, v = tinyt.randn(4, 4, requires_grad=True), tinyt.randn(4, requires_grad=True)

    def run(x: Tensor) -> Any:
        y = tinyt.cond(x.sum() > 0, lambda x: x.sin() @ w, lambda x: x * v, (x,))
        w.grad = v.grad = None
        (y * y).sum().backward()
        return y.detach(), w.grad, v.grad

    args = [(tinyt.randn(3, 4) + shift,) for shift in (1.0, -1.0, 1.0)]
    compiled = is_same(run, *args)
    assert names(compiled).count("cond") == 2
    up, down = run(args[0][0]), run(args[1][0])
    np.testing.assert_allclose(
        up[0].numpy(force=True),
        np.sin(args[0][0].numpy(force=True)) @ w.detach().numpy(force=True),
        1e-5,
    )
    np.testing.assert_array_equal(up[2].numpy(force=True), np.zeros(4))
    np.testing.assert_array_equal(down[1].numpy(force=True), np.zeros((4, 4)))
    assert down[2].numpy(force=True).any()


def test_a_number_chooses_a_branch_at_once() -> None:
    x = tinyt.ones(2)
    assert tinyt.cond(True, lambda x: x, lambda x: None, (x,)) is x
    assert tinyt.cond(0, lambda: 1, lambda: "other") == "other"


def test_conds_in_scans_and_scans_in_conds() -> None:
    tinyt.manual_seed(12)
    w = tinyt.randn(3, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            c = tinyt.cond(x.sum() > 0, lambda c: tinyt.tanh(c * w), lambda c: c + x * w, (c,))
            return c, c * x

        def scanned(c: Tensor) -> Tensor:
            last: Tensor = tinyt.scan(step, c, xs)[0]
            return last

        c, ys = tinyt.scan(step, init, xs)
        d = tinyt.cond(c.sum() > 0, scanned, lambda c: c * 2, (c,))
        return d.detach(), ys.detach(), tinyt.autograd.grad((d + ys).sum(), [w, init, xs])

    init = tinyt.randn(3, requires_grad=True)
    xs = tinyt.randn(5, 3, requires_grad=True)
    compiled = compile(run)
    for shift in (0.0, 1.0, -2.0):
        with tinyt.no_grad():
            xs.copy_(tinyt.randn(5, 3))
            init.copy_(tinyt.randn(3) + shift)
        for _ in range(2):
            assert bits(compiled(init, xs)) == bits(run(init, xs))
    assert compiled.cache_info().currsize == 1


def test_branches_that_draw_the_same() -> None:
    def run(x: Tensor) -> Any:
        y = tinyt.cond(x.sum() > 0, lambda: tinyt.rand(5), lambda: tinyt.rand(5) - 1.0)
        return y, tinyt.rand(2)

    args = [tinyt.ones(2), -tinyt.ones(2), tinyt.ones(2)]

    def stream(function: Any) -> Any:
        tinyt.manual_seed(13)
        return [bits(function(x)) for x in args], bits(tinyt.rand(1))

    assert stream(compile(run)) == stream(run)


def test_nested_results_of_branches() -> None:
    def run(x: Tensor) -> Any:
        return tinyt.cond(
            x[0] > 0,
            lambda x: {"a": x, "b": [x[:2], x[:2]]},
            lambda x: {"a": x * 2, "b": [x[1:], x[:2] + 1]},
            (x,),
        )

    found = run(tinyt.tensor([1.0, 2.0, 3.0]))
    assert found["b"][0].tolist() == [1.0, 2.0]
    assert found["b"][0] is not found["b"][1]
    is_same(run, (tinyt.tensor([1.0, 2.0, 3.0]),), (tinyt.tensor([-1.0, 2.0, 3.0]),))


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("one element", lambda x: tinyt.cond(x > 0, lambda: x, lambda: x)),
        ("pred must be", lambda x: tinyt.cond("yes", lambda: x, lambda: x)),
        ("callable", lambda x: tinyt.cond(x[0] > 0, 1, lambda: x)),
        ("operands must be a tuple", lambda x: tinyt.cond(x[0] > 0, abs, abs, x)),
        ("operands must consist", lambda x: tinyt.cond(x[0] > 0, abs, abs, (1,))),
        (r"result 0 is float32\[3\] of true_fn and float64\[3\] of false_fn",
         lambda x: tinyt.cond(x[0] > 0, lambda: x, lambda: x.double())),
        (r"float32\[2\] of false_fn", lambda x: tinyt.cond(x[0] > 0, lambda: x, lambda: x[1:])),
        ("nest", lambda x: tinyt.cond(x[0] > 0, lambda: x, lambda: (x,))),
        ("what a branch returns", lambda x: tinyt.cond(x[0] > 0, lambda: x, lambda: 1)),
    ],
)  # fmt: skip
def test_wrong_branches(mode: str, match: str, call: Any) -> None:
    function = call if mode == "eager" else compile(call)
    with pytest.raises(RuntimeError, match=match):
        function(tinyt.ones(3))


# ---- while_loop


def test_a_loop_whose_end_depends_on_data_is_one_node() -> None:
    w = tinyt.ones(3) * 0.5

    def run(x: Tensor) -> Any:
        def more(i: Tensor, x: Tensor) -> Tensor:
            return (x.sum() < 100) & (i < 50)

        return tinyt.while_loop(more, lambda i, x: (i + 1, x * 1.5 + w), (tinyt.tensor(0), x))

    args = [(tinyt.rand(3) * 10.0**k,) for k in (-2, 0, 1, 3)]
    compiled = is_same(run, *args)
    assert names(compiled).count("while_loop") == 1
    count, x = 0, args[1][0].numpy(force=True)
    while x.sum() < 100 and count < 50:
        count, x = count + 1, (x * np.float32(1.5) + np.float32(0.5)).astype("f")
    assert run(args[1][0])[0].item() == count
    np.testing.assert_allclose(run(args[1][0])[1].numpy(force=True), x, rtol=1e-6)
    never = run(args[3][0])
    assert never[0].item() == 0
    assert never[1].data_ptr() != args[3][0].data_ptr()


def test_a_loop_that_carries_one_tensor_twice() -> None:
    def body(x: Tensor, y: Tensor) -> Any:
        both = x + y
        return both, both

    is_same(lambda *xs: tinyt.while_loop(lambda x, y: x.sum() < 50, body, xs),
            (tinyt.ones(3), tinyt.ones(3) * 2))  # fmt: skip


def test_loops_in_scans_and_scans_in_loops() -> None:
    def halve(x: Tensor) -> Tensor:
        out: Tensor = tinyt.while_loop(lambda x: x.abs().max() > 1, lambda x: (x * 0.5,), (x,))[0]
        return out

    def run(c: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            c = halve(c + x)
            return c, c + 1

        c, ys = tinyt.scan(step, c, xs)

        def again(c: Tensor, n: Tensor) -> Any:
            return tinyt.scan(lambda c, x: (c * 1.25, c + x), c, xs)[0], n + 1

        return ys, tinyt.while_loop(lambda c, n: n < 3, again, (c, tinyt.tensor(0)))

    is_same(run, (tinyt.randn(3), tinyt.randn(4, 3) * 5))


def test_the_gradient_of_a_loop_is_that_of_its_steps() -> None:
    w = nn.Parameter(tinyt.tensor([1.5, 2.0, 1.25]))

    def run(x: Tensor) -> Any:
        loss, n = tinyt.while_loop(
            lambda x, n: x.sum() < 20,
            lambda x, n: ((x * w).sin() + x * w, n + 1),
            (x, tinyt.tensor(0)),
        )
        return n, tinyt.autograd.grad((loss * loss).sum(), [x, w])

    def loop(x: Tensor) -> Any:
        start, n = x, 0
        while x.sum() < 20:
            x, n = (x * w).sin() + x * w, n + 1
        return n, tinyt.autograd.grad((x * x).sum(), [start, w])

    for start in (1.0, 5.0):
        x = tinyt.full((3,), start).requires_grad_()
        (n, found), (steps, want) = run(x), loop(x)
        assert n.item() == steps
        assert bits(found) == bits(want)


def test_a_compiled_loop_has_a_gradient_only_where_its_end_is_known() -> None:
    w = nn.Parameter(tinyt.ones(3) * 1.5)

    def known(x: Tensor) -> Any:
        y, _ = tinyt.while_loop(lambda x, n: n < 3, lambda x, n: (x * w, n + 1), (x, 0))
        return y.detach(), tinyt.autograd.grad(y.sum(), [w])

    is_same(known, (tinyt.rand(3),))

    def unknown(x: Tensor) -> Any:
        return tinyt.while_loop(lambda x: x.sum() < 0, lambda x: (x * w,), (x,))

    assert unknown(tinyt.ones(3))[0].tolist() == [1.0] * 3
    with pytest.raises(tinyt.CaptureError, match=r"requires grad.*use scan"):
        compile(unknown)(tinyt.ones(3))
    with pytest.raises(tinyt.CaptureError, match=r"requires grad.*use scan"):
        compile(lambda x: tinyt.while_loop(lambda x: x.sum() < 9, lambda x: (x + 1,), (x,)))(
            tinyt.ones(3, requires_grad=True)
        )
    with tinyt.no_grad():
        is_same(lambda x: tinyt.while_loop(lambda x: x.sum() < 9, lambda x: (x * (w + 1),), (x,)),
                (tinyt.ones(3),))  # fmt: skip


def test_a_loop_whose_end_is_known_runs_step_by_step() -> None:
    def run(x: Tensor) -> Any:
        return tinyt.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x))

    assert run(tinyt.ones(2))[0] == 3
    assert "while_loop" not in names(is_same(run, (tinyt.randn(2),)))


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("callable", lambda x: tinyt.while_loop(1, lambda x: (x,), (x,))),
        ("tuple or list", lambda x: tinyt.while_loop(lambda x: x[0] < 2, lambda x: (x,), x)),
        ("consist of tensors", lambda x: tinyt.while_loop(lambda x: False, lambda x: (x,), ("a",))),
        (r"0-d bool tensor, got float32\[3\]",
         lambda x: tinyt.while_loop(lambda x: x, lambda x: (x,), (x,))),
        ("got 'a'", lambda x: tinyt.while_loop(lambda x: "a", lambda x: (x,), (x,))),
        ("nested", lambda x: tinyt.while_loop(lambda x: x[0] < 2, lambda x: (x, x), (x,))),
        (r"value 0 is float64\[3\], not float32\[3\]",
         lambda x: tinyt.while_loop(lambda x: x[0] < 2, lambda x: (x.double(),), (x,))),
    ],
)  # fmt: skip
def test_wrong_loops(mode: str, match: str, call: Any) -> None:
    function = call if mode == "eager" else compile(call)
    with pytest.raises(RuntimeError, match=match):
        function(tinyt.ones(3))


# ---- what a program cannot do


def write_into_a_carry(x: Tensor) -> Any:
    return tinyt.scan(lambda c, s: (c.add_(s), s * 1), tinyt.zeros(3), x)


def test_writing_into_a_carry_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="must not write into its inputs"):
        write_into_a_carry(tinyt.ones(2, 3))
    with pytest.raises(RuntimeError, match="write into"):
        compile(write_into_a_carry)(tinyt.ones(2, 3))


def test_what_cannot_be_compiled_says_so() -> None:
    state = tinyt.zeros(3)
    x = tinyt.ones(2, 3)

    def writes(x: Tensor) -> Any:
        return tinyt.cond(x.sum() > 0, lambda: state.add_(1.0), lambda: state * 1)

    def looks(x: Tensor) -> Any:
        return tinyt.cond(x.sum() > 0, lambda: x * x.sum().item(), lambda: x * 1)

    def draws(x: Tensor) -> Any:
        return tinyt.cond(x.sum() > 0, lambda: tinyt.rand(3), lambda: tinyt.zeros(3))

    def loops(x: Tensor) -> Any:
        return tinyt.while_loop(lambda x: x.sum() < 9, lambda x: (x + tinyt.rand(3),), (x,))

    def counts(x: Tensor) -> Any:
        return tinyt.while_loop(lambda i, x: x.sum() < 9, lambda i, x: (i + 1, x + 1), (0, x))

    for function, match in (
        (writes, "writes into a tensor"),
        (looks, "not known while recording"),
        (draws, "different amounts of random"),
        (loops, "draw random numbers"),
        (counts, "carry a tensor"),
    ):
        with pytest.raises(tinyt.CaptureError, match=match):
            compile(function)(x[0] if function in (loops, counts) else x)
    w = nn.Parameter(tinyt.ones(3))

    def steps_inside(x: Tensor) -> Any:
        def step(c: Tensor, s: Tensor) -> Any:
            (c * w).sum().backward()
            return c * 1, s * 1

        return tinyt.scan(step, x[0], x)

    with pytest.raises(tinyt.CaptureError, match=r"uses `\.grad`"):
        compile(steps_inside)(x)


def test_another_body_is_another_program() -> None:
    scale = [1.0, 2.0]
    compiled = compile(
        lambda c, xs: tinyt.scan(lambda c, x: (c * scale[0] + x, c * scale[1]), c, xs)
    )
    args = tinyt.randn(3), tinyt.randn(4, 3)
    for change in (lambda: None, lambda: None, lambda: scale.__setitem__(0, 3.0), scale.reverse):
        change()
        assert bits(compiled(*args)) == bits(compiled.function(*args))


def test_a_body_that_changes_between_calls_is_an_error() -> None:
    # Two steps of the first call, and its recording.
    flip = drawn([True] * 3 + [False] * 8)

    def step(c: Tensor, x: Tensor) -> Any:
        return (c + x if flip() else c - x), c * 1

    compiled = compile(lambda c, xs: tinyt.scan(step, c, xs))
    args = tinyt.randn(3), tinyt.randn(2, 3)
    compiled(*args)
    with pytest.raises(tinyt.CaptureError, match="in scan: operation 0 was add, now it is sub"):
        compiled(*args)


def test_an_error_in_a_scan_leaves_everything_as_it_was() -> None:
    table = nn.Parameter(tinyt.randn(4, 3))
    optimizer = optim.SGD([table], lr=0.1)

    def run(index: Tensor) -> Tensor:
        optimizer.zero_grad()
        c, _ = tinyt.scan(lambda c, i: (c + F.embedding(i, table), i * 1), tinyt.zeros(3), index)
        loss = (c * c).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = compile(run)
    for _ in range(3):
        compiled(tinyt.tensor([0, 1, 2]))
    before = bits(table)
    with pytest.raises(IndexError):
        compiled(tinyt.tensor([0, 9, 2]))
    assert bits(table) == before
    assert compiled(tinyt.tensor([0, 1, 2])).isfinite()
