"""What the tests of compiled control flow share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tinyt
from tinyt import Tensor, _core, nn
from tinyt._capture import describe
from tinyt.compiler import interpret
from tinyt.compiler.api import compile


def bits(x: Any) -> Any:
    """Of all tensors in a nested value."""
    if isinstance(x, Tensor):
        return x.dtype, x.detach().reshape(-1).contiguous().view(tinyt.uint8).numpy(
            force=True
        ).tobytes()
    if isinstance(x, dict):
        return {key: bits(value) for key, value in x.items()}
    return tuple(map(bits, x)) if isinstance(x, (tuple, list)) else x


def is_same(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Compiles; every call must have eager's bits and one program must do, and the interpreter must
    find its outputs. Returns the function."""
    compiled = compile(function)
    for args in (calls[0], *calls, calls[0]):
        assert bits(compiled(*args)) == bits(function(*args))
    (entry,) = compiled.entries
    for args in calls:
        leaves: list[Any] = []
        describe(args, leaves)
        arguments, given, draws = entry.inputs(leaves)
        assert entry.capture.core.refresh(given)
        found = interpret(entry.capture.graph, arguments, draws)
        program = _core.Program(entry.capture.core, 0)
        again = program.run(arguments, given, draws)
        assert bits(found) == bits(again)
    return compiled


def names(compiled: Any) -> list[str]:
    return [node.op for node in compiled.entries[0].capture.graph.nodes]


class Cell(nn.Module):
    """Long short-term memory, by hand."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.inward = nn.Linear(width, 4 * hidden)
        self.across = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, state: tuple[Tensor, Tensor], x: Tensor) -> Any:
        h, c = state
        i, f, g, o = (self.inward(x) + self.across(h)).chunk(4, -1)
        c = tinyt.sigmoid(f) * c + tinyt.sigmoid(i) * tinyt.tanh(g)
        h = tinyt.sigmoid(o) * tinyt.tanh(c)
        return (h, c), h
