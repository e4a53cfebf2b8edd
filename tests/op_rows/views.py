"""Views by strides, joins, cuts, diagonals and rotations."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import ALL, Op, Samples, bad, cases, f, i, method
from op_rows.shape import VIEW
from sampling import S, draw
from tinyt.testing.reference import index
from tinyt.testing.reference import shape as ref


def several(*rows: tuple[tuple[int, ...], ...]) -> Samples:
    """Rows of shapes: one call with a list of tensors each."""
    return lambda rng, dt: [S([draw(rng, s, dt) for s in shapes]) for shapes in rows]


def spread(*rows: tuple[tuple[int, ...], ...]) -> Samples:
    """Rows of shapes: one call with the tensors as arguments each."""
    return lambda rng, dt: [S(*[draw(rng, s, dt) for s in shapes]) for shapes in rows]


def plain_storage(name: str) -> Any:
    """The operation on a tensor that lies contiguous at the start of its storage."""

    def call(tt: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x.reshape(-1).clone().reshape(x.shape), name)(*args, **kwargs)

    return call


JOIN: dict[str, Any] = {"dtypes": ALL, "method": False}

STRIDES = [
    Op(
        "as_strided",
        cases(
            ((3, 4), (2, 3), (1, 4)),
            ((3, 4), (2, 2), (4, 2), 1),
            ((7,), (5, 3), (1, 1)),  # overlaps
            ((4,), (3, 4), (0, 1)),
            ((4,), (2, 0), (1, 1)),
            ((4,), (), (), 2),
        ),
        ref.as_strided,
        call=plain_storage("as_strided"),
        dtypes=ALL,
        method=False,
        errors=(
            bad(RuntimeError, r"as_strided.*12 elements", f(3, 4), (13,), (1,)),
            bad((RuntimeError, ValueError), r"as_strided.*-1", f(4), (2,), (-1,), 2),
            bad(RuntimeError, r"as_strided.*same length", f(4), (2, 2), (1,)),
        ),
    ),
    Op(
        "unfold_windows",
        cases(((7,), 0, 3, 2), ((2, 5), -1, 2, 1), ((4, 2), 0, 4, 1), ((), 0, 1, 1)),
        ref.unfold,
        call=method("unfold"),
        dtypes=ALL,
        method=False,
        errors=(
            bad(RuntimeError, r"unfold.*\b5\b.*4", f(3, 4), 1, 5, 1),
            bad(RuntimeError, r"unfold.*step.*0", f(3, 4), 1, 2, 0),
            bad(IndexError, r"unfold.*2", f(3, 4), 2, 1, 1),
        ),
    ),
    Op(
        "diagonal",
        cases(
            ((3, 4),),
            ((3, 4), 1),
            ((4, 3), -2),
            ((2, 3, 4), 0, 0, 2),
            ((2, 3, 3), 1, -1, 1),
            ((2, 3), 7),
        ),
        np.diagonal,
        **VIEW,
        errors=(
            bad(RuntimeError, r"diagonal.*0 and 0", f(3, 4), 0, 0, 0),
            bad(IndexError, r"diagonal.*2", f(3, 4), 0, 0, 2),
        ),
    ),
    Op(
        "sum_to_size",
        cases(((3, 4), 4), ((3, 4), 3, 1), ((2, 3, 4), 3, 4), ((3,), 3)),
        ref.sum_to_size,
        call=method("sum_to_size"),
        ulp=4,
        scale="abs",
        errors=(bad(RuntimeError, r"sum_to_size.*\(2, 4\).*\(3, 4\)", f(3, 4), 2, 4),),
    ),
    Op(
        "broadcast_tensors",
        spread(((3, 1), (4,)), ((), (2,)), ((2, 3),)),
        lambda *xs: list(np.broadcast_arrays(*xs)),
        **JOIN,
        errors=(bad(RuntimeError, r"\(2,\).*\(3,\)", f(2), f(3)),),
    ),
    Op("atleast_1d", cases(((),), ((3,),), ((2, 3),)), np.atleast_1d, **JOIN),
    Op("atleast_2d", cases(((),), ((3,),), ((2, 3),), ((2, 3, 4),)), np.atleast_2d, **JOIN),
    Op("atleast_3d", cases(((),), ((3,),), ((2, 3),), ((2, 3, 4),)), np.atleast_3d, **JOIN),
]

JOINS = [
    Op(
        "dstack",
        several(((3,), (3,)), ((2, 3), (2, 3)), ((), ()), ((2, 3, 1), (2, 3, 2))),
        np.dstack,
        **JOIN,
        out=True,
    ),
    Op(
        "column_stack",
        several(((3,), (3, 2)), ((), ()), ((2, 1), (2, 3))),
        np.column_stack,
        **JOIN,
        out=True,
        errors=(bad(RuntimeError, r"column_stack.*\(2, 1\).*\(3, 1\)", [f(2), f(3)]),),
    ),
    Op(
        "block_diag",
        spread(((2, 3), (), (2,)), ((1, 1),), ((0, 2), (2, 1))),
        ref.block_diag,
        **JOIN,
        errors=(bad(RuntimeError, r"block_diag.*\(1, 2, 3\)", f(1, 2, 3)),),
    ),
    Op(
        "meshgrid",
        lambda rng, dt: [
            S(draw(rng, (2,), dt), draw(rng, (3,), dt), indexing="ij"),
            S(draw(rng, (2,), dt), draw(rng, (3,), dt), draw(rng, (), dt), indexing="xy"),
            S(draw(rng, (2,), dt), indexing="xy"),
        ],
        np.meshgrid,
        **JOIN,
        errors=(
            bad(RuntimeError, r"meshgrid.*'ab'", f(2), indexing="ab"),
            bad(RuntimeError, r"meshgrid.*\(2, 3\)", f(2, 3), indexing="ij"),
            bad(RuntimeError, r"meshgrid.*float32.*int64", f(2), i(2), indexing="ij"),
        ),
    ),
    Op(
        "cartesian_prod",
        spread(((2,), (3,), (2,)), ((3,),), ((2,), (0,))),
        ref.cartesian_prod,
        **JOIN,
        errors=(bad(RuntimeError, r"cartesian_prod.*\(2, 3\)", f(2, 3)),),
    ),
    Op(
        "combinations",
        cases(((4,),), ((4,), 3), ((3,), 2, True), ((2,), 3), ((3,), 0), ((0,), 2)),
        ref.combinations,
        **JOIN,
        errors=(
            bad(RuntimeError, r"combinations.*\(2, 3\)", f(2, 3)),
            bad(RuntimeError, r"combinations.*-1", f(2), -1),
        ),
    ),
    Op(
        "repeat",
        cases(((2, 3), (2, 1)), ((3,), (2, 2)), ((), (3,)), ((2, 0), (2, 2)), ((2,), (0,))),
        np.tile,
        call=method("repeat"),
        dtypes=ALL,
        errors=(
            bad(RuntimeError, r"repeat.*\(2,\).*\(2, 3\)", f(2, 3), (2,)),
            bad(RuntimeError, r"repeat.*-1", f(2), (-1,)),
        ),
    ),
    Op(
        "repeat_interleave",
        lambda rng, dt: [
            S(draw(rng, (2, 3), dt), 2),
            S(draw(rng, (2, 3), dt), 3, 1),
            S(draw(rng, (3, 2), dt), np.array([2, 0, 1]), 0),
            S(draw(rng, (3,), dt), np.array([1, 4, 0])),
            S(draw(rng, (3, 2), dt), np.array([2, 2, 2]), 0, output_size=6),
            S(draw(rng, (2,), dt), 0),
            S(draw(rng, (2, 2), dt), np.array([3]), dim=-1),
            S(draw(rng, (2, 2), dt), np.array([3]), dim=-1, output_size=6),
        ],
        lambda x, repeats, dim=None, output_size=None: np.repeat(x, repeats, dim),
        dtypes=ALL,
        errors=(
            bad(RuntimeError, r"repeat_interleave.*-1", f(2), -1),
            bad(RuntimeError, r"repeat_interleave.*\(2,\).*3", f(3), i(2), 0),
            bad(RuntimeError, r"repeat_interleave.*float32", f(3), f(3), 0),
            bad(RuntimeError, r"repeat_interleave.*-2", f(3), i(3), 0, output_size=-2),
            bad(RuntimeError, r"repeat_interleave.*size 4", f(3), i(3) + 1, 0, output_size=4),
            bad(RuntimeError, r"repeat_interleave.*size 2", f(3), i(3) + 1, 0, output_size=2),
            bad(RuntimeError, r"repeat_interleave.*size 3", f(3), i(3) - 1, 0, output_size=3),
        ),
    ),
]

CUTS = [
    Op(
        "split_with_sizes",
        cases(((7, 2), (3, 4)), ((2, 4), [1, 0, 3], -1)),
        ref.split,
        **VIEW,
        errors=(bad(RuntimeError, r"split_with_sizes.*\b7\b", f(7), [3, 3]),),
    ),
    Op(
        "tensor_split",
        cases(((7, 2), 3), ((2, 5), (1, 3), 1), ((3,), 5), ((4,), (2, 9))),
        lambda x, cuts, dim=0: np.array_split(x, cuts, dim),
        **VIEW,
        errors=(
            bad(RuntimeError, r"tensor_split.*0", f(3), 0),
            bad(RuntimeError, r"tensor_split.*1-d", f(), 1),
        ),
    ),
    Op(
        "hsplit",
        cases(((4,), 2), ((2, 4), (1, 3)), ((2, 4, 1), 4)),
        np.hsplit,
        **VIEW,
        errors=(bad(RuntimeError, r"hsplit.*4.*3", f(2, 4), 3),),
    ),
    Op(
        "vsplit",
        cases(((4, 2), 2), ((4, 1), (1, 3))),
        np.vsplit,
        **VIEW,
        errors=(bad(RuntimeError, r"vsplit.*\(4,\)", f(4), 2),),
    ),
    Op(
        "dsplit",
        cases(((1, 2, 4), 2), ((2, 1, 3), (1,))),
        np.dsplit,
        **VIEW,
        errors=(bad(RuntimeError, r"dsplit.*\(2, 4\)", f(2, 4), 2),),
    ),
    Op(
        "narrow_copy",
        cases(((5, 3), 0, 1, 3), ((5, 3), -1, 2, 0)),
        ref.narrow,
        dtypes=ALL,
        out=True,
    ),
]

ARRANGED = [
    Op(
        "fliplr",
        cases(((2, 3),), ((2, 0),)),
        np.fliplr,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"fliplr.*\(3,\)", f(3)),),
    ),
    Op(
        "flipud",
        cases(((2, 3),), ((3,),)),
        np.flipud,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"flipud", f()),),
    ),
    Op(
        "rot90",
        cases(((2, 3),), ((2, 3), 2), ((2, 3), -1), ((2, 3, 4), 5, (2, 0)), ((2, 3), 4, (1, 0))),
        lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
        dtypes=ALL,
        errors=(
            bad(RuntimeError, r"rot90.*\(0, 0\)", f(2, 3), 1, (0, 0)),
            bad(RuntimeError, r"rot90.*\(3,\)", f(3)),
        ),
    ),
    Op(
        "diag",
        cases(((3,),), ((3,), -1), ((3, 4),), ((4, 3), 1), ((0,), 1)),
        np.diag,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"diag.*\(1, 2, 3\)", f(1, 2, 3)),),
    ),
    Op(
        "diag_embed",
        cases(((3,),), ((2, 3), 1), ((2, 3), -2, 0, 2), ((0,),)),
        ref.diag_embed,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"diag_embed.*0 and 0", f(3), 0, 0, 0),),
    ),
    Op("diagflat", cases(((2, 2),), ((3,), 1), ((), -1)), np.diagflat, dtypes=ALL),
    Op(
        "diagonal_scatter",
        lambda rng, dt: [
            S(draw(rng, (3, 4), dt), draw(rng, (3,), dt)),
            S(draw(rng, (3, 4), dt), draw(rng, (2,), dt), -1),
            S(draw(rng, (2, 3, 3), dt), draw(rng, (3, 2), dt), 0, 0, 2),
        ],
        index.diagonal_scatter,
        dtypes=ALL,
        errors=(bad(RuntimeError, r"diagonal_scatter.*\(2,\).*\(3,\)", f(3, 4), f(2)),),
    ),
    Op(
        "select_scatter",
        lambda rng, dt: [
            S(draw(rng, (3, 4), dt), draw(rng, (4,), dt), 0, 1),
            S(draw(rng, (3, 4), dt), draw(rng, (3,), dt), -1, -2),
        ],
        index.select_scatter,
        dtypes=ALL,
        errors=(
            bad(RuntimeError, r"select_scatter.*\(3,\).*\(4,\)", f(3, 4), f(3), 0, 1),
            bad(IndexError, r"select_scatter.*\b3\b", f(3, 4), f(4), 0, 3),
        ),
    ),
    Op(
        "slice_scatter",
        lambda rng, dt: [
            S(draw(rng, (5, 2), dt), draw(rng, (2, 2), dt), 0, 1, 5, 2),
            S(draw(rng, (3, 4), dt), draw(rng, (3, 2), dt), dim=1, start=-2),
            S(draw(rng, (3,), dt), draw(rng, (3,), dt)),
        ],
        index.slice_scatter,
        dtypes=ALL,
        out=True,
        errors=(bad(RuntimeError, r"slice_scatter.*\(1,\).*\(2,\)", f(3), f(1), 0, 1),),
    ),
    Op(
        "as_strided_scatter",
        lambda rng, dt: [
            S(draw(rng, (3, 4), dt), draw(rng, (2, 2), dt), (2, 2), (4, 2), 1),
            S(draw(rng, (6,), dt), draw(rng, (3,), dt), (3,), (2,)),
        ],
        ref.as_strided_scatter,
        call=plain_storage("as_strided_scatter"),
        dtypes=ALL,
        method=False,
        errors=(bad(RuntimeError, r"as_strided_scatter.*\(3,\).*\(2,\)", f(4), f(3), (2,), (1,)),),
    ),
]

VIEWS = [*STRIDES, *JOINS, *CUTS, *ARRANGED]
