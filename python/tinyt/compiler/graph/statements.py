"""Statements of graph texts (docs/graph-text.md), as syntax.py reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tinyt._tensor import dtype
    from tinyt.compiler.graph.tokens import Token


class Type(NamedTuple):
    """A shape, dtype and device as a text says it, and where."""

    dtype: dtype
    shape: tuple[int, ...]
    device: int
    at: Token


class Result(NamedTuple):
    """A returned value; (shape, stride, offset) where it lies otherwise than dense."""

    value: Token
    geometry: tuple[tuple[int, ...], tuple[int, ...], int] | None


class Part(NamedTuple):
    """A graph that a node of control flow runs; ``sources`` and ``draws`` as rows of three
    numbers, ``results`` of a branch."""

    at: Token
    sources: tuple[tuple[int, int, int], ...]
    draws: tuple[tuple[int, int, int], ...]
    results: tuple[int, ...]
    body: Body


class Statement(NamedTuple):
    """``results = op(operands, attrs) : types``. Of inputs ``attrs`` are the payload, of a split
    the count of results."""

    at: Token
    results: tuple[Token, ...]
    op: str
    operands: tuple[Token, ...]
    attrs: tuple[Any, ...]
    types: tuple[Type, ...] | None
    parts: tuple[Part, ...] = ()


class Write(NamedTuple):
    """A value, and the input that it is written to."""

    value: Token
    target: Token


class Live(NamedTuple):
    """A number that is read anew at every run: its operation in the core, what it is of, and its
    value; of an item the tensor's name."""

    at: Token
    op: int
    left: int
    right: int
    value: float
    tensor: str


class Hold(NamedTuple):
    """What must hold of two numbers."""

    at: Token
    test: int
    left: int
    right: int
    outcome: bool


class Body(NamedTuple):
    """Statements, and what is written and returned in the end; ``at`` is the "return"."""

    statements: list[Statement]
    writes: list[Write]
    returns: list[Result]
    at: Token


class Definition(NamedTuple):
    """A function of values that calls stand for."""

    at: Token
    parameters: tuple[Token, ...]
    body: Body
