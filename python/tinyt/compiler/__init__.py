"""What `tinyt.compile` is built of: capture a function, interpret its graph, simplify it, run it
planned; `rewrite`, by which users add their own simplifications; and `mark_dynamic`.
"""

from __future__ import annotations

from tinyt import _core
from tinyt.compiler.dynamic import mark_dynamic
from tinyt.compiler.graph import Graph, Node, Value
from tinyt.compiler.interpret import interpret
from tinyt.compiler.lazy import simplified
from tinyt.compiler.passes import simplify
from tinyt.compiler.record import Recording, record
from tinyt.compiler.rewrite import Rewrite, rewrite

_core.set_lazy_simplify(simplified)

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
