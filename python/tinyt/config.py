"""What this build is and how it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinyt import _core

get_num_threads = _core.num_threads


def set_num_threads(n: int) -> None:
    """Threads that kernels use; results do not depend on it. ValueError below 1."""
    _core.set_num_threads(n)


@contextmanager
def num_threads(n: int) -> Iterator[None]:
    """Uses ``n`` threads inside the block."""
    before = _core.num_threads()
    _core.set_num_threads(n)
    try:
        yield
    finally:
        _core.set_num_threads(before)


def show_config() -> str:
    """Instruction-set level (and which exist), threads, compiler and flags, as text."""
    info = _core.build_info()
    levels = ", ".join(
        f"{name}{'' if usable else ' (not on this machine)'}"
        for name, usable in info["levels"].items()
    )
    lines = [
        f"instruction set: {info['isa']}",
        f"levels built:    {levels}",
        f"threads:         {info['threads']}",
        f"compiler:        {info['build']}",
    ]
    if info["sanitizers"]:
        lines.append(f"sanitizers:      {info['sanitizers']}")
    return "\n".join(lines)
