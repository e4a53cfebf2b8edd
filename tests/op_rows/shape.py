"""Views, joins and basic and advanced indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import (
    ALL,
    Op,
    Samples,
    b,
    bad,
    cases,
    f,
    i,
    method,
)
from sampling import (
    S,
    draw,
)
from tinyt.testing.reference import index
from tinyt.testing.reference import shape as ref

VIEW: dict[str, Any] = {"dtypes": ALL, "view": True}


def tuple_of_arrays(*rows: Any) -> Samples:
    """Rows of (list of shapes, dim), for cat and stack."""
    return lambda rng, dt: [S([draw(rng, s, dt) for s in shapes], dim) for shapes, dim in rows]


def key(*items: Any) -> tuple[Any, ...]:
    return tuple(items)


ALL_OF = slice(None)

SHAPE = [
    Op(
        "reshape",
        cases(
            ((2, 3), (3, 2)),
            ((2, 3), (-1,)),
            ((), (1, 1)),
            ((1,), ()),
            ((0, 3), (3, 0)),
            ((2, 3, 4), (6, -1)),
        ),
        np.reshape,
        dtypes=ALL,
        errors=(
            bad(RuntimeError, r"reshape.*\(4, 2\)", f(2, 3), (4, 2)),
            bad(RuntimeError, r"reshape.*-1", f(2, 3), (-1, -1)),
            bad(RuntimeError, r"reshape.*\(4, -1\)", f(2, 3), (4, -1)),
        ),
    ),
    Op(
        "view",
        cases(((2, 3), (3, 2)), ((2, 3), (-1,)), ((), (1, 1)), ((0, 3), (3, 0))),
        np.reshape,
        call=method("view"),
        **VIEW,
        strided=False,
        errors=(bad(RuntimeError, r"(view|reshape).*\(4, 2\)", f(2, 3), (4, 2)),),
    ),
    Op(
        "permute",
        cases(((2, 3, 4), (2, 0, 1)), ((2, 3), (-1, 0)), ((), ()), ((0, 3), (1, 0))),
        np.transpose,
        **VIEW,
        errors=(
            bad(RuntimeError, r"permute.*", f(2, 3), (0,)),
            bad(RuntimeError, r"permute.*", f(2, 3), (0, 0)),
            bad(IndexError, r"permute.*2", f(2, 3), (0, 2)),
        ),
    ),
    Op(
        "transpose",
        cases(((2, 3, 4), 0, 2), ((2, 3), -1, -2), ((), 0, -1), ((0, 3), 0, 1)),
        lambda x, a, b: np.swapaxes(x, a, b) if x.ndim else x,
        **VIEW,
        errors=(bad(IndexError, r"transpose.*2", f(2, 3), 0, 2),),
    ),
    Op(
        "swapaxes",
        cases(((2, 3, 4), 0, 2), ((2, 0), -1, 0)),
        np.swapaxes,
        **VIEW,
        errors=(bad(IndexError, r"swapaxes.*2", f(2, 3), 0, 2),),
    ),
    Op(
        "expand",
        cases(
            ((1, 3), (4, 3)),
            ((3,), (2, 3)),
            ((), (2, 2)),
            ((2, 1), (-1, 5)),
            ((1, 3), (0, 3)),
            ((1,), (1,)),
        ),
        lambda x, size: np.broadcast_to(
            x, [x.shape[d - len(size)] if n == -1 else n for d, n in enumerate(size)]
        ),
        call=method("expand"),
        **VIEW,
        errors=(
            bad(RuntimeError, r"expand.*\(2, 3\).*\(2, 4\)", f(2, 3), (2, 4)),
            bad(RuntimeError, r"expand.*\(3,\)", f(2, 3), (3,)),
        ),
    ),
    Op(
        "squeeze",
        cases(
            ((1, 3, 1),),
            ((1, 3, 1), 0),
            ((1, 3, 1), -1),
            ((1, 3, 1), 1),
            ((),),
            ((1, 3, 1), (0, 2)),
        ),
        ref.squeeze,
        **VIEW,
        errors=(bad(IndexError, r"squeeze.*2", f(2, 3), 2),),
    ),
    Op(
        "unsqueeze",
        cases(((2, 3), 0), ((2, 3), 2), ((2, 3), -1), ((), 0), ((0,), 1)),
        np.expand_dims,
        **VIEW,
        errors=(bad(IndexError, r"unsqueeze.*3", f(2, 3), 3),),
    ),
    Op(
        "flatten",
        cases(((2, 3, 4),), ((2, 3, 4), 1), ((2, 3, 4), 0, 1), ((),), ((2, 0, 3), 1)),
        ref.flatten,
        dtypes=ALL,
        errors=(bad(IndexError, r"flatten.*3", f(2, 3), 3),),
    ),
    Op(
        "slice",
        cases(
            ((7,), key(slice(1, 6, 2))),
            ((4, 5), key(slice(-2, None), slice(None, -1))),
            ((4, 5), key(ALL_OF, slice(9, 20))),
            ((3,), key(slice(3, 1))),
            ((2, 3, 4), key(..., slice(None, None, 3))),
        ),
        index.getitem,
        call=lambda tt, x, k: x[k],
        method=False,
        **VIEW,
        errors=(bad(ValueError, r"step.*-1", f(4), slice(None, None, -1)),),
    ),
    Op(
        "getitem_basic",
        cases(
            ((4, 5), 1),
            ((4, 5), key(-1, 2)),
            ((4, 5), key(..., 0)),
            ((4, 5), None),
            ((4, 5), key(None, slice(1, 3), None, 0)),
            ((), ...),
            ((2, 3, 4), key(0, ..., slice(0, 2))),
        ),
        index.getitem,
        call=lambda tt, x, k: x[k],
        method=False,
        **VIEW,
        errors=(
            bad(IndexError, r"index.*\b4\b.*dimension 0.*4", f(4), 4),
            bad(IndexError, r"index.*-5.*dimension 0.*4", f(4), -5),
            bad(IndexError, r"too many indices.*3|too many indices", f(4, 5), key(0, 0, 0)),
            bad(IndexError, r"1\.5|float", f(4), 1.5),
        ),
    ),
    Op(
        "getitem_integer",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), np.array([0, -1, 2, 2])),
            S(draw(rng, (4, 5), dt), key(np.array([0, 3]), np.array([1, -1]))),
            S(draw(rng, (4, 5), dt), key(np.array([[0], [3]]), np.array([1, 4, 2]))),
            S(draw(rng, (4, 5), dt), key(ALL_OF, np.array([1, 1, 0]))),
            S(draw(rng, (4, 5), dt), key(slice(1, 3), np.array([[1, 2], [0, 4]]))),
            S(draw(rng, (2, 3, 4), dt), key(np.array([1, 0]), ALL_OF, np.array([3, 2]))),
            S(draw(rng, (2, 3, 4), dt), key(0, ALL_OF, np.array([3, 2]))),
            S(draw(rng, (2, 3, 4), dt), key(..., np.array([3, 2]), None)),
            S(draw(rng, (4,), dt), np.zeros((0,), np.int64)),
            S(draw(rng, (4, 5), dt), np.array(2)),
            S(draw(rng, (4, 5), dt), [1, 3]),
        ],
        index.getitem,
        call=lambda tt, x, k: x[k],
        dtypes=ALL,
        method=False,
        strided=False,
        errors=(
            bad(IndexError, r"index.*\b4.*dimension 0.*size 4", f(4), i(2) + 4),
            bad(IndexError, r"\(2,\).*\(3,\)", f(4, 4), key(i(2), i(3))),
            bad(IndexError, r"float32", f(4), f(2)),
        ),
    ),
    Op(
        "getitem_boolean",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), draw(rng, (4, 5), "bool")),
            S(draw(rng, (4, 5), dt), draw(rng, (4,), "bool")),
            S(draw(rng, (4, 5), dt), key(ALL_OF, draw(rng, (5,), "bool"))),
            S(draw(rng, (4, 5), dt), np.zeros((4, 5), bool)),
            S(draw(rng, (0, 5), dt), np.zeros((0,), bool)),
        ],
        lambda x, k: x[k],
        call=lambda tt, x, k: x[k],
        dtypes=ALL,
        method=False,
        errors=(bad(IndexError, r"index.*\(3,\).*\(4,\)|index.*\b3\b.*\b4\b", f(4), b(3)),),
    ),
    Op(
        "cat",
        tuple_of_arrays(
            ([(2, 3), (1, 3)], 0),
            ([(2, 3), (2, 1)], -1),
            ([(3,)], 0),
            ([(0, 3), (2, 3)], 0),
            ([(2, 1, 2)] * 3, 1),
        ),
        lambda xs, dim=0: np.concatenate(xs, axis=dim),
        dtypes=ALL,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"cat.*\(2, 3\).*\(2, 4\)", [f(2, 3), f(2, 4)], 0),
            bad(IndexError, r"cat.*2", [f(2, 3), f(2, 3)], 2),
            bad((RuntimeError, ValueError), r"cat.*(empty|at least one|non-empty)", [], 0),
            bad(RuntimeError, r"cat", [f(2, 3), f(3)], 0),
        ),
    ),
    Op(
        "stack",
        tuple_of_arrays(([(2, 3), (2, 3)], 0), ([(2, 3)] * 3, -1), ([()] * 2, 0), ([(0,)] * 2, 1)),
        lambda xs, dim=0: np.stack(xs, axis=dim),
        dtypes=ALL,
        method=False,
        errors=(
            bad(RuntimeError, r"stack.*\(2, 3\).*\(2, 4\)", [f(2, 3), f(2, 4)], 0),
            bad(IndexError, r"stack.*4", [f(2, 3), f(2, 3)], 4),
        ),
    ),
    Op(
        "split",
        cases(((7, 2), 3), ((2, 6), 2, 1), ((6,), [1, 0, 5]), ((2, 6), (4, 2), -1)),
        ref.split,
        **VIEW,
        errors=(
            bad(RuntimeError, r"split.*\b7\b", f(7), [3, 3]),
            bad(RuntimeError, r"split.*-1", f(7), -1),
            bad(IndexError, r"split.*1", f(7), 2, 1),
        ),
    ),
    Op(
        "chunk",
        cases(((7, 2), 3), ((2, 6), 4, 1), ((5,), 9), ((6,), 1)),
        ref.chunk,
        **VIEW,
        errors=(bad(RuntimeError, r"chunk.*0", f(4), 0),),
    ),
    Op(
        "pad",
        lambda rng, dt: [
            S(draw(rng, (2, 3), dt), (1, 2)),
            S(draw(rng, (2, 3), dt), (0, 1, 2, 0), value=3),
            S(draw(rng, (2, 5), dt), (-1, 2)),
            S(draw(rng, (0, 3), dt), (1, 1)),
            S(draw(rng, (2, 3, 4), dt), (1, -1, 0, 0, 2, 1), "constant", -1),
        ],
        ref.pad,
        call="nn.functional.pad",
        method=False,
        errors=(
            bad(RuntimeError, r"pad.*1, 1, 1, 1", f(3), (1, 1, 1, 1)),
            bad(RuntimeError, r"pad.*1, 1, 1", f(3, 3), (1, 1, 1)),
            bad(RuntimeError, r"pad.*-2", f(3), (-2, -2)),
        ),
    ),
    Op(
        "tril",
        cases(((3, 4),), ((4, 3), 1), ((2, 3, 3), -1), ((0, 3),)),
        np.tril,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"tril.*\(3,\)", f(3)),),
    ),
    Op(
        "triu",
        cases(((3, 4),), ((4, 3), 1), ((2, 3, 3), -1), ((0, 3),)),
        np.triu,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"triu.*\(3,\)", f(3)),),
    ),
    Op(
        "broadcast_to",
        cases(((1, 3), (4, 3)), ((), (2, 2)), ((3,), (0, 3))),
        np.broadcast_to,
        dtypes=ALL,
    ),
    Op(
        "flip",
        cases(((4, 5), (0,)), ((4, 5), (0, -1)), ((0, 3), (1,))),
        np.flip,
        dtypes=ALL,
        errors=(bad(IndexError, r"flip.*2", f(2, 3), (2,)),),
    ),
    Op(
        "roll",
        cases(((5,), 2, 0), ((4, 5), -7, 1), ((4, 5), (1, 2), (0, 1)), ((4, 5), 3)),
        lambda x, n, dim=None: np.roll(x, n, dim),
        dtypes=ALL,
    ),
    Op(
        "tile",
        cases(((2, 3), (2,)), ((3,), (2, 2)), ((2, 1), (1, 3)), ((), (3,))),
        np.tile,
        dtypes=ALL,
    ),
    Op("movedim", cases(((2, 3, 4), 0, 2), ((2, 3, 4), (0, 1), (-1, 0))), np.moveaxis, **VIEW),
    Op(
        "narrow",
        cases(((5, 3), 0, 1, 3), ((5, 3), -1, 2, 0)),
        ref.narrow,
        **VIEW,
        errors=(
            bad(RuntimeError, r"narrow.*\b3\b", f(5), 0, 3, 3),
            bad(IndexError, r"narrow.*2", f(2, 3), 2, 0, 1),
        ),
    ),
    Op(
        "select",
        cases(((5, 3), 0, -1), ((5, 3), 1, 2), ((3,), 0, 0)),
        lambda x, dim, index: np.take(x, index, axis=dim),
        **VIEW,
        errors=(bad(IndexError, r"select.*\b5\b", f(5), 0, 5),),
    ),
    Op(
        "unbind",
        cases(((3, 2),), ((3, 2), 1), ((2, 0), 0)),
        lambda x, dim=0: list(np.moveaxis(x, dim, 0)),
        **VIEW,
    ),
    Op(
        "unflatten",
        cases(((6, 2), 0, (2, 3)), ((2, 6), -1, (-1, 2))),
        ref.unflatten,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"unflatten.*\(2, 2\)", f(6), 0, (2, 2)),),
    ),
    Op("ravel", cases(((2, 3),), ((),), ((2, 0),)), np.ravel, dtypes=ALL),
    Op(
        "t",
        cases(((2, 3),), ((3,),), ((),)),
        np.transpose,
        **VIEW,
        errors=(bad(RuntimeError, r"\bt\b.*(3|2)", f(2, 2, 2)),),
    ),
    Op(
        "vstack",
        lambda rng, dt: [
            S([draw(rng, s, dt) for s in shapes])
            for shapes in ([(3,), (3,)], [(2, 3), (1, 3)], [(), ()])
        ],
        np.vstack,
        dtypes=ALL,
        method=False,
    ),
    Op(
        "hstack",
        lambda rng, dt: [
            S([draw(rng, s, dt) for s in shapes])
            for shapes in ([(3,), (2,)], [(2, 3), (2, 1)], [(), ()])
        ],
        np.hstack,
        dtypes=ALL,
        method=False,
    ),
]
