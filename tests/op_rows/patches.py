"""Padding that repeats elements, pixel shuffles, sliding blocks."""

from __future__ import annotations

from op_rows import ALL, FLOATS, NUMBERS, Op, bad, cases, f, i
from tinyt.testing.reference import index
from tinyt.testing.reference import shape as ref

PATCHES = [
    Op(
        "pad_repeating",
        cases(
            ((2, 5), (2, 1), "reflect"),
            ((1, 3, 4), (3, 0, 1, 2), "reflect"),
            ((2, 3, 4), (-1, 2), "reflect"),
            ((2, 4), (5, 1), "replicate"),
            ((1, 2, 3, 4), (1, 0, 0, 2), "replicate"),
            ((2, 4), (-1, -2), "replicate"),
            ((1, 2, 2, 2), (1, 1, 0, 1, 1, 0), "replicate"),
            ((2, 3), (3, 2), "circular"),
            ((2, 3, 4), (2, -1), "circular"),
            ((1, 1, 2, 2, 2), (1, 1, 0, 1, 1, 0), "circular"),
            ((0, 2, 3), (1, 1), "reflect"),
        ),
        ref.pad,
        call="nn.functional.pad",
        dtypes=NUMBERS,
        method=False,
        errors=(
            bad(RuntimeError, r"pad: reflect.*\(3, 0\)", f(2, 3), (3, 0), "reflect"),
            bad(RuntimeError, r"pad: circular.*\(4, 0\)", f(2, 3), (4, 0), "circular"),
            bad(NotImplementedError, r"pad.*\(3,\)", f(3), (1, 1), "reflect"),
            bad(NotImplementedError, r"pad.*'mirror'", f(2, 3), (1, 1), "mirror"),
            bad(RuntimeError, r"pad.*no value.*2", f(2, 3), (1, 1), "replicate", 2.0),
            bad(RuntimeError, r"pad.*\(2, 0\)", f(2, 0), (1, 1), "replicate"),
        ),
    ),
    Op(
        "constant_pad_nd",
        cases(((2, 3), (1, 2)), ((2, 3), (0, 1, -1, 0), 3)),
        lambda x, pad, value=0: ref.pad(x, pad, value=value),
        dtypes=ALL,
        method=False,
        errors=(bad(RuntimeError, r"pad.*1, 1, 1", f(3, 3), (1, 1, 1)),),
    ),
    Op(
        "pixel_shuffle",
        cases(((8, 2, 3), 2), ((2, 9, 1, 2), 3), ((4, 1, 1), 1)),
        ref.pixel_shuffle,
        dtypes=ALL,
        method=False,
        errors=(
            bad(RuntimeError, r"pixel_shuffle.*\b7\b.*2", f(7, 2, 3), 2),
            bad(RuntimeError, r"pixel_shuffle.*\(2, 3\)", f(2, 3), 2),
            bad(RuntimeError, r"pixel_shuffle.*0", f(4, 2, 3), 0),
        ),
    ),
    Op(
        "pixel_unshuffle",
        cases(((2, 4, 6), 2), ((2, 1, 3, 6), 3)),
        ref.pixel_unshuffle,
        dtypes=ALL,
        method=False,
        errors=(bad(RuntimeError, r"pixel_unshuffle.*\b5\b.*2", f(2, 5, 6), 2),),
    ),
    Op(
        "channel_shuffle",
        cases(((1, 6, 2), 3), ((2, 4, 2, 1), 2)),
        ref.channel_shuffle,
        dtypes=ALL,
        method=False,
        errors=(
            bad(RuntimeError, r"channel_shuffle.*\b6\b.*4", f(1, 6, 2), 4),
            bad(RuntimeError, r"channel_shuffle.*\(1, 6\)", f(1, 6), 2),
        ),
    ),
    Op(
        "unfold",
        cases(
            ((1, 2, 3, 4), 2),
            ((2, 3, 3), (2, 3), 1, 1, (2, 1)),
            ((1, 1, 5, 4), 2, (2, 1), (1, 0), 2),
        ),
        index.unfold_patches,
        call="nn.functional.unfold",
        dtypes=FLOATS,
        method=False,
        errors=(
            bad(RuntimeError, r"unfold.*\(5, 5\).*\(3, 4\)", f(1, 2, 3, 4), 5),
            bad(RuntimeError, r"unfold.*stride", f(1, 2, 3, 4), 2, 1, 0, 0),
            bad(IndexError, r"unfold.*\(3, 4\)", f(3, 4), 2),
            bad(RuntimeError, r"unfold.*int64", i(1, 2, 3, 4), 2),
        ),
    ),
    Op(
        "fold",
        cases(
            ((1, 8, 6), (3, 4), 2),
            ((6, 6), (3, 3), (2, 3), 1, 1, (2, 1)),
            ((2, 4, 6), (5, 4), 2, (2, 1), (1, 0), 2),
        ),
        index.fold_patches,
        call="nn.functional.fold",
        dtypes=FLOATS,
        method=False,
        ulp=4,
        scale=8,
        errors=(
            bad(RuntimeError, r"fold.*\b6 columns.*\(1, 8, 5\)", f(1, 8, 5), (3, 4), 2),
            bad(RuntimeError, r"fold.*multiple of 4.*\(1, 7, 6\)", f(1, 7, 6), (3, 4), 2),
        ),
    ),
]
