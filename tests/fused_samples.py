"""Operands of every fused row of the op table, by its name: functions of a tensor and a generator
of random numbers that give tuples of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tinyt
from tinyt.tensor import prim


def along_each_dim(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    return ((x, dim) for dim in range(x.dim()))


def along_each_dim_backward(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    y = x / 4
    return ((tinyt.tensor(rng.standard_normal(x.shape)), y, dim) for dim in range(x.dim()))


def normalised(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """Every number of dimensions, with and without parameters and mean."""
    for dims in range(1, x.dim() + 1):
        w, b = (tinyt.tensor(rng.standard_normal(x.shape[-dims:])) for _ in range(2))
        one, none = tinyt.tensor(1.0), tinyt.tensor(0.0)
        yield x, w, b, dims, True, 1e-5
        yield x, one, none, dims, False, 1e-3


def norm_gradients(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for _, w, b, dims, center, eps in normalised(x, rng):
        stats = prim.layer_norm(x, w, b, dims, center, eps)[1:]
        g = tinyt.tensor(rng.standard_normal(x.shape))
        for wanted in ((True, True), (True, False), (False, True), (False, False)):
            yield g, x, *stats, w, dims, center, *wanted


NONE = (tinyt.tensor(1.0), tinyt.tensor(0.0))


def with_space(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """Channels without space, with little and with some, with and without parameters."""
    for shape in (x.shape, (*x.shape, 2), (*x.shape, 17)):
        y = tinyt.tensor(rng.standard_normal(tuple(shape)))
        yield y, *(tinyt.tensor(rng.standard_normal(shape[1:2])) for _ in range(2))
        yield y, *NONE


def channels(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """By their own statistics, and by given ones."""
    for y, w, b in with_space(x, rng):
        given = (rng.standard_normal(y.shape[1]), rng.uniform(0.5, 2, y.shape[1]))
        yield y, w, b, *NONE, 1e-5
        yield y, w, b, *map(tinyt.tensor, given), 1e-3


def channel_gradients(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for y, w, b, mean, var, eps in channels(x, rng):
        g = tinyt.tensor(rng.standard_normal(y.shape))
        stats = prim.batch_norm(y, w, b, mean, var, eps)[1:3]
        yield from ((g, y, *stats, w, mean.dim() == 0, dx) for dx in (True, False))


def groups(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for y, w, b in with_space(x, rng):
        for number in {1, y.shape[1]}:
            yield y, w, b, number, 1e-5


def group_gradients(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for y, w, b, number, eps in groups(x, rng):
        g = tinyt.tensor(rng.standard_normal(y.shape))
        stats = prim.group_norm(y, w, b, number, eps)[1:]
        yield from ((g, y, *stats, w, number, dx) for dx in (True, False))


def classes(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """Rows and rows with space, weights or none, every reduction, some targets ignored."""
    for shape in (x.shape, (*x.shape, 2)):
        y = tinyt.tensor(rng.standard_normal(tuple(shape)) * 3)
        if y.numel() == 0:
            continue
        target = tinyt.tensor(rng.integers(0, shape[1], (shape[0], *shape[2:])))
        weight = tinyt.tensor(rng.uniform(0.5, 2, shape[1]))
        for reduction in range(3):
            yield y, target, weight, int(target.flatten()[0]) if shape[0] > 1 else -1, reduction
            yield y, target, tinyt.tensor(1.0), -100, reduction


def class_gradients(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for y, target, weight, *numbers in classes(x, rng):
        loss, stats = prim.softmax_nll(y, target, weight, *numbers)
        g = tinyt.tensor(np.asarray(rng.standard_normal(loss.shape)))
        yield g, y, target, weight, stats, *numbers


def layers(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """Rows, stacks of them and one row; one output and several; with and without a bias."""
    width = x.shape[-1]
    stack, line = (tinyt.tensor(rng.standard_normal(s)) for s in ((2, *x.shape), (width,)))
    for y in (x, stack, line):
        for outputs in (1, 5):
            w = tinyt.tensor(rng.standard_normal((outputs, width)))
            yield y, w, tinyt.tensor(rng.standard_normal(outputs))
            yield y, w.t().clone().t(), tinyt.tensor(0.0)


def heads(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """Groups of heads, masks of every kind, with the sizes of x for queries and keys."""
    queries, keys = (min(n, 150) for n in x.shape[:2])

    def draw(*shape: int) -> Any:
        return tinyt.tensor(rng.standard_normal(shape))

    for width, out_width, shared in ((5, 3, 1), (16, 16, 2)):
        parts = draw(2, 2 * shared, queries, width), draw(2, 2, keys, width)
        parts = (*parts, draw(2, 2, keys, out_width))
        for causal in (False, True):
            yield *parts, tinyt.tensor(0.0), causal, 0.3
        keep = rng.random((2, 1, queries, keys)) < 0.7
        yield *parts, tinyt.tensor(keep), False, 0.3
        yield *parts, draw(1, 2 * shared, 1, keys), False, 0.3
        yield *parts, draw(2, 1, keys, queries).permute(0, 1, 3, 2), True, -0.3


def head_gradients(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for *parts, causal, scale in heads(x, rng):
        out, sums = prim.attention(*parts, causal, scale)
        g = tinyt.tensor(rng.standard_normal(tuple(out.shape)))
        yield g, *parts, out, sums, causal, scale


def sequences(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """As many sequences as x has rows; one time and several; both directions."""
    batch, width = min(x.shape[0], 40), min(x.shape[-1], 50)

    def draw(*shape: int) -> Any:
        return tinyt.tensor(rng.standard_normal(shape))

    for times, reverse in ((1, False), (3, False), (3, True)):
        states = draw(batch, width), draw(batch, width)
        yield draw(times, batch, 4 * width), *states, draw(4 * width, width) / 4, reverse


def sequence_gradients(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    for *parts, memory, weight, reverse in sequences(x, rng):
        out, last, saved = prim.lstm(*parts, memory, weight, reverse)
        g, of_last = (tinyt.tensor(rng.standard_normal(tuple(x.shape))) for x in (out, last))
        yield g, of_last, saved, memory, weight, reverse


def sums_of_products(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    """A row, a column, an element and a number for each; matrices and a vector."""
    for cols in (4, 1):
        w = tinyt.tensor(rng.standard_normal((x.shape[-1], cols)))
        for shape in ((cols,), (x.shape[-2], 1), (*x.shape[:-1], cols), ()):
            yield x, w, tinyt.tensor(np.asarray(rng.standard_normal(shape)))


def matrices_of_bytes(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    rows, depth = x.shape[-2:]
    sizes = (rows, depth), (depth, 5)
    yield tuple(tinyt.tensor(rng.integers(-128, 128, size).astype(np.int8)) for size in sizes)


def elementwise(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    yield (x,)


def beside_a_gradient(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
    yield tinyt.tensor(rng.standard_normal(x.shape)), x


def with_numbers(*numbers: float) -> Callable[[Any, Any], Iterator[tuple[Any, ...]]]:
    """Activations with parameters; their gradients take the output's in front."""
    return lambda x, rng: iter([(x, *numbers)])


def gradient_with_numbers(*numbers: float) -> Callable[[Any, Any], Iterator[tuple[Any, ...]]]:
    return lambda x, rng: ((*a, *map(tinyt.tensor, numbers)) for a in beside_a_gradient(x, rng))


def over_dims(*attributes: tuple[float, ...]) -> Callable[[Any, Any], Iterator[tuple[Any, ...]]]:
    """Every set of neighbouring dimensions, kept and dropped, beside each of the attributes."""

    def calls(x: Any, rng: Any) -> Iterator[tuple[Any, ...]]:
        for first in range(x.dim()):
            for last in range(first, x.dim()):
                for numbers in attributes:
                    if x.numel() == 0 and np.isinf(numbers).any():
                        continue  # nothing has no extreme
                    yield x, tuple(range(first, last + 1)), first == 0, *numbers

    return calls


ACTIVATIONS = ["gelu", "gelu_tanh", "silu", "mish", "logsigmoid", "hardsigmoid", "hardswish"]
CALLS: dict[str, Callable[[Any, Any], Iterator[tuple[Any, ...]]]] = {
    "matmul_add": sums_of_products,
    "int_mm": matrices_of_bytes,
    "softmax": along_each_dim,
    "log_softmax": along_each_dim,
    "softmax_backward": along_each_dim_backward,
    "log_softmax_backward": along_each_dim_backward,
    "softmax_nll": classes,
    "softmax_nll_input": class_gradients,
    "linear": layers,
    "attention": heads,
    "attention_backward": head_gradients,
    "lstm": sequences,
    "lstm_backward": sequence_gradients,
    "layer_norm": normalised,
    "layer_norm_backward": norm_gradients,
    "group_norm": groups,
    "group_norm_backward": group_gradients,
    "batch_norm": channels,
    "batch_norm_backward": channel_gradients,
    "nansum": over_dims(()),
    "var": over_dims((0.0,), (0.5,)),
    "logsumexp": over_dims(()),
    "norm": over_dims((1.0,), (2.0,), (np.inf,), (-np.inf,)),
    **dict.fromkeys(ACTIVATIONS, elementwise),
    **{f"{name}_backward": beside_a_gradient for name in ("relu", "sigmoid", "tanh", *ACTIVATIONS)},
    "leaky_relu": with_numbers(0.2),
    "leaky_relu_backward": gradient_with_numbers(0.2),
    "elu": with_numbers(1.5),
    "elu_backward": gradient_with_numbers(1.5),
    "softplus": with_numbers(0.7, 3.0),
    "softplus_backward": gradient_with_numbers(3.0),
    "sigmoid_nll": beside_a_gradient,
    "sigmoid_nll_backward": lambda x, rng: ((x.sin(), *a) for a in beside_a_gradient(x, rng)),
    "sum_squares": lambda x, rng: iter([((x,),), ((x[:1], x, x.t() if x.dim() == 2 else x),)]),
}
