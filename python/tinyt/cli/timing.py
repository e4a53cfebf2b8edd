"""The time of a call, as free of other programs' noise as it can be had."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

Clock = Callable[[], float]

REST = 0.03
"""Seconds between two libraries' turns. OpenMP's threads spin for milliseconds after their last
work and would take a core from whoever is timed next."""


def rest() -> None:
    """Waits until threads that spin have gone to sleep."""
    time.sleep(REST)


def best(function: Callable[[], object], seconds: float, clock: Clock = time.perf_counter) -> float:
    """Seconds of one call: the fastest batch within a time budget, after one call to warm up.

    A call that fills the budget by itself is made once.
    """
    start = clock()
    function()
    once = max(clock() - start, 1e-7)
    if once >= seconds:
        return once
    batch = max(1, int(seconds / 10 / once))
    fastest = float("inf")
    end = clock() + seconds
    while clock() < end:
        start = clock()
        for _ in range(batch):
            function()
        fastest = min(fastest, (clock() - start) / batch)
    return fastest


def in_turns(
    turns: Sequence[Callable[[], float]],
    rounds: int,
    at_most: float = float("inf"),
    clock: Clock = time.perf_counter,
) -> list[list[float]]:
    """What each turn measured in each round.

    They follow each other, so that all see the same noise, in an order that reverses from round to
    round, so that none always follows the same other one. After ``at_most`` seconds no round begins
    but the first three.
    """
    found: list[list[float]] = [[] for _ in turns]
    order = list(range(len(turns)))
    end = clock() + at_most
    for number in range(rounds):
        if number >= 3 and clock() >= end:
            break
        for i in order:
            found[i].append(turns[i]())
        order.reverse()
    return found


def rounds_of(
    functions: Sequence[Callable[[], object]],
    rounds: int = 7,
    seconds: float = 0.05,
    pause: Callable[[], object] = rest,
    clock: Clock = time.perf_counter,
    at_most: float = float("inf"),
) -> list[list[float]]:
    """The best seconds of each function in each round, as `in_turns` has them.

    Each turn begins with ``pause`` and an untimed call, which finds the caches and the threads as
    the pause left them.
    """

    def turn(function: Callable[[], object]) -> float:
        pause()
        function()
        return best(function, seconds, clock)

    return in_turns([partial(turn, function) for function in functions], rounds, at_most, clock)


def interleaved(functions: Sequence[Callable[[], object]], rounds: int = 7) -> list[float]:
    """Best seconds of each function over all rounds of `rounds_of`."""
    return [min(times) for times in rounds_of(functions, rounds)]
