"""The calls of a seed, divided among workers; a report for each kind of trouble."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from fuzz.calls.draw import Drawer
from fuzz.calls.expr import Expr
from fuzz.calls.pool import Options, Trouble, Worker, first_of
from fuzz.calls.shrink import shrunk
from fuzz.calls.targets import planted_targets

# Calls of one process. A new one takes over then: what calls left behind has an end.
CHUNK = 2000


@dataclass
class Caller:
    """Calls `first` to `first + count` (None: until the time is over), and what came of them."""

    options: Options
    report: Callable[[str], None] = print
    calls: int = 0
    returned: int = 0
    troubles: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._drawer = Drawer(
            self.options.seed, planted_targets() if self.options.planted else None
        )
        self._lock = threading.Lock()

    def drawn(self, number: int) -> str:
        """The text of a call."""
        return self._drawer.call(number).text()

    def run(self, first: int, count: int | None, seconds: float | None, workers: int) -> None:
        """Returns when the calls are made or the time is over."""
        end = None if seconds is None else time.monotonic() + seconds
        chunk = CHUNK if count is None else min(CHUNK, -(-count // workers))
        starts = itertools.count(first, chunk)
        last = None if count is None else first + count
        with ThreadPoolExecutor(workers) as threads:
            work = [threads.submit(self._work, starts, chunk, last, end) for _ in range(workers)]
        for each in work:
            each.result()  # raises what ended it: no calls are no good calls

    def _work(
        self, starts: itertools.count[int], chunk: int, last: int | None, end: float | None
    ) -> None:
        worker = Worker(self.options)
        try:
            while end is None or time.monotonic() < end:
                with self._lock:
                    at = next(starts)
                stop = at + chunk if last is None else min(at + chunk, last)
                if at >= stop:
                    break
                self._chunk(worker, at, stop, end)
                worker.restart()
        finally:
            with self._lock:
                self.calls += worker.calls
                self.returned += worker.returned
            worker.close()

    def _chunk(self, worker: Worker, at: int, stop: int, end: float | None) -> None:
        start = at
        while at < stop and (end is None or time.monotonic() < end):
            # Steps, so that a time is kept.
            step = min(200, stop - at)
            after = at + step
            for trouble in worker.run(first=at, count=step):
                self._examine(trouble, start)
                if trouble.kind != "finding":
                    after, start = trouble.number + 1, trouble.number + 1
            at = after

    def _examine(self, trouble: Trouble, start: int) -> None:
        """Reports a trouble, made small, unless its like has been reported."""
        expr = self._drawer.call(trouble.number)
        # An exception says where it is from, a crash does not.
        where = "" if trouble.kind == "finding" else f" in {function_of(expr)}"
        key = trouble.key() + where
        with self._lock:
            self.troubles[key] += 1
            if self.troubles[key] > 1:
                return
        self.report(self.text_of(trouble, expr, start))

    def text_of(self, trouble: Trouble, expr: Expr, start: int) -> str:
        """The report: what happened, the smallest call, and how to make it again."""
        worker = Worker(self.options)
        try:
            again = first_of(worker, text=expr.text())
            if again is None or again.kind != trouble.kind:
                how = f"--only {trouble.number} does not show it, but after the calls before it:"
                command = f"--first {start} --calls {trouble.number - start + 1}"
                small = expr
            else:

                def fails(text: str) -> bool:
                    found = first_of(worker, text=text)
                    return found is not None and found.key() == trouble.key()

                small = shrunk(expr, fails, 30 * self.options.limit)
                how, command = "in short:", f"--only {trouble.number}"
        finally:
            worker.close()
        lines = (
            f"{trouble.kind}: seed {self.options.seed}, call {trouble.number}: {trouble.what}",
            f"    {expr.text()}",
            how,
            f"    {small.text()}",
            f"again: python -m tests.fuzz.calls --seed {self.options.seed} {command}",
            "    or cd tests && python -c 'from fuzz.calls.odd import *; ...'",
        )
        return "\n".join((*lines, trouble.log.rstrip())).rstrip() + "\n"


def function_of(expr: Expr) -> str:
    """The function that a call is about, inside its wrappers."""
    head = expr.head.removesuffix("(")
    if head in ("applied", "changed", "exercise", "compiled", "in_lazy"):
        return function_of(expr.items[0][1])
    return head
