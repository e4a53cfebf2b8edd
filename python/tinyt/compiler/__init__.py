"""What `tinyt.compile` is built of: capture a function, interpret its graph, simplify it, run it
planned; `rewrite`, by which users add their own simplifications; `mark_dynamic`; and PyTorch's
switches of `torch.compiler` (`is_compiling`, `disable` and the like).

Loaded at the first use: most programs that import tinyt compile nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt import _core
from tinyt.compiler.api import compile

if TYPE_CHECKING:
    from tinyt.compiler.capture.cache import set_cache_dir
    from tinyt.compiler.capture.dynamic import mark_dynamic
    from tinyt.compiler.capture.recording import Recording, record
    from tinyt.compiler.graph.graph import Graph, Node, Value
    from tinyt.compiler.graph.interpreter import interpret
    from tinyt.compiler.graph.parse import GraphSyntaxError, parse
    from tinyt.compiler.passes import simplify
    from tinyt.compiler.rewriting import Rewrite, rewrite
    from tinyt.compiler.saved.load import LoadedFunction, load
    from tinyt.compiler.switches import (
        allow_in_graph,
        assume_constant_result,
        cudagraph_mark_step_begin,
        disable,
        is_compiling,
        is_dynamo_compiling,
        is_exporting,
        list_backends,
        reset,
        set_enable_guard_collectives,
        set_stance,
        substitute_in_graph,
        wrap_numpy,
    )

__all__ = [
    "Graph",
    "GraphSyntaxError",
    "LoadedFunction",
    "Node",
    "Recording",
    "Rewrite",
    "Value",
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "interpret",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "load",
    "mark_dynamic",
    "parse",
    "record",
    "reset",
    "rewrite",
    "set_cache_dir",
    "set_enable_guard_collectives",
    "set_stance",
    "simplify",
    "substitute_in_graph",
    "wrap_numpy",
]

# What each module has of these; it is loaded when one of them is first asked for.
_NAMES = {
    "capture.cache": ("set_cache_dir",),
    "capture.dynamic": ("mark_dynamic",),
    "capture.recording": ("Recording", "record"),
    "graph.graph": ("Graph", "Node", "Value"),
    "graph.interpreter": ("interpret",),
    "graph.parse": ("GraphSyntaxError", "parse"),
    "passes": ("simplify",),
    "rewriting": ("Rewrite", "rewrite"),
    "saved.load": ("LoadedFunction", "load"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = import_module(f"{__name__}.{_MODULES.get(name, 'switches')}")
        globals()[name] = vars(module)[name]
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _simplified(core: _core.Graph) -> _core.Graph:
    after: _core.Graph = import_module(f"{__name__}.passes.lazy").simplified(core)
    return after


_core.set_lazy_simplify(_simplified)
