"""PyTorch's `torch.fx`, to be imported: there are no symbolic traces of modules.

What there is instead: `tinyt.compile` captures functions and modules, `tinyt.compiler.record` gives
the graph, and `tinyt.compiler.rewrite` changes it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tinyt.absent import refusing, refusing_class

T = TypeVar("T")

_HINT = (
    "there are no symbolic traces; tinyt.compile(model).graph() shows what a module does, and "
    "tinyt.compiler.rewrite changes it"
)

symbolic_trace = refusing("fx", "symbolic_trace", _HINT)
replace_pattern = refusing("fx", "replace_pattern", _HINT)
Graph = refusing_class("fx", "Graph", _HINT)
GraphModule = refusing_class("fx", "GraphModule", _HINT)
Interpreter = refusing_class("fx", "Interpreter", _HINT)
Node = refusing_class("fx", "Node", _HINT)
Proxy = refusing_class("fx", "Proxy", _HINT)
Tracer = refusing_class("fx", "Tracer", _HINT)
Transformer = refusing_class("fx", "Transformer", _HINT)


class CodeGen:
    """PyTorch's writer of a graph's source; nothing uses it."""


class ProxyableClassMeta(type):
    """PyTorch's metaclass of classes that a trace may construct: they are constructed."""


def wrap(fn_or_name: Any) -> Any:
    """The function, or its name, itself: a trace would not look into it."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, got "
            f"{type(fn_or_name).__name__}"
        )
    return fn_or_name


def has_side_effect(fn: T) -> T:
    """The function itself."""
    return fn


__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
