"""Entry point of the `tinyt` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import tinyt
from tinyt.cli import bench, compile, config, export, run, train
from tinyt.cli.backends import command as check_backend
from tinyt.cli.chars import generate
from tinyt.cli.errors import CommandError, one_line
from tinyt.cli.evaluate import evaluate
from tinyt.cli.info import info
from tinyt.cli.place import add_device
from tinyt.cli.tasks import TASKS

_EPILOG = """\
examples:
  tinyt run script.py --epochs 3          a program written for PyTorch, as it is
  tinyt train digits                      train a network on handwritten digits
  tinyt train digits --resume RUN         go on after Ctrl-C
  tinyt train chars --text FILE           train a transformer on a text
  tinyt generate RUN "The "               continue a prompt with it
  tinyt eval RUN                          result of what was trained
  tinyt export model.py:model --input "float32[1, 784]"
                                          a model as a project in C
  tinyt compile graph.txt --target opencl
                                          the fused kernels of a graph in a language
  cc main.c $(tinyt config --cflags --libs)
                                          a program in C that uses tinyt
  tinyt bench                             some operations beside NumPy and PyTorch
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

    run.add_arguments(
        commands.add_parser(
            "run",
            help="run a program written for PyTorch",
            description="Run a program that imports torch; tinyt stands in for it.",
        )
    )

    tasks = commands.add_parser(
        "train", help="train a network", description="Train a network on a built-in task."
    ).add_subparsers(title="tasks", metavar="TASK", required=True)
    for task in TASKS.values():
        parser_ = tasks.add_parser(task.name, help=task.help, description=task.description)
        train.add_arguments(parser_, task)

    eval_ = commands.add_parser(
        "eval",
        help="result of a run",
        description="Print the result of a run's checkpoint on the data held out.",
    )
    eval_.add_argument("run", metavar="RUN", help="run folder that `tinyt train` made")
    add_device(eval_)
    eval_.set_defaults(command=evaluate)

    generate.add_arguments(
        commands.add_parser(
            "generate",
            help="continue a prompt",
            description="Continue a prompt with what `tinyt train chars` learned.",
        )
    )
    _add_writers(commands)
    _add_lookers(commands)
    return parser


def _add_writers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Those that write programs in other languages."""
    compile.add_arguments(
        commands.add_parser(
            "compile",
            help="plan a graph of a file",
            description="Plan a graph that is a text (docs/graph-text.md) or one of a file of "
            "programs (docs/programs.md): as C, as the fused kernels of a GPU's language, or as a "
            "report.",
        )
    )
    export.add_arguments(
        commands.add_parser(
            "export",
            help="write a function as C",
            description="Write the program of a function or module, or one of a file of "
            "programs, as C99 (docs/export.md).",
        )
    )
    config.add_arguments(
        commands.add_parser(
            "config",
            help="flags for programs in C",
            description="Print where the C interface is (docs/c-interface.md).",
        )
    )


def _add_lookers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Those that look at the machine and its devices."""
    bench.add_arguments(
        commands.add_parser(
            "bench",
            help="compare with NumPy and PyTorch",
            description="Time some operations beside NumPy and, where installed, PyTorch.",
        )
    )

    check_backend.add_arguments(
        commands.add_parser(
            "check-backend",
            help="run the operation table on a device",
            description="Run every operation in every dtype on a device, and compare with float64 "
            "(docs/adding-a-backend.md).",
        )
    )

    info_ = commands.add_parser(
        "info",
        help="version, build, memory, packages",
        description="Print version, build configuration, memory and optional packages.",
    )
    info_.set_defaults(command=info)


def _with_command(argv: Sequence[str]) -> Sequence[str]:
    """A command line that begins with a program means `run`, as in `python -m tinyt script.py`."""
    is_program = argv and (argv[0] in ("-", "-c", "-m") or argv[0].endswith((".py", ".pyz")))
    return ["run", *argv] if is_program else argv


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line."""
    argv = _with_command(argv)
    if argv[:1] != ["run"]:
        return build_parser().parse_args(argv)
    own, of_program = run.split(argv[1:])
    args = build_parser().parse_args(["run", *own])
    args.arguments = of_program
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (that of the process by default); returns the exit code."""
    args = parse(sys.argv[1:] if argv is None else list(argv))
    if hasattr(args, "check"):
        args.check(args)
    try:
        return int(args.command(args))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return train.INTERRUPTED
    except (CommandError, OSError, tinyt.OutOfMemoryError, tinyt.DeviceError) as error:
        print(f"tinyt: error: {one_line(error)}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
