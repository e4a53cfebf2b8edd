"""What a compiled function cannot see, the state of an object of C, and what it is to doubt."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any


def unseen(values: Iterable[Any]) -> Callable[[], Any]:
    """Gives one value after another."""
    queue: SimpleQueue[Any] = SimpleQueue()
    for value in values:
        queue.put(value)
    return queue.get_nowait


class _Generator(random.Random):
    """One of Python's random numbers, which are another at each call."""

    next: Callable[[], Any]

    def __call__(self) -> Any:
        return self.next()


def drawn(values: Iterable[Any]) -> Callable[[], Any]:
    """The same, as draws of random numbers."""
    generator = _Generator(0)
    generator.next = unseen(values)
    return generator
