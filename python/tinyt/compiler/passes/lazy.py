"""What `tinyt.lazy` plans of a recorded region: the same graph, simplified."""

from __future__ import annotations

from tinyt import _core
from tinyt.compiler.graph.graph import Graph
from tinyt.compiler.passes import simplify


def simplified(core: _core.Graph) -> _core.Graph:
    """A finished recording as passes leave it."""
    return simplify(Graph.from_core(core)).to_core()
