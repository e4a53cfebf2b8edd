"""The tasks that `tinyt train` knows."""

from __future__ import annotations

from tinyt.cli.chars.task import Chars
from tinyt.cli.digits.task import Digits
from tinyt.cli.task import Task

TASKS: dict[str, type[Task]] = {task.name: task for task in (Digits, Chars)}

__all__ = ["TASKS", "Task"]
