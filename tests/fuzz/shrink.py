"""Makes a case that fails smaller, as long as it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz.case import Body, Case, Ref, Step, mapped


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
    for i, step in enumerate(case.steps):
        for smaller in smaller_bodies(step):
            yield replace(case, steps=(*case.steps[:i], smaller, *case.steps[i + 1 :]))
    for i, x in enumerate(case.inputs):
        if x.layout != "contiguous" or x.grad:
            plain = replace(x, layout="contiguous", grad=False)
            yield replace(case, inputs=(*case.inputs[:i], plain, *case.inputs[i + 1 :]))


def smaller_bodies(step: Step) -> Iterator[Step]:
    """The step with a value in one of its bodies in the place of another one that is made of it."""
    for at, body in enumerate(step.args):
        if isinstance(body, Body):
            for smaller in smaller_of(body):
                yield replace(step, args=(*step.args[:at], smaller, *step.args[at + 1 :]))


def smaller_of(body: Body) -> Iterator[Body]:
    first = body.given + len(body.outer)
    for i in reversed(range(len(body.steps))):
        for number in sorted(references((body.steps[i].args,))):
            yield pruned(body, {first + i: number})
    for i, step in enumerate(body.steps):
        for smaller in smaller_bodies(step):
            yield replace(body, steps=(*body.steps[:i], smaller, *body.steps[i + 1 :]))


def pruned(body: Body, instead: dict[int, int]) -> Body:
    """A body with some values in the places of others, less what nothing reads then."""

    def other(ref: Any) -> Any:
        return Ref(instead.get(ref.number, ref.number)) if isinstance(ref, Ref) else ref

    first = body.given + len(body.outer)
    steps = [replace(s, args=mapped(s.args, other)) for s in body.steps]
    outputs = [instead.get(i, i) for i in body.outputs]
    wanted = {*range(body.given), *outputs}
    for i in reversed(range(len(steps))):
        if first + i not in instead and (first + i in wanted or writes(steps[i])):
            wanted |= references((steps[i].args, [v for _, v in steps[i].kwargs])) | {first + i}
    kept = sorted(wanted)
    place = {old: new for new, old in enumerate(kept)}

    def renumber(ref: Any) -> Any:
        return Ref(place[ref.number]) if isinstance(ref, Ref) else ref

    return Body(
        body.given,
        tuple(x for i, x in enumerate(body.outer, body.given) if i in wanted),
        tuple(
            replace(s, args=mapped(s.args, renumber), kwargs=mapped(s.kwargs, renumber))
            for i, s in enumerate(steps, first)
            if i in wanted
        ),
        tuple(place[i] for i in outputs),
    )


def writes(step: Step) -> bool:
    """Whether a step does something besides its value."""
    return step.call == "assign" or (isinstance(step.call, str) and step.call.endswith("_"))


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
