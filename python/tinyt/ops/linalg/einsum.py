"""Sums of products by subscripts: einsum and tensordot, as permuted and reshaped matrix products.

A subscript is a label: an int. The dimensions of an ellipsis get labels of their own, counted
from its end, so that ellipses of different lengths broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tinyt._core import ShapeError
from tinyt.ops.common import need_tensor, to_dtype, wrap_dim, write_out
from tinyt.ops.linalg.products import public_matmul
from tinyt.ops.shape.strides import diagonal
from tinyt.tensor import Tensor, prim

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ELLIPSIS = -1
_FIRST_ELLIPSIS_LABEL = len(LETTERS)


class _Term(NamedTuple):
    """A tensor whose dimensions carry distinct labels."""

    tensor: Tensor
    labels: tuple[int, ...]


# ---- subscripts


def _parse_part(text: str, where: str) -> list[int]:
    """The labels of one operand or of the output; _ELLIPSIS for "..."."""
    labels: list[int] = []
    text = text.replace(" ", "")
    at = 0
    while at < len(text):
        if text.startswith("...", at):
            if _ELLIPSIS in labels:
                raise RuntimeError(f"einsum: found two ellipses in {where}: {text!r}")
            labels.append(_ELLIPSIS)
            at += 3
            continue
        if text[at] not in LETTERS:
            raise RuntimeError(
                f"einsum: subscripts must be letters or an ellipsis, got {text[at]!r} in {where}"
            )
        labels.append(LETTERS.index(text[at]))
        at += 1
    return labels


def _parse(equation: str) -> tuple[list[list[int]], list[int] | None]:
    left, arrow, right = equation.partition("->")
    inputs = [_parse_part(part, f"operand {i}") for i, part in enumerate(left.split(","))]
    return inputs, _parse_part(right, "the output") if arrow else None


def _parse_sublist(subscripts: Any) -> list[int]:
    if isinstance(subscripts, Tensor) and subscripts.numel() > len(LETTERS) ** 2:
        raise ValueError(f"einsum: got {subscripts.numel()} subscripts in a sublist")
    labels: list[int] = []
    for value in subscripts:
        label = _ELLIPSIS if value is Ellipsis else value
        if label is not value and _ELLIPSIS in labels:
            raise RuntimeError("einsum: found two ellipses in one sublist")
        if label is value and not 0 <= int(value) < len(LETTERS):
            raise ValueError(
                f"einsum: subscripts must be in [0, {len(LETTERS)}), got {value} in a sublist"
            )
        labels.append(label)
    return labels


def _arguments(
    args: tuple[Any, ...],
) -> tuple[list[Tensor], list[list[int]], list[int] | None]:
    """Operands, their subscripts and the output's (None: implicit) of either form of the call."""
    if not args:
        raise ValueError("einsum: must specify the equation string and at least one operand")
    if isinstance(args[0], str):
        given = args[1:]
        if len(given) == 1 and isinstance(given[0], (list, tuple)):
            given = tuple(given[0])
        inputs, output = _parse(args[0])
    else:
        given = args[0 : len(args) // 2 * 2 : 2]
        inputs = [_parse_sublist(sublist) for sublist in args[1::2]]
        output = _parse_sublist(args[-1]) if len(args) % 2 else None
    operands = [need_tensor("einsum", x) for x in given]
    if not operands:
        raise ValueError("einsum: must provide at least one operand")
    if len(operands) != len(inputs):
        raise RuntimeError(
            f"einsum: the equation has subscripts for {len(inputs)} operands, got {len(operands)}"
        )
    return operands, inputs, output


def _name(label: int) -> str:
    return LETTERS[label] if label < len(LETTERS) else "..."


def _spread(labels: list[int], rank: int, number: int) -> list[int]:
    """Labels of every dimension: the ellipsis takes those that have none."""
    named = len(labels) - (_ELLIPSIS in labels)
    if named > rank or (named < rank and _ELLIPSIS not in labels):
        raise RuntimeError(
            f"einsum: operand {number} has {rank} dimensions, its subscripts name {named}"
        )
    if _ELLIPSIS not in labels:
        return labels
    at = labels.index(_ELLIPSIS)
    inner = [_FIRST_ELLIPSIS_LABEL + d for d in reversed(range(rank - named))]
    return labels[:at] + inner + labels[at + 1 :]


def _output_labels(output: list[int] | None, inputs: list[list[int]]) -> tuple[int, ...]:
    used = [label for labels in inputs for label in labels]
    dots = sorted({label for label in used if label >= _FIRST_ELLIPSIS_LABEL}, reverse=True)
    if output is None:
        once = sorted(x for x in set(used) if x < _FIRST_ELLIPSIS_LABEL and used.count(x) == 1)
        return (*dots, *once)
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(f"einsum: the output names subscript {_name(label)} more than once")
        if label != _ELLIPSIS and label not in used:
            raise RuntimeError(
                f"einsum: output subscript {_name(label)} does not appear in any operand"
            )
    if _ELLIPSIS not in output:
        return tuple(output)
    at = output.index(_ELLIPSIS)
    return (*output[:at], *dots, *output[at + 1 :])


# ---- one operand


def _distinct(x: Tensor, labels: list[int], number: int) -> _Term:
    """The diagonal of dimensions that share a label."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum: subscript {_name(label)} is repeated for operand {number} but the "
                    f"sizes don't match, {x.shape[first]} != {x.shape[second]}"
                )
            x = diagonal(x, 0, first, second)
            labels = [k for d, k in enumerate(labels) if d not in (first, second)] + [label]
    return _Term(x, tuple(labels))


def _sizes(terms: Sequence[_Term]) -> dict[int, int]:
    """The size of every label; 1 broadcasts."""
    sizes: dict[int, int] = {}
    for number, term in enumerate(terms):
        for label, n in zip(term.labels, term.tensor.shape, strict=True):
            have = sizes.get(label, 1)
            if 1 not in (n, have) and n != have:
                raise ShapeError(
                    f"einsum: subscript {_name(label)} has size {n} for operand {number}, which "
                    f"does not broadcast with previously seen size {have}"
                )
            sizes[label] = n if have == 1 else have
    return sizes


def _narrowed(term: _Term, sizes: dict[int, int], out: set[int]) -> _Term:
    """Without the dimensions of size 1 that another operand has in full, or the output not."""
    keep = [
        d
        for d, (label, n) in enumerate(zip(term.labels, term.tensor.shape, strict=True))
        if n != 1 or (sizes[label] == 1 and label in out)
    ]
    if len(keep) == len(term.labels):
        return term
    shape = tuple(term.tensor.shape[d] for d in keep)
    return _Term(prim.reshape(term.tensor, shape), tuple(term.labels[d] for d in keep))


def _summed(term: _Term, keep: set[int], promote: bool = False) -> _Term:
    """Sums over the labels that are not kept; small integers become int64 if ``promote``."""
    dims = tuple(d for d, label in enumerate(term.labels) if label not in keep)
    if not dims:
        return term
    total = prim.sum(term.tensor, dims, False)
    if not promote:
        total = to_dtype(total, term.tensor.dtype)
    return _Term(total, tuple(label for label in term.labels if label in keep))


def _arranged(term: _Term, order: Sequence[int], shape: tuple[int, ...]) -> Tensor:
    """The tensor with its dimensions in the order of these labels, reshaped."""
    dims = tuple(term.labels.index(label) for label in order)
    x = term.tensor if dims == tuple(range(len(dims))) else prim.permute(term.tensor, dims)
    return prim.reshape(x, shape) if tuple(x.shape) != shape else x


# ---- two operands


def _multiply(a: _Term, b: _Term, keep: set[int], sizes: dict[int, int]) -> _Term:
    """The product of two operands, summed over the labels that nothing needs any more."""
    a = _summed(a, keep | set(b.labels))
    b = _summed(b, keep | set(a.labels))
    shared = [x for x in a.labels if x in b.labels]
    batch = [x for x in shared if x in keep]
    inner = [x for x in shared if x not in keep]
    left = [x for x in a.labels if x not in shared]
    right = [x for x in b.labels if x not in shared]

    def shape(labels: list[int]) -> tuple[int, ...]:
        return tuple(sizes[x] for x in labels)

    if not inner:  # nothing to sum: a broadcast product
        wide_a = _arranged(a, batch + left, shape(batch + left) + (1,) * len(right))
        wide_b = _arranged(b, batch + right, shape(batch) + (1,) * len(left) + shape(right))
        return _Term(prim.mul(wide_a, wide_b), (*batch, *left, *right))
    lead = (math.prod(shape(batch)),) if batch else ()
    m, n, k = (math.prod(shape(labels)) for labels in (left, right, inner))
    product = public_matmul(
        _arranged(a, batch + left + inner, (*lead, m, k)),
        _arranged(b, batch + inner + right, (*lead, k, n)),
    )
    return _Term(prim.reshape(product, shape(batch + left + right)), (*batch, *left, *right))


def _next_pair(terms: list[_Term], out: set[int], sizes: dict[int, int]) -> tuple[int, int]:
    """The pair whose product grows memory least; the first of equals. By shapes alone."""

    def growth(i: int, j: int) -> int:
        others = set(out).union(*(t.labels for k, t in enumerate(terms) if k not in (i, j)))
        both = set(terms[i].labels) | set(terms[j].labels)
        made = math.prod(sizes[x] for x in both if x in others)
        return made - sum(math.prod(sizes[x] for x in terms[k].labels) for k in (i, j))

    pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
    return min(pairs, key=lambda pair: growth(*pair))


def einsum(*args: Any) -> Tensor:
    """Sum of products of the operands' elements by subscripts (Einstein's convention).

    ``einsum("bij,bjk->bik", x, y)``, or with sublists ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.
    ``...`` stands for dimensions that broadcast, a repeated subscript of one operand for its
    diagonal; without ``->`` the result has the ellipsis' dimensions, then the subscripts that
    appear once, in alphabetical order. Operands have one dtype; more than two are multiplied pair
    by pair, the pair with the smallest product first. RuntimeError for subscripts that do not fit.
    """
    operands, inputs, output = _arguments(args)
    spread = [
        _spread(labels, x.dim(), i)
        for i, (labels, x) in enumerate(zip(inputs, operands, strict=True))
    ]
    order = _output_labels(output, spread)
    terms = [
        _distinct(x, labels, i) for i, (x, labels) in enumerate(zip(operands, spread, strict=True))
    ]
    sizes = _sizes(terms)
    keep = set(order)
    if len(terms) > 1:
        terms = [_narrowed(term, sizes, keep) for term in terms]
    while len(terms) > 1:
        i, j = _next_pair(terms, keep, sizes) if len(terms) > 2 else (0, 1)
        second, first = terms.pop(j), terms.pop(i)
        needed = keep.union(*(term.labels for term in terms))
        terms.insert(0, _multiply(first, second, needed, sizes))
    result = _summed(terms[0], keep, promote=True)
    return _arranged(result, order, tuple(sizes[label] for label in order))


# ---- tensordot


def _contracted(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot: expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot: expects dims <= the number of dimensions, got dims={dims} for shapes "
                f"{tuple(a.shape)} and {tuple(b.shape)}"
            )
        return list(range(a.dim() - dims, a.dim())), list(range(dims))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(left) != len(right):
        raise RuntimeError(
            f"tensordot: both dimension lists should have the same length, got {left} and {right}"
        )
    return (
        [wrap_dim("tensordot", d, a.dim()) for d in left],
        [wrap_dim("tensordot", d, b.dim()) for d in right],
    )


def tensordot(
    a: Tensor,
    b: Tensor,
    dims: int | Tensor | Sequence[int] | Sequence[Sequence[int]] = 2,
    out: Tensor | None = None,
) -> Tensor:
    """Sums products over ``dims``: the last of a with the first of b, or two lists of dimensions.

    The result has the other dimensions of a, then those of b. Size 1 broadcasts.
    """
    left, right = _contracted(a, b, dims)
    for da, db in zip(left, right, strict=True):
        if a.shape[da] != b.shape[db] and 1 not in (a.shape[da], b.shape[db]):
            raise ShapeError(
                f"tensordot: contracted dimensions need to match, but first has size "
                f"{a.shape[da]} in dim {da} and second has size {b.shape[db]} in dim {db}"
            )
        if a.shape[da] != b.shape[db]:
            if a.shape[da] == 1:
                b = prim.sum(b, (db,), True)
            else:
                a = prim.sum(a, (da,), True)
    rest_a = [d for d in range(a.dim()) if d not in left]
    rest_b = [d for d in range(b.dim()) if d not in right]
    shape_a, shape_b = (tuple(x.shape[d] for d in rest) for x, rest in ((a, rest_a), (b, rest_b)))
    k = math.prod(a.shape[d] for d in left)
    rows = prim.reshape(prim.permute(a, (*rest_a, *left)), (math.prod(shape_a), k))
    columns = prim.reshape(prim.permute(b, (*right, *rest_b)), (k, math.prod(shape_b)))
    product = public_matmul if rest_a or rest_b else prim.matmul  # a number: `dot`, as in PyTorch
    return write_out(out, prim.reshape(product(rows, columns), shape_a + shape_b))


EXPORTS: dict[str, Any] = {f.__name__: f for f in (einsum, tensordot)}
