"""What functions of control flow may do inside, and what surrounds them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tinyt
from flow import Cell, bits, is_same, names
from tinyt import CaptureError, Tensor, nn, optim
from tinyt.compiler.api import compile


class Square(tinyt.autograd.Function):
    """With a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        slope: Tensor = g * 2 * ctx.saved_tensors[0]
        return slope


def two() -> tuple[Tensor, Tensor]:
    """A carry and slices."""
    tinyt.manual_seed(0)
    return tinyt.randn(3, requires_grad=True), tinyt.randn(4, 3, requires_grad=True)


def test_gradients_inside() -> None:
    w = tinyt.ones(3)

    def run(init: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            at = c.detach().requires_grad_()
            (g,) = tinyt.autograd.grad((at * w * x).sin().sum(), [at])
            return c - 0.1 * g, g * 1

        c, ys = tinyt.scan(step, init, xs)
        return c.detach(), ys.detach(), tinyt.autograd.grad(c.sum(), [init])

    is_same(run, two())


def test_functions_and_hooks_of_the_tape() -> None:
    w = tinyt.randn(3, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            h = c * w + x
            h.register_hook(lambda g: g * 2)
            return Square.apply(h * 0.5), c * 1

        c, ys = tinyt.scan(step, init, xs)
        return c.detach(), tinyt.autograd.grad(c.sum() + ys.sum(), [init, xs, w])

    is_same(run, two())


def spoiled(x: Tensor) -> Tensor:
    """Its gradient is an error: the first sigmoid's output is written."""
    return x.sigmoid().sigmoid_()


def test_an_error_in_a_gradient_arises_only_where_one_arrives() -> None:
    def nested(init: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            inner, _ = tinyt.scan(lambda c, x: (spoiled(c * x), x * 1), c, xs)
            return c * x, inner

        _, ys = tinyt.scan(step, init, xs)
        return ys.detach(), tinyt.autograd.grad((init * xs).sum(), [init])

    def chosen(init: Tensor, xs: Tensor) -> Any:
        y = tinyt.cond(init.sum() > 0, spoiled, lambda x: x * 2, (init,))
        return y.detach(), tinyt.autograd.grad((init * xs).sum(), [init])

    is_same(nested, two())
    is_same(chosen, two())


def test_an_error_in_a_gradient_that_arrives() -> None:
    def scanned(init: Tensor, xs: Tensor) -> Any:
        c, _ = tinyt.scan(lambda c, x: (spoiled(c * x), x * 1), init, xs)
        return tinyt.autograd.grad(c.sum(), [init])

    def chosen(init: Tensor, xs: Tensor) -> Any:
        y = tinyt.cond(init.sum() > 9, spoiled, lambda x: x * 2, (init,))
        return tinyt.autograd.grad(y.sum(), [init])

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        scanned(*two())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        compile(scanned)(*two())
    chosen(*two())
    with pytest.raises(CaptureError, match=r"of a branch cannot be recorded: .* modified by an in"):
        compile(chosen)(*two())


def test_a_hook_of_a_leaf_sees_the_whole_gradient_once() -> None:
    w = tinyt.randn(3, requires_grad=True)
    seen: list[Any] = []
    w.register_hook(lambda g: seen.append(bits(g)))
    init, xs = two()
    c, _ = tinyt.scan(lambda c, x: (c * w + x, c * 1), init, xs)
    c.sum().backward()
    assert seen == [bits(w.grad)]


def test_items_constants_and_views() -> None:
    rate, table = tinyt.tensor(0.5), tinyt.randn(6)

    def run(init: Tensor, xs: Tensor) -> Any:
        part = table[::2]

        def step(c: Tensor, x: Tensor) -> Any:
            c = c * rate.item() + x * part + tinyt.tensor([1.0, 2.0, 3.0]) * tinyt.arange(3)
            return c, c[1:] + tinyt.zeros(2)

        return tinyt.scan(step, init.detach(), xs.detach())

    args = two()
    compiled = is_same(run, args)
    rate.fill_(0.25)
    assert bits(compiled(*args)) == bits(run(*args))
    assert compiled.cache_info().currsize == 1


def test_memory_that_is_written_before_and_after() -> None:
    state = tinyt.zeros(3)

    def run(init: Tensor, xs: Tensor) -> Any:
        state.add_(1.0)
        rest = state[1:]
        c, ys = tinyt.scan(lambda c, x: (c + state * x, c[1:] * rest), init, xs)
        state.mul_(2.0)
        state[0] = c[0]
        return c, ys, state.clone()

    args = [x.detach() for x in two()]
    found = []
    for function in (run, compile(run)):
        state.zero_()
        found.append([bits(function(*args)) for _ in range(4)])
    assert found[0] == found[1]


def test_gradients_that_are_added_to_others() -> None:
    w = nn.Parameter(tinyt.randn(3))

    def run(init: Tensor, xs: Tensor) -> Tensor:
        c, ys = tinyt.scan(lambda c, x: (c * w + x, c * 1), init, xs)
        (c.sum() + ys.sum()).backward()
        return c.detach()

    args = [x.detach() for x in two()]
    found = []
    for function in (run, compile(run)):
        w.grad = None
        found.append([(bits(function(*args)), bits(w.grad)) for _ in range(4)])
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [tinyt.float64, tinyt.bfloat16, tinyt.float16])
def test_dtypes(kind: Any) -> None:
    w = tinyt.randn(3).to(kind).requires_grad_()

    def run(init: Tensor, xs: Tensor) -> Any:
        c, ys = tinyt.scan(lambda c, x: (tinyt.tanh(c * w + x), (c * 2).sum()), init, xs)
        return c.detach(), ys.detach(), tinyt.autograd.grad(c.sum() + ys.sum(), [w, init])

    is_same(run, tuple(x.detach().to(kind).requires_grad_() for x in two()))


def test_integers_bools_and_complex_numbers() -> None:
    is_same(
        lambda i, xs: tinyt.scan(lambda c, x: (c + x, c > 2), i, xs),
        (tinyt.tensor(0), tinyt.arange(6)),
    )
    is_same(
        lambda i, xs: tinyt.scan(lambda c, x: (c ^ x, (c, x)), i, xs),
        (tinyt.tensor(False), tinyt.arange(5) > 2),
    )
    turn = tinyt.randn(3, dtype=tinyt.complex64)
    is_same(
        lambda i, xs: tinyt.scan(lambda c, x: (c * turn + x, tinyt.view_as_real(c).abs()), i, xs),
        (tinyt.randn(3, dtype=tinyt.complex64), tinyt.randn(4, 3, dtype=tinyt.complex64)),
    )


def test_no_elements() -> None:
    w = tinyt.randn(0, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        c, ys = tinyt.scan(lambda c, x: (c * w + x, c * 2), init, xs)
        return c.detach(), ys.detach(), tinyt.autograd.grad(c.sum() + ys.sum(), [w, init])

    is_same(run, (tinyt.randn(2, 0, requires_grad=True), tinyt.randn(4, 2, 0)))


def test_strides() -> None:
    w = tinyt.randn(4, requires_grad=True)

    def run(init: Tensor, xs: Tensor) -> Any:
        start, slices = init.t(), xs.flip(0).transpose(1, 2)
        c, ys = tinyt.scan(lambda c, x: (tinyt.tanh(c * w + x), c.t()), start, slices, dim=-1)
        return c.detach(), ys.detach(), tinyt.autograd.grad(c.sum() + ys.sum(), [w, init, xs])

    is_same(run, (tinyt.randn(4, 3, requires_grad=True), tinyt.randn(3, 5, 4, requires_grad=True)))


@pytest.mark.parametrize("which", [True, False])
@pytest.mark.parametrize(
    "branch",
    [Tensor.t, lambda x: x.reshape(5, 4), lambda x: x, lambda x: x.sum(0), lambda x: x[0] * 1],
)
def test_gradients_of_branches_are_new_tensors(which: bool, branch: Any) -> None:
    pred = tinyt.tensor(which)

    def run(x: Tensor, y: Tensor) -> Any:
        def of(x: Tensor, y: Tensor) -> Tensor:
            return tinyt.cond(pred, lambda x, y: branch(x + y), lambda x, y: branch(x * y), (x, y))

        return slopes_written_to(of, x, y)

    lies_as_eager(run, tinyt.randn(4, 5), tinyt.randn(4, 5))


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(
    "step",
    [
        lambda c, x, w: (c + w.t(), x * 1),
        lambda c, x, w: (c, x + w.t()),
        lambda c, x, w: (c.reshape(4, 5).t() + x, w * 1),
        lambda c, x, w: (x + w.sum(), c.t()),
    ],
)
def test_gradients_of_scans_are_new_tensors(steps: int, step: Any) -> None:
    def run(init: Tensor, xs: Tensor, w: Tensor) -> Any:
        def of(init: Tensor, xs: Tensor, w: Tensor) -> Tensor:
            return tinyt.scan(lambda c, x: step(c, x, w), init, xs)[0]

        return slopes_written_to(of, init, xs, w)

    lies_as_eager(run, tinyt.randn(5, 4), tinyt.randn(steps, 5, 4), tinyt.randn(4, 5))


def slopes_written_to(function: Any, *args: Tensor) -> Any:
    """Gradients from an expanded one and from a dense one, in memory that each has for itself."""
    leaves = [x.detach().requires_grad_() for x in args]
    found = []
    for is_dense in (False, True):
        y = function(*leaves)
        start = tinyt.ones(()).expand(y.shape)
        found += tinyt.autograd.grad(y, leaves, start.clone() if is_dense else start)
    for factor, g in enumerate(found, 2):
        g.mul_(factor)
    return found


def lies_as_eager(function: Any, *args: Tensor) -> None:
    """With verification, and with strides as in eager mode."""
    wanted = function(*args)
    compiled = compile(function, verify=True)
    for _ in range(3):
        found = compiled(*args)
        assert bits(found) == bits(wanted)
        assert [x.stride() for x in found] == [x.stride() for x in wanted]


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
@pytest.mark.parametrize("wanting", [(), (0,), (1,), (2,), (0, 1)])
@pytest.mark.parametrize("step", [
    lambda a, b, c, x: (b * 1, tinyt.ones(3), c * x, a * 2),
    lambda a, b, c, x: (b * 1, c * 2, a * x, b + x),
    lambda a, b, c, x: (tinyt.ones(3), a * x, b + c, b * c),
    lambda a, b, c, x: (a + b, b.detach(), c.detach() * x, c * 1),
], ids=["dies", "turns", "moves", "detaches"])  # fmt: skip
def test_what_has_a_gradient_after_some_steps(steps: int, wanting: Any, step: Any) -> None:
    """Is what has one in eager mode, where each step has a tape of its own."""

    def run(xs: Tensor, *carry: Tensor) -> Any:
        carry = tuple(x.detach().requires_grad_(i in wanting) for i, x in enumerate(carry))

        def body(c: Any, x: Tensor) -> Any:
            *after, y = step(*c, x)
            return tuple(after), y

        after, ys = tinyt.scan(body, carry, xs)
        has = [x.requires_grad for x in (*after, ys)]
        if not any(has):
            return has
        loss = sum(((x * x).sum() for x in (*after, ys)), tinyt.zeros(()))
        leaves = [x for x in carry if x.requires_grad]
        return has, tinyt.autograd.grad(loss, leaves, allow_unused=True)

    is_same(run, (tinyt.randn(steps, 3), *(tinyt.randn(3) for _ in range(3))))


def test_one_tensor_as_all_arguments() -> None:
    w = tinyt.randn(3, requires_grad=True)

    def run(a: Tensor) -> Any:
        c, ys = tinyt.scan(lambda c, x: (c * w + x[0] * x[1], c * a[0]), a[0], (a, a))
        return c.detach(), tinyt.autograd.grad(c.sum() + ys.sum(), [w, a])

    is_same(run, (tinyt.randn(4, 3, requires_grad=True),))


@pytest.mark.host
def test_calls_from_several_threads() -> None:
    cell = Cell(4, 5)
    compiled = compile(lambda xs: tinyt.scan(cell, (tinyt.zeros(2, 5), tinyt.zeros(2, 5)), xs)[1])
    args = [tinyt.randn(20, 2, 4) for _ in range(4)]
    wanted = [bits(compiled.function(x)) for x in args]
    wrong: list[int] = []

    def call(k: int) -> None:
        wrong.extend(k for _ in range(20) if bits(compiled(args[k])) != wanted[k])

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.host
def test_no_memory_is_asked_of_the_system_and_no_more_is_used_than_by_eager() -> None:
    cell = Cell(32, 32)

    def run(xs: Tensor) -> Tensor:
        (h, _), _ = tinyt.scan(cell, (tinyt.zeros(8, 32), tinyt.zeros(8, 32)), xs)
        for p in cell.parameters():
            p.grad = None
        (h * h).sum().backward()
        return h.detach()

    xs, compiled = tinyt.randn(50, 8, 32), compile(run)
    peaks = []
    for function in (run, compiled):
        for _ in range(3):
            function(xs)
        tinyt.memory.reset_peak()
        asked = tinyt.memory.statistics()["system_allocations"]
        for _ in range(3):
            function(xs)
        peaks.append(tinyt.memory.statistics()["peak_bytes"])
    assert tinyt.memory.statistics()["system_allocations"] == asked
    assert peaks[1] <= peaks[0]


def test_what_is_the_same_in_every_step_is_computed_or_kept_once() -> None:
    w = tinyt.randn(7, 7, requires_grad=True)

    def run(init: Tensor, xs: Tensor, rate: float) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            noise = tinyt.rand(7, 7)
            same = tinyt.sin(w.t()) * w
            return tinyt.tanh(c @ same + x) @ (w * noise) @ tinyt.exp(same * rate), None

        c, _ = tinyt.scan(step, init, xs)
        return c.detach(), tinyt.autograd.grad(c.sum(), [w])

    args = tinyt.randn(2, 7), tinyt.randn(5, 2, 7), 0.5
    compiled, found = compile(run), []
    for function in (run, compiled):
        tinyt.manual_seed(3)
        found.append([bits(function(*args)) for _ in range(3)])
    assert found[0] == found[1]
    assert names(compiled).count("sin") == 1
    assert "exp" not in names(compiled)  # it depends on a number, which may be another next time
    graph = compiled.entries[0].capture.graph
    forward = next(node for node in graph.nodes if node.op == "scan")
    shapes = [graph.values[v].shape for v in forward.outputs]
    assert shapes.count((5, 7, 7)) == 2  # the noise, and the product with it
    assert (7, 7) in shapes


def test_an_index_out_of_range_that_is_the_same_in_every_step() -> None:
    table, index = tinyt.randn(4, 3), tinyt.tensor([1, 2])

    def run(init: Tensor, xs: Tensor) -> Any:
        return tinyt.scan(lambda c, x: (c + table[index].sum(0) * x, c * 1), init, xs)

    compiled = is_same(run, tuple(x.detach() for x in two()))
    index.fill_(9)
    with pytest.raises(IndexError):
        compiled(*(x.detach() for x in two()))


def test_running_statistics_and_optimisers_stay_outside() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    optimizer = optim.SGD([nn.Parameter(tinyt.ones(3))], lr=0.1)

    def normed(c: Tensor, x: Tensor) -> Any:
        return net(c + x).detach(), c * 1

    def stepping(c: Tensor, x: Tensor) -> Any:
        optimizer.step()
        return c + x, c * 1

    args = tinyt.randn(5, 3), tinyt.randn(4, 5, 3)
    for step, match in ((normed, "writes into a tensor"), (stepping, r"uses `\.grad`")):
        with pytest.raises(tinyt.CaptureError, match=match):
            compile(lambda c, xs, step=step: tinyt.scan(step, c, xs))(*args)
    net.eval()
    is_same(lambda c, xs: tinyt.scan(normed, c, xs), args)


def test_what_a_step_keeps_is_an_error() -> None:
    kept: list[Tensor] = []

    def run(init: Tensor, xs: Tensor) -> Tensor:
        def step(c: Tensor, x: Tensor) -> Any:
            kept.append(c)
            return c + x, c * 1

        out: Tensor = tinyt.scan(step, init, xs)[0] * kept[-1]
        return out

    with pytest.raises(tinyt.CaptureError, match="of another recording"):
        compile(run)(*(x.detach() for x in two()))
    kept.clear()
