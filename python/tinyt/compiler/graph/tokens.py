"""Tokens of graph texts, and the error that says where a text is wrong."""

from __future__ import annotations

import re
from typing import NamedTuple

from tinyt.compiler.graph.literals import Nan


class GraphSyntaxError(ValueError):
    r"""A text that is no graph: ``line`` and ``column`` (from 1) of the first thing that is wrong,
    and ``expected``, what may stand there ("" where that is not one thing).

    >>> import tinyt
    >>> tinyt.compiler.parse("tinyt graph 2")
    Traceback (most recent call last):
    tinyt.compiler.graph.tokens.GraphSyntaxError: parse: line 1, column 13: this version reads \
graphs of version 1
    """

    def __init__(self, message: str, line: int, column: int, expected: str = "") -> None:
        super().__init__(f"parse: line {line}, column {column}: {message}")
        self.line, self.column, self.expected = line, column, expected


class Token(NamedTuple):
    """A word of a text: its kind ("name", "value", "number", "string", "device", "mark",
    "end of line", "end of text"), spelling and place."""

    kind: str
    text: str
    line: int
    column: int

    def error(self, message: str, expected: str = "") -> GraphSyntaxError:
        """An error at this place."""
        return GraphSyntaxError(message, self.line, self.column, expected)

    def unexpected(self, expected: str) -> GraphSyntaxError:
        """An error that something else must stand here."""
        shown = self.kind if self.kind.startswith("end") else repr(self.text)
        return self.error(f"expected {expected}, got {shown}", expected)


# No repetition is longer than a token may be, so that reading takes time linear in the text.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+|\#[^\n]*)
  | (?P<newline>\n)
  | (?P<value>%[A-Za-z0-9_]{1,64})
  | (?P<device>@[A-Za-z0-9_]{1,64}(?::[0-9]{1,4})?)
  | (?P<string>"[^"\\\n]{0,256}")
  | (?P<number>(?:nan\(0x[0-9a-f]{1,16}\)
      | [+-]?(?:0x[0-9a-fA-F]{1,32}(?:\.[0-9a-fA-F]{0,32})?p[+-]?[0-9]{1,5}
      | [0-9]{1,32}(?:\.[0-9]{0,32})?(?:[eE][+-]?[0-9]{1,5})?
      | inf|nan))(?![A-Za-z0-9_.]))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})
  | (?P<mark>[=()\[\]{},:])
    """,
    re.VERBOSE,
)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, "end of line" after each line and "end of text" at last."""
    found: list[Token] = []
    at, line, begin = 0, 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        column = at - begin + 1
        if match is None:
            message = f"expected a word, a number or a mark, got {text[at]!r}"
            raise GraphSyntaxError(message, line, column, "a word, a number or a mark")
        kind, at = str(match.lastgroup), match.end()
        if kind == "newline":
            found.append(Token("end of line", "", line, column))
            line, begin = line + 1, at
        elif kind != "space":
            found.append(Token(kind, match[0], line, column))
    place = line, at - begin + 1
    return [*found, Token("end of line", "", *place), Token("end of text", "", *place)]


def number_of(token: Token) -> int | float:
    """What a number is; an error where no int64 and no float64 holds it."""
    text = token.text
    if text.startswith("nan("):
        return Nan(int(text[4:-1], 16))
    digits = text.lstrip("+-")
    if digits.isdigit():
        whole = int(text)
        if not -(2**63) <= whole < 2**63:
            raise token.error(f"an integer must fit in 64 bits, got {text}")
        return whole
    try:
        value = float.fromhex(text) if "x" in text else float(text)
    except OverflowError:
        value = float("inf")
    if value in (float("inf"), -float("inf")) and digits != "inf":
        raise token.error(f"a float must fit in 64 bits, got {text}")
    return value
