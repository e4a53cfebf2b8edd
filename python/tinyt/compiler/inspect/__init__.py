"""Programs made visible: reports, graphs, traces.

`views` is what a compiled function offers of it. `facts` reads a program and the measures of a run,
`cost` counts operations and bytes, `machine` knows the limits; `report`, `picture` (with `layout`)
and `trace` show them. All but `views` is loaded when it is first used: few programs look at
themselves, and all import tinyt.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinyt.compiler.inspect import facts, picture, report, trace

__all__ = ["facts", "picture", "report", "trace"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
