"""Makes a case that fails smaller, as long as it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz.case import Case, Ref, mapped


def shrunk(case: Case, fails: Callable[[Case], bool], tries: int = 300) -> Case:
    """The smallest case that was found in so many tries."""
    again = True
    while again and tries > 0:
        again = False
        for smaller in candidates(case):
            tries -= 1
            if tries < 0:
                break
            if fails(smaller):
                case, again = smaller, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Cases with less in them, the smallest first."""
    count = len(case.inputs)
    if len(case.outputs) > 1:
        for output in case.outputs:
            yield without(replace(case, outputs=(output,)), set())
    for i in reversed(range(len(case.steps))):
        yield without(case, dependents(case, count + i))
    for i in reversed(range(count)):
        if not any(x.of == i for x in case.inputs):
            yield without(case, dependents(case, i))
    for i, x in enumerate(case.inputs):
        if x.layout != "contiguous" or x.grad:
            plain = replace(x, layout="contiguous", grad=False)
            yield replace(case, inputs=(*case.inputs[:i], plain, *case.inputs[i + 1 :]))


def references(value: Any) -> set[int]:
    found: set[int] = set()
    mapped(value, lambda ref: found.add(ref.number) if isinstance(ref, Ref) else None)
    return found


def dependents(case: Case, number: int) -> set[int]:
    """A value and all that is computed from it."""
    gone = {number}
    for i, step in enumerate(case.steps, len(case.inputs)):
        if references((step.args, [v for _, v in step.kwargs])) & gone:
            gone.add(i)
    return gone


def without(case: Case, gone: set[int]) -> Case:
    """The case less some values; what only they returned is replaced by the last step."""
    total = len(case.inputs) + len(case.steps)
    kept = [i for i in range(total) if i not in gone]
    place = {old: new for new, old in enumerate(kept)}

    def renumber(ref: Any) -> Any:
        return Ref(place[ref.number]) if isinstance(ref, Ref) else ref

    inputs = [x for i, x in enumerate(case.inputs) if i not in gone]
    inputs = [replace(x, of=place[x.of]) if x.of >= 0 else x for x in inputs]
    steps = []
    for i, step in enumerate(case.steps, len(case.inputs)):
        if i not in gone:
            kwargs = tuple((k, mapped(v, renumber)) for k, v in step.kwargs)
            steps.append(replace(step, args=mapped(step.args, renumber), kwargs=kwargs))
    outputs = tuple(place[i] for i in case.outputs if i not in gone)
    if not outputs and kept:
        outputs = (len(kept) - 1,)
    return Case(tuple(inputs), case.nets, tuple(steps), outputs)
