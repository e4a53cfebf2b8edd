"""Fails where valgrind's log shows memory that our libraries lost: valgrind_leaks.py LOG [OURS].

The interpreter and NumPy lose memory of their own, so a record counts only where the regular
expression OURS (by default our libraries) matches its stack.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

OURS = r"libtinyt_core|_core\.cpython|_(tensor|autograd|capture)\.cpython"


def lost(log: str, ours: str) -> list[str]:
    """The records of definitely lost memory with `ours` in them."""
    records = re.split(r"^==\d+== *$", log, flags=re.MULTILINE)
    definite = [r for r in records if "definitely lost in loss record" in r]
    return [r.strip() for r in definite if re.search(ours, r)]


def main() -> int:
    """Prints the records; 1 if there are any."""
    log = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    if "LEAK SUMMARY" not in log:
        print(f"{sys.argv[1]} is no log of a leak check")
        return 1
    found = lost(log, sys.argv[2] if len(sys.argv) > 2 else OURS)
    print(*found, sep="\n\n")
    print(f"{len(found)} definite leaks of ours reported")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
