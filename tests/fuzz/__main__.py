"""Draws graphs until the time is over; prints the first that fails, made small."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.run import Fuzzer


def main() -> int:
    """0 where every graph agreed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long graphs are drawn")
    parser.add_argument("--seed", type=int, default=0, help="which graphs")
    parser.add_argument("--first", type=int, default=0, help="the first graph of that seed")
    parser.add_argument("--graphs", type=int, default=None, help="so many instead of a time")
    parser.add_argument("--keep-going", action="store_true", help="all failures, not the first")
    options = parser.parse_args()
    end, number, failed = time.monotonic() + options.seconds, options.first, 0
    fuzzer = Fuzzer(options.seed)
    while time.monotonic() < end if options.graphs is None else number < options.graphs:
        report = fuzzer.report(number)
        number += 1
        if report:
            failed += 1
            print(report, flush=True)
            if not options.keep_going:
                break
    print(f"{number - options.first} graphs, {fuzzer.steps} steps, {fuzzer.refused} not compiled")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
