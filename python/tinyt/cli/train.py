"""`tinyt train digits`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tinyt
from tinyt.cli.digits import Digits, load_digits
from tinyt.cli.errors import is_installed
from tinyt.cli.plots import plot_curves, plot_misread
from tinyt.cli.progress import make_progress
from tinyt.cli.runs import Config, Run
from tinyt.cli.trainer import Trainer, accuracy, predict, result_line

INTERRUPTED = 130  # 128 + SIGINT, as shells count
_LARGEST = 2**63 - 1


def train_digits(args: argparse.Namespace) -> int:
    """Trains a network on the digits, or goes on with an interrupted run."""
    if args.threads is not None:
        tinyt.set_num_threads(args.threads)
    data = load_digits()
    if args.resume is not None:
        run, config = Run.open(Path(args.resume))
        trainer = Trainer(config, data)
        trainer.load_state_dict(run.load_checkpoint())
        run.saved_epoch = trainer.epoch
    else:
        config = _config_of(args)
        trainer = Trainer(config, data)
        run = Run.create(None if args.out is None else Path(args.out), config)
        run.save_checkpoint(trainer.state_dict())
    weights = sum(param.numel() for param in trainer.model.parameters())
    print(f"run: {run.folder}  model: {config.model} ({weights:,} weights)  seed: {config.seed}")
    try:
        _train(trainer, run)
        _finish(trainer, run, data)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted: saved as of epoch {run.saved_epoch} of {config.epochs}. Go on with:\n"
            f"  tinyt train digits --resume {run.folder}",
            file=sys.stderr,
        )
        return INTERRUPTED
    return 0


def _config_of(args: argparse.Namespace) -> Config:
    given = {name: getattr(args, name) for name in ("model", "seed", "epochs", "batch_size", "lr")}
    return Config(**{name: value for name, value in given.items() if value is not None})


def _train(trainer: Trainer, run: Run) -> None:
    """Runs the epochs that are left; each whole one is on disk before the next begins."""
    # A crash between checkpoint and metrics leaves the latter a line short; the former decides.
    run.write_metrics(trainer.history)
    batches = len(trainer.loader)
    with make_progress(trainer.config.epochs, trainer.epoch, batches) as progress:
        while not trainer.finished:
            record = trainer.run_epoch(progress.batch)
            run.save_checkpoint(trainer.state_dict())
            run.write_metrics(trainer.history)
            progress.epoch(record)


def _finish(trainer: Trainer, run: Run, data: Digits) -> None:
    """The test part is looked at here, once."""
    logits = predict(trainer.model, data.test.images)
    result: dict[str, Any] = {
        "test_accuracy": accuracy(logits, data.test.labels),
        "test_images": len(data.test.labels),
    }
    run.write_metrics([*trainer.history, result])
    if is_installed("matplotlib"):
        plot_curves(trainer.history, run.curves)
        plot_misread(data.test, logits, run.misread)
        print(f"pictures: {run.curves}  {run.misread}")
    else:
        print('no pictures, for want of matplotlib: pip install "tinyt[demo]"', file=sys.stderr)
    print(result_line(logits, data.test), flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `tinyt train digits`."""
    defaults = Config()
    # Defaults are None so that --resume can tell what was asked for.
    parser.add_argument(
        "--model", choices=["cnn", "mlp"], help=f"network to train (default: {defaults.model})"
    )
    parser.add_argument(
        "--seed",
        type=_at_least(0),
        metavar="N",
        help=f"seed of all randomness (default: {defaults.seed})",
    )
    parser.add_argument(
        "--epochs",
        type=_at_least(1),
        metavar="N",
        help=f"passes over the training images (default: {defaults.epochs})",
    )
    parser.add_argument(
        "--batch-size",
        type=_at_least(2),
        metavar="N",
        help=f"images per update (default: {defaults.batch_size})",
    )
    parser.add_argument(
        "--lr", type=_positive, metavar="X", help=f"first learning rate (default: {defaults.lr})"
    )
    parser.add_argument(
        "--threads",
        type=_at_least(1),
        metavar="N",
        help="processor threads; does not change the result (default: all cores)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="run folder to make (default: runs/digits-<date-time>)"
    )
    parser.add_argument(
        "--resume", metavar="RUN", help="go on with an interrupted run, with its own settings"
    )


def check_arguments(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuses options that --resume would have to ignore; exits with code 2."""
    if args.resume is None:
        return
    for name in ("model", "seed", "epochs", "batch_size", "lr", "out"):
        if getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            parser.error(f"{option} cannot be combined with --resume: the run keeps its settings")


def _at_least(smallest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not smallest <= value <= _LARGEST:
            raise argparse.ArgumentTypeError(
                f"must be at least {smallest} and below 2**63, got {value}"
            )
        return value

    parse.__name__ = "integer"  # argparse names it in "invalid integer value"
    return parse


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return value
