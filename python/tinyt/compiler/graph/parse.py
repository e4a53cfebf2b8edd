"""`tinyt.compiler.parse`: graphs that were written as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.graph.build import Builder
from tinyt.compiler.graph.expand import check_calls
from tinyt.compiler.graph.syntax import Syntax
from tinyt.compiler.graph.tokens import GraphSyntaxError
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tinyt.compiler.graph.graph import Graph

__all__ = ["GraphSyntaxError", "parse"]


def parse(text: str, tensors: Mapping[str, Tensor] | None = None) -> Graph:
    """The graph of a text, as `Graph.text` writes it or a person does (docs/graph-text.md).

    Args:
        text: a version, statements and results. Nothing in it is executed, and nothing is
            allocated but its constants.
        tensors: the memory that ``tensor "name"`` reads and ``write`` writes, by name: contiguous
            tensors that are no views, each in memory of its own.

    Raises:
        GraphSyntaxError: a text that is no graph, with line and column: a wrong word, a shape or
            dtype other than the op makes, operands that an op does not take, a tensor that is
            missing.
        TypeError: no text, or no mapping of tensors.

    >>> import tinyt
    >>> graph = tinyt.compiler.parse('''
    ... tinyt graph 1
    ... %x = argument 0 : float32[2]
    ... %y = mul(%x, %x) : float32[2]
    ... return %y
    ... ''')
    >>> (y,) = tinyt.compiler.interpret(graph, [tinyt.tensor([2.0, 3.0])])
    >>> y.tolist()
    [4.0, 9.0]
    """
    if not isinstance(text, str):
        raise TypeError(f"parse: expected a text, got {type(text).__name__}")
    given = dict(tensors or {})
    for name, x in given.items():
        if not isinstance(name, str) or not isinstance(x, Tensor):
            raise TypeError(f"parse: tensors must map names to tensors, got {name!r:.80}")
    syntax = Syntax(text)
    body = syntax.read()
    check_calls(body, syntax.definitions)
    return Builder(body, syntax.definitions, given, None, syntax.live, syntax.holds).build()
