"""Putting back what a recording that failed has changed of Python's objects.

A recording runs the function's own code. Where it ends in an error that the caller is to get, that
is said; where the function is to run as written instead, it must find things as they were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tinyt._capture import MISSING, Guard

# Of containers that change: how to empty one, and how to fill it again with what a guard holds.
_REFILL: tuple[tuple[type, Callable[[Any], None], Callable[[Any, Any], Any]], ...] = (
    (dict, dict.clear, dict.update),
    (list, list.clear, list.extend),
    (set, set.clear, set.update),
    (deque, deque.clear, deque.extend),
)


def put_back(guards: Iterable[Guard]) -> None:
    """Gives every place that was read, and is not as it was, what it held."""
    for guard in guards:
        if not guard.holds():
            _put_back(guard.kind, guard.place, guard.what, guard.expected)


def _put_back(kind: str, place: Any, what: Any, expected: Any) -> None:
    if kind == "item" and isinstance(place, dict):
        if expected is MISSING:
            dict.pop(place, what, None)
        else:
            dict.__setitem__(place, what, expected)
    elif kind == "cell":
        if expected is not MISSING:
            place.cell_contents = expected
    elif kind in ("slot", "class"):
        if expected is not MISSING:
            setattr(place, what, expected)
    elif kind == "contents":
        for base, clear, fill in _REFILL:
            if isinstance(place, base):
                clear(place)
                fill(place, expected)
