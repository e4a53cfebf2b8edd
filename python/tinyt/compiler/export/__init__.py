"""Programs of compiled functions as C99 (docs/export.md): `api` for a captured call, `graphs` for a
graph. Loaded at the first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinyt.compiler.export import api, graphs

__all__ = ["api", "graphs"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
