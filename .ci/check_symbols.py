"""Check that every kernel object exports its table and nothing else.

Usage: check_symbols.py BUILD_DIR. A weak symbol (an inline function, a template) that was compiled
for AVX-512 could be picked by the linker for the baseline and crash older machines; so objects of
`*.simd.cpp` may define one strong symbol, the table, and no weak one.
"""

import re
import subprocess
import sys
from pathlib import Path

# A pointer to the C++ personality routine: data without code, the same at every level.
HARMLESS = re.compile(r"^DW\.ref\.")


def violations(kernel: Path) -> list[str]:
    """Return what is wrong with the symbols that one object defines."""
    listing = subprocess.run(
        ["nm", "-C", "--defined-only", str(kernel)], check=True, capture_output=True, text=True
    ).stdout
    strong, weak = [], []
    for line in listing.splitlines():
        kind, name = line[17:18], line[19:]
        if HARMLESS.match(name):
            continue
        if kind in "VWuvw":
            weak.append(name)
        elif kind.isupper():
            strong.append(name)
    found = [f"weak symbol {name}" for name in weak]
    if len(strong) != 1:
        found.append(f"{len(strong)} exported symbols instead of one: {', '.join(strong)}")
    return found


def main() -> int:
    """Check all kernel objects under the folder; the exit status."""
    kernels = sorted(Path(sys.argv[1]).rglob("*.simd.cpp*.o"))
    if not kernels:
        print(f"no kernel objects under {sys.argv[1]}", file=sys.stderr)
        return 1
    failed = False
    for kernel in kernels:
        for problem in violations(kernel):
            print(f"{kernel}: {problem}", file=sys.stderr)
            failed = True
    print(f"{len(kernels)} kernel objects checked")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
