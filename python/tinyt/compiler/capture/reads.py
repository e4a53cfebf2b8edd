"""Reads of Python code by lines: chains of names, attributes and constant items, from byte code.

A line such as ``x * self.config["scale"]`` has the chains ``x`` and ``self.config["scale"]``. What
a line reads of anything else, as ``scale`` of ``self.parts[i].scale``, is a loose name. Writes
count as reads: the guard then shows that the call has changed the place.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

LOCAL, GLOBAL = "local", "global"
LOOSE = "loose"  # an attribute of another value on the line or, where the name is "", an item
_ROOTS = {
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "STORE_DEREF"), LOCAL),
    **dict.fromkeys(("LOAD_FAST", "LOAD_FROM_DICT_OR_DEREF"), LOCAL),
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"), GLOBAL),
}
# Instructions that leave a value on top of the stack; `x.n += 1` copies x before it reads n.
_NOTHING = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "RESUME", "COPY", "DUP_TOP", "DUP_TOP_TWO"}
_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_LOAD_ATTR = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
_STORE_ATTR = ("STORE_ATTR", "DELETE_ATTR")
_STORE_ITEM = ("STORE_SUBSCR", "DELETE_SUBSCR")
_UNPACKS = ("UNPACK_SEQUENCE", "UNPACK_EX")
_MATCHES = ("MATCH_MAPPING", "MATCH_SEQUENCE")
_BY_NAME = ("getattr", "hasattr", "setattr", "delattr")  # with a constant name, as `x.name`


class Chain(NamedTuple):
    """A name, and the steps ("attr", name) or ("item", key) that a line goes from its value."""

    kind: str
    name: str
    steps: tuple[tuple[str, Any], ...] = ()


class Reads(NamedTuple):
    """The chains of a function by lines; ``again``: offsets of instructions that load a local which
    their line has set, as ``o = l[1]; x = o.v``, where the chains are to be followed once more."""

    chains: dict[int, tuple[Chain, ...]]
    again: frozenset[int]


_known: dict[CodeType, Reads] = {}
_MOST_KNOWN = 4096


def reads_of(code: CodeType) -> Reads:
    """The reads of a function's code, found once."""
    if code not in _known:
        if len(_known) == _MOST_KNOWN:
            _known.clear()
        _known[code] = _reads_of(code)
    return _known[code]


def _reads_of(code: CodeType) -> Reads:
    found: dict[int, dict[Chain, None]] = {}
    for line, chain in _chains(code):
        found.setdefault(line, {})[chain] = None
    if any(instruction.opname in _MATCHES for instruction in dis.get_instructions(code)):
        for chains in found.values():
            chains[Chain(LOOSE, "")] = None
    return Reads({line: tuple(chains) for line, chains in found.items()}, frozenset(_again(code)))


def _again(code: CodeType) -> Iterator[int]:
    """Offsets of instructions that load a local which their line has set."""
    line, stored = None, set[str]()
    for instruction in dis.get_instructions(code):
        number = _line(instruction)
        if number is not None and number != line:
            line, stored = number, set()
        if any(name in stored for _, name in _roots(instruction)):
            yield instruction.offset
        stored.update(_stored(instruction))


def _chains(code: CodeType) -> Iterator[tuple[int, Chain]]:
    """The chains of a function with their lines, in the order of its instructions."""
    line, kind, name = code.co_firstlineno, "", ""
    steps: list[tuple[str, Any]] = []
    constants: list[Any] = []  # loaded by the instructions just before
    by_name = False  # whether this line has getattr or its like
    for instruction in dis.get_instructions(code):
        op, number = instruction.opname, _line(instruction)
        if op in _NOTHING and not instruction.is_jump_target:
            continue
        if op in _CONSTANTS:
            constants.append(instruction.argval)
            continue
        if kind and instruction.is_jump_target:  # of either branch: `(a.b if c else d.e).v`
            yield line, Chain(kind, name, tuple(steps))
            kind = ""
        step = _step(instruction, constants, by_name)
        followed = step if kind and step is not None and step[1] is not None else None
        if followed is not None and (op in _LOAD_ATTR or _is_item(instruction)):
            steps.append(followed)
            constants = []
            continue
        if kind:
            yield line, Chain(kind, name, tuple(steps))
        if followed is not None:
            yield line, Chain(kind, name, (*steps, followed))
        elif step is not None:
            loose = Chain(LOOSE, step[1] if step[0] == "attr" else "")
            yield (line if kind else number or line), loose
        by_name = by_name and number in (None, line)
        kind, constants = "", []
        for root in _roots(instruction):
            line = number or line
            if kind:
                yield line, Chain(kind, name)
            (kind, name), steps = root, []
            by_name = by_name or (kind == GLOBAL and name in _BY_NAME)
    if kind:
        yield line, Chain(kind, name, tuple(steps))


def _step(
    instruction: dis.Instruction, constants: Sequence[Any], by_name: bool
) -> tuple[str, Any] | None:
    """The step that an instruction goes from the value below ``constants``; ("item", None) where
    the key is computed."""
    op = instruction.opname
    if op in _LOAD_ATTR or op in _STORE_ATTR:
        return None if constants else ("attr", instruction.argval)  # not of a constant
    if _is_item(instruction) or op in _STORE_ITEM or op in _UNPACKS:
        return "item", constants[-1] if constants else None
    is_named = by_name and constants and isinstance(constants[0], str)
    return ("attr", constants[0]) if is_named else None


def _line(instruction: dis.Instruction) -> int | None:
    """The line of an instruction; None where it has none."""
    positions = getattr(instruction, "positions", None)
    return positions.lineno if positions is not None else instruction.starts_line


def _is_item(instruction: dis.Instruction) -> bool:
    """Whether an instruction reads an item."""
    is_binary = instruction.opname == "BINARY_OP" and instruction.argrepr == "[]"
    return instruction.opname == "BINARY_SUBSCR" or is_binary


def _roots(instruction: dis.Instruction) -> list[tuple[str, str]]:
    """The names that an instruction loads, with their kinds: newer versions load two at once."""
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
    """The variables that an instruction names."""
    names = instruction.argval
    return [
        name for name in (names if isinstance(names, tuple) else (names,)) if isinstance(name, str)
    ]
