"""The version that programs written for PyTorch see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

# Which PyTorch the names, arguments and numerics follow.
FOLLOWED = "2.13.0"


def _numbers(version: Any) -> tuple[int, ...] | None:
    """The release of a version (a text, numbers or a packaging.Version); None for anything else."""
    if isinstance(version, str):
        found = re.match(r"\s*v?(\d+(?:\.\d+)*)", version)
        return tuple(map(int, found[1].split("."))) if found else None
    if isinstance(version, Iterable):
        return tuple(int(x) for x in version if isinstance(x, int) or str(x).isdigit())
    release = getattr(version, "release", None)
    return tuple(release) if release is not None else None


class TorchVersion(str):
    """A version as a text that compares by its numbers, with texts and with tuples of numbers.

    >>> TorchVersion("2.13.0+tinyt") > "2.9", TorchVersion("2.13.0+tinyt") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _compare(self, other: Any) -> int | None:
        """-1, 0 or 1; None where the other is no version."""
        mine, theirs = _numbers(str(self)), _numbers(other)
        if mine is None or theirs is None:
            return None
        pairs = list(zip_longest(mine, theirs, fillvalue=0))
        for a, b in pairs:
            if a != b:
                return -1 if a < b else 1
        # The same release: a local part ("+tinyt") is later than none.
        mine_local = str(self).partition("+")[2]
        their_local = str(other).partition("+")[2]
        return (mine_local > their_local) - (mine_local < their_local)

    def __lt__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__lt__(self, other) if found is None else found < 0

    def __le__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__le__(self, other) if found is None else found <= 0

    def __gt__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__gt__(self, other) if found is None else found > 0

    def __ge__(self, other: Any) -> bool:
        found = self._compare(other)
        return str.__ge__(self, other) if found is None else found >= 0

    def __eq__(self, other: object) -> bool:
        found = self._compare(other)
        return str.__eq__(self, other) is True if found is None else found == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


VERSION = TorchVersion(f"{FOLLOWED}+tinyt")
