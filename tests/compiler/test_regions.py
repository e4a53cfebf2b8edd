"""Regions: elementwise operations that run together, part by part, over any loops, and reductions
that end them; the bits are eager's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import tinyt
from drawn import same
from tinyt import Tensor

UNARY: Sequence[Callable[[Tensor], Tensor]] = (
    tinyt.exp,
    tinyt.tanh,
    tinyt.abs,
    tinyt.neg,
    lambda x: x * 0.5,
    lambda x: tinyt.where(x > 0, x, x - 1.0),
)
BINARY: Sequence[Callable[[Tensor, Tensor], Tensor]] = (tinyt.add, tinyt.mul, tinyt.minimum)
REDUCTIONS = ("sum", "prod", "amax", "amin")


def check(function: Callable[..., Any], *args: Tensor) -> tinyt._core.Program:
    """Compiled as eager, with one thread and two; the program."""
    want = function(*args)
    compiled = tinyt.compile(function)
    for threads in (1, 2):
        with tinyt.num_threads(threads):
            for _ in range(3):
                got = compiled(*args)
    for g, w in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        same(g, w)
    return tinyt._core.Program(compiled.entries[0].capture.core)


@st.composite
def operands(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two that broadcast, of any strides."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 7, 40, 130]), min_size=0, max_size=4))
    found = []
    for _ in range(2):
        own = [n if draw(st.booleans()) else 1 for n in shape]
        steps = [draw(st.sampled_from([1, 1, 2])) for _ in own]
        memory = tinyt.linspace(
            -2, 2, int(np.prod([n * s for n, s in zip(own, steps, strict=True)] or [1]))
        )
        x = memory.reshape([n * s for n, s in zip(own, steps, strict=True)])
        for d, s in enumerate(steps):
            x = x.narrow(d, 0, own[d]) if s == 1 else x.unflatten(d, (own[d], s)).select(d + 1, 0)
        order = draw(st.permutations(range(len(own))))
        back = [order.index(d) for d in range(len(own))]
        if draw(st.booleans()):  # the same tensor, its memory in another order
            x = x.permute(order).contiguous().permute(back)
        found.append(x)
    return found[0], found[1]


@given(operands(), st.data())
def test_chains(pair: tuple[Tensor, Tensor], data: st.DataObject) -> None:
    length = data.draw(st.integers(2, 6))
    steps = [data.draw(st.sampled_from([*UNARY, *BINARY])) for _ in range(length)]
    ending = data.draw(st.sampled_from(["", *REDUCTIONS]))
    dims = data.draw(st.integers(1, 2))

    def function(x: Tensor, y: Tensor) -> Tensor:
        x = x + y
        for step in steps:
            x = step(x, y) if step in BINARY else step(x)  # type: ignore[call-arg]
        if not ending or x.dim() < dims:
            return x
        if ending == "prod":
            return x.flatten(-dims).prod(-1)
        result: Tensor = getattr(x, ending)(tuple(range(-dims, 0)))
        return result

    check(function, *pair)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("cols", [1, 31, 33, 1023, 1025, 4095, 4096, 4097, 9000, 33000])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_rows_of_all_lengths(name: str, cols: int, dtype: str) -> None:
    """In blocks, and blocks in a tree, as eager reduces them."""
    x = tinyt.linspace(-1, 1, 3 * cols).reshape(3, cols)
    x = (1 + x * 1e-3 if name == "prod" else x * 1e3).to(getattr(tinyt, dtype))
    check(lambda x: getattr(x * x, name)(-1), x)


def test_one_value_a_channel() -> None:
    """No operand is copied to the region's shape."""

    def function(x: Tensor, bias: Tensor) -> Tensor:
        return tinyt.relu(x * 2.0 + bias.reshape(5, 1, 1))

    x, bias = tinyt.randn(3, 5, 4, 6), tinyt.randn(5)
    program = check(function, x, bias)
    assert program.steps() == [("mul", "add", "relu")]
    assert program.arena_bytes == 0


def test_results_past_the_caches() -> None:
    x = tinyt.linspace(-3, 3, 11_000_000)
    check(lambda x: tinyt.tanh(x * 0.5) + x, x)


def test_operands_from_beyond_the_caches() -> None:
    """What they push out is not kept: of several results, of rows, in place, and of one operand."""

    def function(x: Tensor, y: Tensor, row: Tensor) -> tuple[Tensor, ...]:
        z = x * y + row
        return z, z > 0, z.sum(1), (z * (x - y).amax(1, True)), (x - 1.0).exp(), (row * 2).sin()

    def place(x: Tensor, y: Tensor, row: Tensor) -> Tensor:
        z = x.exp().clone()
        return z.mul_(row).add_(y).sub_(x)

    x, y = tinyt.randn(2, 10007, 331)
    check(function, x, y, tinyt.randn(331))
    check(place, x, y, tinyt.randn(10007, 1))
    check(lambda x: (x.half() * 2.0).float() - x, x)


def test_a_result_takes_its_operands_place() -> None:
    """As a temporary of eager's does: a chain of products needs memory for two."""

    def function(x: Tensor) -> Tensor:
        for _ in range(4):
            x = tinyt.relu(x @ x) + 1.0
        return x

    x = tinyt.randn(64, 64) * 0.01
    program = check(function, x)
    assert program.arena_bytes <= 2 * 64 * 64 * 4


@pytest.mark.tiles
def test_boundaries() -> None:
    """One reason a step, and the bytes that are written and read because of it."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        return (tinyt.exp(x * 2.0) @ w).abs().sum(0)

    x, w = tinyt.randn(4, 8), tinyt.randn(8, 3)
    program = check(function, x, w)
    assert program.steps() == [("mul", "exp"), ("matmul", "abs"), ("sum",)]
    assert program.boundaries() == [
        ("an operation that runs alone", 2 * 4 * 8 * 4),
        ("a reduction of leading dimensions", 2 * 4 * 3 * 4),
        ("a result", 0),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("shape", "view"),
    [
        ((130, 200), lambda x: x.t()),
        ((3, 70, 90), lambda x: x.transpose(1, 2)),
        ((40, 11, 9), lambda x: x.permute(1, 2, 0)),
        ((64, 130), lambda x: x[:, ::2]),
        ((50, 600), lambda x: x.t()[:, 1:]),
        ((20_011,), lambda x: x[::8]),
        ((8, 8), lambda x: x.t().expand(3, 8, 8)),
    ],
)
def test_what_lies_otherwise_is_gathered(
    shape: tuple[int, ...], view: Callable[[Tensor], Tensor], dtype: str
) -> None:
    """Part by part: no copy is made, and nothing is written over it meanwhile."""
    x = (tinyt.randn(*shape) * 50).to(getattr(tinyt, dtype))
    program = check(lambda x: (view(x) + 1) * (view(x) + 2), x)
    assert [set(step) for step in program.steps()] == [{"add", "mul"}]
    assert program.arena_bytes == 0
    check(lambda x: view(x.clone() * 2) + 1, x)


def test_gathered_and_past_the_caches() -> None:
    x = tinyt.linspace(-3, 3, 22_000_000)
    check(lambda x: tinyt.relu(x[::2] * 0.5) + 1.0, x)


@pytest.mark.tiles
def test_tiled_copies_of_what_is_large() -> None:
    """From memory they are faster than parts gathered one by one."""
    program = check(lambda x: x.t() * 2.0 + 1.0, tinyt.randn(1100, 1000))
    assert program.steps() == [("copy",), ("mul", "add")]


FLOATS = ("float32", "float64", "bfloat16", "float16")
SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 3e38)
SHAPES: Sequence[tuple[int, ...]] = (
    (), (1,), (5,), (0, 3), (4, 1), (3, 33), (7, 130), (2, 3, 40), (1, 5000), (9, 4200), (2, 20000),
)  # fmt: skip


@st.composite
def leaves(draw: st.DrawFn) -> list[Tensor]:
    """Of one shape, or what broadcasts to it: other dtypes, strides and special values."""
    shape = draw(st.sampled_from(SHAPES))
    dtypes = draw(st.sampled_from([FLOATS, FLOATS, *((name,) for name in FLOATS)]))
    found = []
    for i in range(draw(st.integers(1, 4))):
        own = list(shape)
        kind = draw(st.sampled_from(["all", "all", "row", "column", "one"])) if i else "all"
        if kind == "row" and own:
            own = own[-1:]
        elif kind == "column" and own:
            own[-1] = 1
        elif kind == "one":
            own = []
        step = draw(st.sampled_from([1, 1, 2, -1]))
        n = int(np.prod(own))
        values = np.random.default_rng(draw(st.integers(0, 99))).normal(size=n * abs(step))
        if draw(st.booleans()) and n:
            places = draw(st.lists(st.integers(0, values.size - 1), max_size=4))
            for k, at in enumerate(places):
                values[at] = SPECIAL[(k + at) % len(SPECIAL)]
        with np.errstate(over="ignore"):
            x = tinyt.tensor(values).to(getattr(tinyt, draw(st.sampled_from(dtypes))))
        if step == 2:
            x = x[::2]
        x = x.reshape(own)
        if step == -1 and own:
            x = x.flip(0)
        if draw(st.booleans()) and len(own) > 1:  # the same tensor, its memory in another order
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        found.append(x)
    return found


@given(leaves(), st.data())
def test_drawn_graphs(tensors: list[Tensor], data: st.DataObject) -> None:
    """Values that several operations read, several results, reductions that are used again, casts,
    whatever lies between."""
    rank = tensors[0].dim()
    last = data.draw(st.integers(1, max(1, rank)))
    dims = tuple(range(-last, 0)) if rank else ()
    plan: list[tuple[str, int, int, int]] = []
    for _ in range(data.draw(st.integers(2, 14))):
        kind = data.draw(
            st.sampled_from(
                ["unary", "binary", "binary", "cast", "reduce", "drop", "where", "lead", "product"]
            )
        )
        pick = st.integers(0, 99)
        plan.append((kind, data.draw(pick), data.draw(pick), data.draw(pick)))
    wanted = data.draw(st.lists(st.integers(0, 99), min_size=1, max_size=4))

    def function(*args: Tensor) -> Any:
        pool = list(args)
        for kind, i, j, k in plan:
            x, y = pool[-1 - i % min(4, len(pool))], pool[j % len(pool)]
            if kind == "unary":
                x = UNARY[k % len(UNARY)](x)
            elif kind == "binary":
                x = (*BINARY, tinyt.sub, tinyt.div)[k % 5](x, y)
            elif kind == "cast":
                x = x.to(getattr(tinyt, (*FLOATS, "int32", "bool")[k % 6])).to(x.dtype)
            elif kind == "where":
                x = tinyt.where(x > y, x, y)
            elif kind in ("reduce", "drop") and rank and x.shape == args[0].shape and x.numel():
                x = (tinyt.sum, tinyt.amax, tinyt.amin)[k % 3](x, dims, keepdim=True)
                if kind == "drop":  # as the gradient of a sum without the dimensions
                    x = x.flatten().reshape(x.shape).expand(args[0].shape)
            elif kind == "lead" and x.dim() > 1:
                x = x.sum(0, keepdim=True)
            elif kind == "product" and x.dim() > 1 and x.numel() <= 20_000:
                x = x @ (x.transpose(-1, -2) @ x)
            pool.append(x)
        new = pool[len(args) :]
        return tuple(new[i % len(new)] * 1 for i in wanted)

    check(function, *tensors)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_rounded_after_every_operation(dtype: str) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x = tinyt.maximum(tinyt.tanh(x) * 1.3 + y, y)
        return tinyt.sin(-x).clamp(-0.7, 0.6) - tinyt.erf(x)

    x, y = (tinyt.randn(7000).to(getattr(tinyt, dtype)) for _ in range(2))
    assert len(check(function, x, y).steps()) == 1


def test_casts_join() -> None:
    """As autocast makes them."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        low = (x * 2).bfloat16() + y
        return low, low.float() * x

    x, y = tinyt.randn(40, 300), tinyt.randn(300).bfloat16()
    assert check(function, x, y).steps() == [("mul", "cast", "add", "cast", "mul")]


def test_integers_wrap_as_eager_does() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return (x * x + y) * 3 - (y.to(tinyt.int32) << 2)

    x, y = tinyt.arange(-130, 130).to(tinyt.int8), tinyt.arange(260).to(tinyt.uint8)
    check(function, x, y)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("number", [-1, 300, 70_000, 2**31])
def test_numbers_wrap_where_they_do_not_fit(dtype: str, number: int) -> None:
    def function(x: Tensor, zero: Tensor) -> tuple[Tensor, ...]:
        small = x <= number
        other = tinyt.tensor(number) + zero  # computed in the region, where all are 0-d
        return tinyt.where(small, 7, x), (x >= other).logical_not(), (x + other) * 2

    kind = getattr(tinyt, dtype)
    for x in (tinyt.tensor([0, 1, 44, 100], dtype=kind), tinyt.tensor(44, dtype=kind)):
        check(function, x, tinyt.tensor(0))


def test_several_results() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a = tinyt.exp(x)
        b = a * y
        return a, b + a, tinyt.tanh(b) * a

    x, y = tinyt.randn(50, 70), tinyt.randn(70)
    assert len(check(function, x, y).steps()) == 1


def test_what_lies_between_waits() -> None:
    """Nothing between the two halves of the chain depends on it."""

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = tinyt.exp(x)
        z = w @ w
        return y + 1.0, z

    x, w = tinyt.randn(9, 9), tinyt.randn(9, 9)
    assert check(function, x, w).steps() == [("matmul",), ("exp", "add")]


ROWS = [(5, 7), (64, 10), (3, 2, 33), (2, 4097), (40, 3000), (1, 70000), (300, 1)]


def normalised(x: Tensor, weight: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * tinyt.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * weight


def weighed(x: Tensor, weight: Tensor) -> Tensor:
    e = tinyt.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) * weight


def log_summed(x: Tensor, weight: Tensor) -> Tensor:
    top = x.amax(-1, keepdim=True)
    return top + tinyt.log(tinyt.exp(x - top).sum(-1, keepdim=True)) + 0 * weight.sum()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("function", [normalised, weighed, log_summed])
def test_rows(function: Callable[..., Tensor], shape: tuple[int, ...], dtype: str) -> None:
    """Forward and backward."""
    x = tinyt.randn(*shape).to(getattr(tinyt, dtype)).requires_grad_()
    weight = tinyt.randn(shape[-1]).to(getattr(tinyt, dtype)).requires_grad_()

    def both(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        y = function(x, weight)
        return y.detach(), *tinyt.autograd.grad(y, (x, weight), tinyt.ones_like(y))

    check(both, x, weight)


def test_softmax_is_one_step() -> None:
    x = tinyt.randn(30, 40)
    program = check(lambda x: weighed(x, x), x)
    assert program.steps() == [("amax", "sub", "exp", "sum", "div", "mul")]
    assert program.boundaries() == [("a result", 0)]


def test_what_a_reduction_has_read_does_not_wait() -> None:
    """Products that only leading-dimension sums read are no results of one region: they would all
    be there at once."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return tinyt.stack([(x * y[i]).sum(0) for i in range(20)])

    x, y = tinyt.randn(30, 100), tinyt.randn(20, 100)
    program = check(function, x, y)
    assert program.steps()[:2] == [("mul",), ("sum",)]
    assert program.arena_bytes <= 2 * 30 * 100 * 4 + 20 * 512


def test_siblings_share_what_they_read() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, tinyt.maximum(x, y) - x

    x, y = tinyt.randn(30, 40), tinyt.randn(30, 40)
    assert check(function, x, y).steps() == [("mul", "maximum", "sub")]


@pytest.mark.parametrize("n", [300, 1200])
def test_steps_grow_with_the_graph(n: int) -> None:
    """No region has more than its limit of nodes."""

    def function(x: Tensor) -> Tensor:
        for i in range(n):
            x = x * 1.5 if i % 2 else x + 0.25
        return x

    steps = check(function, tinyt.randn(7)).steps()
    assert sum(map(len, steps)) == n
    assert len(steps) == -(-n // 64)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(3, 9000), (2, 3, 5000), (1, 100_000)])
def test_long_rows_of_several_reductions(shape: tuple[int, ...], dtype: str) -> None:
    """Reduced side by side, block by block, while what they read is written, too."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * x + 1.0
        return y, y.sum(-1) * 0.5, y.amax(-1, keepdim=True), (y - x).mean(-1)

    x = tinyt.randn(*shape).to(getattr(tinyt, dtype))
    assert len(check(function, x).steps()) == 1


def test_rows_too_long_for_the_cache() -> None:
    x = tinyt.randn(2, 70_000)
    program = check(lambda x: weighed(x, x), x)
    assert program.steps() == [("amax",), ("sub", "exp", "sum"), ("div", "mul")]
    assert [reason for reason, _ in program.boundaries()] == [
        "rows too long for the cache",
        "rows too long for the cache",
        "a result",
    ]


def test_products_and_sums_have_blocks_of_their_own() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = 1 + x * 1e-3
        return y.sum(-1), y.prod(-1)

    check(function, tinyt.randn(3, 9000))


@pytest.mark.parametrize("cols", [2000, 4096, 4097, 9000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_reductions_of_many_live_values(cols: int, dtype: str) -> None:
    """Rows go on in pieces: of an operand that a result replaces, of a result, of values."""
    x, y = (tinyt.randn(3, cols).to(getattr(tinyt, dtype)) for _ in range(2))

    def run(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values = [(x * (k + 1)).sin() for k in range(12)]
        y = tinyt.sort(y)[0]
        z = y
        for v in values:
            z = z - v
        for v in reversed(values):
            z = z * v
        first, whole, made = x * 1.5, y.sum(-1), z - x
        sums = first.sum(-1), whole, (made * made).sum(-1), made.sum(-1), z.amax(-1)
        return *sums, tinyt.sort(made)[0]

    program = check(run, x, y)
    assert len(program.steps()) == 3
    with tinyt.num_threads(1):
        assert program.scratch_bytes()[1] <= 6 * max(x.itemsize, 4) * min(cols, 4096) + 1024
