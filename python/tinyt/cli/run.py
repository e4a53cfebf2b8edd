"""`tinyt run`: a program written for PyTorch, as it is."""

from __future__ import annotations

import argparse
import io
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

from tinyt import stand_in
from tinyt.cli.errors import CommandError

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those of `tinyt run`."""
    parser.add_argument(
        "--pytorch-for",
        metavar="PACKAGE",
        action="append",
        default=[],
        help="a package whose own imports of torch get the installed PyTorch; may be repeated",
    )
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module"
    )
    parser.add_argument("script", metavar="SCRIPT", help="program to run")
    parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="the program's own"
    )
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> int:
    """Runs the program as Python would, with ``torch`` served by tinyt."""
    try:
        stand_in.install(args.pytorch_for)
    except ValueError as error:
        raise CommandError(str(error)) from None
    sys.argv = [args.script, *args.arguments]
    try:
        if args.is_module:
            if not getattr(sys.flags, "safe_path", False):
                sys.path[0] = os.getcwd()
            runpy.run_module(args.script, run_name="__main__", alter_sys=True)
        else:
            _run_script(args.script)
    except SystemExit:
        raise
    except BaseException as error:
        return _report(error)
    return 0


def _run_script(script: str) -> None:
    if os.path.isdir(script):
        runpy.run_path(script, run_name="__main__")
        return
    script = os.path.abspath(script)
    with io.open_code(script) as file:
        code = compile(file.read(), script, "exec", dont_inherit=True)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    module: Any = ModuleType("__main__")
    module.__file__, module.__cached__ = script, None
    module.__loader__ = SourceFileLoader("__main__", script)
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    exec(code, vars(module))


def _report(error: BaseException) -> int:
    """Shows an exception as Python does, from the program's first line on."""
    trace = error.__traceback__
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
