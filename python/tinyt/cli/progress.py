"""Progress on screen: a live bar where there is a terminal and rich, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from tinyt.cli.errors import is_installed

Summary = Callable[[dict[str, Any]], str]


class Progress(Protocol):
    """What the training command reports to; used as a context manager."""

    def __enter__(self) -> Progress: ...
    def __exit__(self, *error: object) -> None: ...
    def batch(self, loss: float) -> None:
        """One batch is done."""

    def epoch(self, record: dict[str, Any]) -> None:
        """One epoch is done, with these metrics."""


def make_progress(epochs: int, done: int, batches: int, summary: Summary) -> Progress:
    """The best display that standard output allows.

    Args:
        epochs: how many there are in all.
        done: how many were done before, in a resumed run.
        batches: how many an epoch has.
        summary: puts an epoch's metrics into words.
    """
    if sys.stdout.isatty() and is_installed("rich"):
        return _LiveProgress(epochs, done, batches, summary)
    return _PlainProgress(epochs, summary)


def _line(summary: Summary, record: dict[str, Any]) -> str:
    return f"{summary(record)}  {record['seconds']:.2f} s"


class _PlainProgress:
    def __init__(self, epochs: int, summary: Summary) -> None:
        self._epochs, self._summary = epochs, summary

    def __enter__(self) -> _PlainProgress:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def batch(self, loss: float) -> None:
        pass

    def epoch(self, record: dict[str, Any]) -> None:
        line = f"epoch {record['epoch']}/{self._epochs}  {_line(self._summary, record)}"
        print(line, flush=True)


class _LiveProgress:
    def __init__(self, epochs: int, done: int, batches: int, summary: Summary) -> None:
        from rich import progress

        self._epochs, self._epoch, self._summary = epochs, done, summary
        self._text = ""
        self._bar = progress.Progress(
            progress.TextColumn("[bold]{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[text]}"),
        )
        self._task = self._bar.add_task(
            self._title(), total=epochs * batches, completed=done * batches, text=""
        )

    def _title(self) -> str:
        return f"epoch {min(self._epoch + 1, self._epochs)}/{self._epochs}"

    def __enter__(self) -> _LiveProgress:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def batch(self, loss: float) -> None:
        self._bar.update(self._task, advance=1, text=self._text or f"loss {loss:.4f}")

    def epoch(self, record: dict[str, Any]) -> None:
        self._epoch, self._text = record["epoch"], _line(self._summary, record)
        self._bar.update(self._task, description=self._title(), text=self._text)
