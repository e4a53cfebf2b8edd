"""What simplifies a graph between capture and planning, one pass a file.

A pass takes a graph and gives one that means the same (compiler/interpret.py) to the bit, or the
same object where it finds nothing to do. It takes time linear in the nodes. What a node of control
flow runs is a graph of its own, which all passes go over, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.passes import (
    common,
    constants,
    copies,
    dead,
    expands,
    identities,
    joins,
    permutes,
    rewrites,
    views,
)
from tinyt.compiler.passes.edit import Pass

if TYPE_CHECKING:
    from tinyt.compiler.graph import Graph

PASSES: tuple[tuple[str, Pass], ...] = (
    ("rewrites", rewrites.run),
    ("common", common.run),
    ("copies", copies.run),
    ("identities", identities.run),
    ("views", views.run),
    ("dead", dead.run),
    ("permutes", permutes.run),
    ("joins", joins.run),
    ("expands", expands.run),
    ("constants", constants.run),
    ("common", common.run),
    ("dead", dead.run),
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
