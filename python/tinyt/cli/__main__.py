"""Entry point of the `tinyt` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import tinyt
from tinyt.cli import train
from tinyt.cli.errors import CommandError
from tinyt.cli.evaluate import evaluate
from tinyt.cli.info import info

_EPILOG = """\
examples:
  tinyt train digits                      train a network on handwritten digits
  tinyt train digits --resume RUN         go on after Ctrl-C
  tinyt eval RUN                          test accuracy of what was trained
  tinyt info                              version, instruction set, threads, memory

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tinyt",
        description="A small, fast tensor library: train, evaluate, inspect.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tinyt {tinyt.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    tasks = commands.add_parser(
        "train", help="train a network", description="Train a network on a built-in task."
    ).add_subparsers(title="tasks", metavar="TASK", required=True)
    digits = tasks.add_parser(
        "digits",
        help="8x8 images of handwritten digits",
        description="Train on the 1,797 handwritten digits that scikit-learn carries. A fifth is "
        "held out and looked at only at the end. The last line printed is the test accuracy.",
    )
    train.add_arguments(digits)
    digits.set_defaults(
        command=train.train_digits, check=lambda args: train.check_arguments(digits, args)
    )

    eval_ = commands.add_parser(
        "eval",
        help="test accuracy of a run",
        description="Print the test accuracy of a run's checkpoint.",
    )
    eval_.add_argument("run", metavar="RUN", help="run folder that `tinyt train` made")
    eval_.set_defaults(command=evaluate)

    info_ = commands.add_parser(
        "info",
        help="version, build, memory, packages",
        description="Print version, build configuration, memory and optional packages.",
    )
    info_.set_defaults(command=info)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (that of the process by default); returns the exit code."""
    args = build_parser().parse_args(argv)
    if hasattr(args, "check"):
        args.check(args)
    try:
        return int(args.command(args))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return train.INTERRUPTED
    except (CommandError, OSError) as error:
        print(f"tinyt: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
