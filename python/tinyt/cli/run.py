"""`tinyt run`: a program written for PyTorch, as it is."""

from __future__ import annotations

import argparse
import io
import os
import pkgutil
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
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
    parser.add_argument(
        "-c", dest="is_text", action="store_true", help="SCRIPT is the program's text"
    )
    parser.add_argument(
        "script", metavar="SCRIPT", help="program to run: a file, folder or zip file; - reads it"
    )
    parser.add_argument(
        "arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="the program's own"
    )
    parser.set_defaults(command=run)


_WITH_VALUE = ("--pytorch-for",)


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command line of `tinyt run` up to the program, and the program's own arguments, which
    stay as they are: argparse would take a ``--`` out of them."""
    end = 0
    while end < len(argv) and argv[end].startswith("-") and argv[end] not in ("-", "--"):
        end += 2 if argv[end] in _WITH_VALUE else 1
    if end < len(argv) and argv[end] == "--":
        end += 1
    return list(argv[: end + 1]), list(argv[end + 1 :])


def run(args: argparse.Namespace) -> int:
    """Runs the program as Python would, with ``torch`` served by tinyt."""
    try:
        stand_in.install(args.pytorch_for)
    except ValueError as error:
        raise CommandError(str(error)) from None
    sys.argv = ["-c" if args.is_text else args.script, *args.arguments]
    try:
        if args.is_module:
            _search_in(os.getcwd())
            runpy.run_module(args.script, run_name="__main__", alter_sys=True)
        elif args.is_text:
            _run_text(args.script.encode(), "<string>")
        elif args.script == "-":
            _run_text(sys.stdin.buffer.read(), "<stdin>")
        else:
            _run_script(args.script)
    except SystemExit:
        raise
    except BaseException as error:
        return _report(error)
    return 0


def _search_in(folder: str) -> None:
    """Has modules be looked for there first, in the place of the command's own folder."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _run_script(script: str) -> None:
    if pkgutil.get_importer(script) is not None:  # a folder or zip file
        runpy.run_path(script, run_name="__main__")
        return
    script = os.path.abspath(script)
    with io.open_code(script) as file:
        text = file.read()
    code = compile(text, script, "exec", dont_inherit=True)
    _search_in(os.path.dirname(os.path.realpath(script)))
    module = _main_module()
    module.__file__, module.__cached__ = script, None
    module.__loader__ = SourceFileLoader("__main__", script)
    exec(code, vars(module))


def _run_text(text: bytes, name: str) -> None:
    """Runs a program that is no file; tracebacks know its lines."""
    code = compile(text, name, "exec", dont_inherit=True)
    _search_in("")
    exec(code, vars(_main_module()))


def _main_module() -> Any:
    """A new `__main__`."""
    module: Any = ModuleType("__main__")
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    return module


def _is_import(trace: TracebackType) -> bool:
    """Whether a line of a traceback is of the stand-in, or of Python's import system."""
    name = trace.tb_frame.f_code.co_filename
    return name.startswith((os.path.dirname(stand_in.__file__), "<frozen importlib"))


def _report(error: BaseException) -> int:
    """Shows an exception as Python does, from the program's first line on to the last one that is
    not of an import of torch."""
    trace = error.__traceback__
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    last = at = trace
    while at is not None:
        last, at = at if not _is_import(at) else last, at.tb_next
    if last is not None:
        last.tb_next = None
    stand_in.explain(error)
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
