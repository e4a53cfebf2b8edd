"""Calls of every operation of the table: operands and attributes, drawn in a dtype.

An operation of the table that has none is an error of `tests/unit/test_check_backend.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tinyt
from tinyt import Tensor
from tinyt._tensor import dtype as DType
from tinyt.ops.common import OP_TABLE
from tinyt.tensor import prim

CPU = tinyt.device("cpu")


class Call(NamedTuple):
    """Of one operation; all operands on the CPU. Dtypes and devices among the attributes stand as
    such."""

    operands: Sequence[Tensor]
    attributes: Sequence[Any] = ()


class Draw:
    """Values of a dtype, the same for a seed."""

    def __init__(self, dtype: DType, seed: int) -> None:
        self.dtype = dtype
        self.generator = tinyt.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        """About 0, of both signs where the dtype has them; integers are no larger than 9."""
        if self.dtype is tinyt.bool:
            return self.index(2, *shape).to(tinyt.bool)
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            low = 0 if self.dtype is tinyt.uint8 else -9
            drawn = tinyt.randint(low, 10, shape, generator=self.generator, device=CPU)
            return drawn.to(self.dtype)
        wide = tinyt.complex64 if self.dtype.is_complex else tinyt.float32
        drawn = tinyt.randn(shape, dtype=wide, generator=self.generator, device=CPU)
        return (drawn * 2).to(self.dtype)

    def positive(self, *shape: int) -> Tensor:
        """From 1 to 9 for integers, from 0.1 on for floats."""
        drawn = self(*shape)
        if self.dtype is tinyt.bool or self.dtype.is_complex:
            return drawn
        least = 0.1 if self.dtype.is_floating_point else 1
        return drawn.abs().clamp(min=least)

    def ends(self) -> Tensor:
        """Zeros of both signs, ones, infinities, NaN."""
        values = [0.0, -0.0, 1.0, -1.0, 0.5, -math.inf, math.inf, math.nan]
        return tinyt.tensor(values, dtype=tinyt.float64, device=CPU).to(self.dtype)

    def index(self, below: int, *shape: int) -> Tensor:
        """int64 from 0 up to ``below``."""
        return tinyt.randint(0, below, shape, generator=self.generator, device=CPU)

    def system(self, *shape: int) -> Tensor:
        """Square matrices that are well conditioned; positive definite ones are these times their
        transposes."""
        size = shape[-1]
        drawn = self(*shape).float() / (4 * size) + tinyt.eye(size, device=CPU)
        return drawn.to(self.dtype)


Calls = Callable[[Draw], list[Call]]

_ROWS = {row["name"]: row for row in OP_TABLE}


# Where not every value is defined, most are of these.
_OF_POSITIVE = {
    *("pow", "floor_divide", "remainder", "fmod", "dirichlet_grad", "softplus"),
    "softplus_backward",
}
_BROADCAST = ((4, 1, 6), (3, 1), (6,), (1,))


def _scalar(name: str) -> Calls:
    arity = _ROWS[name]["inputs"]
    is_first_condition = "predicate_first" in _ROWS[name]["flags"]
    # Slopes at infinity are limits, which formulas do not give.
    is_slope = name.endswith("_backward")
    has_ends = not (is_slope or is_first_condition or name in _OF_POSITIVE)

    def calls(draw: Draw) -> list[Call]:
        of = Draw.positive if name in _OF_POSITIVE else Draw.__call__
        found = []
        for shapes in (((5, 7),) * arity, _BROADCAST[:arity], ((300,),) * arity):
            operands = [of(draw, *shape) for shape in shapes]
            if is_first_condition:
                operands[0] = draw.index(2, *shapes[0]).to(tinyt.bool)
            found.append(Call(operands))
        if draw.dtype.is_floating_point and has_ends:
            ends = draw.ends()
            shapes_of = [(1,) * (arity - 1 - k) + (-1,) + (1,) * k for k in range(arity)]
            found.append(Call([ends.reshape(shape) for shape in shapes_of]))
        return found

    return calls


def _reduction(draw: Draw) -> list[Call]:
    return [
        Call([draw(6, 50)], ((1,), False)),
        Call([draw(40, 3, 5)], ((0, 2), True)),
        Call([draw(9000)], ((0,), False)),
        Call([draw(4, 1)], ((1,), False)),
    ]


def _along(*attributes: Any) -> Calls:
    """Along the last and the first dimension: a `dim` in front of other attributes."""

    def calls(draw: Draw) -> list[Call]:
        return [
            Call([draw(4, 33)], (1, *attributes)),
            Call([draw(33, 4)], (0, *attributes)),
            Call([draw(3000)], (0, *attributes)),
        ]

    return calls


def _one(*attributes: Any, shape: Sequence[int] = (4, 6)) -> Calls:
    return lambda draw: [Call([draw(*shape)], attributes)]


def _near_one(calls: Calls) -> Calls:
    """Floats whose products stay in the range of the dtype."""

    def of(draw: Draw) -> list[Call]:
        if not (draw.dtype.is_floating_point or draw.dtype.is_complex):
            return calls(draw)
        return [Call([x * 0.01 + 1 for x in c.operands], c.attributes) for c in calls(draw)]

    return of


_CONV = ((2, 1), (1, 0), (1, 2), 2)  # stride, padding, dilation, groups


def _conv(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    x, w = draw(2, 4, 7, 9), draw(6, 2, 3, 3)
    return x, w, draw(2, 6, 4, 5)


def _softmax_parts(op: Callable[..., Tensor]) -> Calls:
    def calls(draw: Draw) -> list[Call]:
        x = draw(5, 20)
        return [Call([draw(5, 20), op(x, 1)], (1,))]

    return calls


def _nll(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    target = draw.index(9, 6)
    target[2] = -100
    return draw(6, 9), target, draw.positive(9)


def _none(draw: Draw) -> Tensor:
    """A 0-d tensor stands for none."""
    return draw.positive()


def _softmax_nll_input(draw: Draw) -> list[Call]:
    x, target, weight = _nll(draw)
    loss, log_sums = prim.softmax_nll(x, target, weight, -100, 0)
    return [Call([draw.positive(*loss.shape), x, target, weight, log_sums], (-100, 0))]


def _rows(draw: Draw) -> list[Tensor]:
    return [draw(4, 5, 24), draw(24), draw(24)]


def _layer_norm_backward(draw: Draw) -> list[Call]:
    x, weight, bias = _rows(draw)
    saved = prim.layer_norm(x, weight, bias, 1, True, 1e-5)[1:]
    return [Call([draw(4, 5, 24), x, *saved, weight], (1, True, True, True))]


def _channels(draw: Draw) -> list[Tensor]:
    return [draw(3, 6, 5, 4), draw(6), draw(6)]


def _group_norm_backward(draw: Draw) -> list[Call]:
    x, weight, bias = _channels(draw)
    saved = prim.group_norm(x, weight, bias, 3, 1e-5)[1:]
    return [Call([draw(3, 6, 5, 4), x, *saved, weight], (3, True))]


def _batch_norm(draw: Draw) -> list[Call]:
    return [
        Call([*_channels(draw), _none(draw), _none(draw)], (1e-5,)),
        Call([*_channels(draw), draw(6), draw.positive(6)], (1e-5,)),
    ]


def _batch_norm_backward(draw: Draw) -> list[Call]:
    x, weight, bias = _channels(draw)
    saved = prim.batch_norm(x, weight, bias, _none(draw), _none(draw), 1e-5)[1:3]
    return [Call([draw(3, 6, 5, 4), x, *saved, weight], (True, True))]


def _heads(draw: Draw) -> list[Tensor]:
    return [draw(2, 3, 9, 8), draw(2, 3, 11, 8), draw(2, 3, 11, 8)]


def _attention(draw: Draw) -> list[Call]:
    alike = [draw(2, 3, 9, 8) for _ in range(3)]
    return [
        Call([*_heads(draw), _none(draw)], (False, 0.35)),
        Call([*alike, _none(draw)], (True, 0.35)),
    ]


def _attention_backward(draw: Draw) -> list[Call]:
    operands = [*_heads(draw), _none(draw)]
    query, key, value, mask = operands
    saved = prim.attention(query, key, value, mask, False, 0.35)
    return [Call([draw(2, 3, 9, 8), *operands, *saved], (False, 0.35))]


def _lstm(draw: Draw) -> list[Call]:
    operands = [draw(5, 3, 16), draw(3, 4), draw(3, 4), draw(16, 4)]
    return [Call(operands, (reverse,)) for reverse in (False, True)]


def _lstm_backward(draw: Draw) -> list[Call]:
    gates, hidden, memory, weight = _lstm(draw)[0].operands
    saved = prim.lstm(gates, hidden, memory, weight, False)[2]
    return [Call([draw(5, 3, 4), draw(3, 4), saved, memory, weight], (False,))]


def _positive_definite(draw: Draw) -> list[Call]:
    half = draw.system(3, 12, 12)
    return [Call([prim.matmul(half, prim.permute(half, (0, 2, 1)))])]


def _ordered(draw: Draw) -> list[Call]:
    edges = prim.sort(draw(3, 20), 1, False)[0]
    return [Call([edges, draw(3, 9)], (right,)) for right in (False, True)]


def _gathered(draw: Draw) -> list[Call]:
    return [
        Call([draw(7, 5), draw.index(7, 9, 5)], (0,)),
        Call([draw(4, 6), draw.index(6, 4, 3)], (1,)),
    ]


def _scattered(*attributes: Any) -> Calls:
    """The last of several values for one place counts, or all of them."""

    def calls(draw: Draw) -> list[Call]:
        return [
            Call([draw(7, 5), draw.index(7, 9, 5), draw(9, 5)], (0, *attributes)),
            Call([draw(4, 6), draw.index(6, 4, 3), draw(4, 3)], (1, *attributes)),
        ]

    return calls


def _windows(draw: Draw) -> list[Call]:
    """Windows of 3 x 2 with steps of 2, of [7, 6]."""
    begin, end = (0, 2, 4, 0, 2, 4), (3, 5, 7, 2, 4, 6)
    return [Call([draw(2, 3, 7, 6)], ((3, 3), begin, end, (1, 1)))]


def _resampled(draw: Draw) -> list[Call]:
    """Each output of two neighbours, of 6 x 5; integers are added."""
    taps = (2,) * 9
    index = tuple(i + k for n in (5, 4) for i in range(n) for k in (0, 1))
    weights = Draw(tinyt.float32, 5).positive(len(index))
    if not draw.dtype.is_floating_point:
        weights = tinyt.ones_like(weights)
    return [
        Call([draw(2, 3, 6, 5), weights], ((5, 4), taps, index, False)),
        Call([draw(2, 3, 5, 4), weights], ((6, 5), taps, index, True)),
    ]


def _chosen(draw: Draw) -> list[Call]:
    mask = draw.index(2, 6, 5).to(tinyt.bool)
    return [Call([draw(6, 5), mask]), Call([draw(6, 5), mask[:, 0]])]


def _products(draw: Draw) -> list[Call]:
    return [
        Call([draw(7, 33), draw(33, 10)]),
        Call([draw(3, 1, 5, 4), draw(2, 4, 6)]),
        Call([draw(70), draw(70)]),
    ]


def _filled(draw: Draw) -> list[Call]:
    return [Call([], ((5, 3), draw.dtype, 3.0, 3, 0.0, CPU))]


def _counted(draw: Draw) -> list[Call]:
    return [Call([], (50, draw.dtype, 0.5, 0.25, 1, 2, CPU))]


def _random(of_dtype: bool) -> Calls:
    def calls(draw: Draw) -> list[Call]:
        return [Call([], ((7, 9), *([draw.dtype] if of_dtype else []), CPU, 11, 3))]

    return calls


def _converted(draw: Draw) -> list[Call]:
    dtypes = (tinyt.bool, tinyt.uint8, tinyt.int32, tinyt.int64, tinyt.bfloat16, tinyt.float32)
    return [Call([draw.positive(6, 7)], (dtype,)) for dtype in dtypes]


_STRUCTURAL: dict[str, Calls] = {
    "cast": _converted,
    "to_device": lambda draw: [Call([draw(3, 5)], (CPU,))],
    "copy": _one(),
    "as_strided": _one((3, 2), (1, 7), 2),
    "reshape": _one((3, 8)),
    "permute": _one((1, 0)),
    "expand": _one((3, 4, 6)),
    "view_as_real": _one(),
    "view_as_complex": _one(shape=(4, 2)),
    "slice": _one(1, 1, 6, 2),
    "pad": _one((1, 2, 0, 3), 2.0),
    "pad_border": lambda draw: [Call([draw(4, 6)], ((1, 2, 0, 3), mode)) for mode in range(3)],
    "flip": _one((0, 1)),
    "cat": lambda draw: [Call([draw(3, 2), draw(3, 5), draw(3, 0)], (1,))],
    "update": lambda draw: [Call([draw(4, 6), draw(2, 3)], ((2, 3), (12, 2), 1))],
    "fill": _filled,
    "iota": _counted,
    "random_bits": _random(False),
    "uniform": _random(True),
    "normal": _random(True),
    "standard_gamma": lambda draw: [Call([draw.positive(40)], (11, 3))],
    "dirichlet": lambda draw: [Call([draw.positive(9, 4)], (11, 3))],
    "poisson": lambda draw: [Call([draw.positive(40)], (11, 3))],
    "binomial": lambda draw: [Call([draw.positive(40) * 5, draw.positive(40) / 20], (11, 3))],
    "von_mises": lambda draw: [Call([draw.positive(40)], (11, 3))],
    "nansum": _reduction,
    "norm": lambda draw: [Call([draw(6, 50)], ((1,), False, p)) for p in (2.0, 1.0, math.inf)],
    "var": lambda draw: [Call([draw(6, 50)], ((1,), True, 1.0, root)) for root in (False, True)],
    "logsumexp": _reduction,
    "argmax": _along(False),
    "argmin": _along(True),
    "cumsum": _along(),
    "cumprod": _near_one(_along()),
    "cummax": _along(),
    "cummin": _along(),
    "logcumsumexp": _along(),
    "sort": _along(True),
    "topk": lambda draw: [Call([draw(4, 33)], (5, 1, True)), Call([draw(3000)], (9, 0, False))],
    "kthvalue": lambda draw: [Call([draw(4, 33)], (5, 1, False))],
    "median": _along(False, True),
    "searchsorted": _ordered,
    "nonzero": _one(shape=(7, 50)),
    "masked_select": _chosen,
    "gather": _gathered,
    "scatter": _scattered(),
    "scatter_add": _scattered(),
    "scatter_reduce": _scattered(1),
    "linear_index": lambda draw: [
        Call([draw.index(6, 4), draw.index(3, 4)], ((6, 3), (0, 1), (4,)))
    ],
    "matmul": _products,
    "conv": lambda draw: [Call(_conv(draw)[:2], _CONV)],
    "conv_backward_input": lambda draw: [
        Call([_conv(draw)[2], _conv(draw)[1]], ((2, 4, 7, 9), *_CONV))
    ],
    "conv_backward_weight": lambda draw: [
        Call([_conv(draw)[2], _conv(draw)[0]], ((6, 2, 3, 3), *_CONV))
    ],
    "max_pool": _windows,
    "resample": _resampled,
    "cholesky": _positive_definite,
    "solve_triangular": lambda draw: [
        Call([draw.system(3, 12, 12), draw(3, 12, 4)], (upper, unit))
        for upper in (False, True)
        for unit in (False, True)
    ],
    "matmul_add": lambda draw: [Call([draw(7, 33), draw(33, 10), draw(7, 10)])],
    "int_mm": lambda draw: [Call([draw(17, 16), draw(16, 8)])],
    "linear": lambda draw: [Call([draw(4, 7, 33), draw(10, 33), draw(10)])],
    "sum_squares": lambda draw: [Call([draw(5, 7), draw(300)])],
    "softmax": _along(),
    "log_softmax": _along(),
    "softmax_backward": _softmax_parts(prim.softmax),
    "log_softmax_backward": _softmax_parts(prim.log_softmax),
    "softmax_nll": lambda draw: [Call(_nll(draw), (-100, r)) for r in (0, 1, 2)],
    "softmax_nll_input": _softmax_nll_input,
    "layer_norm": lambda draw: [Call(_rows(draw), (1, center, 1e-5)) for center in (True, False)],
    "layer_norm_backward": _layer_norm_backward,
    "group_norm": lambda draw: [Call(_channels(draw), (3, 1e-5))],
    "group_norm_backward": _group_norm_backward,
    "batch_norm": _batch_norm,
    "batch_norm_backward": _batch_norm_backward,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "lstm": _lstm,
    "lstm_backward": _lstm_backward,
}


def calls_of(name: str) -> Calls:
    """What draws calls of an operation. LookupError where there is none."""
    kind = _ROWS[name]["kind"]
    if kind == "scalar":
        return _scalar(name)
    if kind == "reduce":
        return _near_one(_reduction) if name == "prod" else _reduction
    return _STRUCTURAL[name]
