"""Keep the table of docs/verification.md: which shard of .ci/full passed, when and at which commit.

Usage: verification.py current               shards that passed at code equal to the last commit's
       verification.py record SHARD COMMIT LEVEL SECONDS RESULT
       verification.py stale                 a line for each shard that passed at other code

Runs in the project that the page belongs to. No machine has to run all shards at once: each has its
own commit, and only what is older than the code has to run again.
"""

import datetime
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "verification.md"
# What no shard reads.
NOT_CODE = ("docs/verification.md", "CHANGELOG.md", "benchmarks/results", "benchmarks/notes")
HEAD = """# Verification

Written by `.ci/full`, shard by shard; not edited by hand. A shard holds for the commit in its
row, on a machine whose best instruction-set level is the one named.

Tools: {tools}

| Shard | Result | Seconds | Date | Commit | Level |
| --- | --- | --- | --- | --- | --- |
"""


def rows() -> dict[str, list[str]]:
    """Return the cells of each shard's row, as on the page."""
    found = {}
    if PAGE.exists():
        for line in PAGE.read_text(encoding="utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| ") and len(cells) == 6 and cells[0] not in ("Shard", "---"):
                found[cells[0]] = cells
    return found


def same_code(commit: str) -> bool:
    """Whether a commit is known and has the code of the last one."""
    paths = [f":(exclude){path}" for path in NOT_CODE]
    command = ["git", "diff", "--quiet", commit, "HEAD", "--", ".", *paths]
    found = subprocess.run(command, cwd=PAGE.parents[1], stderr=subprocess.DEVNULL, check=False)
    return found.returncode == 0


def tools() -> str:
    """Return the first line that each tool says of its version."""
    commands = (["g++", "--version"], ["clang", "--version"], ["valgrind", "--version"])
    said = [subprocess.run(c, capture_output=True, text=True, check=True).stdout for c in commands]
    return "; ".join([text.splitlines()[0] for text in said] + [f"Python {sys.version.split()[0]}"])


def record(shard: str, commit: str, level: str, seconds: str, result: str) -> None:
    """Write the page anew with one shard's row replaced."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    table = rows() | {shard: [shard, result, seconds, today, f"`{commit[:12]}`", level]}
    lines = [f"| {' | '.join(table[name])} |\n" for name in sorted(table)]
    PAGE.write_text(HEAD.format(tools=tools()) + "".join(lines), encoding="utf-8")


def main(command: str, *values: str) -> None:
    """Do one of the commands above."""
    if command == "record":
        record(*values)
        return
    for shard, cells in rows().items():
        commit = cells[4].strip("`")
        if same_code(commit) == (command == "current"):
            print(shard if command == "current" else f"{shard}: {commit}, {cells[3]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
