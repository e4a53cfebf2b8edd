"""A process that evaluates calls, and says before each one which it is.

Jobs are lines of JSON on standard input: ``{"first": k, "count": n}`` evaluates calls of the seed,
``{"text": ...}`` one expression. Answers are lines of JSON: ``{"call": k}`` before each,
``{"finding": ..., "call": k}`` where its exception is none a caller should see, and at the end of a
job ``{"done": n, "returned": m}``.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import tinyt
from fuzz.calls import odd
from fuzz.calls.draw import Drawer
from fuzz.calls.targets import evaluated, planted_targets

# No argument may cause these: the library lost track of itself.
WRONG = (SystemError, RecursionError, AssertionError, NameError, SystemExit, KeyboardInterrupt)


def address_space() -> int:
    """Bytes of this process's addresses."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def bound_memory(mebibytes: int, sanitized: bool) -> None:
    """A sanitizer reserves terabytes of addresses: there the library's own limit stands in."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sanitized:
        tinyt.memory.set_limit(mebibytes << 20)
    else:
        most = address_space() + (mebibytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def restorers() -> list[Callable[[], Any]]:
    """What puts the settings of the process back to what they are now: every pair of functions
    `set_X(value)` and `get_X()` or `is_X()`."""
    found: list[Callable[[], Any]] = [lambda: tinyt.manual_seed(0)]

    def add(setter: Callable[[Any], Any], getter: Callable[[], Any], now: Any) -> None:
        found.append(lambda: None if getter() is now else setter(now))

    for name in ("default_dtype", "float32_matmul_precision", "default_device"):
        getter = getattr(tinyt, f"get_{name}")
        add(getattr(tinyt, f"set_{name}"), getter, getter())
    for name in ("grad_enabled", "autocast_cache_enabled"):
        getter = getattr(tinyt, f"is_{name}")
        add(getattr(tinyt, f"set_{name}"), getter, getter())
    add(tinyt.autograd.set_detect_anomaly, tinyt.is_anomaly_enabled, False)
    dtype = tinyt.get_autocast_dtype("cpu")
    found.append(lambda: tinyt.set_autocast_dtype("cpu", dtype))
    found.append(lambda: tinyt.set_autocast_enabled("cpu", False))
    options = dict(tinyt.get_printoptions())
    found.append(lambda: tinyt.set_printoptions(**options))
    return found


class Evaluator:
    """Evaluates texts one after another, each in the same state of the process."""

    def __init__(self) -> None:
        self._restore = restorers()
        self._unraisable: list[str] = []
        sys.unraisablehook = self._swallowed

    def _swallowed(self, event: Any) -> None:
        """An exception in a place that cannot raise, such as a destructor."""
        if isinstance(event.exc_value, WRONG):
            self._unraisable.append(f"{type(event.exc_value).__name__}: {event.exc_value}")

    def evaluate(self, text: str) -> tuple[bool, str]:
        """Whether it returned, and what is wrong with its exception ("": nothing)."""
        self._unraisable.clear()
        returned, wrong, is_full = False, "", False
        try:
            evaluated(text)
            returned = True
        except BaseException as error:
            wrong, is_full = finding_of(error), isinstance(error, MemoryError)
        if is_full:  # cycles, too, hold what the next call needs
            gc.collect()
        odd.fresh()
        for restore in self._restore:
            restore()
        return returned, wrong or "".join(self._unraisable[:1])


def finding_of(error: BaseException) -> str:
    """Type and message of an exception that is a finding, else ""."""
    if not isinstance(error, WRONG) and type(error).__name__ != "InternalError":
        return ""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error, AssertionError) and not (frame.line or "").startswith("assert"):
        return ""  # raised on purpose, where PyTorch raises it
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"{type(error).__name__} ({where}): {str(error)[:200]}"


def serve(options: dict[str, Any]) -> None:
    """Answers jobs until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what calls print goes where the reports of sanitizers go

    def answer(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    faulthandler.register(signal.SIGUSR1, all_threads=True)
    drawer = Drawer(options["seed"], planted_targets() if options["planted"] else None)
    tinyt.set_num_threads(2)
    bound_memory(options["memory"], options["sanitized"])
    evaluator = Evaluator()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        answer(ready=True)
        for line in sys.stdin:
            job = json.loads(line)
            first, count = job.get("first", 0), job.get("count", 1)
            returned = 0
            for number in range(first, first + count):
                text = job["text"] if "text" in job else drawer.call(number).text()
                answer(call=number)
                ok, wrong = evaluator.evaluate(text)
                returned += ok
                if wrong:
                    answer(finding=wrong, call=number)
            answer(done=count, returned=returned)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        serve(ast.literal_eval(sys.argv[1]))
    os._exit(0)  # without destructors: what calls left behind is no finding
