"""`tinyt check-backend NAME`."""

from __future__ import annotations

import argparse
from pathlib import Path

import tinyt
from tinyt import _core
from tinyt._tensor import device as Device
from tinyt.backends import load
from tinyt.cli.backends.check import ROWS, Outcome, check
from tinyt.cli.backends.report import arithmetic, counts, limits, lines
from tinyt.cli.errors import CommandError, is_installed, one_line
from tinyt.cli.place import find_device
from tinyt.dtypes import ALL

# Shapes share kernels: of all operations in all dtypes there are no more than these, and more where
# threads share memory, since long rows are taken by several of them and short ones by one.
MOST_KERNELS, MORE_OF_GROUPS = 2500, 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `tinyt check-backend`."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="a device, as opencl:1, or the file of a library that brings one",
    )
    parser.add_argument("--report", metavar="FILE", help="writes a page in Markdown")
    parser.add_argument(
        "--op",
        action="append",
        metavar="NAME",
        help="this operation alone, with why it is refused; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of operands (default: 0)")
    parser.set_defaults(command=check_backend)


def check_backend(args: argparse.Namespace) -> int:
    """Runs the operation table on a device; 1 where a result is wrong, or too many kernels were
    built."""
    if not is_installed("numpy"):
        raise CommandError("check-backend compares with NumPy: pip install numpy")
    place = _place(args.name)
    names = args.op or list(ROWS)
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise CommandError(f"there is no operation {unknown[0]!r}")
    if args.report and not Path(args.report).parent.is_dir():
        raise CommandError(f"there is no folder {Path(args.report).parent} for the report")
    before = _kernels(place)
    outcomes = {name: _row(name, place, args.seed, bool(args.op)) for name in names}
    built, most, more = 0, MOST_KERNELS, []
    if before is not None:
        built, most = (_kernels(place) or 0) - before, _most_kernels(place)
        more.append(f"{built:,} kernels were built, of {most:,} at most.")
        more += [arithmetic(place), limits(place)]
    print(counts(outcomes), *more, sep="\n")
    if args.report:
        text = "\n".join(lines(place, outcomes, more)) + "\n"
        Path(args.report).write_text(text, encoding="utf-8")
        print(f"report: {args.report}")
    is_wrong = any(o.is_wrong for row in outcomes.values() for o in row.values())
    return int(is_wrong or built > most)


def _most_kernels(place: Device) -> int:
    try:
        shares = _core.gpu_limits(str(place))["shares_memory"]
    except tinyt.DeviceError:
        shares = 0
    return MOST_KERNELS + (MORE_OF_GROUPS if shares else 0)


def _kernels(place: Device) -> int | None:
    """How many have been built for a device; None where none are at run time."""
    try:
        return _core.gpu_kernels(str(place))
    except tinyt.DeviceError:
        return None


def _place(name: str) -> Device:
    if Path(name).suffix or Path(name).name != name:  # no name of a device
        try:
            name = load(name)
        except (RuntimeError, OSError) as error:
            raise CommandError(one_line(error)) from None
    place = find_device(name)
    return place if place.index is not None else tinyt.ones(1, device=place).device


def _row(name: str, place: Device, seed: int, tells: bool) -> dict[tinyt.dtype, Outcome]:
    row = {dtype: check(name, dtype, place, seed) for dtype in ALL}
    for dtype, outcome in row.items():
        if outcome.is_wrong:
            print(f"{name} {dtype.name}: wrong: {outcome.why or 'beyond its bound'}", flush=True)
        elif tells and outcome.why:
            print(f"{name} {dtype.name}: refused: {outcome.why}", flush=True)
    return row
