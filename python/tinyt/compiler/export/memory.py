"""Where pieces of memory that are used at different times lie in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Piece(NamedTuple):
    """Bytes that are used from step ``first`` to step ``last``, both included."""

    nbytes: int
    first: int
    last: int


def assign(pieces: Sequence[Piece]) -> tuple[list[int], int]:
    """The first byte of each piece, and the bytes of the whole: the largest piece first, each as
    low as those allow that are used at the same time.

    >>> assign([Piece(100, 0, 1), Piece(64, 1, 2), Piece(128, 2, 3)])
    ([0, 128, 0], 192)
    """
    offsets = [0] * len(pieces)
    placed: list[int] = []
    total = 0
    for i in sorted(range(len(pieces)), key=lambda i: (-pieces[i].nbytes, i)):
        piece = pieces[i]
        others = sorted(
            (offsets[k], offsets[k] + _rounded(pieces[k].nbytes))
            for k in placed
            if pieces[k].first <= piece.last and piece.first <= pieces[k].last
        )
        at = 0
        for first, end in others:
            if at + piece.nbytes <= first:
                break
            at = max(at, end)
        offsets[i] = at
        placed.append(i)
        total = max(total, at + _rounded(piece.nbytes))
    return offsets, total


def _rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
