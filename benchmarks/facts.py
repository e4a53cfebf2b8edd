"""What figures depend on: machine, instruction set, threads, versions, commit. No paths."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def git(*arguments: str) -> str:
    """What git says about this checkout; nothing where there is none."""
    try:
        result = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
    except FileNotFoundError:
        return ""
    return result.stdout.strip()


def commit() -> str:
    """The commit of this checkout, with a + when files differ from it."""
    found = git("rev-parse", "--short", "HEAD") or "unknown"
    return found + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def processor() -> str:
    """The processor as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """What is the same for every combination of a run."""
    return {"commit": commit(), "processor": processor(), "cores": os.cpu_count()}


def combination(tinyt: Any, torch: Any) -> dict[str, Any]:
    """What the two libraries say they use in this process."""
    info = tinyt._core.build_info()
    return {
        "level": info["isa"],
        "threads": tinyt.get_num_threads(),
        "build": info["build"],
        "torch": torch.__version__,
        "torch_level": torch.backends.cpu.get_cpu_capability(),
        "torch_threads": torch.get_num_threads(),
    }
