"""An installed PyTorch, for packages that the user names.

PyTorch looks its own modules up in `sys.modules`, from C++ too: while packages are named they lie
there, and the import statements of all others are answered here, with tinyt's modules.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tinyt.stand_in.modules import WHY, is_torch, load

_packages: set[str] = set()
_before: tuple[Callable[..., Any], Callable[..., Any]] | None = None


def packages() -> set[str]:
    """The packages that get PyTorch."""
    return set(_packages)


def serve(names: Iterable[str]) -> bool:
    """Has the packages get PyTorch from their imports of it; returns whether there are any."""
    global _before
    for name in names:
        if not name.isidentifier() or name == "torch":
            raise ValueError(
                f"as_torch: pytorch_for takes names of packages, as 'torchvision', got {name!r}"
            )
        _packages.add(name)
    if _packages and _before is None:
        _before = builtins.__import__, importlib.import_module
        builtins.__import__ = _import
        importlib.import_module = _import_module
    return bool(_packages)


def stop() -> None:
    """Imports are as they were."""
    global _before
    if _before is not None:
        builtins.__import__, importlib.import_module = _before
    _before = None
    _packages.clear()


def _gets_pytorch(importer: str) -> bool:
    root = importer.partition(".")[0]
    return root == "torch" or root in _packages  # tinyt's modules are not called torch


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    assert _before is not None
    importer = str((globals and (globals.get("__package__") or globals.get("__name__"))) or "")
    # Code in C gives a list, and then looks into `sys.modules`.
    is_in_c = isinstance(fromlist, list)
    if level or is_in_c or not is_torch(name) or _gets_pytorch(importer):
        return _before[0](name, globals, locals, fromlist, level)  # type: ignore[no-any-return]
    module = load(name)
    if not fromlist:
        return load("torch")
    for part in fromlist:
        if part != "*" and not hasattr(module, part):
            try:
                load(f"{name}.{part}")
            except ModuleNotFoundError as error:  # the statement itself would look further
                raise ImportError(
                    f"cannot import name '{part}' from '{name}': {WHY}", name=name
                ) from error
    return module


def _import_module(name: str, package: str | None = None) -> ModuleType:
    assert _before is not None
    importer = str(sys._getframe(1).f_globals.get("__name__", ""))
    if not is_torch(name) or _gets_pytorch(importer):
        return _before[1](name, package)  # type: ignore[no-any-return]
    return load(name)
