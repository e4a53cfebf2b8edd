"""The workspace that kernels state, from geometry alone, is what they take, in each form of one:
by sizes, strides, dtypes and threads. test_ops.py asks the same of every row of the op table, with
small operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt import Tensor, nn

pytestmark = pytest.mark.tiles

Shapes = tuple[tuple[int, ...], ...]
Call = tuple[Callable[..., Any], Shapes]

conv = F.conv2d
bias_last: Callable[..., Any] = lambda x, w, b: F.linear(x, w, b)  # noqa: E731


def transposed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: function(*(x.mT for x in args))


FLOATS = ("float32", "float64", "float16", "bfloat16")

# Each with all of FLOATS.
CALLS: dict[str, Call] = {
    "product, wide": (tinyt.matmul, ((300, 500), (500, 700))),
    "product, deep": (tinyt.matmul, ((200, 5000), (5000, 200))),
    "product, narrow": (tinyt.matmul, ((8, 512), (512, 1000))),
    "product, columns along memory": (lambda x, y: x @ y.mT, ((16, 512), (1000, 512))),
    "product, turned": (transposed(tinyt.matmul), ((500, 300), (700, 500))),
    "product, few elements": (tinyt.matmul, ((16, 20000), (20000, 16))),
    "product, no depth": (tinyt.matmul, ((30, 0), (0, 40))),
    "products": (tinyt.matmul, ((20, 64, 64), (20, 64, 64))),
    "products, large": (tinyt.matmul, ((3, 300, 300), (3, 300, 300))),
    "products, small": (tinyt.matmul, ((100, 4, 4), (100, 4, 4))),
    "matrix by vector": (tinyt.matmul, ((1000, 3000), (3000,))),
    "matrix by strided vector": (lambda x, y: x @ y[:, 0], ((1000, 3000), (3000, 2))),
    "vector by matrix": (tinyt.matmul, ((3000,), (3000, 1000))),
    "vector by vector": (tinyt.matmul, ((100000,), (100000,))),
    "linear": (bias_last, ((64, 256), (512, 256), (512,))),
    "linear, one row": (bias_last, ((1, 256), (512, 256), (512,))),
    "linear, relu": (lambda x, w, b: F.relu(F.linear(x, w, b)), ((64, 256), (512, 256), (512,))),
    "linear, gelu": (lambda x, w: F.gelu(F.linear(x, w)), ((512, 256), (1024, 256))),
    "conv, depthwise": (
        lambda x, w: conv(x, w, padding=1, groups=32),
        ((2, 32, 28, 28), (32, 1, 3, 3)),
    ),
    "conv, winograd": (lambda x, w: conv(x, w, padding=1), ((4, 32, 28, 28), (48, 32, 3, 3))),
    "conv, winograd of a few": (
        lambda x, w: conv(x, w, padding=1),
        ((1, 20, 28, 28), (16, 20, 3, 3)),
    ),
    "conv, lines": (lambda x, w: conv(x, w, padding=2), ((2, 16, 40, 40), (24, 16, 5, 5))),
    "conv, lines in place": (conv, ((2, 16, 40, 40), (24, 16, 5, 5))),
    "conv, dilated": (
        lambda x, w: conv(x, w, padding=12, dilation=12),
        ((2, 64, 28, 28), (64, 64, 3, 3)),
    ),
    "conv, pointwise": (conv, ((4, 64, 14, 14), (128, 64, 1, 1))),
    "conv, strides": (
        lambda x, w: conv(x, w, stride=2, padding=1),
        ((4, 96, 14, 14), (128, 96, 3, 3)),
    ),
    "conv, groups": (
        lambda x, w: conv(x, w, padding=1, groups=2),
        ((2, 64, 12, 12), (64, 32, 3, 3)),
    ),
    "conv, relu": (lambda x, w: F.relu(conv(x, w, padding=2)), ((2, 16, 40, 40), (24, 16, 5, 5))),
    "conv, one dimension": (lambda x, w: F.conv1d(x, w, padding=3), ((4, 24, 500), (32, 24, 7))),
    "conv, three dimensions": (
        lambda x, w: F.conv3d(x, w, padding=1),
        ((1, 16, 8, 14, 14), (24, 16, 3, 3, 3)),
    ),
    "conv, turned": (lambda x, w: conv(x.mT, w.mT), ((2, 16, 20, 20), (24, 16, 3, 3))),
    "conv_transpose, strides": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        ((2, 32, 14, 14), (32, 24, 4, 4)),
    ),
    "conv_transpose, odd strides": (
        lambda x, w: F.conv_transpose2d(x, w, stride=3),
        ((2, 32, 9, 9), (32, 24, 4, 5)),
    ),
    "max_pool": (lambda x: F.max_pool2d(x, 2), ((4, 32, 28, 28),)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 3), ((4, 32, 28, 28),)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), ((2, 8, 28, 28),)),
    "softmax": (lambda x: F.softmax(x, -1), ((500, 700),)),
    "softmax, columns": (lambda x: F.softmax(x, 0), ((500, 700),)),
    "softmax, strided": (lambda x: F.log_softmax(x[:, ::2], -1), ((50, 7000),)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (512,), w), ((300, 512), (512,))),
    "group_norm": (lambda x, w: F.group_norm(x, 4, w, w), ((4, 32, 14, 14), (32,))),
    "group_norm, short": (lambda x, w: F.group_norm(x, 4, w, w), ((64, 32, 3), (32,))),
    "batch_norm": (
        lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
        ((8, 32, 14, 14), (32,)),
    ),
    "batch_norm, columns": (
        lambda x, w: F.batch_norm(x, None, None, w, w, training=True),
        ((3000, 32), (32,)),
    ),
    "batch_norm, given": (lambda x, w, v: F.batch_norm(x, w, v * v), ((300, 32, 3), (32,), (32,))),
    "attention": (F.scaled_dot_product_attention, ((2, 4, 200, 32),) * 3),
    "attention, causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((1, 2, 700, 64),) * 3,
    ),
    "attention, mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (*((2, 4, 150, 32),) * 3, (150, 150)),
    ),
    "attention, masks of heads": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        (*((2, 4, 150, 32),) * 3, (2, 4, 150, 150)),
    ),
    "attention, few queries": (
        F.scaled_dot_product_attention,
        ((1, 4, 2, 32), (1, 4, 3000, 32), (1, 4, 3000, 32)),
    ),
    "attention, long": (
        F.scaled_dot_product_attention,
        ((1, 1, 64, 32), (1, 1, 3000, 32), (1, 1, 3000, 32)),
    ),
}

# Of the first dtype, or of the one that a call makes; without gradients.
OTHERS: dict[str, Call] = {
    "sum": (lambda x: x.sum(), ((300000,),)),
    "sum, columns": (lambda x: x.sum(0), ((9000, 300),)),
    "sum, rows across": (lambda x: x.mT.sum(1), ((9000, 300),)),
    "sum of halves": (lambda x: x.half().sum(-1), ((30, 30000),)),
    "norm": (lambda x: tinyt.linalg.vector_norm(x), ((300000,),)),
    "argmax": (lambda x: x.argmax(-1), ((3, 200000),)),
    "argmin, columns": (lambda x: x.argmin(0), ((70000, 5),)),
    "var": (lambda x: x.var(-1), ((30, 30000),)),
    "var, gathered": (lambda x: x[:, ::3].var(-1), ((30, 30000),)),
    "var, columns": (lambda x: x.var(0), ((9000, 30),)),
    "logsumexp": (lambda x: x.mT.logsumexp(-1), ((3000, 30),)),
    "sort": (lambda x: x.sort(-1), ((300, 1000),)),
    "sort, one long line": (lambda x: x.sort(), ((300000,),)),
    "sort, another dimension": (lambda x: x.sort(0), ((1000, 300),)),
    "sort of int64": (lambda x: (x * 1e9).long().sort(-1), ((30, 5000),)),
    "topk": (lambda x: x.topk(20), ((300, 5000),)),
    "topk, most": (lambda x: x.topk(900), ((300, 1000),)),
    "topk, another dimension": (lambda x: x.topk(20, 0), ((5000, 30),)),
    "kthvalue": (lambda x: x.kthvalue(20), ((300, 5000),)),
    "median": (lambda x: x.median(0), ((5000, 30),)),
    "searchsorted": (lambda x: tinyt.searchsorted(x.half().sort().values, x[::2]), ((3000,),)),
    "scatter_add of halves": (
        lambda x: x.half().scatter_add(1, (x[:, ::2].abs() * 7).long(), x[:, ::2].half()),
        ((2000, 500),),
    ),
    "index": (lambda x: x[(x[0] * 3).abs().long(), (x[1] * 3).abs().long()], ((200, 3000),)),
    "cumulative sums": (lambda x: x.cumsum(0), ((3000, 30),)),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 4)), ((300, 500),)),
    "division of integers": (
        lambda x: (
            x.long() // (x * 9).long()[:, ::2].abs().clamp_min(1).repeat(1, 2).mT.contiguous().mT
        ),
        ((300, 500),),
    ),
    "cholesky": (lambda x: tinyt.linalg.cholesky(x.mT @ x + 9 * tinyt.eye(40)), ((50, 40),)),
    "solve_triangular": (
        lambda a, b: tinyt.linalg.solve_triangular((a + 9 * tinyt.eye(40)).mT, b, upper=True),
        ((40, 40), (40, 30)),
    ),
    "product of int8": (lambda x, y: x.char() @ y.char(), ((100, 300), (300, 200))),
    "product of int64": (lambda x, y: x.long() @ y.long(), ((100, 300), (300, 200))),
    "complex product": (
        lambda x, y: tinyt.complex(x, x) @ tinyt.complex(y, y),
        ((100, 300), (300, 200)),
    ),
    "complex sums": (lambda x: tinyt.complex(x, x).sum(0), ((9000, 30),)),
    "complex products": (lambda x: tinyt.complex(x, x).prod(-1), ((90, 30),)),
    "region over long rows": (lambda x: (x * 2 + 1).exp().sum(-1), ((4, 100000),)),
    "region over long rows, twice": (
        lambda x: ((x * 2).sum(-1), (x * 2 + 1).exp().double().amax(-1)),
        ((4, 100000),),
    ),
    "region over rows": (lambda x: x * (x * x).sum(-1, keepdim=True).rsqrt(), ((40, 9000),)),
    "region of many steps": (
        lambda x, y: ((x + y).sin() * (x - y).cos() / (x * x + y * y + 1)).double() * x.exp(),
        ((3000, 2000), (3000, 2000)),
    ),
}


def operands(shapes: Shapes, dtype: str) -> list[Tensor]:
    tinyt.manual_seed(0)
    return [tinyt.randn(*shape).to(getattr(tinyt, dtype)) for shape in shapes]


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Tensor) -> Any:
        leaves = [x.detach().requires_grad_() for x in args]
        result = function(*leaves)
        return tinyt.autograd.grad((result * result).sum(), leaves, materialize_grads=True)

    return call


def check(function: Callable[..., Any], args: list[Tensor]) -> None:
    for threads in (1, 2):
        with tinyt.num_threads(threads):
            compiled = tinyt.compile(function)
            compiled(*args)
            planned = compiled.entries[0].program_object.scratch_bytes()
            peak = compiled.peak_bytes
            compiled(*args)
            compiled.measure(*args)
            measures = compiled.entries[0].profile.call
            assert planned == [scratch for *_, scratch, _ in measures.steps()]
            assert peak == measures.peak_bytes


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALLS)
def test_each_way(name: str, dtype: str) -> None:
    function, shapes = CALLS[name]
    check(function, operands(shapes, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALLS)
def test_each_way_of_gradients(name: str, dtype: str) -> None:
    function, shapes = CALLS[name]
    check(gradients(function), operands(shapes, dtype))


@pytest.mark.parametrize("name", OTHERS)
def test_each_way_of_others(name: str) -> None:
    function, shapes = OTHERS[name]
    check(function, operands(shapes, "float32"))


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("shape", [(300, 1000), (30, 1000, 7)])
def test_cross_entropy(shape: tuple[int, ...], reduction: str) -> None:
    x, *_ = operands((shape,), "float16")
    target = tinyt.randint(0, 9, (shape[0], *shape[2:]))
    check(gradients(lambda y: F.cross_entropy(y, target, reduction=reduction)), [x])


@pytest.mark.parametrize("batch", [2, 40])
def test_a_sequence(batch: int) -> None:
    model = nn.LSTM(24, 48, bidirectional=True)
    check(lambda x: model(x)[0], operands(((9, batch, 24),), "float32"))
    check(gradients(lambda x: model(x)[0]), operands(((9, batch, 24),), "float32"))


def test_clipped_gradients() -> None:
    weights = [x.requires_grad_() for x in operands(((300, 500), (7,)), "float32")]

    def call(x: Tensor) -> Tensor:
        for weight in weights:
            weight.grad = None
        ((x @ weights[0]).sum() * weights[1]).sum().backward()
        return nn.utils.clip_grad_norm_(weights, 1.0)

    check(call, operands(((3, 300),), "float32"))
