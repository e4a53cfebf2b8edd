"""`tinyt config`: where the C interface is, as a compiler is told."""

from __future__ import annotations

import argparse
from pathlib import Path

from tinyt import _core
from tinyt.cli.errors import CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those of `tinyt config`."""
    for option, what in (
        ("--cflags", "flags of a compiler that reads tinyt.h"),
        ("--libs", "flags of a linker: the library, and where a program finds it when it runs"),
        ("--library", "the library's path"),
        ("--header", "the path of tinyt.h"),
    ):
        parser.add_argument(option, action="store_true", help=what)
    parser.set_defaults(command=config)


def config(args: argparse.Namespace) -> int:
    """Prints what is asked for on one line."""
    folder = Path(_core.__file__).parent
    header = folder / "include" / "tinyt.h"
    library = next(folder.glob("libtinyt_core.*"), None)
    if library is None or not header.is_file():
        raise CommandError(f"this installation has no C interface in {folder}")
    found = []
    if args.cflags:
        found.append(f"-I{header.parent}")
    if args.libs:
        found.append(f"-L{folder} -ltinyt_core -Wl,-rpath,{folder}")
    if args.library:
        found.append(str(library))
    if args.header:
        found.append(str(header))
    if not found:
        raise CommandError("expected --cflags, --libs, --library or --header")
    print(" ".join(found))
    return 0
