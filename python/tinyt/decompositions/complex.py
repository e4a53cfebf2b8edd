"""Arithmetic of complex numbers in operations on their real and imaginary parts.

What a device without kernels for complex numbers runs. A function takes the operands of its row,
promoted: complex ones, and real ones in the dtype of the parts. All arithmetic is in that dtype,
float32 of complex64.

Errors are bounded in the complex plane, relative to the size of the result (docs/numerics.md).
Sums, differences, products and comparisons are the CPU's (src/cpu/math/complex_math.h).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt.decompositions import complex_functions as functions
from tinyt.decompositions.common import zeros
from tinyt.decompositions.complex_functions import Parts, number, power, quotient, times
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor


def part(x: Tensor, which: int) -> Tensor:
    """A view of the real (0) or imaginary (1) parts."""
    one = prim.slice(prim.view_as_real(x), x.dim(), which, which + 1, 1)
    return prim.reshape(one, tuple(x.shape))


def parts(x: Tensor) -> Parts:
    """Of a complex operand."""
    return part(x, 0), part(x, 1)


def pair(x: Tensor) -> Parts:
    """Of any operand; the imaginary part of a real one is a 0-d zero."""
    return parts(x) if x.dtype.is_complex else (x, number(0.0, x))


def joined(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers of their parts; the real ones have the result's shape."""
    shape = tuple(real.shape)
    if tuple(imag.shape) != shape:
        imag = prim.expand(imag, shape)
    both = tuple(prim.reshape(x, (*shape, 1)) for x in (real, imag))
    return prim.view_as_complex(prim.cat(both, len(shape)))


def of_parts(function: Callable[[Tensor, Tensor], Parts]) -> Callable[[Tensor], Tensor]:
    """A row of one operand, by a function of its parts."""
    return lambda z: joined(*function(*parts(z)))


# ---- arithmetic


def sees_parts(*operands: Tensor) -> bool:
    """Whether an operation on each part by itself may take them all as real tensors with one
    dimension more: numbers may not, which are elsewhere than the others."""
    return all(x.dtype.is_complex and x.dim() > 0 for x in operands)


def added(x: Tensor, y: Tensor, op: Callable[[Any, Any], Tensor]) -> Tensor:
    """The sum or difference."""
    if sees_parts(x, y):
        return prim.view_as_complex(op(prim.view_as_real(x), prim.view_as_real(y)))
    if x.dtype.is_complex and y.dtype.is_complex:
        (a, b), (c, d) = parts(x), parts(y)
        return joined(op(a, c), op(b, d))
    if x.dtype.is_complex:
        real, imag = op(part(x, 0), y), part(x, 1)
        nought = zeros(tuple(real.shape), imag) if x.dim() == 0 else number(0.0, imag)
        return joined(real, op(imag, nought))
    real, imag = op(x, part(y, 0)), part(y, 1)
    nought = zeros(tuple(real.shape), imag) if y.dim() == 0 else number(0.0, imag)
    return joined(real, op(nought, imag))


def add(x: Tensor, y: Tensor) -> Tensor:
    """x + y."""
    return added(x, y, prim.add)


def sub(x: Tensor, y: Tensor) -> Tensor:
    """x - y."""
    return added(x, y, prim.sub)


def mul(x: Tensor, y: Tensor) -> Tensor:
    """x y."""
    return joined(*times(pair(x), pair(y)))


def div(x: Tensor, y: Tensor) -> Tensor:
    """x / y. By a real number it is a quotient of each part, of 0 i / y the CPU's signs and NaN."""
    if y.dtype.is_complex:
        return joined(*quotient(pair(x), parts(y)))
    a, b = parts(x)
    nought, ratio = y == 0, 0.0 / y
    below = prim.where(nought, prim.abs(y), y)
    real = prim.where(nought, a, a + b * ratio) / below
    return joined(real, prim.where(nought, b, b - a * ratio) / below)


def pow(x: Tensor, y: Tensor) -> Tensor:
    """x to the y."""
    return joined(*power(pair(x), pair(y)))


def neg(z: Tensor) -> Tensor:
    """-z."""
    return prim.view_as_complex(prim.neg(prim.view_as_real(z)))


def conj_physical(x: Tensor, y: Tensor) -> Parts:
    """The conjugate."""
    return x, prim.neg(y)


# ---- comparison and choice


def is_true(x: Tensor) -> Tensor:
    """Whether a number is not 0."""
    if not x.dtype.is_complex:
        return x != 0
    a, b = parts(x)
    return (a != 0) | (b != 0)


def eq(x: Tensor, y: Tensor) -> Tensor:
    """Whether both parts are equal."""
    (a, b), (c, d) = pair(x), pair(y)
    return (a == c) & (b == d)


def ne(x: Tensor, y: Tensor) -> Tensor:
    """Whether either part differs."""
    (a, b), (c, d) = pair(x), pair(y)
    return (a != c) | (b != d)


def either(test: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Whether one of the parts passes a test."""

    def of(z: Tensor) -> Tensor:
        a, b = parts(z)
        return test(a) | test(b)

    return of


def isfinite(z: Tensor) -> Tensor:
    """Whether both parts are finite."""
    a, b = parts(z)
    return prim.isfinite(a) & prim.isfinite(b)


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Of x where a condition holds, else of y."""
    if sees_parts(x, y) and condition.dim() > 0:
        wide = prim.reshape(condition, (*condition.shape, 1))
        return prim.view_as_complex(prim.where(wide, prim.view_as_real(x), prim.view_as_real(y)))
    (a, b), (c, d) = pair(x), pair(y)
    real = prim.where(condition, a, c)
    if not (x.dtype.is_complex and y.dtype.is_complex):  # all of these may be numbers
        nought = zeros(tuple(real.shape), real)
        b, d = (b if x.dtype.is_complex else nought), (d if y.dtype.is_complex else nought)
    return joined(real, prim.where(condition, b, d))


# ---- reductions, scans, products of matrices


def sum(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The sum over some dimensions or (none) all."""
    if x.dim() == 0:
        return x
    axes = dims or tuple(range(x.dim()))
    return prim.view_as_complex(prim.sum(prim.view_as_real(x), axes, keepdim))


def prod(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The product over some dimensions or (none) all, of the two halves' in turn."""
    axes = dims or tuple(range(x.dim()))
    kept = [d for d in range(x.dim()) if d not in axes]
    rest = tuple(x.shape[d] for d in kept)
    count = math.prod(x.shape[d] for d in axes)
    shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape)) if keepdim else rest
    if count == 0:
        return prim.fill(shape, x.dtype, 1.0, 0)
    last, order = len(rest), (*kept, *axes)
    a, b = (prim.reshape(prim.permute(p, order), (*rest, count)) for p in parts(x))

    def cut(p: Parts, start: int, end: int) -> Parts:
        return prim.slice(p[0], last, start, end, 1), prim.slice(p[1], last, start, end, 1)

    whole = (a, b)
    while count > 1:
        half = count // 2
        found = times(cut(whole, 0, half), cut(whole, half, 2 * half))
        if count % 2:
            odd = cut(whole, count - 1, count)
            first = times(cut(found, 0, 1), odd)
            left = cut(found, 1, half)
            found = prim.cat((first[0], left[0]), last), prim.cat((first[1], left[1]), last)
        whole, count = found, half
    return prim.reshape(joined(*whole), shape)


def cumsum(x: Tensor, dim: int) -> Tensor:
    """Sums along a dimension."""
    if x.dim() == 0:
        return x
    return prim.view_as_complex(prim.cumsum(prim.view_as_real(x), dim % x.dim()))


def scatter_add(x: Tensor, index: Tensor, src: Tensor, dim: int) -> Tensor:
    """Adds both parts at the index of a number."""
    if x.dim() == 0:
        line, at, more = (prim.reshape(t, (1,)) for t in (x, index, src))
        return prim.reshape(scatter_add(line, at, more, 0), ())
    shape = tuple(index.shape)
    places = prim.expand(prim.reshape(index, (*shape, 1)), (*shape, 2))
    sums = prim.scatter_add(prim.view_as_real(x), places, prim.view_as_real(src), dim % x.dim())
    return prim.view_as_complex(sums)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """One real product: rows (a, b) of the left side with columns (c, d) and (-d, c)."""
    left = prim.reshape(prim.view_as_real(x), (*x.shape[:-1], 2 * x.shape[-1]))
    lead, rows = (tuple(y.shape[:-2]), y.shape[-2]) if y.dim() > 1 else ((), y.shape[0])
    columns = y.shape[-1] if y.dim() > 1 else 1
    shape = (*lead, rows, 1, columns, 2)
    c, d = parts(y)
    turned = joined(prim.neg(d), c)
    both = [prim.reshape(prim.view_as_real(t), shape) for t in (y, turned)]
    right = prim.reshape(prim.cat(tuple(both), len(lead) + 1), (*lead, 2 * rows, 2 * columns))
    made = prim.matmul(left, right)
    whole = tuple(made.shape[:-1])
    ends = (columns, 2) if y.dim() > 1 else (2,)
    return prim.view_as_complex(prim.reshape(made, (*whole, *ends)))


ROWS: dict[str, Callable[..., Any]] = {
    "neg": neg,
    "abs": lambda z: prim.hypot(*parts(z)),
    "angle": lambda z: prim.atan2(part(z, 1), part(z, 0)),
    "conj_physical": of_parts(conj_physical),
    "square": of_parts(functions.square),
    "exp": of_parts(functions.exp),
    "exp2": of_parts(functions.exp2),
    "expm1": of_parts(functions.expm1),
    "log": of_parts(functions.log),
    "log2": of_parts(functions.log_to(2)),
    "log10": of_parts(functions.log_to(10)),
    "log1p": of_parts(functions.log1p),
    "sqrt": of_parts(functions.sqrt),
    "rsqrt": of_parts(functions.rsqrt),
    "reciprocal": of_parts(functions.reciprocal),
    "sin": of_parts(functions.by_turning(functions.sinh)),
    "cos": of_parts(functions.cos),
    "tan": of_parts(functions.by_turning(functions.tanh)),
    "asin": of_parts(functions.asin),
    "acos": of_parts(functions.acos),
    "atan": of_parts(functions.by_turning(functions.atanh)),
    "sinh": of_parts(functions.sinh),
    "cosh": of_parts(functions.cosh),
    "tanh": of_parts(functions.tanh),
    "asinh": of_parts(functions.by_turning(functions.asin)),
    "acosh": of_parts(functions.acosh),
    "atanh": of_parts(functions.atanh),
    "sigmoid": of_parts(functions.sigmoid),
    "logical_not": lambda z: ~is_true(z),
    "isnan": either(prim.isnan),
    "isinf": either(prim.isinf),
    "isfinite": isfinite,
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "pow": pow,
    "eq": eq,
    "ne": ne,
    "logical_and": lambda x, y: is_true(x) & is_true(y),
    "logical_or": lambda x, y: is_true(x) | is_true(y),
    "logical_xor": lambda x, y: is_true(x) ^ is_true(y),
    "where": where,
    "sum": sum,
    "prod": prod,
    "cumsum": cumsum,
    "scatter_add": scatter_add,
    "matmul": matmul,
}
