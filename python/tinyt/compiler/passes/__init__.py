"""What simplifies a graph between capture and planning, one pass a file.

A pass takes a graph and gives one that means the same (compiler/graph/interpreter.py) to the bit,
or the same object where it finds nothing to do. It takes time linear in the nodes. What a node of
control flow runs is a graph of its own, which all passes go over, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinyt.compiler.graph.graph import Graph
    from tinyt.compiler.passes.edit import Pass


def _pass(name: str) -> tuple[str, Pass]:
    """A module's ``run``. Most programs that import tinyt compile nothing: it is loaded then."""
    loaded: list[Pass] = []

    def run(graph: Graph) -> Graph:
        if not loaded:
            loaded.append(import_module(f"{__name__}.{name}").run)
        return loaded[0](graph)

    return name, run


PASSES: tuple[tuple[str, Pass], ...] = (
    _pass("rewrites"),
    _pass("decompose"),
    _pass("common"),
    _pass("copies"),
    _pass("identities"),
    _pass("views"),
    _pass("dead"),
    _pass("permutes"),
    _pass("sink"),
    _pass("copies"),
    _pass("joins"),
    _pass("expands"),
    _pass("constants"),
    _pass("addends"),
    _pass("common"),
    _pass("dead"),
)


def simplify(graph: Graph) -> Graph:
    """The graph after all passes, checked after each one that changed it."""
    for _, run in PASSES:
        after = everywhere(run, graph)
        if after is not graph:
            after.verify()
            graph = after
    return graph


def everywhere(run: Pass, graph: Graph) -> Graph:
    """The graph after a pass over it, and over what its nodes of control flow run."""
    after = run(graph)
    for i, parts in after.inside.items():
        made = tuple([everywhere(run, part) for part in parts])
        if any([now is not was for now, was in zip(made, parts, strict=True)]):
            after = after._replace(inside={**after.inside, i: made})
    return after
