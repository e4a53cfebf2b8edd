"""The most depth of nested arguments: a container that contains itself has no end."""

from __future__ import annotations

MOST_NESTED = 200


def deeper(op: str, depth: int) -> int:
    """The depth of what a container at this depth holds.

    Raises:
        ValueError: for more than `MOST_NESTED` containers in each other.
    """
    if depth >= MOST_NESTED:
        raise ValueError(
            f"{op}: an argument contains itself, or is nested more than {MOST_NESTED} deep; pass "
            "its parts one by one"
        )
    return depth + 1
