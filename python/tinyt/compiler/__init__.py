"""What `tinyt.compile` is built of: capture a function, interpret its graph, simplify it, run it
planned; `rewrite`, by which users add their own simplifications; and `mark_dynamic`.

Loaded at the first use: most programs that import tinyt compile nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt import _core

if TYPE_CHECKING:
    from tinyt.compiler.dynamic import mark_dynamic
    from tinyt.compiler.graph import Graph, Node, Value
    from tinyt.compiler.interpreter import interpret
    from tinyt.compiler.passes import simplify
    from tinyt.compiler.recording import Recording, record
    from tinyt.compiler.rewriting import Rewrite, rewrite

__all__ = [
    "Graph",
    "Node",
    "Recording",
    "Rewrite",
    "Value",
    "interpret",
    "mark_dynamic",
    "record",
    "rewrite",
    "simplify",
]

_MODULES = ("dynamic", "graph", "interpreter", "passes", "recording", "rewriting")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in map(import_module, (f"{__name__}.{m}" for m in _MODULES)):
            if name in vars(module):
                globals()[name] = vars(module)[name]
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _simplified(core: _core.Graph) -> _core.Graph:
    after: _core.Graph = import_module(f"{__name__}.lazy").simplified(core)
    return after


_core.set_lazy_simplify(_simplified)
