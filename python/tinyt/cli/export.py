"""`tinyt export`: a function, or a saved program, as a program in another language."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tinyt
from tinyt import stand_in
from tinyt.cli.errors import CommandError
from tinyt.dtypes import ALL

_TARGETS = ("c",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those of `tinyt export`."""
    parser.add_argument(
        "function",
        metavar="FILE.py:NAME|PROGRAM",
        help="a function or module that the file has under that name once it has run; or a file of "
        "programs (docs/programs.md)",
    )
    parser.add_argument("--target", choices=_TARGETS, default="c", help="the language (c)")
    parser.add_argument(
        "--input",
        metavar="TYPE",
        action="append",
        default=[],
        help='what the function is called with, as "float32[1, 784]"; once for each argument. '
        "Floats are drawn, others are zeros",
    )
    parser.add_argument(
        "--arguments",
        metavar="NAME",
        help="instead: a tuple of arguments that the file has, or a function that gives it",
    )
    parser.add_argument("--out", metavar="DIR", help="folder to write (that of the name)")
    parser.add_argument(
        "--name", metavar="NAME", help="what names in C begin with (the function's)"
    )
    parser.add_argument(
        "--weights",
        choices=("arrays", "file"),
        help="where captured tensors stand: in C, or in a file that is read at the start "
        "(arrays up to 1 MiB)",
    )
    parser.set_defaults(command=export)


def export(args: argparse.Namespace) -> int:
    """Writes the project, and names its files."""
    if args.arguments and args.input:
        raise CommandError("--input and --arguments exclude each other")
    given = tuple(_drawn(text, i) for i, text in enumerate(args.input))
    try:
        if Path(args.function).is_file() and not args.function.endswith(".py"):
            if args.arguments:
                raise CommandError("--arguments names something of a Python file")
            compiled = tinyt.compiler.load(args.function)
            name = args.name
        else:
            compiled, name, given = _of_python(args, given)
        out = args.out or name or Path(args.function).stem
        files = compiled.export_c(out, *given, name=name, weights=args.weights)
    except (NotImplementedError, ValueError, RuntimeError, TypeError) as error:
        raise CommandError(str(error)) from None
    for path in files:
        print(path)
    return 0


def _of_python(
    args: argparse.Namespace, given: tuple[Any, ...]
) -> tuple[Any, str, tuple[Any, ...]]:
    """The compiled function that a file has, its name in C, and what it is called with."""
    file, separator, name = args.function.rpartition(":")
    if not separator or not name or not file:
        raise CommandError(f"expected FILE.py:NAME or a file of programs, got {args.function!r}")
    if not Path(file).is_file():
        raise CommandError(f"no such file: {file}")
    stand_in.install([])
    sys.path.insert(0, str(Path(file).resolve().parent))
    names = runpy.run_path(file, run_name=Path(file).stem)
    function = _named(names, name, file)
    if not callable(function):
        raise CommandError(f"{name} in {file} is a {type(function).__name__}, not a function")
    if args.arguments:
        found = _named(names, args.arguments, file)
        found = found() if callable(found) else found
        given = found if isinstance(found, tuple) else (found,)
    return _compiled(function), args.name or name.rpartition(".")[2], given


def _named(names: dict[str, Any], name: str, file: str) -> Any:
    first, *rest = name.split(".")
    if first not in names:
        raise CommandError(f"{file} has no {first}")
    found = names[first]
    for part in rest:
        if not hasattr(found, part):
            raise CommandError(f"{first} in {file} has no {part}")
        found = getattr(found, part)
    return found


def _compiled(function: Callable[..., Any]) -> Any:
    if hasattr(function, "export_c"):
        return function
    found = tinyt.compile(function)
    return getattr(found, "compiled", found)


def _drawn(text: str, number: int) -> tinyt.Tensor:
    """A tensor of a type as ``float32[2, 3]``."""
    match = re.fullmatch(r"\s*(\w+)\s*\[\s*((?:\d+\s*,\s*)*(?:\d+)?)\s*\]\s*", text)
    types = {t.name: t for t in ALL}
    if match is None or match[1] not in types:
        raise CommandError(f'--input: expected a type as "float32[2, 3]", got {text!r}')
    t = types[match[1]]
    try:
        shape = [int(n) for n in match[2].split(",") if n.strip()]
        if not t.is_floating_point:
            return tinyt.zeros(shape, dtype=t)
        generator = tinyt.Generator().manual_seed(number)
        return tinyt.randn(shape, generator=generator).to(t)
    except (MemoryError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise CommandError(
            f"--input: no tensor of type {text!r:.80} can be made: {error}"
        ) from None
