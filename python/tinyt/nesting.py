"""The most depth of nested arguments: a container that contains itself has no end."""

from __future__ import annotations

MOST_NESTED = 200


def deeper(op: str, depth: int) -> int:
    """The depth of what a container at this depth holds.

    Raises:
        ValueError: for more than `MOST_NESTED` containers in each other.
    """
    if depth >= MOST_NESTED:
        raise too_deep(op)
    return depth + 1


def too_deep(op: str, what: str = "an argument") -> ValueError:
    """The error for more than `MOST_NESTED` containers in each other."""
    return ValueError(
        f"{op}: {what} contains itself, or is nested more than {MOST_NESTED} deep; pass "
        "its parts one by one"
    )
