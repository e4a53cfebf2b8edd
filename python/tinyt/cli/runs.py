"""A run folder: what was asked for, the state to go on from, and what came out.

config.json             the task, and the settings that decide the result
checkpoint.safetensors  everything needed to go on, as of the last whole epoch
metrics.jsonl           one line per epoch, then one with the result
*.png                   pictures, made at the end
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinyt.cli.errors import CommandError
from tinyt.cli.task import Config
from tinyt.cli.tasks import TASKS, Task
from tinyt.io.atomic import atomic_write
from tinyt.io.files import open_regular
from tinyt.serialization import SerializationError, load, save

_MAX_CONFIG_BYTES = 1_000_000


class Run:
    """One run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.saved_epoch = 0
        self._task = ""
        self._config = folder / "config.json"
        self._checkpoint = folder / "checkpoint.safetensors"
        self._metrics = folder / "metrics.jsonl"

    @classmethod
    def create(cls, folder: Path | None, task: type[Task], config: Config) -> Run:
        """Makes the folder (a new one named after the time by default) and stores `config`."""
        run = cls(folder if folder is not None else _dated_folder(task.name))
        if run._config.exists():
            raise CommandError(
                f"{run.folder} holds a run already; choose another --out, or go on with it: "
                f"tinyt train {task.name} --resume {run.folder}"
            )
        if run._checkpoint.exists():
            raise CommandError(
                f"{run.folder} holds a checkpoint without {run._config.name}, so it cannot be "
                "resumed; choose another --out"
            )
        run.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(run._config) as file:
            values = {"task": task.name, **asdict(config)}
            file.write((json.dumps(values, indent=2) + "\n").encode())
        return run

    @classmethod
    def open(cls, folder: Path) -> tuple[Run, type[Task], Config]:
        """An existing run, its task and its settings."""
        run = cls(folder)
        try:
            with open_regular(run._config) as file:
                content = file.read(_MAX_CONFIG_BYTES + 1)
            if len(content) > _MAX_CONFIG_BYTES:
                raise ValueError(f"it has over {_MAX_CONFIG_BYTES} bytes")
            values = json.loads(content.decode("utf-8"))
            task = TASKS[values.pop("task")]
            config = task.config(**values)
        except FileNotFoundError:
            raise CommandError(f"{folder} is no run folder: it has no {run._config.name}") from None
        except KeyError:
            raise CommandError(f"{run._config} is damaged: no known task") from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise CommandError(f"{run._config} is damaged: {error}") from None
        run._task = task.name
        return run, task, config

    def has_checkpoint(self) -> bool:
        """False for a run that was killed before its first checkpoint."""
        return self._checkpoint.exists()

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replaces the checkpoint; an interruption leaves the one before."""
        save(state, self._checkpoint)
        self.saved_epoch = state["epoch"]

    def load_checkpoint(self) -> dict[str, Any]:
        """The state that `save_checkpoint` stored last."""
        try:
            state = load(self._checkpoint)
        except FileNotFoundError:
            raise CommandError(
                f"{self.folder} has no checkpoint yet; train it: "
                f"tinyt train {self._task} --resume {self.folder}"
            ) from None
        except SerializationError as error:
            raise CommandError(f"{self._checkpoint}: {error}") from None
        if not isinstance(state, dict):
            raise CommandError(f"{self._checkpoint} holds no training state")
        return state

    def write_metrics(self, records: list[dict[str, Any]]) -> None:
        """Replaces the metrics by `records`, one JSON line each."""
        if self._metrics.exists() and not self._metrics.is_file():  # a FIFO would wait for ever
            raise CommandError(f"{self._metrics} is no regular file; remove it")
        with atomic_write(self._metrics) as file:
            for record in records:
                file.write((json.dumps(record) + "\n").encode())


def _dated_folder(task: str) -> Path:
    stem = Path("runs") / time.strftime(f"{task}-%Y%m%d-%H%M%S")
    folder, count = stem, 1
    while folder.exists():
        count += 1
        folder = stem.with_name(f"{stem.name}-{count}")
    return folder
