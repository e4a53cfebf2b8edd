"""What a line of Python code reads and writes of objects that live longer than the call.

From byte code, so that it works without sources: names followed by attributes and constant items,
as ``self.config["scale"]``, and attributes of anything else on the line. What goes through a call
of Python code is seen in its own lines.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

LOCAL, GLOBAL, IMPORT = "local", "global", "import"
# An attribute (or, where the name is "", an item) of what is no such chain: `self.parts[i].scale`.
LOOSE = "loose"
_KEPT = 4096  # functions whose code is not read again
# All attributes of what the line comes to, as `f"{x}"` may read; those of a class pattern, by name
# or (name "") by position.
WHOLE, PATTERN = "whole", "pattern"
_ROOTS = {
    "LOAD_FAST": LOCAL,
    "LOAD_DEREF": LOCAL,
    "LOAD_CLOSURE": LOCAL,
    "LOAD_CLASSDEREF": LOCAL,
    "LOAD_FROM_DICT_OR_DEREF": LOCAL,
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
}
# What leaves a value on top of the stack; `x.n += 1` copies x before it reads n.
_NOTHING = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME", "COPY", "DUP_TOP", "DUP_TOP_TWO"}
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
_ITEM = ("BINARY_SUBSCR",)
_FORMATS = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
# These take containers apart that may hold others.
_UNPACKS = ("UNPACK_SEQUENCE", "UNPACK_EX")
_MATCHES = ("MATCH_MAPPING", "MATCH_SEQUENCE")


class Chain(NamedTuple):
    """A name and what is read of it, one after another: ("attr", name) or ("item", key).

    ``stores``: the last step is written, not read.
    """

    kind: str
    name: str
    steps: tuple[tuple[str, Any], ...]
    stores: bool = False


class Reads(NamedTuple):
    """The chains of every line of a function, and the places where a line loads a local that it has
    set itself, as ``o = l[1]; x = o.v`` does: its chains are to be followed there once more."""

    chains: dict[int, tuple[Chain, ...]]
    again: frozenset[int]


_known: dict[CodeType, Reads] = {}


def reads_of(code: CodeType) -> Reads:
    """What a function reads."""
    if code not in _known:
        if len(_known) == _KEPT:
            _known.clear()
        _known[code] = _reads_of(code)
    return _known[code]


def _reads_of(code: CodeType) -> Reads:
    found: dict[int, dict[Chain, None]] = {}
    for line, chain in _chains(code):
        found.setdefault(line, {})[chain] = None
    if any(instruction.opname in _MATCHES for instruction in dis.get_instructions(code)):
        for chains in found.values():
            chains[Chain(LOOSE, "", ())] = None
    return Reads({line: tuple(chains) for line, chains in found.items()}, frozenset(_again(code)))


def _again(code: CodeType) -> Iterator[int]:
    line, stored = None, set[str]()
    for instruction in dis.get_instructions(code):
        number = _line(instruction)
        if number is not None and number != line:
            line, stored = number, set()
        if any(name in stored for _, name in _roots(instruction)):
            yield instruction.offset
        stored.update(_stored(instruction))


def _chains(code: CodeType) -> Iterator[tuple[int, Chain]]:
    line, kind, name = code.co_firstlineno, "", ""
    steps: list[tuple[str, Any]] = []
    constants: list[Any] = []  # the last two: the key of an item, what an import takes
    module = ""
    for instruction in dis.get_instructions(code):
        op, value = instruction.opname, instruction.argval
        if op in _NOTHING and not instruction.is_jump_target:
            continue
        number = _line(instruction)
        if op in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants = [*constants[-1:], value]
            continue
        starts = _roots(instruction)
        if kind and instruction.is_jump_target:  # of either branch: `(a.b if c else d.e).v`
            yield line, Chain(kind, name, tuple(steps))
            kind = ""
        if kind:
            if op in _ATTRIBUTES and not constants:
                steps.append(("attr", value))
                continue
            if constants and _is_item(instruction):
                steps.append(("item", constants[-1]))
                constants = []
                continue
            if op in ("STORE_ATTR", "DELETE_ATTR"):
                yield line, Chain(kind, name, (*steps, ("attr", value)), stores=True)
            elif op in ("STORE_SUBSCR", "DELETE_SUBSCR") and constants:
                yield line, Chain(kind, name, (*steps, ("item", constants[-1])), stores=True)
            yield line, Chain(kind, name, tuple(steps))
            if _is_item(instruction):  # with a key that is computed
                yield line, Chain(LOOSE, "", ())
            elif op in _ATTRIBUTES:  # of a constant
                yield line, Chain(LOOSE, value, ())
            kind = ""
        elif op in _ATTRIBUTES or op in ("STORE_ATTR", "DELETE_ATTR"):
            yield number or line, Chain(LOOSE, value, ())
        elif _is_item(instruction):
            yield number or line, Chain(LOOSE, "", ())
        if op == "IMPORT_NAME":
            level, names = constants[-2:]
            module = "." * level + (value if names or level else value.partition(".")[0])
        for chain in _others(code, op, value, constants, module):
            yield number or line, chain
        constants = []
        for i, (root_kind, root) in enumerate(starts):
            line = number or line
            if i + 1 < len(starts):
                yield line, Chain(root_kind, root, ())
            else:
                kind, name, steps = root_kind, root, []
    if kind:
        yield line, Chain(kind, name, tuple(steps))


def _others(
    code: CodeType, op: str, value: Any, constants: list[Any], module: str
) -> Iterator[Chain]:
    """What an instruction reads or writes besides chains; ``module`` is what was imported last."""
    if op in ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL"):
        where = GLOBAL if op.endswith("GLOBAL") else LOCAL
        if where == GLOBAL or value in code.co_freevars:
            yield Chain(where, value, (), stores=True)
    elif op in _UNPACKS:
        yield Chain(LOOSE, "", ())
    elif op in _FORMATS:
        yield Chain(WHOLE, "", ())
    elif op == "MATCH_CLASS":
        for pattern in ("", *(constants[-1] if constants else ())):
            yield Chain(PATTERN, pattern, ())
    elif op == "IMPORT_NAME":
        yield Chain(IMPORT, module, ())
    elif op == "IMPORT_FROM":
        yield Chain(IMPORT, module, (("attr", value),))


def _line(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    return positions.lineno if positions is not None else instruction.starts_line


def _is_item(instruction: dis.Instruction) -> bool:
    if instruction.opname in _ITEM:
        return True
    return instruction.opname == "BINARY_OP" and instruction.argrepr == "[]"


def _roots(instruction: dis.Instruction) -> list[tuple[str, str]]:
    """The names that an instruction loads: newer versions load two at once."""
    op = instruction.opname
    if op == "STORE_FAST_LOAD_FAST":
        return [(LOCAL, instruction.argval[1])]
    kind = _ROOTS.get("LOAD_FAST" if op.startswith("LOAD_FAST") else op)
    return [(kind, name) for name in _names(instruction)] if kind else []


def _stored(instruction: dis.Instruction) -> list[str]:
    """The locals that an instruction sets."""
    op = instruction.opname
    if op == "STORE_FAST_LOAD_FAST":
        return [instruction.argval[0]]
    return _names(instruction) if op.startswith("STORE_FAST") or op == "STORE_DEREF" else []


def _names(instruction: dis.Instruction) -> list[str]:
    names = instruction.argval
    return [
        name for name in (names if isinstance(names, tuple) else (names,)) if isinstance(name, str)
    ]
