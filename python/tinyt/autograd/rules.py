"""Gradient rules of the primitives, one table.

``rule(name, ...)`` takes for each input a pair: a function ``f(g, n)`` of the output gradient and
the tape node, and the positions it unpacks: ``0, 1, ...`` inputs, ``OUT`` the output, ``SECOND``
the second output. Rules are written with recorded operations, so they can be differentiated again.
A result may have the broadcast shape or the promoted dtype: the tape reduces and converts it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinyt._tensor import Node, is_grad_enabled, register_rule
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor

OUT = -1
SECOND = -2


def rule(name: str, *inputs: tuple[Any, ...] | None) -> None:
    """Registers one ``(function, positions...)`` per input; None: no gradient."""
    functions = tuple(None if i is None else i[0] for i in inputs)
    needs = tuple(() if i is None else tuple(i[1:]) for i in inputs)
    register_rule(name, functions, needs if any(needs) else None)


def zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros of a shape in the dtype of ``like``."""
    return prim.fill(shape, like.dtype, 0.0, 0)


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def keep_dims(x: Tensor, n: Node) -> Tensor:
    """A reduction's output (or its gradient) with the reduced dimensions as size 1."""
    dims, keepdim = n.attrs
    if keepdim:
        return x
    shape = tuple(1 if d in dims else s for d, s in enumerate(n.shape(0)))
    return prim.reshape(x, shape)


def flipped(x: Tensor, dim: int) -> Tensor:
    """x in reverse order along one dimension."""
    size = x.shape[dim]
    index = prim.iota(size, 5, 0.0, 0.0, size - 1, -1)
    shape = [1] * x.dim()
    shape[dim] = size
    return prim.gather(x, prim.expand(prim.reshape(index, tuple(shape)), tuple(x.shape)), dim)


def transposed(x: Tensor) -> Tensor:
    """x with its last two dimensions swapped."""
    order = list(range(x.dim()))
    order[-1], order[-2] = order[-2], order[-1]
    return prim.permute(x, tuple(order))


def as_column(x: Tensor) -> Tensor:
    """x with a size-1 dimension at the end."""
    return prim.reshape(x, (*x.shape, 1))


def as_row(x: Tensor) -> Tensor:
    """x with a size-1 dimension before the last."""
    return prim.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


# ---- unary

rule("neg", (lambda g, n: -g,))
rule("abs", (lambda g, n: g * prim.sign(n.input(0)), 0))
rule("square", (lambda g, n: g * (n.input(0) * 2.0), 0))
rule("relu", (lambda g, n: prim.where(n.output() > 0.0, g, 0.0), OUT))
for _flat in ("sign", "floor", "ceil", "round", "trunc"):
    rule(_flat, (lambda g, n: zeros(tuple(g.shape), g),))
rule("exp", (lambda g, n: g * n.output(), OUT))
rule("expm1", (lambda g, n: g * (n.output() + 1.0), OUT))
rule("log", (lambda g, n: g / n.input(0), 0))
rule("log1p", (lambda g, n: g / (n.input(0) + 1.0), 0))
rule("sqrt", (lambda g, n: g / (n.output() * 2.0), OUT))
rule("rsqrt", (lambda g, n: g * -0.5 * n.output() * n.output() * n.output(), OUT))
rule("reciprocal", (lambda g, n: -g * n.output() * n.output(), OUT))
rule("sin", (lambda g, n: g * prim.cos(n.input(0)), 0))
rule("cos", (lambda g, n: -g * prim.sin(n.input(0)), 0))
rule("tanh", (lambda g, n: g * (1.0 - n.output() * n.output()), OUT))
rule("sigmoid", (lambda g, n: g * (1.0 - n.output()) * n.output(), OUT))
rule("erf", (lambda g, n: g * (prim.exp(-prim.square(n.input(0))) * (2 / math.sqrt(math.pi))), 0))

# ---- binary and ternary


def pow_base(g: Tensor, n: Node) -> Tensor:
    """d(x**e)/dx = e x**(e-1); zero where e is zero, also at x = 0."""
    x, e = n.input(0), n.input(1)
    return prim.where(e == 0.0, 0.0, g * (e * prim.pow(x, e - 1.0)))


def pow_exponent(g: Tensor, n: Node) -> Tensor:
    """d(x**e)/de = x**e log x; zero at x = 0 for e >= 0, where the limit is zero."""
    x, e, out = n.input(0), n.input(1), n.output()
    limit = prim.logical_and(x == 0.0, e >= 0.0)
    return g * prim.where(limit, 0.0, out * prim.log(x))


def larger(g: Tensor, n: Node, a: int, b: int) -> Tensor:
    """Share of input ``a`` in max(a, b): all, half at a tie, or none."""
    x, y = n.input(a), n.input(b)
    return prim.where(x < y, 0.0, prim.where(x == y, g * 0.5, g))


rule("add", (lambda g, n: g,), (lambda g, n: g,))
rule("sub", (lambda g, n: g,), (lambda g, n: -g,))
rule("mul", (lambda g, n: g * n.input(1), 1), (lambda g, n: g * n.input(0), 0))
rule(
    "div",
    (lambda g, n: g / n.input(1), 1),
    (lambda g, n: -g * ((n.input(0) / n.input(1)) / n.input(1)), 0, 1),
)
rule(
    "remainder",
    (lambda g, n: g,),
    (lambda g, n: -g * prim.floor(n.input(0) / n.input(1)), 0, 1),
)
rule("pow", (pow_base, 0, 1), (pow_exponent, 0, 1, OUT))
rule(
    "maximum",
    (lambda g, n: larger(g, n, 0, 1), 0, 1),
    (lambda g, n: larger(g, n, 1, 0), 0, 1),
)
rule(
    "minimum",
    (lambda g, n: larger(g, n, 1, 0), 0, 1),
    (lambda g, n: larger(g, n, 0, 1), 0, 1),
)
# With a and b swapped, "larger" asks who is smaller; the gradient goes to that one.
rule(
    "where",
    None,
    (lambda g, n: prim.where(n.input(0), g, 0.0), 0),
    (lambda g, n: prim.where(n.input(0), 0.0, g), 0),
)

# ---- conversion and movement


def as_strided_grad(g: Tensor, n: Node) -> Tensor:
    """Adds every element's gradient where it came from; elements may repeat."""
    size, stride, offset = n.attrs
    shape = n.shape(0)
    count = math.prod(shape)
    index = prim.as_strided(prim.iota(count, 5, 0.0, 0.0, 0, 1), size, stride, offset)
    total = math.prod(size)
    flat = prim.scatter_add(
        zeros((count,), g), prim.reshape(index, (total,)), prim.reshape(g, (total,)), 0
    )
    return prim.reshape(flat, shape)


def update_base(g: Tensor, n: Node) -> Tensor:
    """The overwritten region of the base has no influence."""
    size, stride, offset = n.attrs
    return prim.update(g, zeros(size, g), size, stride, offset)


def slice_grad(g: Tensor, n: Node) -> Tensor:
    """Puts the gradient back where the slice lay."""
    dim, start, end, step = n.attrs
    shape = n.shape(0)
    if step == 1:
        pads = [0] * (2 * len(shape))
        pads[2 * dim : 2 * dim + 2] = [start, shape[dim] - end]
        return prim.pad(g, pads)
    strides = list(contiguous_strides(shape))
    offset = start * strides[dim]
    strides[dim] *= step
    return prim.update(zeros(shape, g), g, tuple(g.shape), strides, offset if g.numel() else 0)


def cat_grad(g: Tensor, n: Node) -> list[Tensor | None]:
    """Cuts the gradient into the pieces that were joined."""
    (dim,) = n.attrs
    pieces: list[Tensor | None] = []
    at = 0
    for i in range(len(n.edges)):
        shape = n.shape(i)
        if shape == (0,) and g.dim() != 1:
            pieces.append(zeros(shape, g) if n.needs_input(i) else None)
            continue
        end = at + shape[dim]
        piece = prim.slice(g, dim, at, end) if n.needs_input(i) else None
        pieces.append(None if piece is None else prim.cast(piece, n.dtype(i)))
        at = end
    return pieces


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``order``."""
    back = [0] * len(order)
    for i, d in enumerate(order):
        back[d] = i
    return tuple(back)


rule("cast", (lambda g, n: g,))
rule("copy", (lambda g, n: g,))
rule("as_strided", (as_strided_grad,))
rule("reshape", (lambda g, n: prim.reshape(g, n.shape(0)),))
rule("permute", (lambda g, n: prim.permute(g, inverse(n.attrs[0])),))
rule("expand", (lambda g, n: g,))
rule("slice", (slice_grad,))
rule("pad", (lambda g, n: prim.pad(g, [-p for p in n.attrs[0]]),))
register_rule("cat", cat_grad, None)
rule("update", (update_base,), (lambda g, n: prim.as_strided(prim.copy(g), *n.attrs),))

# ---- reductions


def prod_grad(g: Tensor, n: Node) -> Tensor:
    """The product of all other elements; exact also where elements are zero."""
    x = n.input(0)
    dims = n.attrs[0] or tuple(range(x.dim()))
    if is_grad_enabled():
        return keep_dims(g, n) * _others_product(x, dims)
    # p / x would fail at zeros: with one zero only its own place gets the rest's product.
    is_zero = x == 0.0
    rest = prim.prod(prim.where(is_zero, 1.0, x), dims, True)
    count = prim.sum(is_zero, dims, True)
    alone = prim.where(is_zero, rest, 0.0)
    nonzero = rest / prim.where(is_zero, 1.0, x)
    others = prim.where(count == 0, nonzero, prim.where(count == 1, alone, 0.0))
    return keep_dims(g, n) * others


def _others_product(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """For every element the product of the others over ``dims``, from products alone (O(n^2))."""
    keep = tuple(d for d in range(x.dim()) if d not in dims)
    order = keep + tuple(dims)
    moved = prim.permute(x, order)
    lead = tuple(x.shape[d] for d in keep)
    count = math.prod(x.shape[d] for d in dims)
    row = prim.reshape(moved, (*lead, 1, count))
    index = prim.iota(count, 5, 0.0, 0.0, 0, 1)
    diagonal = prim.eq(prim.reshape(index, (count, 1)), index)
    others = prim.prod(prim.where(diagonal, 1.0, row), (len(keep) + 1,), False)
    shape = tuple(x.shape[d] for d in order)
    return prim.permute(prim.reshape(others, shape), inverse(order))


def extremum_grad(g: Tensor, n: Node) -> Tensor:
    """Shared evenly between the elements that attain the extremum."""
    hit = prim.cast(n.input(0) == keep_dims(n.output(), n), g.dtype)
    count = prim.sum(hit, n.attrs[0], True)
    return hit * (keep_dims(g, n) / count)


rule("sum", (lambda g, n: prim.expand(keep_dims(g, n), n.shape(0)),))
rule("prod", (prod_grad, 0))
rule("amax", (extremum_grad, 0, OUT))
rule("amin", (extremum_grad, 0, OUT))

# ---- scan, order, indexing


def cumsum_grad(g: Tensor, n: Node) -> Tensor:
    """Every output at or after an element contains it."""
    (dim,) = n.attrs
    if g.dim() == 0:
        return g
    return flipped(prim.cumsum(flipped(g, dim), dim), dim)


def source_grad(g: Tensor, n: Node) -> Tensor:
    """Gradient of a scatter's source, whose part beyond the index was not used."""
    picked = prim.gather(g, n.input(1), n.attrs[0])
    shape = n.shape(2)
    pads: list[int] = []
    for have, want in zip(picked.shape, shape, strict=True):
        pads += [0, want - have]
    return prim.pad(picked, pads) if any(pads) else picked


def scatter_back(g: Tensor, n: Node, index: Tensor, dim: int) -> Tensor:
    """Adds gradients into zeros of the input's shape."""
    return prim.scatter_add(zeros(n.shape(0), g), index, g, dim)


rule("cumsum", (cumsum_grad,))
rule("sort", (lambda g, n: scatter_back(g, n, n.second(), n.attrs[0]), SECOND))
rule("gather", (lambda g, n: scatter_back(g, n, n.input(1), n.attrs[0]), 1), None)
rule(
    "scatter",
    (lambda g, n: prim.scatter(g, n.input(1), zeros(n.shape(1), g), n.attrs[0]), 1),
    None,
    (source_grad, 1),
)
rule("scatter_add", (lambda g, n: g,), None, (source_grad, 1))

# ---- contractions


def matmul_left(g: Tensor, n: Node) -> Tensor:
    """Gradient of a in a @ b, for every mix of vectors and (batched) matrices."""
    b = n.input(1)
    vector_a, vector_b = len(n.shape(0)) == 1, b.dim() == 1
    if vector_a and vector_b:
        return g * b
    if vector_b:
        return as_column(g) * b
    if vector_a:
        out = prim.matmul(b, as_column(g))
        return prim.reshape(out, tuple(out.shape[:-1]))
    return prim.matmul(g, transposed(b))


def matmul_right(g: Tensor, n: Node) -> Tensor:
    """Gradient of b in a @ b, for every mix of vectors and (batched) matrices."""
    a = n.input(0)
    vector_a, vector_b = a.dim() == 1, len(n.shape(1)) == 1
    if vector_a and vector_b:
        return g * a
    if vector_b:
        out = prim.matmul(transposed(a), as_column(g))
        return prim.reshape(out, tuple(out.shape[:-1]))
    if vector_a:
        return as_column(a) * as_row(g)
    return prim.matmul(transposed(a), g)


def max_pool_grad(g: Tensor, n: Node) -> Tensor:
    """Adds each window's gradient to the element it chose."""
    shape = n.shape(0)
    lead = shape[:2]
    flat = (*lead, math.prod(g.shape[2:]))
    index = prim.reshape(n.second(), flat)
    planes = zeros((*lead, math.prod(shape[2:])), g)
    return prim.reshape(prim.scatter_add(planes, index, prim.reshape(g, flat), 2), shape)


rule("matmul", (matmul_left, 1), (matmul_right, 0))
rule(
    "conv",
    (lambda g, n: prim.conv_input(g, n.input(1), n.shape(0), *n.attrs), 1),
    (lambda g, n: prim.conv_weight(g, n.input(0), n.shape(1), *n.attrs), 0),
)
# Both backward forms are linear in each operand; their rules are the other two forms.
rule(
    "conv_input",
    (lambda g, n: prim.conv(g, n.input(1), *n.attrs[1:]), 1),
    (lambda g, n: prim.conv_weight(n.input(0), g, n.shape(1), *n.attrs[1:]), 0),
)
rule(
    "conv_weight",
    (lambda g, n: prim.conv(n.input(1), g, *n.attrs[1:]), 1),
    (lambda g, n: prim.conv_input(n.input(0), g, n.shape(1), *n.attrs[1:]), 0),
)
rule("max_pool", (max_pool_grad, SECOND))

# ---- fused


def softmax_grad(g: Tensor, n: Node) -> Tensor:
    """s * (g - sum(g * s))."""
    s = n.output()
    return s * (g - prim.sum(g * s, n.attrs[0], True))


rule("softmax", (softmax_grad, OUT))
rule(
    "log_softmax",
    (lambda g, n: g - prim.exp(n.output()) * prim.sum(g, n.attrs[0], True), OUT),
)
