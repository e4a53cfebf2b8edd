"""Expressions as trees: text to evaluate and to print, and smaller trees to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

# What an argument is exchanged for, where that is shorter.
SIMPLE = ("0", "1", "None", "''", "[]", "()", "tinyt.ones(2)", "tinyt.ones(2, 3)")


@dataclass(frozen=True)
class Expr:
    """``head items tail``, the items with their prefixes (``""`` or ``"name="``) between commas."""

    head: str
    items: tuple[tuple[str, Expr], ...] = ()
    tail: str = ""

    def text(self) -> str:
        inside = ", ".join(prefix + item.text() for prefix, item in self.items)
        return f"{self.head}{inside}{self.tail}"


def call(function: str, *args: Expr, **kwargs: Expr) -> Expr:
    named = tuple((f"{name}=", value) for name, value in kwargs.items())
    return Expr(f"{function}(", tuple(("", x) for x in args) + named, ")")


def sequence(items: list[Expr], kind: type = list) -> Expr:
    """A list or tuple."""
    open_, close = ("[", "]") if kind is list else ("(", ",)" if len(items) == 1 else ")")
    return Expr(open_, tuple(("", x) for x in items), close)


def smaller(expr: Expr) -> Iterator[Expr]:
    """Trees with a shorter text: less items, an item in the place of the whole, a simple leaf."""
    size = len(expr.text())
    for found in _smaller(expr, top=True):
        if len(found.text()) < size:
            yield found


def _smaller(expr: Expr, top: bool = False) -> Iterator[Expr]:
    if not top:
        yield from (Expr(text) for text in SIMPLE)
    for _, item in expr.items:
        if item.tail == ")" and "(" in item.head:
            yield item
    for i in range(len(expr.items)):
        yield replace(expr, items=expr.items[:i] + expr.items[i + 1 :])
    for i, (prefix, item) in enumerate(expr.items):
        for other in _smaller(item):
            yield replace(expr, items=(*expr.items[:i], (prefix, other), *expr.items[i + 1 :]))
