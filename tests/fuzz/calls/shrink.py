"""Makes a call that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable

from fuzz.calls.expr import Expr, smaller


def shrunk(expr: Expr, fails: Callable[[str], bool], seconds: float = 60.0) -> Expr:
    """The smallest expression that was found in so many seconds."""
    end = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for candidate in sorted(set(smaller(expr)), key=lambda x: len(x.text())):
            if time.monotonic() > end:
                return expr
            if fails(candidate.text()):
                expr, again = candidate, True
                break
    return expr
