"""Functions that run when another package is imported, if it ever is."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec


# Neither class derives from those of importlib.abc, which bring a third of the standard library.
class _Then:
    """The loader of a module, and what follows."""

    def __init__(self, loader: Loader, follow: Callable[[ModuleType], object]) -> None:
        self._loader, self._follow = loader, follow

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Whoever asks the module for its source must find the loader that knows it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._follow(module)


class _Watch:
    """Finds nothing itself; adds to what the others find."""

    def __init__(self) -> None:
        self.waiting: dict[str, Callable[[ModuleType], object]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        follow = self.waiting.get(name)
        if follow is None:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = cast("Loader", _Then(spec.loader, follow))
                    return spec
        return None


_watch = _Watch()


def when_imported(name: str, follow: Callable[[ModuleType], object]) -> None:
    """Calls ``follow`` with the module of that name: now if it is there, or when it is imported."""
    if name in sys.modules:
        follow(sys.modules[name])
        return
    if not _watch.waiting:
        sys.meta_path.insert(0, _watch)
    _watch.waiting[name] = follow
