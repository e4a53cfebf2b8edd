"""`tinyt eval RUN`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tinyt.cli.digits import load_digits
from tinyt.cli.errors import CommandError
from tinyt.cli.runs import Run
from tinyt.cli.trainer import make_model, predict, result_line


def evaluate(args: argparse.Namespace) -> int:
    """Prints the test accuracy of a run's checkpoint."""
    run, config = Run.open(Path(args.run))
    state = run.load_checkpoint()
    model = make_model(config)
    try:
        model.load_state_dict(state["model"])
        epoch = int(state["epoch"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CommandError(f"the checkpoint does not fit its run: {error}") from None
    test = load_digits().test
    print(f"run: {run.folder}  model: {config.model}  epoch: {epoch}/{config.epochs}")
    print(result_line(predict(model, test.images), test))
    return 0
