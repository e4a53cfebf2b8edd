"""``python -m tinyt``: the command."""

from __future__ import annotations

import sys

from tinyt.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
