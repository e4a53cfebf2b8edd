"""`tinyt eval RUN`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tinyt.cli.place import find_device
from tinyt.cli.runs import Run


def evaluate(args: argparse.Namespace) -> int:
    """Prints the result of a run's checkpoint."""
    run, task, config = Run.open(Path(args.run))
    trainer = task.make_trainer(config, find_device(args.device))
    trainer.load_state_dict(run.load_checkpoint())
    print(f"run: {run.folder}  model: {trainer.title}  epoch: {trainer.epoch}/{config.epochs}")
    print(trainer.result_line(trainer.finish()))
    return 0
