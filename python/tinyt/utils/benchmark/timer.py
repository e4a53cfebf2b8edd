"""`Timer`: runs a statement often enough to say how long it takes."""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from enum import Enum
from time import perf_counter
from typing import Any, NoReturn

from tinyt.config import num_threads as threads
from tinyt.utils.benchmark.measurement import Measurement, TaskSpec

timer = perf_counter  # PyTorch's name; there is no GPU to wait for

_MOST_OVERHEAD = 1e-4  # of the loop, as a part of a time


class Language(Enum):
    """Of a statement."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Times a statement of Python.

    Args:
        stmt: the statement.
        setup: what runs before each measurement, not timed.
        global_setup: PyTorch's, of C++; must be empty.
        timer: gives seconds.
        globals: names that the statement may use; `tinyt` is among them.
        label, sub_label, description, env: what tables call it: the table, the row, the column, and
            the kind of run.
        num_threads: how many threads operations use.
        language: Python; NotImplementedError for C++.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError("Timer: only statements of Python are timed")
        if global_setup:
            raise ValueError("global_setup is C++ only, got a statement of Python")
        self._globals = dict(globals or {})
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)

    def _time(self, number: int) -> float:
        """Seconds of so many runs, which cannot be none."""
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One measurement of so many runs, after a hundredth of them (2 at least) to warm up."""
        with threads(self._task_spec.num_threads):
            self._time(max(number // 100, 2))
            return Measurement(number, [self._time(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """NotImplementedError, as in PyTorch: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> NoReturn:
        """NotImplementedError, as in PyTorch: use `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block(self, min_run_time: float) -> int:
        """So many runs that the loop around them counts for nothing."""
        overhead = statistics.median(self._time(0) for _ in range(5))
        number = 1
        while True:
            taken = self._time(number)
            if overhead / taken <= _MOST_OVERHEAD and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time or number > 10**15:
                return number
            number *= 10

    def _times(
        self,
        number: int,
        time_hook: Callable[[], float],
        stop_hook: Callable[[list[float]], bool],
        min_run_time: float,
        max_run_time: float | None = None,
        callback: Callable[[int, float], Any] | None = None,
    ) -> list[float]:
        """Times until they took long enough and `stop_hook` says so."""
        total = 0.0
        times: list[float] = []
        while (total < min_run_time) or not stop_hook(times):
            taken = time_hook()
            times.append(taken)
            total += taken
            if callback is not None:
                callback(number, taken)
            if max_run_time is not None and total > max_run_time:
                break
        return times

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measurements until they took so many seconds, each of so many runs that a clock can tell.

        `callback` is called with the runs and seconds of each.
        """
        with threads(self._task_spec.num_threads):
            number = self._block(min_run_time)
            times = self._times(
                number, lambda: self._time(number), bool, min_run_time, callback=callback
            )
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measurements until the middle half of them lies within `threshold` of the median, or
        until they took `max_run_time` seconds."""

        def enough(times: list[float]) -> bool:
            if len(times) <= 3:
                return False
            return Measurement(1, times, self._task_spec).meets_confidence(threshold)

        with threads(self._task_spec.num_threads):
            number = self._block(0.05)
            times = self._times(
                number, lambda: self._time(number), enough, min_run_time, max_run_time, callback
            )
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> NoReturn:
        """NotImplementedError: instructions are not counted."""
        raise NotImplementedError("collect_callgrind: run the program under valgrind yourself")
