"""Facts of this build and machine, to put into a report: `python -m tinyt.utils.collect_env`, or
`main()` in a program.

>>> from tinyt.utils import collect_env
>>> "tinyt" in collect_env.get_pretty_env_info()
True
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import NamedTuple

from tinyt.config import show_config
from tinyt.version import __version__

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

_PACKAGES = ("numpy", "safetensors", "torch", "mypy")  # those that programs have beside


class SystemEnv(NamedTuple):
    """What `get_env_info` finds."""

    tinyt_version: str
    is_debug_build: bool
    cuda_compiled_version: str
    os: str
    python_version: str
    python_platform: str
    is_cuda_available: bool
    cpu_count: int
    config: str
    pip_packages: dict[str, str]


def get_env_info() -> SystemEnv:
    """The facts one by one."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return SystemEnv(
        tinyt_version=__version__,
        is_debug_build=False,
        cuda_compiled_version="None",
        os=platform.system(),
        python_version=sys.version.replace("\n", " "),
        python_platform=platform.platform(),
        is_cuda_available=False,
        cpu_count=os.cpu_count() or 1,
        config=show_config(),
        pip_packages=found,
    )


def get_pretty_env_info() -> str:
    """The facts as text, one in a line."""
    facts = get_env_info()
    return "\n".join(
        [
            f"tinyt version: {facts.tinyt_version}",
            "CUDA used to build tinyt: None",
            f"OS: {facts.os}",
            f"Python version: {facts.python_version}",
            f"Python platform: {facts.python_platform}",
            f"Is CUDA available: {facts.is_cuda_available}",
            f"CPUs: {facts.cpu_count}",
            *facts.config.splitlines(),
            "Versions of relevant libraries:",
            *(f"[pip3] {name}=={version}" for name, version in facts.pip_packages.items()),
        ]
    )


def main() -> None:
    """Prints `get_pretty_env_info()`."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
