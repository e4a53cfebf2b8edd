"""Regions that begin with a product: what follows runs on its result, block by block where the
kernel tells when blocks are final. Bits are eager's, memory is what the program says and no more
than eager's, and lanes, limits of memory and reports are as for any step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import tinyt
import tinyt.nn.functional as F
from compiler.test_regions import same
from tinyt import Tensor, memory

pytestmark = pytest.mark.tiles

FLOATS = (tinyt.float32, tinyt.float64, tinyt.bfloat16, tinyt.float16)


def check(function: Callable[..., Any], *args: Tensor) -> tinyt._core.Program:
    """Compiled as eager for one to three threads, with the memory that was planned; the program."""
    want = function(*args)
    compiled = tinyt.compile(function)
    got = None
    for threads in (1, 2, 3):
        with tinyt.num_threads(threads):
            for _ in range(2):
                got = compiled(*args)
            program = compiled.entries[0].program_object
            del got
            planned = program.peak_bytes
            before = memory.statistics()["current_bytes"]
            memory.reset_peak()
            got = compiled(*args)
            assert memory.statistics()["peak_bytes"] - before == planned
    for g, w in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
        same(g, w)
    return tinyt._core.Program(compiled.entries[0].capture.core)


def with_room(function: Callable[..., Any]) -> Callable[..., Any]:
    """With one more result, larger than all that regions and kernels take for themselves."""

    def roomy(x: Tensor, *others: Tensor) -> Any:
        made = function(x, *others)
        return *(made if isinstance(made, tuple) else (made,)), x.flatten()[:1].expand(1 << 21) + 1

    return roomy


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + tinyt.erf(x * math.sqrt(0.5)))


# Forms of the kernels: single tasks, in place, narrow, wide, a batch of small ones, vectors, long
# sums, nothing to sum, and nothing at all.
SHAPES = [
    ((3, 5), (5, 7)),
    ((64, 64), (64, 128)),
    ((129, 200), (200, 77)),
    ((50, 1100), (1100, 333)),
    ((700, 300), (300, 1000)),
    ((200, 1), (1, 3000)),
    ((24, 7, 9), (24, 9, 5)),
    ((2, 150, 90), (2, 90, 160)),
    ((3, 40, 30), (30, 20)),
    ((40, 300), (300,)),
    ((300,), (300, 40)),
    ((20, 20000), (20000, 30)),
    ((20, 100), (100, 20000)),
    ((32, 60), (60, 10000)),
    ((5000, 40), (40, 64)),
    ((3000, 7, 9), (3000, 9, 15)),
    ((3000, 600), (600, 100)),
    ((4, 0), (0, 6)),
    ((0, 4), (4, 6)),
    ((1, 4), (4, 1)),
    ((7, 4), (4, 1)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
def test_every_form_of_a_product(a: tuple[int, ...], b: tuple[int, ...], turned: str) -> None:
    def operand(shape: tuple[int, ...], is_turned: bool) -> Tensor:
        if not is_turned or len(shape) < 2:
            return tinyt.randn(shape)
        return tinyt.randn(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)

    x, y = operand(a, "a" in turned), operand(b, "b" in turned)
    program = check(lambda x, y: gelu(x @ y), x, y)
    if (x @ y).numel() > 1:
        assert program.steps() == [("matmul", "mul", "mul", "erf", "add", "mul")]


# Few channels, lines, regions, columns, Winograd's, pointwise ones; 1 to 3 dimensions, groups.
CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 40, 50), (4, 3, 3, 3), {}),
    ((2, 24, 96, 96), (24, 1, 3, 3), {"padding": 1, "groups": 24}),
    ((3, 16, 90, 80), (32, 16, 5, 5), {"padding": 2}),
    ((2, 16, 12, 700), (40, 16, 3, 3), {"padding": 1, "stride": 2}),
    ((4, 128, 7, 7), (128, 128, 3, 3), {"padding": 2, "dilation": 2}),
    ((9, 64, 60, 50), (70, 64, 1, 1), {}),
    ((2, 32, 64, 64), (64, 32, 3, 3), {"padding": 1}),
    ((2, 12, 30, 31), (20, 6, 2, 3), {"groups": 2, "stride": (2, 1)}),
    ((2, 8, 5000), (30, 8, 9), {"padding": 4}),
    ((1, 6, 9, 30, 40), (33, 6, 3, 3, 3), {"padding": 1}),
    ((1, 2, 3, 3), (2, 2, 5, 5), {"padding": 1}),
]


@pytest.mark.parametrize(("x", "w", "how"), CONVOLUTIONS)
@pytest.mark.parametrize("t", FLOATS)
def test_convolutions(
    x: tuple[int, ...], w: tuple[int, ...], how: dict[str, Any], t: tinyt.dtype
) -> None:
    """A bias of each channel, another operand of each position; also of transposed ones."""
    forward = (F.conv1d, F.conv2d, F.conv3d)[len(x) - 3]
    backward = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(x) - 3]
    image, weight, bias = tinyt.randn(x).to(t), tinyt.randn(w).to(t), tinyt.randn(w[0]).to(t)
    out = forward(image, weight, **how)
    place = tinyt.randn(out.shape[2:]).to(t)

    def function(image: Tensor, weight: Tensor, bias: Tensor, place: Tensor) -> Any:
        y = forward(image, weight, bias, **how)
        return y.relu() * place, y

    program = check(with_room(function), image, weight, bias, place)
    assert ("conv", "add", "relu", "mul") in program.steps()
    rows = tinyt.randn(out.shape[-2:-1] + (1,)).to(t)
    if len(x) > 3:
        check(lambda x, w, rows: forward(x, w, **how) * rows, image, weight, rows)
    program = check(lambda out, w: backward(out, w, **how).relu() + 1.0, out, weight)
    assert ("conv_backward_input", "relu", "add") in program.steps()


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("rows", [1, 5, 100, 500])
def test_layers(t: tinyt.dtype, rows: int) -> None:
    """Another dtype is rounded to before what follows."""
    x, w = tinyt.randn(rows, 96).to(t), tinyt.randn(200, 96).to(t)
    bias, other = tinyt.randn(200).to(t), tinyt.randn(rows, 200).to(t)
    for function in (
        lambda x, w, bias, other: F.linear(x, w, bias).relu(),
        lambda x, w, bias, other: F.linear(x, w).tanh() * other + bias,
        lambda x, w, bias, other: tinyt.addmm(other, x, w.t()).sigmoid(),
        lambda x, w, bias, other: (F.linear(x, w, bias) > 0).float() * 2.0,
        lambda x, w, bias, other: (F.linear(x, w, bias).float() * 3.0).to(t) - other,
    ):
        step, room = check(with_room(function), x, w, bias, other).steps()
        assert step[0] in ("linear", "matmul", "matmul_add")
        assert room == ("add",)


def test_values_that_are_no_numbers() -> None:
    x, w = tinyt.randn(70, 40), tinyt.randn(40, 50)
    x[3, 4], x[5, 6], x[7] = math.inf, math.nan, -0.0
    w[1] = -math.inf
    check(lambda x, w: ((x @ w).relu(), (x @ w).abs() + 1.0, tinyt.isnan(x @ w)), x, w)


def test_integers() -> None:
    x = tinyt.randint(-1000, 1000, (60, 30))
    y = tinyt.randint(-1000, 1000, (30, 50), dtype=tinyt.int32)
    check(lambda x, y: (x @ y.long()) * 3 + 1, x, y)
    check(lambda x, y: (x.int() @ y) * 3 - y.sum(), x, y)


def test_several_results_and_operands() -> None:
    """What is needed besides is written, too; other operands broadcast."""
    x, w = tinyt.randn(4, 90, 30), tinyt.randn(30, 50)
    rows, cols, all = tinyt.randn(4, 90, 1), tinyt.randn(50), tinyt.randn(4, 90, 50)

    def function(x: Tensor, w: Tensor, rows: Tensor, cols: Tensor, all: Tensor) -> Any:
        y = x @ w
        z = y * rows + cols
        return y, z, z.relu() * all.transpose(0, 1).contiguous().transpose(0, 1), y > 0

    program = check(function, x, w, rows, cols, all)
    assert program.steps()[-1][0] == "matmul"
    batch = tinyt.randn(4, 1, 50)
    check(lambda x, w, batch: (x @ w + batch).exp(), x, w, batch)


def test_operands_that_are_multiplied_are_not_written_over() -> None:
    """A result may not take the place of what the product still reads."""

    def function(x: Tensor, w: Tensor) -> Tensor:
        a = x * 2.0
        return (a @ w) * a

    check(function, tinyt.randn(300, 300), tinyt.randn(300, 300))


def test_what_does_not_join() -> None:
    """Reductions, another shape, a value that is read before."""
    x, w = tinyt.randn(30, 40), tinyt.randn(40, 50)
    assert check(lambda x, w: (x @ w).exp().sum(1), x, w).steps() == [("matmul",), ("exp", "sum")]
    assert check(lambda x, w: (x @ w).reshape(50, 30) + 1.0, x, w).steps() == [
        ("matmul",),
        ("add",),
    ]

    def read_before(x: Tensor, w: Tensor) -> Tensor:
        y = x @ w
        return y * y.sum(0)

    assert check(read_before, x, w).steps() == [("matmul",), ("sum",), ("mul",)]
    # Of two, the last.
    two = check(lambda x, w: (x @ w).exp() + (x * 2.0) @ w, x, w)
    assert two.steps() == [("matmul",), ("mul",), ("matmul", "exp", "add")]


def test_one_memory_for_the_product_and_what_follows() -> None:
    """The result takes the product's place, so that no more is held than by two calls."""
    x, w = tinyt.randn(256, 256), tinyt.randn(256, 256)
    compiled = tinyt.compile(lambda x, w: gelu(x @ w))
    compiled(x, w)
    compiled(x, w)
    program = compiled.entries[0].program_object
    assert program.held_bytes() == [4 * 256 * 256]


def test_no_more_memory_than_eager() -> None:
    """An operand whose last use is the product is not kept beside several results."""

    def several(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * 2.0) @ w
        return y.relu(), y > 0.5

    x, w = tinyt.randn(400, 400), tinyt.randn(400, 400)
    program = check(several, x, w)
    assert program.steps() == [("mul",), ("matmul",), ("relu", "gt")]
    assert program.boundaries()[1] == ("a region would take more memory", 2 * 4 * 400 * 400)
    converted = check(lambda x, w: ((x * 2.0) @ w).int(), x, w)
    assert converted.steps() == [("mul",), ("matmul",), ("cast",)]
    one = check(lambda x, w: ((x * 2.0) @ w).relu(), x, w)
    assert one.steps() == [("mul",), ("matmul", "relu")]
    assert max(one.held_bytes()) == 2 * 4 * 400 * 400


@pytest.mark.parametrize("name", ["relu", "gelu", "tanh"])
def test_training(name: str) -> None:
    """Forward with what backward needs, masks of backward, and lanes beside each other."""
    activation = getattr(F, name)

    def step(x: Tensor, w1: Tensor, w2: Tensor) -> tuple[Tensor | None, ...]:
        for w in (w1, w2):
            w.grad = None
        loss = F.mse_loss(F.linear(activation(F.linear(x, w1)), w2), x)
        loss.backward()
        return loss.detach(), w1.grad, w2.grad

    x = tinyt.randn(48, 64)
    w1 = tinyt.randn(100, 64).requires_grad_()
    w2 = tinyt.randn(64, 100).requires_grad_()
    want = [bytes(t.numpy(force=True).tobytes()) for t in step(x, w1, w2) if t is not None]
    compiled = tinyt.compile(step)
    for threads in (1, 2, 3):
        with tinyt.num_threads(threads):
            for _ in range(2):
                got = compiled(x, w1, w2)
        assert [bytes(t.numpy(force=True).tobytes()) for t in got if t is not None] == want
    steps = compiled.entries[0].program_object.steps()
    assert sum(len(s) > 1 and s[0] in ("linear", "matmul") for s in steps) >= 2


def test_dropout_masks_are_operands() -> None:
    x, w, b = tinyt.randn(64, 40), tinyt.randn(30, 40), tinyt.randn(30)

    def function(x: Tensor) -> Tensor:
        return F.dropout(F.linear(x, w, b).relu(), 0.3)

    tinyt.manual_seed(3)
    want = function(x)
    compiled = tinyt.compile(function)
    tinyt.manual_seed(3)
    same(compiled(x), want)
    tinyt.manual_seed(3)
    same(compiled(x), want)


def test_in_loops() -> None:
    w = tinyt.randn(20, 20) * 0.2

    def body(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        h = (h @ w + x).tanh()
        return h, h

    x, h = tinyt.randn(7, 5, 20), tinyt.zeros(5, 20)
    check(lambda h, x: tinyt.scan(body, h, x), h, x)


def test_a_row_of_the_report() -> None:
    x, w, b = tinyt.randn(100, 300), tinyt.randn(200, 300), tinyt.randn(200)
    compiled = tinyt.compile(lambda x: F.linear(x, w, b).relu() + 1.0)
    compiled(x)
    compiled(x)
    (row,) = compiled.report(x).rows
    assert (row.kind, row.ops) == ("region", ("linear", "relu", "add"))
    assert row.flops == 2 * 100 * 200 * 300 + 3 * 100 * 200
    assert [str(operand) for operand in row.inputs] == [
        "float32[100, 300]",
        "float32[200, 300]",
        "float32[200]",
        "float32[]",
    ]
    assert [str(operand) for operand in row.outputs] == ["float32[100, 200]"]
    assert row.bytes_written == row.held_bytes == 4 * 100 * 200


def test_verified_programs() -> None:
    x, w = tinyt.randn(40, 30), tinyt.randn(30, 20)
    compiled = tinyt.compile(lambda x: gelu(x @ w), verify=True)
    for _ in range(3):
        same(compiled(x), gelu(x @ w))
    tinyt.testing.assert_kernels(compiled, 1)


def test_values_of_a_region_are_computed_again() -> None:
    """To fit into less memory, from a product's result that is kept anyway."""
    x, w = tinyt.randn(200, 200), tinyt.randn(200, 200)

    def function(x: Tensor) -> Tensor:
        y = x @ w
        a = y.exp()
        b = a @ w
        for _ in range(4):
            b = (b @ w).tanh()
        return b * a + y

    want = function(x)
    compiled = tinyt.compile(function)
    compiled(x)
    same(compiled(x), want)
    peak = compiled.entries[0].program_object.peak_bytes
    less = tinyt.compile(function, max_memory=peak - 4 * 200 * 200)
    less(x)
    same(less(x), want)
    assert less.entries[0].program_object.peak_bytes <= peak - 4 * 200 * 200


@given(st.data())
def test_drawn_chains(data: st.DataObject) -> None:
    """Of any size, with operands that broadcast in any way."""
    m, k, n = (data.draw(st.sampled_from([1, 2, 3, 17, 64, 97, 260])) for _ in range(3))
    batch = data.draw(st.sampled_from([(), (1,), (3,), (2, 3)]))
    t = data.draw(st.sampled_from(FLOATS))
    x = tinyt.randn(*batch, m, k).to(t)
    w = tinyt.randn(*data.draw(st.sampled_from([(), batch])), k, n).to(t)
    steps = data.draw(
        st.lists(
            st.sampled_from(["add", "mul", "relu", "exp", "cast", "sub"]), min_size=1, max_size=6
        )
    )
    others = []
    for _ in steps:
        full = (*batch, m, n)
        shape = [d if data.draw(st.booleans()) else 1 for d in full]
        others.append(tinyt.randn(shape[data.draw(st.integers(0, len(shape))) :]).to(t))

    def function(x: Tensor, w: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        made = [x @ w]
        for step, other in zip(steps, others, strict=True):
            y = made[-1]
            if step in ("relu", "exp"):
                made.append(getattr(y.clamp(-3, 3), step)())
            elif step == "cast":
                made.append((y.float() * 2.0).to(t))
            else:
                made.append(getattr(y, step)(other))
        return tuple(made[-2:])

    check(function, x, w, *others)
