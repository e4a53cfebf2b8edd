"""`FileWriter`: events into one file of TensorBoard's format."""

from __future__ import annotations

import os
import time
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter


class FileWriter:
    """Writes events into one file of a folder, on a thread of its own.

    Args:
        log_dir: the folder; made if needed.
        max_queue: how many events may wait.
        flush_secs: how often they go to the disk.
        filename_suffix: the end of the file's name.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._options: tuple[Any, ...] = (
            os.fspath(log_dir),
            max_queue,
            flush_secs,
            filename_suffix,
        )
        self.event_writer: Any = EventFileWriter(*self._options)
        self._is_open = True

    def get_logdir(self) -> str:
        """The folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event, at a time (seconds since 1970; now by default) and step."""
        self.reopen()
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Writes a summary as an event."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Writes to the disk what waits."""
        if self._is_open:
            self.event_writer.flush()

    def close(self) -> None:
        """Writes what waits, and closes the file; a later event opens a new one."""
        if self._is_open:
            self._is_open = False
            self.event_writer.close()

    def reopen(self) -> None:
        """Opens a new file where the old one is closed."""
        if not self._is_open:
            self.event_writer = EventFileWriter(*self._options)
            self._is_open = True
