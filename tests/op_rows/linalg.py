"""Sums of products, norms of matrices and distances."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from op_rows import FLOATS, Bad, Op, Rng, Samples, b, bad, f, i
from op_rows.contract import SUMS, products
from sampling import Array, S, Sample, draw

D64 = np.float64


# ------------------------------------------------------------------ beta * input + alpha * product


def scaled(*shapes: Any, inputs: tuple[Any, ...]) -> Samples:
    """An input of each shape with factors of the shapes given, with and without scales."""
    kinds: tuple[dict[str, int], ...] = ({}, {"beta": 2, "alpha": 3}, {"beta": 0})

    def samples(rng: Rng, dt: str) -> list[Sample]:
        return [
            S(*(draw(rng, s, dt, (-2, 2)) for s in (first, *shapes)), **k)
            for first in inputs
            for k in kinds
        ]

    return samples


def added(
    name: str,
    shapes: tuple[Any, ...],
    inputs: tuple[Any, ...],
    product: Callable[..., Array],
    errors: tuple[Bad, ...],
) -> Op:
    """A row of the addmm kind; the natural error size is that of absolute values."""

    def reference(x: Array, p: Array, q: Array, beta: float = 1, alpha: float = 1) -> Array:
        return beta * x + alpha * product(p, q) if beta else alpha * product(p, q) + 0 * x

    return Op(
        name,
        scaled(*shapes, inputs=inputs),
        reference,
        **SUMS,
        inplace=True,
        out=True,
        errors=errors,
    )


A23, A34, A5 = f(2, 3), f(3, 4), f(5)
ADDED = [
    added(
        "addmm",
        ((2, 3), (3, 4)),
        ((4,), (2, 4), (1, 1), ()),
        np.matmul,
        (
            bad(RuntimeError, r"addmm.*\(5,\).*\(2, 4\)", A5, A23, A34),
            bad(RuntimeError, r"addmm.*\(2, 3\).*\(2, 3\)", f(2, 3), A23, A23),
            bad(RuntimeError, r"addmm.*\(3,\)", f(2), A23, f(3)),
            bad(RuntimeError, r"addmm.*float64", f(2, 4).astype(D64), A23, A34),
        ),
    ),
    added(
        "addmv",
        ((2, 3), (3,)),
        ((2,), (1,), ()),
        np.matmul,
        (
            bad(RuntimeError, r"addmv.*\(5,\).*\(2,\)", A5, A23, f(3)),
            bad(RuntimeError, r"addmv.*\(2, 3\).*\(4,\)", f(2), A23, f(4)),
        ),
    ),
    added(
        "addr",
        ((2,), (3,)),
        ((2, 3), (3,), (1, 1)),
        np.outer,
        (
            bad(RuntimeError, r"addr.*\(5,\).*\(2, 3\)", A5, f(2), f(3)),
            bad(RuntimeError, r"addr.*\(2, 3\)", f(2, 3), A23, f(3)),
            bad(RuntimeError, r"addr.*0\.5", i(2, 3), i(2), i(3), alpha=0.5),
        ),
    ),
    added(
        "baddbmm",
        ((3, 2, 3), (3, 3, 4)),
        ((3, 2, 4), (2, 4), (3, 1, 1)),
        np.matmul,
        (
            bad(RuntimeError, r"baddbmm.*\(2, 2, 3\).*\(3, 3, 2\)", f(1), f(2, 2, 3), f(3, 3, 2)),
            bad(RuntimeError, r"baddbmm.*\(5,\)", A5, f(1, 2, 3), f(1, 3, 4)),
        ),
    ),
    added(
        "addbmm",
        ((3, 2, 3), (3, 3, 4)),
        ((2, 4), (4,), (1, 1)),
        lambda p, q: np.matmul(p, q).sum(0),
        (
            bad(RuntimeError, r"addbmm.*\(2, 2, 3\).*\(2, 2, 3\)", f(1), f(2, 2, 3), f(2, 2, 3)),
            bad(RuntimeError, r"addbmm.*\(2, 2, 3\).*\(3, 3, 2\)", f(1), f(2, 2, 3), f(3, 3, 2)),
        ),
    ),
]


# ------------------------------------------------------------------ einsum, tensordot

EQUATIONS: list[tuple[str, tuple[Any, ...]]] = [
    ("ij->ji", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iji->j", ((3, 2, 3),)),
    ("i,j->ij", ((2,), (3,))),
    ("i,i->", ((4,), (4,))),
    ("ij,jk", ((2, 3), (3, 4))),
    (" bij , bjk -> bik ", ((2, 2, 3), (2, 3, 2))),
    ("bn,anm,bm->ba", ((2, 3), (2, 3, 4), (2, 4))),
    ("ij,jk,kl->il", ((2, 3), (3, 1), (1, 3))),
    ("...ij,...jk->...ik", ((2, 1, 2, 3), (3, 3, 2))),
    ("i...,...j", ((2, 3), (3, 2))),
    ("Ba", ((2, 3),)),
    ("ij,ik->jk", ((0, 2), (0, 3))),
    ("ij,ij->ij", ((2, 3), (2, 1))),
    ("ij,kj->ik", ((2, 1), (2, 3))),
    ("a,b,c,a->cb", ((2,), (3,), (2,), (2,))),
    (",i->i", ((), (3,))),
    ("i->i", ((3,),)),
]


def einsum_samples(rng: Rng, dt: str) -> list[Sample]:
    def tensors(shapes: Any) -> list[Array]:
        return [draw(rng, s, dt, (-2, 2)) for s in shapes]

    x, y = tensors(((2, 3), (3, 2)))
    return [S(equation, *tensors(shapes)) for equation, shapes in EQUATIONS] + [
        S(x, [0, 1], y, [1, 2], [0, 2]),
        S(x, [0, 1], y, [1, 2]),
        S(x, [..., 0], [0, ...]),
    ]


def one_sum(*args: Any) -> Array:
    """np.einsum takes no size 1 that stands for another one: broadcast such operands first."""
    if not isinstance(args[0], str):
        return np.einsum(*args)
    equation, *operands = args
    parts = equation.replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for part, x in zip(parts, operands, strict=True):
        if "." not in part:
            for letter, n in zip(part, x.shape, strict=True):
                sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
    wide = [
        x if "." in part else np.broadcast_to(x, [sizes[letter] for letter in part])
        for part, x in zip(parts, operands, strict=True)
    ]
    return np.asarray(np.einsum(equation, *wide))


EINSUM_ERRORS = (
    bad(RuntimeError, r"einsum.*j.*4.*3", "ij,jk->ik", A23, f(4, 5)),
    bad(RuntimeError, r"einsum.*2 dimensions.*1", "i", A23),
    bad(RuntimeError, r"einsum.*output.*\bi\b", "ij->ii", A23),
    bad(RuntimeError, r"einsum.*\bi\b.*2 != 3", "ii", A23),
    bad(RuntimeError, r"einsum.*\bk\b", "ij->k", A23),
    bad(RuntimeError, r"einsum.*'1'", "i1", A23),
    bad(RuntimeError, r"einsum.*2 operands.*1", "ij,jk", A23),
    bad(RuntimeError, r"einsum.*ellips", "...i...", f(2)),
    bad(RuntimeError, r"einsum.*float64", "ij,j", A23, f(3).astype(D64)),
    bad(ValueError, r"einsum.*operand", "ij"),
    bad(ValueError, r"einsum.*60", A23, [0, 60]),
)

EINSTEIN = [
    Op(
        "einsum",
        einsum_samples,
        one_sum,
        **SUMS,
        method=False,
        errors=EINSUM_ERRORS,
    ),
    Op(
        "tensordot",
        lambda rng, dt: [
            S(draw(rng, p, dt, (-2, 2)), draw(rng, q, dt, (-2, 2)), dims)
            for p, q, dims in (
                ((2, 3, 4), (3, 4, 2), 2),
                ((2, 3), (3,), 1),
                ((2,), (3,), 0),
                ((2, 3, 2), (2, 3), ([1, 0], [1, 0])),
                ((3, 2), (2, 3), ([-1], [0])),
                ((0, 2), (2, 3), 1),
            )
        ],
        np.tensordot,
        **SUMS,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"tensordot.*3.*4", A23, f(4, 2), 1),
            bad(RuntimeError, r"tensordot.*3", A23, A23, 3),
            bad(RuntimeError, r"tensordot.*length", A23, A23, [[0], [0, 1]]),
            bad(RuntimeError, r"tensordot.*-1", A23, A23, -1),
        ),
    ),
]


# ------------------------------------------------------------------ products


def powers(rng: Rng, dt: str) -> list[Sample]:
    shapes = ((3, 3), (2, 2, 2), (0, 0), (1, 1))
    return [S(draw(rng, s, dt, (-1.5, 1.5)), n) for s in shapes for n in (0, 1, 2, 5)]


def chains(rng: Rng, dt: str) -> list[Sample]:
    return [
        S([draw(rng, s, dt, (-2, 2)) for s in shapes])
        for shapes in (
            ((2, 3), (3, 4)),
            ((2, 3), (3, 1), (1, 4)),
            ((3,), (3, 2), (2, 4), (4,)),
            ((2, 0), (0, 3), (3, 2)),
            ((3,), (3,)),
        )
    ]


def chained(tensors: list[Array]) -> Array:
    result = tensors[0]
    for x in tensors[1:]:
        result = result @ x
    return result


def threes(*pairs: Any) -> Samples:
    return lambda rng, dt: [S(draw(rng, p, dt), draw(rng, q, dt), **k) for p, q, k in pairs]


PRODUCTS = [
    Op(
        "vdot",
        products(((4,), (4,)), ((0,), (0,))),
        np.vdot,
        **SUMS,
        out=True,
        errors=(
            bad(RuntimeError, r"vdot.*3.*4", f(3), f(4)),
            bad(RuntimeError, r"vdot.*\(2, 3\)", A23, A23),
        ),
    ),
    Op(
        "inner",
        products(((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 4, 3)), ((), (3,)), ((2, 0), (3, 0))),
        np.inner,
        **SUMS,
        out=True,
        errors=(bad(RuntimeError, r"inner.*\(2, 3\).*\(4,\)", A23, f(4)),),
    ),
    Op(
        "kron",
        products(((2,), (3,)), ((2, 3), (2, 2)), ((2,), (2, 3)), ((), (3,)), ((0, 2), (3, 1))),
        np.kron,
        out=True,
        ulp=1,
    ),
    Op(
        "cross",
        threes(((2, 3), (2, 3), {}), ((3, 2), (3, 2), {"dim": 0}), ((1, 3), (2, 3), {"dim": -1})),
        lambda x, y, dim=-1: np.cross(x, y, axis=dim),
        ulp=8,
        scale=16,
        out=True,
        errors=(
            bad(RuntimeError, r"cross.*\(2, 4\)", f(2, 4), f(2, 4)),
            bad(RuntimeError, r"cross.*\(2, 3\).*\(3,\)", A23, f(3)),
        ),
    ),
    Op(
        "linalg.cross",
        threes(((2, 3), (2, 3), {}), ((3, 2), (3, 2), {"dim": 0}), ((1, 3), (2, 3), {})),
        lambda x, y, dim=-1: np.cross(x, y, axis=dim),
        ulp=8,
        scale=16,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"linalg.cross.*\(2, 4\)", f(2, 4), f(2, 4)),
            bad(RuntimeError, r"linalg.cross.*\(2, 3\).*\(3,\)", A23, f(3)),
        ),
    ),
    Op(
        "linalg.vecdot",
        threes(((2, 3), (2, 3), {}), ((2, 3), (3,), {}), ((3, 2), (3, 1), {"dim": 0})),
        lambda x, y, dim=-1: np.sum(x * y, axis=dim),
        dtypes=FLOATS,
        **SUMS,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"vecdot.*\(2, 3\).*\(4,\)", A23, f(4)),
            bad(RuntimeError, r"vecdot.*int64", i(2), i(2)),
        ),
    ),
    Op(
        "linalg.diagonal",
        lambda rng, dt: [
            S(draw(rng, (2, 3, 4), dt)),
            S(draw(rng, (3, 2), dt), offset=-1),
            S(draw(rng, (2, 3, 2), dt), dim1=0, dim2=2),
        ],
        lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2),
        method=False,
        view=True,
        errors=(
            bad(RuntimeError, r"diagonal", f(2, 2), dim1=0, dim2=0),
            bad(IndexError, r"diagonal.*2", f(2, 2), dim1=2),
        ),
    ),
    Op(
        "matrix_power",
        powers,
        np.linalg.matrix_power,
        ulp=16,
        scale=lambda x, n: np.max(np.linalg.matrix_power(np.abs(x), n), initial=1),
        out=True,
        errors=(
            bad(RuntimeError, r"matrix_power.*\(2, 3\)", A23, 2),
            bad(RuntimeError, r"matrix_power.*\(3,\)", f(3), 2),
        ),
    ),
    Op(
        "linalg.multi_dot",
        chains,
        chained,
        **SUMS,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"multi_dot.*1", [A23]),
            bad(RuntimeError, r"multi_dot.*\(2, 3\).*\(2, 3\)", [A23, A23]),
            bad(RuntimeError, r"multi_dot.*\(2, 2, 2\)", [A23, f(2, 2, 2)]),
        ),
    ),
    Op(
        "chain_matmul",
        lambda rng, dt: [S(*(draw(rng, s, dt, (-2, 2)) for s in ((2, 3), (3, 1), (1, 4))))],
        lambda *tensors: chained(list(tensors)),
        **SUMS,
        method=False,
    ),
]


# ------------------------------------------------------------------ norms and distances


def order_norm(x: Array, p: float, axis: Any, keepdim: bool = False) -> Array:
    """(sum |x|^p)^(1/p), with its limits at infinity and zero."""
    size = np.abs(np.asarray(x, D64))
    if p == math.inf:
        return np.asarray(np.max(size, axis=axis, keepdims=keepdim))
    if p == -math.inf:
        return np.asarray(np.min(size, axis=axis, keepdims=keepdim))
    if p == 0:
        return np.asarray(np.sum(size != 0, axis=axis, keepdims=keepdim), D64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.sum(size**p, axis=axis, keepdims=keepdim) ** (1 / p))


def vector_norm(x: Array, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
    if x.ndim == 0:
        return order_norm(x.reshape(1), ord, None)
    return order_norm(x, ord, axis, keepdim)


def matrix_norm(
    x: Array, ord: float | str = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False
) -> Array:
    return np.asarray(np.linalg.norm(x, ord, axis=tuple(dim), keepdims=keepdim))


def any_norm(x: Array, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Array:
    """np.linalg.norm has the rules of linalg.norm, without several dimensions for no order."""
    if ord is None:
        return vector_norm(x, 2, dim, keepdim)
    return np.asarray(np.linalg.norm(x, ord, axis=dim, keepdims=keepdim))


def with_zero(rng: Rng, shape: tuple[int, ...], dt: str) -> Array:
    """Values of which one vector is zero, where the slope of a norm has no limit."""
    x = draw(rng, shape, dt)
    x[0] = 0
    return x


def distances(x: Array, y: Array, p: float = 2.0, compute_mode: str = "") -> Array:
    return order_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


NORMS = [
    Op(
        "linalg.vector_norm",
        lambda rng, dt: [
            *(S(draw(rng, (2, 3), dt), p) for p in (2, 1, 0, 3, 0.5, -1, math.inf, -math.inf)),
            S(draw(rng, (2, 3, 2), dt), 2, (0, 2)),
            S(draw(rng, (2, 3, 2), dt), 2.5, -1, True),
            S(draw(rng, (), dt)),
            S(draw(rng, (0, 2), dt)),
            S(draw(rng, (2, 0), dt), 1, 0),
            S(draw(rng, (3, 400), dt), 2, 1, grad=False),
            S(with_zero(rng, (2, 3), dt), 2, 1, grad=False),
        ],
        vector_norm,
        dtypes=FLOATS,
        ulp=16,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"vector_norm.*int64", i(2)),
            bad(RuntimeError, r"vector_norm.*inf.*\(0,\)", f(0), math.inf),
            bad(IndexError, r"vector_norm.*3", A23, 2, 3),
        ),
    ),
    Op(
        "linalg.matrix_norm",
        lambda rng, dt: [
            *(S(draw(rng, (2, 3), dt), p) for p in ("fro", 1, -1, math.inf, -math.inf)),
            S(draw(rng, (2, 3, 4), dt), 1, (0, 1)),
            S(draw(rng, (2, 3, 4), dt), math.inf, (-1, 0), True),
            S(draw(rng, (3, 2, 2), dt)),
        ],
        matrix_norm,
        dtypes=FLOATS,
        ulp=16,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"matrix_norm.*\(3,\)", f(3)),
            bad(RuntimeError, r"matrix_norm.*3", A23, 3),
            bad(RuntimeError, r"matrix_norm.*\(0, 0\)", A23, "fro", (0, 0)),
        ),
    ),
    Op(
        "linalg.norm",
        lambda rng, dt: [
            S(draw(rng, (2, 3, 2), dt)),
            S(draw(rng, (3,), dt), 3),
            S(draw(rng, (2, 3), dt), 1),
            S(draw(rng, (2, 3), dt), math.inf, 1),
            S(draw(rng, (2, 3, 2), dt), 1, (0, 1)),
            S(draw(rng, (2, 3, 2), dt), None, (0, 2), True),
        ],
        any_norm,
        dtypes=FLOATS,
        ulp=16,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"linalg.norm.*\(2, 2, 2\)", f(2, 2, 2), 2),
            bad(RuntimeError, r"linalg.norm.*\(0, 1, 1\)", A23, 2, (0, 1, 1)),
        ),
    ),
    Op(
        "cdist",
        lambda rng, dt: [
            *(S(draw(rng, (2, 3), dt), draw(rng, (4, 3), dt, (-3, 5)), p) for p in (2.0, 1.0, 3.0)),
            S(draw(rng, (2, 3), dt), draw(rng, (2, 3), dt, (-3, 5)), math.inf),
            S(draw(rng, (2, 1, 2, 3), dt), draw(rng, (3, 2, 3), dt, (-3, 5)), grad=False),
            S(draw(rng, (2, 0), dt), draw(rng, (3, 0), dt)),
            S(draw(rng, (0, 2), dt), draw(rng, (3, 2), dt)),
            S(
                draw(rng, (30, 4), dt),
                draw(rng, (3, 4), dt, (5, 9)),
                compute_mode="donot_use_mm_for_euclid_dist",
                grad=False,
            ),
        ],
        distances,
        dtypes=FLOATS,
        ulp=16,
        scale=4,
        method=False,
        errors=(
            bad(RuntimeError, r"cdist.*\(2, 3\).*\(2, 4\)", A23, f(2, 4)),
            bad(RuntimeError, r"cdist.*\(3,\)", A23, f(3)),
            bad(RuntimeError, r"cdist.*-1", A23, A23, -1.0),
            bad(RuntimeError, r"cdist.*int64", i(2, 3), i(2, 3)),
            bad(ValueError, r"cdist.*'mm'", A23, A23, compute_mode="mm"),
        ),
    ),
    Op(
        "pdist",
        lambda rng, dt: [
            *(S(draw(rng, (4, 3), dt), p) for p in (2.0, 1.0, 3.0, math.inf)),
            *(S(draw(rng, s, dt)) for s in ((1, 3), (3, 0), (2, 1))),
            S(draw(rng, (0, 3), dt), grad=False),
        ],
        lambda x, p=2.0: distances(x, x, p)[np.triu_indices(len(x), 1)],
        dtypes=FLOATS,
        ulp=16,
        scale=4,
        method=False,
        errors=(
            bad(RuntimeError, r"pdist.*\(3,\)", f(3)),
            bad(RuntimeError, r"pdist.*-1", A23, -1.0),
            bad(RuntimeError, r"pdist.*bool", b(2, 3)),
        ),
    ),
]

LINALG = [*ADDED, *EINSTEIN, *PRODUCTS, *NORMS]
