"""`tinyt train TASK`: any task, from its settings to the result, with Ctrl-C and --resume."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

import tinyt
from tinyt.cli.errors import CommandError, at_least, is_installed
from tinyt.cli.place import add_device, find_device
from tinyt.cli.progress import make_progress
from tinyt.cli.runs import Run
from tinyt.cli.task import Step, Task, Trainer
from tinyt.compiler.api import compile

INTERRUPTED = 130  # 128 + SIGINT, as shells count


def add_arguments(parser: argparse.ArgumentParser, task: type[Task]) -> None:
    """Declares the options of `tinyt train TASK`."""
    task.config.add_arguments(parser)
    parser.add_argument(
        "--threads",
        type=at_least(1),
        metavar="N",
        help="processor threads; does not change the result (default: all cores)",
    )
    add_device(parser)
    parser.add_argument(
        "--eager",
        action="store_true",
        help="run every operation at once instead of compiled steps; does not change the result",
    )
    parser.add_argument(
        "--out", metavar="DIR", help=f"run folder to make (default: runs/{task.name}-<date-time>)"
    )
    parser.add_argument(
        "--resume", metavar="RUN", help="go on with an interrupted run, with its own settings"
    )
    parser.set_defaults(command=partial(train, task), check=partial(check_arguments, parser, task))


def check_arguments(
    parser: argparse.ArgumentParser, task: type[Task], args: argparse.Namespace
) -> None:
    """Refuses options that --resume would have to ignore; exits with code 2."""
    if args.resume is None:
        return
    for name in (*(f.name for f in fields(task.config)), "out"):
        if getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            parser.error(f"{option} cannot be combined with --resume: the run keeps its settings")


def train(task: type[Task], args: argparse.Namespace) -> int:
    """Trains a network, or goes on with an interrupted run."""
    if args.threads is not None:
        tinyt.set_num_threads(args.threads)
    place = find_device(args.device)
    if args.resume is not None:
        run, its_task, config = Run.open(Path(args.resume))
        if its_task is not task:
            raise CommandError(
                f"{run.folder} is a run of another task: tinyt train {its_task.name} --resume"
            )
        trainer = task.make_trainer(config, place)
        if run.has_checkpoint():
            trainer.load_state_dict(run.load_checkpoint())
            run.saved_epoch = trainer.epoch
        else:  # killed before the first one: the settings decide all
            run.save_checkpoint(trainer.state_dict())
    else:
        config = task.config.from_arguments(args)
        trainer = task.make_trainer(config, place)
        run = Run.create(None if args.out is None else Path(args.out), task, config)
        run.save_checkpoint(trainer.state_dict())
    weights = sum(param.numel() for param in trainer.model.parameters())
    print(f"run: {run.folder}  model: {trainer.title} ({weights:,} weights)  seed: {config.seed}")
    try:
        _train(trainer, run, trainer.step if args.eager else compile(trainer.step))
        _finish(trainer, run)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted: saved as of epoch {run.saved_epoch} of {config.epochs}. Go on with:\n"
            f"  tinyt train {task.name} --resume {run.folder}",
            file=sys.stderr,
        )
        return INTERRUPTED
    return 0


def _train(trainer: Trainer, run: Run, step: Step) -> None:
    """Runs the epochs that are left; each whole one is on disk before the next begins."""
    # A crash between checkpoint and metrics leaves the latter a line short; the former decides.
    run.write_metrics(trainer.history)
    batches = len(trainer.loader)
    shown = make_progress(trainer.config.epochs, trainer.epoch, batches, trainer.summary)
    with shown as progress:
        while not trainer.finished:
            record = trainer.run_epoch(step, progress.batch)
            run.save_checkpoint(trainer.state_dict())
            run.write_metrics(trainer.history)
            progress.epoch(record)


def _finish(trainer: Trainer, run: Run) -> None:
    """The data held out for the end is looked at here, once."""
    result = trainer.finish()
    run.write_metrics([*trainer.history, result])
    if is_installed("matplotlib"):
        print("pictures:", *trainer.draw(run.folder))
    else:
        print('no pictures, for want of matplotlib: pip install "tinyt[demo]"', file=sys.stderr)
    print(trainer.result_line(result), flush=True)
