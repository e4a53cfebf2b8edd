"""Expands the calls of a graph text into steps over numbered values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tinyt.compiler.graph.statements import Body, Definition, Part, Statement, Type
    from tinyt.compiler.graph.tokens import Token

MOST_STEPS = 1 << 17  # of a text after expansion
MOST_CALLS = 64  # in each other
_INPUTS = ("argument", "tensor", "constant", "number", "cell")
Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


class Input(NamedTuple):
    """A value from outside; ``payload`` is an argument's number, a name, or elements."""

    at: Token
    op: str
    value: int
    payload: tuple[Any, ...]
    type: Type


class Step(NamedTuple):
    """An op or a node of control flow; ``said`` are types that the text gives of values."""

    at: Token
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attrs: tuple[Any, ...]
    parts: tuple[Part, ...]
    said: tuple[tuple[int, Type], ...]


class Split(NamedTuple):
    """The first step and input of what runs later, and how many results come before that."""

    at: Token
    step: int
    inputs: int
    results: int


class Program(NamedTuple):
    """A body without calls, and how many values it has. ``constants`` and ``numbers`` are values of
    inputs; ``writes`` are (value, target, place), ``returns`` (value, geometry or None, place)."""

    at: Token
    values: int
    inputs: list[Input]
    steps: list[Step]
    constants: frozenset[int]
    numbers: frozenset[int]
    writes: list[tuple[int, int, Token]]
    returns: list[tuple[int, Geometry | None, Token]]
    split: Split | None


def check_calls(body: Body, definitions: Mapping[str, Definition]) -> int:
    """How many statements a body has after expansion. GraphSyntaxError where definitions call
    themselves, or are nested too deep or too many."""
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    for name in definitions:
        _measure(name, definitions, sizes, depths)
    return _size(body, sizes)


def _measure(
    name: str, definitions: Mapping[str, Definition], sizes: dict[str, int], depths: dict[str, int]
) -> None:
    """Notes the size and depth of a definition and those it calls, each after these."""
    path: dict[str, None] = {}
    waiting = [name]
    while waiting:
        name = waiting[-1]
        if name in sizes:
            waiting.pop()
            continue
        definition = definitions[name]
        calls = [s for s in _statements(definition.body) if s.op in definitions]
        if name in path:  # all that it calls is known
            del path[name]
            sizes[name] = _size(definition.body, sizes)
            depths[name] = 1 + max([depths[s.op] for s in calls], default=0)
            if depths[name] > MOST_CALLS:
                raise definition.at.error(f"calls are nested at most {MOST_CALLS} deep")
            continue
        path[name] = None
        for s in calls:
            if s.op in path:
                names = list(path)
                cycle = " -> ".join([*names[names.index(s.op) :], s.op])
                raise s.at.error(f"a definition calls itself: {cycle}")
            waiting.append(s.op)


def _statements(body: Body) -> Iterator[Statement]:
    """Those of a body, and of parts of control flow in it."""
    for s in body.statements:
        yield s
        for part in s.parts:
            yield from _statements(part.body)


def _size(body: Body, sizes: Mapping[str, int]) -> int:
    total = 0
    for s in _statements(body):
        total += sizes.get(s.op, 1)
        if total > MOST_STEPS:
            raise s.at.error(f"a text has at most {MOST_STEPS} steps after expansion")
    return total


def expanded(body: Body, definitions: Mapping[str, Definition]) -> Program:
    """A body with the statements of definitions in the place of calls."""
    expansion = _Expansion(definitions)
    known: dict[str, int] = {}
    for statement in body.statements:
        if statement.op == "split":
            expansion.split_at(statement)
        else:
            expansion.add(statement, known, is_top=True)
    inputs = expansion.inputs
    return Program(
        body.at,
        expansion.values,
        inputs,
        expansion.steps,
        frozenset(x.value for x in inputs if x.op in ("constant", "number", "cell")),
        frozenset(x.value for x in inputs if x.op in ("number", "cell")),
        [(known[w.value.text], known[w.target.text], w.value) for w in body.writes],
        [(known[r.value.text], r.geometry, r.value) for r in body.returns],
        expansion.split,
    )


class _Expansion:
    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self.definitions = definitions
        self.values = 0
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.names: set[str] = set()
        self.split: Split | None = None

    def split_at(self, statement: Statement) -> None:
        if self.split is not None:
            raise statement.at.error("a text is split once")
        self.split = Split(statement.at, len(self.steps), len(self.inputs), statement.attrs[0])

    def add(self, statement: Statement, known: dict[str, int], is_top: bool = False) -> None:
        """Appends a statement; ``known`` gets its results."""
        at, results, op, operands, attrs, types, parts = statement
        if op in _INPUTS:
            if not is_top and op in ("argument", "tensor", "cell"):
                raise at.error("a definition takes values; its body has no argument or tensor")
            if op == "tensor" and attrs[0] in self.names:
                raise at.error(f"the tensor {attrs[0]!r} is there twice")
            self.names.update(attrs if op == "tensor" else ())
            assert types is not None
            value = known[results[0].text] = self._new()
            self.inputs.append(Input(at, op, value, attrs, types[0]))
            return
        read = tuple([known[x.text] for x in operands])
        if types is not None and len(types) != len(results):
            raise at.error(f"{len(results)} values, but {len(types)} types")
        if op in self.definitions:
            made = self._call(statement, read)
        else:
            made = tuple([self._new() for _ in results])
        said = tuple(zip(made, types or (), strict=False))
        if op not in self.definitions:
            self.steps.append(Step(at, op, read, made, attrs, parts, said))
        elif said and self.steps:
            last = self.steps[-1]
            self.steps[-1] = last._replace(said=(*last.said, *said))
        known.update((x.text, v) for x, v in zip(results, made, strict=True))

    def _call(self, statement: Statement, read: tuple[int, ...]) -> tuple[int, ...]:
        at, definition = statement.at, self.definitions[statement.op]
        names = [x.text for x in definition.parameters]
        if len(read) != len(names):
            raise at.error(f"{at.text} takes {len(names)} values, got {len(read)}")
        known = dict(zip(names, read, strict=True))
        for inner in definition.body.statements:
            self.add(inner, known)
        for result in definition.body.returns:
            if result.geometry is not None:
                raise result.value.error("a definition returns dense values")
        made = tuple([known[r.value.text] for r in definition.body.returns])
        if len(made) != len(statement.results):
            raise at.error(f"{at.text} makes {len(made)} values, not {len(statement.results)}")
        return made

    def _new(self) -> int:
        self.values += 1
        return self.values - 1
