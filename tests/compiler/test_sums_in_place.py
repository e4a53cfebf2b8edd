"""Products that add what is added to them, and what is updated where it lies: sums in a function,
and carries of loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from compiler.test_passes import after
from compiler.test_product_regions import check
from flow import Cell, is_same
from tinyt import Tensor
from tinyt.compiler.api import compile

pytestmark = pytest.mark.tiles

# (k, m), (k, n): vectors, one block of k and several, long sums of few elements, parts of vectors.
SHAPES = [
    ((16, 128), (16, 512)),
    ((3, 5), (3, 7)),
    ((1, 9), (1, 4)),
    ((1024, 20), (1024, 30)),
    ((1025, 20), (1025, 30)),
    ((9000, 3), (9000, 2)),
    ((40, 1), (40, 30)),
    ((40, 30), (40, 1)),
    ((0, 3), (0, 2)),
    ((300, 8), (300, 600)),
    ((5, 0), (5, 3)),
]


def ops_of(compiled: Any) -> list[str]:
    """That a program's steps run."""
    return [op for step in compiled.entries[0].program_object.steps() for op in step]


def test_a_product_adds_what_is_there() -> None:
    def function(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return (c + a.t() @ b).relu()

    args = tinyt.randn(4, 5), tinyt.randn(3, 4), tinyt.randn(3, 5)
    assert after("addends dead", function, *args) == [
        "%0 = permute(a) ((1, 0),) float32[4, 3]",
        "%1 = matmul_add(%0, b, c) float32[4, 5]",
        "%2 = relu(%1) float32[4, 5]",
        "return %2",
    ]


def test_an_addend_that_the_region_reads_stays_what_it_is() -> None:
    def function(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        c = c * 2.0
        return tinyt.addmm(c, a, b) * c

    check(function, tinyt.randn(60, 50), tinyt.randn(60, 40), tinyt.randn(40, 50))


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_sums_of_products(left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> None:
    a, b = tinyt.randn(*left, dtype=dtype), tinyt.randn(*right, dtype=dtype)
    c, row = tinyt.randn(left[1], right[1], dtype=dtype), tinyt.randn(right[1], dtype=dtype)

    def function(c: Tensor, a: Tensor, b: Tensor, row: Tensor) -> Any:
        total = c + a.t() @ b
        total = (a * 2.0).t() @ b + total
        return total, (a * 3.0).t() @ b + row, b.t() @ a + c.t()

    check(function, c, a, b, row)
    compiled = compile(function)
    compiled(c, a, b, row)
    assert ops_of(compiled).count("matmul_add") == 4


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: c.exp() + a @ b,  # one region does that
        lambda a, b, c: (lambda y: (y + c, y))(a @ b),  # read elsewhere, too
        lambda a, b, c: a @ b + c[:, :1],  # one column
        lambda a, b, c: a[None] @ b[None] + c,  # several matrices
        lambda a, b, c: (a.bfloat16() @ b.bfloat16()) + c.bfloat16(),
        lambda a, b, c: (a @ b).double() + c.double(),
        lambda a, b, c: a @ b + 1.0,
    ],
)
def test_sums_that_stay(function: Callable[..., Any]) -> None:
    args = tinyt.randn(4, 3), tinyt.randn(3, 5), tinyt.randn(4, 5)
    compiled = compile(function)
    compiled(*args)
    assert "matmul_add" not in ops_of(compiled)
    check(function, *args)


def test_operands_are_not_kept_for_a_late_sum() -> None:
    def function(a: Tensor, c: Tensor) -> Tensor:
        product = a.exp() @ a.sin()
        rest = (c @ c.t()).cos().sum()
        return product + c.sum(1) * rest

    def near(a: Tensor, c: Tensor) -> Tensor:
        return a.exp() @ a.sin() + c

    compiled = compile(function)
    compiled(tinyt.randn(4, 4), tinyt.randn(4, 4))
    assert "matmul_add" not in ops_of(compiled)
    args = tinyt.randn(40, 40), tinyt.randn(40, 40)
    check(near, *args)
    compiled = compile(near)
    compiled(*args)
    assert ops_of(compiled)[-1] == "matmul_add"


def test_sums_lie_where_their_addends_did() -> None:
    def function(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
        for _ in range(6):
            c = tinyt.addmm(c, a, b)
        return c * 2.0

    program = check(function, tinyt.randn(40, 50), tinyt.randn(40, 16), tinyt.randn(16, 50))
    assert set(program.held_bytes()) == {40 * 50 * 4}


def carry_of(body: Callable[..., Any], steps: int, threads: int) -> int:
    """Runs a scan of a step of (a, b) as a check; the bytes that the node takes for itself."""
    tinyt.manual_seed(0)
    init = tinyt.randn(6, 5), tinyt.randn(6, 5)
    args = init, tinyt.randn(steps, 6, 5)
    with tinyt.num_threads(threads):
        compiled = is_same(lambda init, xs: tinyt.scan(body, init, xs), args)
    entry = compiled.entries[0]
    (at,) = [i for i, step in enumerate(entry.program_object.steps()) if step == ("scan",)]
    return int(entry.program_object.scratch_bytes()[at])


BLOCK = 128  # 6 x 5 floats, rounded up


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(
    ("body", "want"),
    [
        (lambda c, x: ((c[0] + x, c[1] * x), None), 2 * BLOCK),
        (lambda c, x: ((c[0] + x @ (x.t() @ x), c[1] - x), None), 2 * BLOCK + 100),
        # Each needs what the other was.
        (lambda c, x: ((c[1] + x, c[0] * x), None), 3 * BLOCK),
        (lambda c, x: ((c[0] + c[1], c[1] * x), None), None),
        (lambda c, x: ((c[1], c[0]), None), None),
        # Rows of the one that others have written.
        (lambda c, x: ((c[0].flip(0) + x, c[1] + x), None), None),
        (lambda c, x: ((c[0] + c[0][:1], c[1].softmax(1)), None), None),
        (lambda c, x: ((c[0] @ (c[0].t() @ x), c[1] + x @ (c[1].t() @ x)), None), None),
        (lambda c, x: ((tinyt.addmm(c[0], c[0], x.t() @ x), c[1].cumsum(0)), None), None),
        # Outputs see what they saw.
        (lambda c, x: ((c[0] + x, c[1] * x), (c[0] * 2.0, c[1] + 0.0, c[0] + x)), None),
        (lambda c, x: ((c[0] + x, c[0] + x), c[1]), None),
        (lambda c, x: ((c[0], c[1] + c[0]), None), None),
    ],
)
def test_carries(body: Callable[..., Any], want: int | None, steps: int, threads: int) -> None:
    taken = carry_of(body, steps, threads)
    assert want is None or taken == want


def test_weights_gradients_are_added_where_they_lie() -> None:
    cell = Cell(16, 32)

    def run(xs: Tensor) -> Any:
        for p in cell.parameters():
            p.grad = None
        (h, _), _ = tinyt.scan(cell, (tinyt.zeros(8, 32), tinyt.zeros(8, 32)), xs)
        (h * h).sum().backward()
        return [p.grad.clone() for p in cell.parameters()]

    is_same(run, (tinyt.randn(5, 8, 16),))


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_carries_of_a_loop(limit: int) -> None:
    def run(n: Tensor, c: Tensor, d: Tensor) -> Any:
        def step(i: Tensor, c: Tensor, d: Tensor) -> Any:
            return i + 1, c + d, tinyt.addmm(d, d, d)

        return tinyt.while_loop(lambda i, c, d: i < n, step, (tinyt.zeros(()), c, d))

    tinyt.manual_seed(0)
    is_same(run, (tinyt.tensor(float(limit)), tinyt.randn(4, 4), tinyt.randn(4, 4)))


def test_a_result_lies_where_an_operand_was_copied_to() -> None:
    function = compile(lambda x: x.t() * 2.0 + 1.0)
    x = tinyt.randn(1100, 1000)  # too large to be read turned
    for _ in range(3):
        function(x)
    assert function.report().totals[0].steps == 2
    assert function.peak_bytes == x.numel() * 4
