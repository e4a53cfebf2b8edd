"""Workers and who watches them: crashes, hangs and findings become reports with a small call."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[2]
# Appended to what the environment says; later ones win.
ASAN_OPTIONS = "allocator_may_return_null=1:max_allocation_size_mb=1024:detect_leaks=0"


@dataclass(frozen=True)
class Options:
    """`limit`: seconds for one call; `memory`: mebibytes that a worker may take; `planted`: the
    functions with faults instead of the library."""

    seed: int = 0
    limit: float = 20.0
    memory: int = 2048
    planted: bool = False

    @property
    def sanitized(self) -> bool:
        return "asan" in os.environ.get("LD_PRELOAD", "")


@dataclass
class Trouble:
    """What came of call `number`: `kind` is "crash", "hang" or "finding"."""

    number: int
    kind: str
    what: str
    log: str = ""

    def key(self) -> str:
        """Equal for two of one nature."""
        return f"{self.kind} {self.what.split(': ')[0]}"


@dataclass
class Worker:
    """One process of `fuzz.calls.worker`; a new one after each that ended."""

    options: Options
    calls: int = 0
    returned: int = 0
    _process: Any = None
    _buffer: bytes = b""
    _log: Any = None
    _folder: Any = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="tinyt-calls-"))

    def close(self) -> None:
        self._kill()
        self._folder.cleanup()

    def run(self, **job: Any) -> Iterator[Trouble]:
        """The troubles of a job. After a crash or a hang there is nothing more of it."""
        if self._process is None:
            self._start()
        number = job.get("first", 0)
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            while True:
                answer = self._answer()
                if "done" in answer:
                    self.returned += answer["returned"]
                    return
                number = answer["call"]
                if "finding" in answer:
                    yield Trouble(number, "finding", answer["finding"])
                else:
                    self.calls += 1
        except TimeoutError:
            self._process.send_signal(signal.SIGUSR1)  # writes the stacks into the log
            time.sleep(0.2)
            yield self._ended(number, "hang", f"after {self._limit():.0f} s")
        except (EOFError, BrokenPipeError):
            status = self._process.wait()
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            yield self._ended(number, "crash", name)

    def _ended(self, number: int, kind: str, what: str) -> Trouble:
        trouble = Trouble(number, kind, what, self._tail())
        self._kill()
        return trouble

    def restart(self) -> None:
        """The next job gets a fresh process."""
        self._kill()

    def _limit(self) -> float:
        return self.options.limit * (4 if self.options.sanitized else 1)

    def _start(self) -> None:
        settings = {**vars(self.options), "sanitized": self.options.sanitized}
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}
        environment["ASAN_OPTIONS"] = f"{os.environ.get('ASAN_OPTIONS', '')}:{ASAN_OPTIONS}"
        self._log = open(os.path.join(self._folder.name, "log"), "w+b")  # noqa: SIM115
        arguments = [] if self.options.sanitized else ["-X", "faulthandler"]
        self._process = subprocess.Popen(
            [sys.executable, *arguments, "-m", "fuzz.calls.worker", repr(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=self._folder.name,
            env=environment,
        )
        self._buffer = b""
        try:
            self._answer(120.0)
        except (EOFError, TimeoutError):
            raise RuntimeError(f"no worker starts:\n{self._tail(4000)}") from None

    def _answer(self, limit: float = 0.0) -> dict[str, Any]:
        """The next line of the process; TimeoutError, EOFError."""
        end = time.monotonic() + (limit or self._limit())
        output = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise TimeoutError
                chunk = os.read(output, 1 << 16)
                if not chunk:
                    raise EOFError
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _tail(self, size: int = 3000) -> str:
        """The end of what the process wrote: stacks, or the report of a sanitizer."""
        with open(self._log.name, "rb") as file:
            text = file.read().decode(errors="replace")
        at = text.find("ERROR: AddressSanitizer")
        return text[at : at + size] if at >= 0 else text[-size:]

    def _kill(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._log.close()
        self._process = None


def first_of(worker: Worker, **job: Any) -> Trouble | None:
    """The first trouble of a job, all of which is run."""
    return next(iter(list(worker.run(**job))), None)
