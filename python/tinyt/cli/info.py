"""`tinyt info`."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from collections.abc import Mapping
from typing import Any

import tinyt
from tinyt import memory

_OPTIONAL = {
    "numpy": "arrays in and out",
    "scikit-learn": "the digits data",
    "rich": "live progress bar",
    "matplotlib": "pictures of a run",
}


def info(args: argparse.Namespace) -> int:
    """Prints version, build, memory and what is installed beside."""
    print(f"tinyt {tinyt.__version__}")
    print(f"python {platform.python_version()} on {platform.platform()}")
    _section("configuration", tinyt.show_config())
    _section("memory", memory.statistics())
    print("\ndevices:")
    for device in tinyt.devices():
        gib = f", {device.memory_bytes / 2**30:.1f} GiB" if device.memory_bytes else ""
        print(f"  {device.name:<10} {device.missing or device.hardware + gib}")
    print("\npackages:")
    for name, purpose in _OPTIONAL.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = 'missing: pip install "tinyt[demo]"'
        print(f"  {name:<14} {version:<12} {purpose}")
    return 0


def _section(title: str, content: Any) -> None:
    print(f"\n{title}:")
    if isinstance(content, Mapping):
        width = max((len(str(key)) for key in content), default=0)
        lines = [f"{key!s:<{width}}  {value}" for key, value in content.items()]
    else:
        lines = str(content).splitlines()
    for line in lines:
        print(f"  {line}")
