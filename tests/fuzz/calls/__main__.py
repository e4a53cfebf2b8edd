"""Random calls of everything public; prints those that crash, hang or confuse, made small."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fuzz.calls.pool import Options
from fuzz.calls.run import Caller


def main() -> int:
    """0 where every call returned or raised an ordinary exception in time."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.calls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=None, help="how long (20)")
    parser.add_argument("--calls", type=int, default=None, help="so many instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="which calls")
    parser.add_argument("--first", type=int, default=0, help="the first call of that seed")
    parser.add_argument("--only", type=int, default=None, help="this call alone; prints it")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one call")
    parser.add_argument("--memory", type=int, default=2048, help="mebibytes for a worker")
    options = parser.parse_args()
    caller = Caller(Options(options.seed, options.limit, options.memory))
    first, count, seconds = options.first, options.calls, options.seconds
    if options.only is not None:
        first, count, seconds = options.only, 1, None
        print(caller.drawn(first))
    elif count is None and seconds is None:
        seconds = 20.0
    caller.run(first, count, seconds, options.workers)
    for key, times in caller.troubles.most_common():
        print(f"{times} x {key}")
    share = 100 * caller.returned // max(caller.calls, 1)
    print(f"{caller.calls} calls, {share}% returned, {sum(caller.troubles.values())} troubles")
    return 1 if caller.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
