"""Reads graph texts (docs/graph-text.md) into statements. What these mean: build.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyt._tensor import number_of_device
from tinyt.compiler.graph.literals import attribute_float
from tinyt.compiler.graph.statements import (
    Body,
    Definition,
    Hold,
    Live,
    Part,
    Result,
    Statement,
    Type,
    Write,
)
from tinyt.compiler.graph.text import (
    ATTRIBUTES,
    COMPUTED,
    CPU,
    PARTS,
    SOURCES,
    SOURCES_OF_NUMBERS,
    TESTS,
    VERSION,
    default_text,
)
from tinyt.compiler.graph.tokens import Token, number_of, tokens_of
from tinyt.dtypes import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


DTYPES = {t.name: t for t in ALL}
MOST_DIMENSIONS = 64
MOST_NESTING = 16  # of parts of control flow in each other
_MOST_CHARACTERS = 1 << 26
_INPUTS = ("argument", "tensor", "constant", "number", "cell")
_WORDS = {
    *(*_INPUTS, "def", "write", "to", "as", "split", "return", "results", "draws", "live", "hold"),
    *(*SOURCES_OF_NUMBERS, *COMPUTED, *TESTS),
} - set(ATTRIBUTES)
# The attributes of nodes of control flow, as those of the op table.
_FLOW = {
    "scan": [("steps", "i", ""), ("reversed", "b", ""), ("finals", "I", ""), ("stacks", "I", "")],
    "cond": [],
    "while_loop": [("carries", "I", "")],
}


class Syntax:
    """The statements of a text, read from left to right without looking back."""

    def __init__(self, text: str) -> None:
        if len(text) > _MOST_CHARACTERS:
            raise Token("name", "", 1, 1).error(f"a text has at most {_MOST_CHARACTERS} characters")
        self._tokens = tokens_of(text)
        self._next = 0
        self._nesting = 0
        self.definitions: dict[str, Definition] = {}
        self.live: list[Live] = []
        self.holds: list[Hold] = []
        self._calls: list[Token] = []  # what may be defined later

    def read(self) -> Body:
        """The whole text."""
        self._skip_lines()
        for word in ("tinyt", "graph"):
            self._take("name", f'"tinyt graph {VERSION}"', word)
        version = self._peek()
        if self._int() != VERSION:
            raise version.error(f"this version reads graphs of version {VERSION}")
        self._end_line()
        body = self._body(set(), is_top=True)
        if self._peek().kind != "end of text":
            raise self._peek().unexpected("the end of the text")
        for call in self._calls:
            if call.text not in self.definitions:
                raise call.error(f"no op and no definition has the name {call.text!r}")
        return body

    # ---- tokens

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self, kind: str, expected: str = "", text: str = "") -> Token:
        token = self._peek()
        if token.kind != kind or (text and token.text != text):
            raise token.unexpected(expected or f'"{text}"')
        self._next += 1
        return token

    def _mark(self, text: str) -> Token:
        return self._take("mark", "", text)

    def _if(self, text: str) -> bool:
        """Takes a word or mark, if that comes next."""
        token = self._peek()
        found = token.text == text and token.kind in ("mark", "name")
        self._next += found
        return found

    def _skip_lines(self) -> None:
        while self._peek().kind == "end of line":
            self._next += 1

    def _end_line(self) -> None:
        self._take("end of line", "the end of the line")
        self._skip_lines()

    def _int(self, least: int = -(2**63)) -> int:
        token = self._take("number", "an integer")
        value = number_of(token)
        if not isinstance(value, int):
            raise token.unexpected("an integer")
        if value < least:
            raise token.error(f"expected an integer of at least {least}, got {value}")
        return value

    def _list(self, close: str, item: Callable[[], Any]) -> list[Any]:
        """Items with commas between them, up to a mark."""
        found: list[Any] = []
        while not self._if(close):
            if found:
                self._mark(",")
            found.append(item())
        return found

    def _ints(self, least: int = -(2**63)) -> tuple[int, ...]:
        self._mark("[")
        return tuple(self._list("]", lambda: self._int(least)))

    # ---- statements

    def _body(self, known: set[str], is_top: bool = False) -> Body:
        """Statements up to "return"; ``known``: the values that are there before."""
        statements: list[Statement] = []
        writes: list[Write] = []
        while not (self._peek().kind == "name" and self._peek().text == "return"):
            token = self._peek()
            if is_top and token.text == "def":
                self._definition()
            elif is_top and token.text == "write":
                writes.append(self._write(known))
            elif is_top and token.text == "live":
                self._live()
            elif is_top and token.text == "hold":
                self._hold()
            elif is_top and token.text == "split":
                self._next += 1
                statements.append(Statement(token, (), "split", (), (self._int(0),), None))
            else:
                statements.append(self._statement(known))
            self._end_line()
        at = self._take("name")
        returns = []
        if self._peek().kind != "end of line":
            returns.append(self._result(known))
            while self._if(","):
                returns.append(self._result(known))
        self._end_line()
        return Body(statements, writes, returns, at)

    def _live(self) -> None:
        """As in ``live 2 = real_add(0, 1) : 4.0``."""
        self._take("name")
        place = self._peek()
        if self._int(0) != len(self.live):
            raise place.error(f"live numbers are in their order, expected {len(self.live)}")
        self._mark("=")
        at = self._take("name", "given, item, int, real, or an operation on numbers")
        op, left, right, tensor = 5, -1, -1, ""
        if at.text in SOURCES_OF_NUMBERS:
            op += SOURCES_OF_NUMBERS.index(at.text)
            if at.text == "given":
                self._mark("(")
                left = self._int(0)
                self._mark(")")
            elif at.text == "item":
                self._mark("(")
                tensor = self._take("string", 'a name, as in "weight"').text[1:-1]
                self._mark(",")
                left = self._int(0)
                self._mark(")")
        elif at.text in COMPUTED:
            op += len(SOURCES_OF_NUMBERS) + COMPUTED.index(at.text)
            self._mark("(")
            left = self._int(0)
            right = self._int(0) if self._if(",") else -1
            self._mark(")")
        else:
            raise at.unexpected("given, item, int, real, or an operation on numbers")
        self._mark(":")
        value = self._attribute("i" if op == 7 or 9 <= op < 14 else "f")
        self.live.append(Live(at, op, left, right, value, tensor))

    def _hold(self) -> None:
        """As in ``hold 3 lt 2 true``."""
        at = self._take("name")
        left = self._int(0)
        test = self._take("name", ", ".join(TESTS))
        if test.text not in TESTS:
            raise test.unexpected(", ".join(TESTS))
        right = self._int(0)
        self.holds.append(Hold(at, TESTS.index(test.text), left, right, self._attribute("b")))

    def _definition(self) -> None:
        self._take("name")
        name = self._take("name", "a name")
        if name.text in ATTRIBUTES or name.text in PARTS or name.text in _WORDS:
            raise name.error(f"{name.text!r} is an op or a word of the language; take another name")
        if name.text in self.definitions:
            raise name.error(f"{name.text!r} is defined twice")
        self._mark("(")
        parameters = self._list(")", lambda: self._take("value", "a parameter, as in %x"))
        known: set[str] = set()
        for parameter in parameters:
            self._define(parameter, known)
        self._mark("{")
        self._end_line()
        body = self._body(known)
        self._mark("}")
        self.definitions[name.text] = Definition(name, tuple(parameters), body)

    def _write(self, known: set[str]) -> Write:
        self._take("name")
        value = self._value(known)
        self._take("name", "", "to")
        return Write(value, self._value(known))

    def _result(self, known: set[str]) -> Result:
        value = self._value(known)
        if not self._if("as"):
            return Result(value, None)
        self._mark("(")
        shape = self._shape()
        self._mark(",")
        stride = self._ints(0)
        self._mark(",")
        offset = self._int(0)
        self._mark(")")
        if len(shape) != len(stride):
            raise value.error(f"{len(shape)} sizes, but {len(stride)} strides")
        return Result(value, (shape, stride, offset))

    def _value(self, known: set[str]) -> Token:
        token = self._take("value", "a value, as in %x")
        if token.text not in known:
            raise token.error(f"{token.text} is read before it is made")
        return token

    def _define(self, token: Token, known: set[str]) -> None:
        if token.text in known:
            raise token.error(f"{token.text} is made twice")
        known.add(token.text)

    def _statement(self, known: set[str]) -> Statement:
        results = [self._take("value", "a statement")]
        while self._if(","):
            results.append(self._take("value", "a value, as in %x"))
        self._mark("=")
        at = self._take("name", "an op")
        operands: list[Token] = []
        parts: tuple[Part, ...] = ()
        if at.text in _INPUTS:
            if len(results) > 1:
                raise results[1].error(f"{at.text} makes one value")
            attrs = self._payload(at)
            self._mark(":")
            types: tuple[Type, ...] | None = (self._type(),)
        else:
            operands, attrs = self._call(at, known)
            types = self._types() if self._if(":") else None
            parts = self._parts(at) if at.text in PARTS else ()
        for result in results:
            self._define(result, known)
        return Statement(at, tuple(results), at.text, tuple(operands), attrs, types, parts)

    def _payload(self, at: Token) -> tuple[Any, ...]:
        if at.text in ("argument", "cell"):
            return (self._int(0),)
        if at.text == "tensor":
            return (self._take("string", 'a name, as in "weight"').text[1:-1],)
        if at.text == "number":
            return (self._element(),)
        self._mark("[")
        return (self._list("]", self._element),)

    def _element(self) -> Any:
        """A number, true or false, or a complex number as a pair."""
        if self._if("("):
            real = number_of(self._take("number", "a number"))
            self._mark(",")
            imaginary = number_of(self._take("number", "a number"))
            self._mark(")")
            return real, imaginary
        token = self._peek()
        if token.kind == "name" and token.text in ("true", "false"):
            self._next += 1
            return token.text == "true"
        return number_of(self._take("number", "a number"))

    def _types(self) -> tuple[Type, ...]:
        found = [self._type()]
        while self._if(","):
            found.append(self._type())
        return tuple(found)

    def _type(self) -> Type:
        token = self._take("name", "a type, as in float32[2, 3]")
        if token.text not in DTYPES:
            raise token.error(f"expected a dtype, got {token.text!r}", "a dtype")
        shape = self._shape()
        device = self._device() if self._peek().kind == "device" else CPU
        return Type(DTYPES[token.text], shape, device, token)

    def _shape(self) -> tuple[int, ...]:
        at = self._peek()
        shape = self._ints(0)
        if len(shape) > MOST_DIMENSIONS:
            raise at.error(f"a shape has at most {MOST_DIMENSIONS} dimensions, got {len(shape)}")
        return shape

    def _device(self) -> int:
        token = self._take("device", "a device, as in @cpu")
        try:
            return number_of_device(token.text[1:])
        except (RuntimeError, ValueError) as error:
            message = str(error)
        raise token.error(message)

    # ---- operands and attributes

    def _call(self, at: Token, known: set[str]) -> tuple[list[Token], tuple[Any, ...]]:
        rows = ATTRIBUTES.get(at.text, _FLOW.get(at.text))
        if rows is None:
            self._calls.append(at)
        self._mark("(")
        operands: list[Token] = []
        given: dict[str, Any] = {}
        kinds = {name: kind for name, kind, _ in rows or ()}

        def item() -> None:
            if self._peek().kind == "value" and not given:
                operands.append(self._value(known))
                return
            name = self._take("name", "a value or an attribute")
            if name.text not in kinds:
                raise name.error(f"{at.text} has no attribute {name.text!r}")
            if name.text in given:
                raise name.error(f"the attribute {name.text} is given twice")
            self._mark("=")
            given[name.text] = self._attribute(kinds[name.text])

        self._list(")", item)
        return operands, self._with_defaults(at, rows or (), given)

    def _with_defaults(
        self, at: Token, rows: Sequence[tuple[str, str, str]], given: dict[str, Any]
    ) -> tuple[Any, ...]:
        found = []
        for name, kind, default in rows:
            if name not in given:
                text = default_text(kind, default)
                if not text:
                    raise at.error(f"{at.text} needs the attribute {name}", name)
                reader = Syntax(text)
                given[name] = reader._attribute(kind)
            found.append(given[name])
        return tuple(found)

    def _attribute(self, kind: str) -> Any:
        """The value of an attribute, of a kind of the op table."""
        token = self._peek()
        if kind == "I":
            return self._ints()
        if kind == "i":
            return self._int()
        if kind == "d":
            return self._device()
        if kind == "f":
            try:
                return attribute_float(number_of(self._take("number", "a number")))
            except OverflowError:
                raise token.error("these are not the bits of a float64 NaN") from None
        word = self._take("name", "true or false" if kind == "b" else "a dtype").text
        if kind == "b" and word in ("true", "false"):
            return word == "true"
        if kind == "t" and word in DTYPES:
            return DTYPES[word].number
        raise token.unexpected("true or false" if kind == "b" else "a dtype")

    # ---- control flow

    def _parts(self, at: Token) -> tuple[Part, ...]:
        self._nesting += 1
        if self._nesting > MOST_NESTING:
            raise at.error(f"control flow is nested at most {MOST_NESTING} deep")
        self._mark("{")
        self._end_line()
        found = []
        for name in PARTS[at.text]:
            found.append(self._part(name, at.text == "cond"))
            self._end_line()
        self._mark("}")
        self._nesting -= 1
        return tuple(found)

    def _part(self, name: str, has_results: bool) -> Part:
        at = self._take("name", "", name)
        self._mark("(")
        sources = self._list(")", self._source)
        draws: tuple[int, ...] = ()
        if self._if("draws"):
            place = self._peek()
            draws = self._ints(0)
            if len(draws) % 3:
                raise place.error("draws are rows of generator, first counter and count")
        results: tuple[int, ...] = ()
        if has_results:
            self._take("name", "", "results")
            results = self._ints(-2)
        self._mark("{")
        self._end_line()
        body = self._body(set())
        self._mark("}")
        rows = [(a, b, c) for a, b, c in zip(draws[::3], draws[1::3], draws[2::3], strict=True)]
        return Part(at, tuple(sources), tuple(rows), results, body)

    def _source(self) -> tuple[int, int, int]:
        words = list(SOURCES)
        token = self._take("name", "where an argument lies")
        if token.text not in SOURCES:
            raise token.unexpected(", ".join(words))
        # A carry of while_loop is no result of the step before: -1.
        places = [self._int(-i) for i in range(SOURCES[token.text])]
        first, second = (*places, -1, -1)[:2]
        return words.index(token.text), first, second
