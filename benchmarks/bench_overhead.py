"""Call overhead, and the time to import: `pytest benchmarks/bench_overhead.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.pytest_cases import cases_of

test_overhead = cases_of("overhead")


@pytest.mark.parametrize("code", ["pass", "import tinyt", "import torch"])
def test_import(code: str, benchmark: Any) -> None:
    """A whole process; what an import costs is its difference to ``pass``."""
    # As installed packages are: with their byte code.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    benchmark.group = "overhead/import"
    benchmark.pedantic(
        lambda: subprocess.run(command, check=True, env=env), rounds=7, warmup_rounds=1
    )
