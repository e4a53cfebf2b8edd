"""`spawn`: a function in several processes, whose errors are raised here."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

_MOST_TEXT = 1 << 15  # of an error: a pipe holds that without a reader
_GRACE = 30.0  # seconds that processes have to end before they are killed


class ProcessException(Exception):
    """A process that failed: which one, and its number."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process whose function raised; the text is its traceback."""


class ProcessExitedException(ProcessException):
    """A process that ended by a signal or with an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
        return type(self), facts


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Any) -> None:
    """What a process does: the function, and a text where it raises."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has it, too
    except Exception:
        errors.send_bytes(traceback.format_exc().encode()[-_MOST_TEXT:])
        errors.close()
        sys.exit(1)


class ProcessContext:
    """Processes that run one function: what `start_processes` gives with ``join=False``."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes = processes
        self._errors = errors
        self.sentinels = {p.sentinel: i for i, p in enumerate(processes)}

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(p.pid) for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until a process ends, or all; whether all have ended.

        Args:
            timeout: seconds; None: without an end.
            grace_period: seconds that the others have to end after one failed, before they are
                killed; 30 by default.

        Raises:
            ProcessRaisedException: a process's function raised; the others were ended.
            ProcessExitedException: a process ended otherwise; the others were ended.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in connection.wait(list(self.sentinels), timeout):
            i = self.sentinels.pop(sentinel)
            self.processes[i].join()
            if self.processes[i].exitcode != 0:
                failed = i
                break
        if failed is None:
            if not self.sentinels:
                self._close()
            return not self.sentinels
        self._end_others(_GRACE if grace_period is None else grace_period)
        error = self._error_of(failed)
        self._close()
        raise error

    def _end_others(self, grace: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + grace
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _error_of(self, i: int) -> ProcessException:
        process = self.processes[i]
        if self._errors[i].poll():
            try:
                text = self._errors[i].recv_bytes().decode(errors="replace")
                message = f"\n\n-- Process {i} terminated with the following error:\n{text}"
                return ProcessRaisedException(message, i, process.pid)
            except EOFError:
                pass
        code = process.exitcode
        if code >= 0:
            message = f"process {i} terminated with exit code {code}"
            return ProcessExitedException(message, i, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        message = f"process {i} terminated with signal {name}"
        return ProcessExitedException(message, i, process.pid, code, name)

    def _close(self) -> None:
        for pipe in self._errors:
            pipe.close()


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Calls ``fn(i, *args)`` for i from 0 to `nprocs` - 1, each in a process.

    Args:
        join: whether to wait for all of them; else their `ProcessContext` is returned.
        daemon: whether they end with this process.
        start_method: "spawn", "fork" or "forkserver".

    Raises with `join` what `ProcessContext.join` does.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, i, args, sender), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        errors.append(receiver)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with new interpreters: the function and its arguments are pickled."""
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}). To use a "
            "different start_method use: tinyt.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
