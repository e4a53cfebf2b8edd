"""Print the fenced code block of README.md that follows the comment <!-- MARKER -->.

Usage: readme_block.py MARKER. CI and the tests run what README shows through this, so the page
cannot differ from what is checked.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def block(marker: str) -> str:
    """Return the text of the block, without the fences. Raises LookupError when it is missing."""
    pattern = rf"<!-- {re.escape(marker)} -->\s*\n```\w*\n(.*?)^```"
    found = re.search(pattern, README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    if found is None:
        raise LookupError(f"README.md has no code block marked {marker!r}")
    return found.group(1)


if __name__ == "__main__":
    print(block(sys.argv[1]), end="")
