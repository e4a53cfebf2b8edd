"""How many operations a step takes, and how many bytes it must move: the one table of formulas.

An addition, a multiplication and a function such as ``exp`` count as one operation each, a
comparison that picks a value (``amax``, ``relu``) too; moving, searching and sorting count as none.
What counts is the definition, whatever the kernel does: a Winograd convolution takes fewer.
Bytes are those of all operands, each once: what has to move where nothing is in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinyt.compiler.graph.graph import OPS

if TYPE_CHECKING:
    from tinyt.compiler.inspect.facts import Operand, Step

_KINDS = {name: row["kind"] for name, row in OPS.items()}

# Scalar ops that are more than one operation per element.
_SCALAR = {"addcmul": 3, "addcdiv": 3, "lerp": 3, "clamp": 2}


def _given(operand: Operand) -> bool:
    """Whether an optional operand is there: a 0-d number says that it is not."""
    return len(operand.shape) > 0


def _sums(step: Step, terms: int) -> int:
    """So many products and their sum. A complex product is four, and two additions beside."""
    return (8 if step.dtype.is_complex else 2) * terms


def _product(step: Step) -> int:
    """Over the last dimension of the first input."""
    return _sums(step, step.outputs[0].numel * step.inputs[0].shape[-1])


def _linear(step: Step) -> int:
    return _product(step) + (step.outputs[0].numel if _given(step.inputs[2]) else 0)


def _conv(step: Step) -> int:
    return _sums(step, step.outputs[0].numel * math.prod(step.inputs[1].shape[1:]))


def _conv_backward_input(step: Step) -> int:
    return _sums(step, step.inputs[0].numel * math.prod(step.inputs[1].shape[1:]))


def _conv_backward_weight(step: Step) -> int:
    return _sums(step, step.inputs[0].numel * math.prod(step.outputs[0].shape[1:]))


def _pairs(query: Operand, key: Operand, causal: bool) -> int:
    """Queries times the keys that each sees."""
    batch, heads, length, _ = query.shape
    keys = key.shape[2]
    seen = sum(min(i + 1, keys) for i in range(length)) if causal else length * keys
    return batch * heads * seen


def _attention(step: Step) -> int:
    """Two products; scale and softmax (5), and the mask."""
    query, key, value, mask = step.inputs
    width = query.shape[-1] + value.shape[-1]
    return _pairs(query, key, step.attrs[0]) * (2 * width + 6 + _given(mask))


def _attention_backward(step: Step) -> int:
    """Five products; of each pair the probability again (scale, subtract, exp) and its gradient
    (subtract, multiply, scale); of each query the sum of gradient times output."""
    gradient, query, key, value, mask = step.inputs[:5]
    width = 6 * query.shape[-1] + 4 * value.shape[-1]
    pairs = _pairs(query, key, step.attrs[0])
    return pairs * (width + 6 + _given(mask)) + 2 * gradient.numel


def _lstm(step: Step) -> int:
    """Of each state: four gates of a product, a sum and a function, c = f c + i g, o tanh(c)."""
    times, samples, _ = step.inputs[0].shape
    hidden = step.inputs[1].shape[-1]
    return times * samples * hidden * (8 * hidden + 4 + 4 + 3 + 2)


def _lstm_backward(step: Step) -> int:
    """Of each state: the product with the gates' gradients, added to the state's own; those of the
    four gates (4 each) and of the memory (6)."""
    times, samples, _ = step.outputs[0].shape
    hidden = step.inputs[3].shape[-1]
    return times * samples * hidden * (8 * hidden + 1 + 16 + 6)


def _per_input(count: int) -> Callable[[Step], int]:
    return lambda step: count * sum(x.numel for x in step.inputs)


def _per_element(count: int, which: int = 0) -> Callable[[Step], int]:
    return lambda step: count * step.inputs[which].numel


def _normalised(step: Step, centred: bool = True, by_batch: bool = True) -> int:
    """Sum, difference from the mean, square, sum, quotient; without mean three of these, with
    given statistics two. Then weight and bias."""
    count = (5 if centred else 3) if by_batch else 2
    return step.inputs[0].numel * (count + sum(_given(x) for x in step.inputs[1:3]))


def _norm_backward(step: Step, dx: bool, params: bool = True, by_batch: bool = True) -> int:
    """The normalised input (2). Of the parameters: gradient, product and its sums (3). Of the
    input: times weight, times normalised input, both summed, and a - b - x c, quotient (8); with
    given statistics weight and quotient (2)."""
    of_input = (8 if by_batch else 2) if dx else 0
    return step.inputs[0].numel * (2 + 3 * params + of_input)


def _max_pool(step: Step) -> int:
    """Each element of each window."""
    size, begin, end, by = step.attrs
    at, seen = 0, math.prod(step.outputs[0].shape[:2])
    for n, pace in zip(size, by, strict=True):
        windows = zip(begin[at : at + n], end[at : at + n], strict=True)
        seen *= sum(len(range(b, e, pace)) for b, e in windows)
        at += n
    return seen


def _resample(step: Step) -> int:
    """A multiplication and an addition for each element under each tap."""
    size, taps, _, transposed = step.attrs
    at, seen = 0, math.prod(step.outputs[0].shape[:2])
    for n in step.inputs[0].shape[2:] if transposed else size:
        seen *= sum(taps[at : at + n])
        at += n
    return 2 * seen


def _optimizer(per_element: int, per_state: int = 0) -> Callable[[Step], int]:
    """An update without options: so many operations of each element, and of each state."""

    def count(step: Step) -> int:
        written = sum(x.numel for x in step.outputs if _given(x))
        updated = sum(x.numel for x in step.inputs[len(step.outputs) :] if _given(x))
        return per_element * updated + per_state * (written - updated)

    return count


def _cholesky(step: Step) -> int:
    """A third of a product of the matrices."""
    factor = step.outputs[0]
    return factor.numel * factor.shape[-1] // 3


def _solve_triangular(step: Step) -> int:
    """Each entry of the solution takes half a row of the matrix on average, products and sums."""
    return step.outputs[0].numel * step.inputs[0].shape[-1]


_FLOPS: dict[str, Callable[[Step], int]] = {
    "matmul": _product,
    "matmul_add": lambda step: _product(step) + step.outputs[0].numel,
    "int_mm": _product,
    "linear": _linear,
    "conv": _conv,
    "conv_backward_input": _conv_backward_input,
    "conv_backward_weight": _conv_backward_weight,
    "cholesky": _cholesky,
    "solve_triangular": _solve_triangular,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "lstm": _lstm,
    "lstm_backward": _lstm_backward,
    # Largest, difference, exp, sum; quotient or difference.
    "softmax": _per_element(5),
    "log_softmax": _per_element(5),
    "softmax_nll": _per_element(5),
    "logsumexp": _per_element(4),
    # Product or exp, sum, difference, product.
    "softmax_backward": _per_element(4),
    "log_softmax_backward": _per_element(4),
    # exp, difference from the class, times weight.
    "softmax_nll_input": lambda step: 3 * step.outputs[0].numel,
    "layer_norm": lambda step: _normalised(step, step.attrs[1]),
    "group_norm": _normalised,
    "batch_norm": lambda step: _normalised(step, by_batch=not _given(step.inputs[3])),
    "layer_norm_backward": lambda step: _norm_backward(step, step.attrs[2], step.attrs[3]),
    "group_norm_backward": lambda step: _norm_backward(step, step.attrs[1]),
    "batch_norm_backward": lambda step: _norm_backward(step, step.attrs[1], by_batch=step.attrs[0]),
    "sum_squares": _per_input(2),
    "nansum": _per_element(1),
    "norm": _per_element(2),
    "var": _per_element(4),
    "argmax": _per_element(1),
    "argmin": _per_element(1),
    "cumsum": _per_element(1),
    "cumprod": _per_element(1),
    "cummax": _per_element(1),
    "cummin": _per_element(1),
    "logcumsumexp": _per_element(1),
    "scatter_add": _per_element(1, 2),
    "scatter_reduce": _per_element(1, 2),
    "max_pool": _max_pool,
    "resample": _resample,
    # v = momentum v + take g; p + rate v.
    "SGD": _optimizer(2, 3),
    # Running means of the gradient (3) and of squares (4), root, quotient, eps, p + rate m / d.
    "Adam": _optimizer(13),
    # Running mean of squares (4), root, eps, p + rate g / d.
    "RMSprop": _optimizer(9),
    # Sum of squares (2), root, eps, p + rate g / d.
    "Adagrad": _optimizer(7),
    "mul_": lambda step: sum(x.numel for x in step.outputs),
}


def _of_op(op: str, step: Step, elements: int) -> int:
    """One op of a step that works on so many elements."""
    kind = _KINDS.get(op)
    if kind == "scalar":
        return _SCALAR.get(op, 1) * elements
    if kind == "reduce":
        return elements
    return _FLOPS[op](step) if op in _FLOPS else 0


def flops(step: Step) -> int:
    """The operations of a step; of control flow those of all times that its parts run. Where that
    is not known, of the larger branch, or of one turn of a loop."""
    if step.inside:
        each = [sum(map(flops, part.program.steps)) for part in step.inside]
        if all(part.times >= 0 for part in step.inside):
            return sum(part.times * n for part, n in zip(step.inside, each, strict=True))
        return max(each) if step.ops == ("cond",) else sum(each)
    if step.kind == "region":
        return sum(_of_op(op, step, n) for op, n in zip(step.ops, step.elements, strict=True))
    (op,) = step.ops
    operands = step.inputs if _KINDS.get(op) == "reduce" else step.outputs
    return _of_op(op, step, operands[0].numel if operands else 0)


def traffic(step: Step) -> tuple[int, int]:
    """The bytes that a step reads and writes."""
    written = sum(x.nbytes for x in set(step.outputs))
    if step.ops == ("gather",):  # not all of its source
        out, index = step.outputs[0], step.inputs[1]
        return min(out.nbytes, step.inputs[0].nbytes) + index.nbytes, written
    return sum(x.nbytes for x in set(step.inputs)), written
