"""Writes the stubs of a build, before its modules are installed.

python tools/build_stubs.py FOLDER MODULES    MODULES: where the compiled modules lie
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType


class BuiltModules(MetaPathFinder):
    """Finds the package's compiled modules in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that lies there; None for others."""
        package, _, name = fullname.rpartition(".")
        if package != "tinyt":
            return None
        for suffix in EXTENSION_SUFFIXES:
            if (found := self._folder / (name + suffix)).exists():
                return importlib.util.spec_from_file_location(fullname, found)
        return None


if __name__ == "__main__":
    folder, modules = map(Path, sys.argv[1:])
    sys.meta_path.insert(0, BuiltModules(modules))
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
    import make_stubs

    make_stubs.write(folder)
