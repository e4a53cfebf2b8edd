"""What a compiled function cannot see: the state of an object of C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any


def unseen(values: Iterable[Any]) -> Callable[[], Any]:
    """Gives one value after another."""
    queue: SimpleQueue[Any] = SimpleQueue()
    for value in values:
        queue.put(value)
    return queue.get_nowait
