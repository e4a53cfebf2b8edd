"""What programs import from PyTorch's `torch._dynamo`: the switches of `tinyt.compiler`."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt._dynamo import config
from tinyt.compiler.api import compile
from tinyt.compiler.capture.dynamic import mark_dynamic
from tinyt.compiler.switches import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "explain",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "optimize",
    "reset",
]


def optimize(backend: Any = "inductor", *, nopython: bool = False, disable: bool = False) -> Any:
    """`tinyt.compile` as a decorator."""
    return compile(backend=backend, fullgraph=nopython, disable=disable)


def graph_break(msg: str = "") -> None:
    """Does nothing: a program is whole."""


def disallow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def explain(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: a compiled function explains itself."""
    raise NotImplementedError(
        "_dynamo.explain: call tinyt.compile(f), then its explain() and report()"
    )
