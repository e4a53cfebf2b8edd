"""A run folder: what was asked for, the state to go on from, and what came out.

config.json             the settings that decide the result
checkpoint.safetensors  everything needed to go on, as of the last whole epoch
metrics.jsonl           one line per epoch, then one with the test result
curves.png, misread.png pictures, made at the end
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tinyt.cli.errors import CommandError
from tinyt.io.atomic import atomic_write
from tinyt.serialization import SerializationError, load, save

MODELS = ("cnn", "mlp")


@dataclass(frozen=True)
class Config:
    """Settings of a training run; equal settings give equal results, bit for bit."""

    model: str = "cnn"
    seed: int = 0
    epochs: int = 20
    batch_size: int = 64
    lr: float = 3e-3
    weight_decay: float = 1e-2
    label_smoothing: float = 0.1

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if type(value) is not kind:
                raise CommandError(f"{field.name} must be of type {kind.__name__}, got {value!r}")
        if self.model not in MODELS:
            raise CommandError(f"model must be one of {', '.join(MODELS)}, got {self.model!r}")
        if self.epochs < 1 or self.batch_size < 2:
            raise CommandError("epochs must be at least 1 and batch_size at least 2")


class Run:
    """One run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.saved_epoch = 0
        self.curves = folder / "curves.png"
        self.misread = folder / "misread.png"
        self._config = folder / "config.json"
        self._checkpoint = folder / "checkpoint.safetensors"
        self._metrics = folder / "metrics.jsonl"

    @classmethod
    def create(cls, folder: Path | None, config: Config) -> Run:
        """Makes the folder (a new one named after the time by default) and stores `config`."""
        run = cls(folder if folder is not None else _dated_folder())
        if run._config.exists() or run._checkpoint.exists():
            raise CommandError(
                f"{run.folder} holds a run already; choose another --out, or go on with it: "
                f"tinyt train digits --resume {run.folder}"
            )
        run.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(run._config) as file:
            file.write((json.dumps(asdict(config), indent=2) + "\n").encode())
        return run

    @classmethod
    def open(cls, folder: Path) -> tuple[Run, Config]:
        """An existing run and its settings."""
        run = cls(folder)
        try:
            values = json.loads(run._config.read_text(encoding="utf-8"))
            config = Config(**values)
        except FileNotFoundError:
            raise CommandError(f"{folder} is no run folder: it has no {run._config.name}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise CommandError(f"{run._config} is damaged: {error}") from None
        return run, config

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Replaces the checkpoint; an interruption leaves the one before."""
        save(state, self._checkpoint)
        self.saved_epoch = state["epoch"]

    def load_checkpoint(self) -> dict[str, Any]:
        """The state that `save_checkpoint` stored last."""
        try:
            state = load(self._checkpoint)
        except FileNotFoundError:
            raise CommandError(f"{self.folder} has no checkpoint yet; start a new run") from None
        except SerializationError as error:
            raise CommandError(f"{self._checkpoint}: {error}") from None
        if not isinstance(state, dict):
            raise CommandError(f"{self._checkpoint} holds no training state")
        return state

    def write_metrics(self, records: list[dict[str, Any]]) -> None:
        """Replaces the metrics by `records`, one JSON line each."""
        with atomic_write(self._metrics) as file:
            for record in records:
                file.write((json.dumps(record) + "\n").encode())


def _dated_folder() -> Path:
    stem = Path("runs") / time.strftime("digits-%Y%m%d-%H%M%S")
    folder, count = stem, 1
    while folder.exists():
        count += 1
        folder = stem.with_name(f"{stem.name}-{count}")
    return folder
