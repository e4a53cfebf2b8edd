"""One build of tinyt, timed in turns with another one: a process of `benchmarks.builds`.

Reads a command a line, as JSON, and answers each with a line: `["prepare", case, seed]` with an
error or null, `["time", seconds]` with the best seconds of a call, `["first"]` with the seconds
that the first two calls of a compiled case take beyond eager ones. Needs NumPy and tinyt, which
may be an older one: only public names of it are used.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import tinyt
from benchmarks import compiled
from benchmarks.case import Call, Case
from benchmarks.cases import find
from tinyt.cli.timing import best, rest


class Worker:
    """The case at hand."""

    def __init__(self) -> None:
        self._case: Case | None = None
        self._call: Call | None = None
        self._seed = 0

    def prepare(self, case: str, seed: int) -> str | None:
        """Sets a case up and calls it twice; what it raises, as text."""
        self._call = None
        gc.enable()
        gc.collect()
        tinyt.memory.empty_cache()
        try:
            self._seed, self._case = seed, find(case, seed)
            call = self._case.call(tinyt, self._case.arrays(seed))
            for _ in range(2):  # a compiler's work is measured by itself
                call()
        except Exception as error:  # the other cases are still of interest
            return f"{type(error).__name__}: {error}".partition("\n")[0]
        self._call = call
        gc.collect()
        gc.disable()
        return None

    def time(self, seconds: float) -> float:
        """Of one call, after a rest and an untimed one."""
        assert self._call is not None
        rest()
        self._call()
        return best(self._call, seconds)

    def first(self) -> float | None:
        """None for a case that is not compiled."""
        assert self._case is not None
        if self._case.eager is None:
            return None
        return compiled.first_calls(self._case, self._case.arrays(self._seed))


def main() -> None:
    worker = Worker()
    commands = {"prepare": worker.prepare, "time": worker.time, "first": worker.first}
    for line in sys.stdin:
        name, *args = json.loads(line)
        command: Any = commands[name]
        print(json.dumps(command(*args)), flush=True)


if __name__ == "__main__":
    main()
