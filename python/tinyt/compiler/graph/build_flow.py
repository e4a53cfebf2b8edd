"""Control flow of graph texts: checks where arguments lie, which the core believes, and records."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tinyt import _core
from tinyt.compiler.graph.text import SOURCES
from tinyt.dtypes import bool as bool_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.expand import Step
    from tinyt.compiler.graph.graph import Graph, Value
    from tinyt.compiler.graph.statements import Part
    from tinyt.compiler.graph.tokens import Token
    from tinyt.tensor import Tensor

Kind = tuple[Any, ...]  # (shape, dtype, device)
_MOST_STEPS = 1 << 40
_NONE, _WHOLE, _SLICE, _CARRY, _NEXT = range(len(SOURCES))
_ALLOWED = {
    "scan": {_NONE, _WHOLE, _SLICE, _CARRY, _NEXT},
    "cond": {_NONE, _WHOLE},
    "while_loop": {_NONE, _WHOLE, _CARRY},
}


def check_draws(at: Token, draw: Sequence[int], generators: int) -> None:
    """Of a random op: which generator, and the first counter."""
    generator, first = draw
    if not 0 <= generator < generators or not 0 <= first < 2**62:
        raise at.error(
            f"draws are from one of {generators} generators, at a counter of at least 0; got "
            f"generator {generator} and counter {first}"
        )


def check_flow(
    step: Step, parts: Sequence[Graph], operands: Sequence[Kind], generators: int
) -> list[Kind]:
    """The geometries of the results; an error where operands, generators and parts do not fit."""
    if not operands:
        raise step.at.error(f"{step.op} takes at least 1 value")
    _check_counts(step, len(operands))
    results = [[_kind(graph.values[o.value]) for o in graph.outputs] for graph in parts]
    for part, graph, made in zip(step.parts, parts, results, strict=True):
        for generator, *counters in part.draws:
            for counter in counters:
                check_draws(part.at, (generator, counter), generators)
        _check_part(step, part, graph, operands, made)
    if step.op == "cond":
        return _cond(step, results, operands)
    if step.op == "while_loop":
        return _while(step, results, operands)
    return _scan(step, results[0])


def record_flow(step: Step, parts: Sequence[Graph], operands: Sequence[Tensor]) -> None:
    """Records the node."""
    given = [
        (graph.core, list(part.sources), list(part.draws))
        for graph, part in zip(parts, step.parts, strict=True)
    ]
    inputs = list(operands)
    if step.op == "scan":
        steps, is_reversed, finals, stacks = step.attrs
        _core.record_scan(given[0], steps, is_reversed, list(finals), list(stacks), inputs)
    elif step.op == "cond":
        rows = [list(part.results) for part in step.parts]
        _core.record_cond(given[0], given[1], rows[0], rows[1], inputs)
    else:
        _core.record_while(given[0], given[1], list(step.attrs[0]), inputs)


def _check_counts(step: Step, operands: int) -> None:
    """Of the steps of a loop, and what it carries."""
    if step.op == "scan" and not 1 <= step.attrs[0] < _MOST_STEPS:
        raise step.at.error(f"scan takes at least 1 step and fewer than 2**40, got {step.attrs[0]}")
    if step.op == "while_loop" and not 1 <= len(step.attrs[0]) <= operands:
        raise step.at.error("the first operands of while_loop are its carries, at least one")


def _kind(value: Value) -> Kind:
    return value.shape, value.dtype, value.device


def _check_part(
    step: Step, part: Part, graph: Graph, operands: Sequence[Kind], results: Sequence[Kind]
) -> None:
    arguments = [x.value for x in graph.inputs if x.argument >= 0]
    if len(arguments) != len(part.sources):
        raise part.at.error(
            f"{part.at.text} has {len(arguments)} arguments, but {len(part.sources)} sources"
        )
    read = {v for node in graph.nodes for v in node.inputs} | {o.value for o in graph.outputs}
    for number, value in enumerate(arguments):
        _check_source(step, part, number, _kind(graph.values[value]), value in read, operands)
        kind, _, other = part.sources[number]
        if kind == _CARRY and step.op == "scan":
            _require(part, number, 0 <= other < len(results), "has no such result")
            same = results[other] == _kind(graph.values[value])
            _require(part, number, same, "is another type than the result that is carried")


def _check_source(
    step: Step, part: Part, number: int, kind: Kind, is_read: bool, operands: Sequence[Kind]
) -> None:
    """Of one argument: an operand that has its dtype, device and number of elements."""
    source, at, other = part.sources[number]
    allowed = source in _ALLOWED[step.op]
    _require(part, number, allowed, f"lies where nothing of {step.op} does")
    if source == _NONE:
        _require(part, number, not is_read, "is read, but has no source")
        return
    places = [at] if source != _NEXT else [at, other]
    _require(part, number, max(places) < len(operands), "has no such operand")
    if source == _CARRY and step.op == "while_loop":
        _require(part, number, at < len(step.attrs[0]), "has no such carry")
    times = step.attrs[0] if source in (_SLICE, _NEXT) else 1
    _require(part, number, _fits(operands[at], kind, times), "is another type than its operand")
    if source == _NEXT:
        _require(part, number, _fits(operands[other], kind, 1), "is another type than its operand")


def _fits(operand: Kind, argument: Kind, times: int) -> bool:
    return operand[1:] == argument[1:] and prod(operand[0]) == times * prod(argument[0])


def _require(part: Part, number: int, holds: bool, what: str) -> None:
    if not holds:
        raise part.at.error(f"argument {number} of {part.at.text} {what}")


def _scan(step: Step, results: Sequence[Kind]) -> list[Kind]:
    steps, _, finals, stacks = step.attrs
    if any([not 0 <= r < len(results) for r in (*finals, *stacks)]):
        raise step.at.error(f"finals and stacks are results of the body, which has {len(results)}")
    made = [results[r] for r in finals]
    for r in stacks:
        shape, t, device = results[r]
        if steps * prod(shape) * t.itemsize >= 2**63:
            raise step.at.error("the bytes of a tensor must fit in 64 bits")
        made.append(((steps, *shape), t, device))
    return made


def _is_condition(kind: Kind) -> bool:
    return bool(kind[1] is bool_dtype and prod(kind[0]) == 1)


def _cond(step: Step, results: Sequence[Sequence[Kind]], operands: Sequence[Kind]) -> list[Kind]:
    if not _is_condition(operands[0]):
        raise step.at.error("the first operand of cond is one bool")
    rows = [part.results for part in step.parts]
    if len(rows[0]) != len(rows[1]):
        raise step.at.error("the parts of cond have different numbers of results")
    made: list[Kind] = []
    for pair in zip(*rows, strict=True):
        found: list[Kind] = []
        for part, r, of_part in zip(step.parts, pair, results, strict=True):
            if r >= len(of_part):
                raise part.at.error(f"{part.at.text} has no result {r}")
            found += [of_part[r]] if r >= 0 else []
        if not found or found[0] != found[-1]:
            raise step.at.error("the parts of cond must give each result in one type")
        made.append(found[0])
    return made


def _while(step: Step, results: Sequence[Sequence[Kind]], operands: Sequence[Kind]) -> list[Kind]:
    (carries,) = step.attrs
    condition, body = results
    if len(condition) != 1 or not _is_condition(condition[0]):
        raise step.parts[0].at.error("the condition returns one bool")
    if any([not 0 <= r < len(body) for r in carries]):
        raise step.at.error(f"carries are results of the body, which has {len(body)}")
    if any([body[r] != operands[i] for i, r in enumerate(carries)]):
        raise step.at.error("the body must return carries in the types of its operands")
    return [operands[i] for i in range(len(carries))]
