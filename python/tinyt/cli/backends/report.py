"""The report of a device: a line for each operation, a column for each dtype."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tinyt
from tinyt import _core
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.cli.backends.check import Outcome, Way
from tinyt.dtypes import ALL

Outcomes = Mapping[str, Mapping[DType, Outcome]]

_LEGEND = """\
`k` a kernel, of the device or generated from the operation's definition, or a view, which needs
none; `d` its decomposition into others; `r` refused, with an error (`--op NAME` prints it); `.` not
defined in that dtype; `x` wrong. In bold: results have the CPU's bits. The last column: the largest
part of the stated bound that an error took up.
"""


def mark(outcome: Outcome) -> str:
    """The letter of an outcome."""
    if outcome.is_wrong:
        return "x"
    has_bits = outcome.bits and outcome.way in (Way.KERNEL, Way.DECOMPOSED)
    return f"**{outcome.way.value}**" if has_bits else outcome.way.value


def short(dtype: DType) -> str:
    """As f32, bf16, i64, u8, c64."""
    name = dtype.name
    for word, letter in (("float", "f"), ("complex", "c"), ("int", "i"), ("ui", "u")):
        name = name.replace(word, letter)
    return name


def counts(outcomes: Outcomes) -> str:
    """How many there are of each, in words."""
    every = [o for row in outcomes.values() for o in row.values() if o.way is not Way.UNDEFINED]
    wrong = sum(o.is_wrong for o in every)
    by_way = {way: sum(o.way is way and not o.is_wrong for o in every) for way in Way}
    exact = sum(o.bits and o.way is not Way.REFUSED and not o.is_wrong for o in every)
    return (
        f"{len(every)} operations in a dtype: {by_way[Way.KERNEL]} by kernels, "
        f"{by_way[Way.DECOMPOSED]} decomposed, {by_way[Way.REFUSED]} refused, {wrong} wrong; "
        f"{exact} with the CPU's bits"
    )


def limits(place: Device) -> str:
    """Of a device whose kernels are compiled at run time: their language and limits."""
    found = _core.gpu_limits(str(place))
    buffers, turns = found["buffers"], found["turns"]
    return (
        f"Kernels in {_core.gpu_dialect(str(place))}, with places of {found['index_bits']} bits. "
        f"A tensor has at most {found['bytes']:,} bytes, a kernel "
        f"{buffers or 'any number of'} buffers and {found['argument_bytes']:,} bytes of arguments, "
        f"a thread's loop {f'{turns:,}' if turns else 'any number of'} turns."
    )


def arithmetic(place: Device) -> str:
    """The same: where floats have the bits of IEEE 754, by the probe."""
    told = []
    for dtype in (tinyt.float32, tinyt.float64):
        try:
            found = _core.gpu_arithmetic(str(place), dtype.number)
        except NotImplementedError:
            told.append(f"{dtype.name}: none")
            continue
        wrong = [name for name, is_exact in found.items() if not is_exact]
        told.append(f"{dtype.name}: " + (f"not {', '.join(wrong)}" if wrong else "all of it"))
    return f"Arithmetic as IEEE 754 asks for, by a probe: {'; '.join(told)}."


def lines(place: Device, outcomes: Outcomes, more: Sequence[str]) -> Iterator[str]:
    """The page; ``more`` is told of the device in front of the table."""
    facts = next(d for d in tinyt.devices() if d.name == str(place))
    yield f"# Conformance: {place.type}"
    yield ""
    yield f"Made by `tinyt check-backend {place.type} --report FILE.md` on {facts.hardware}."
    yield ""
    yield f"{counts(outcomes)}."
    for line in more:
        yield ""
        yield line
    yield ""
    yield from _LEGEND.splitlines()
    yield ""
    names = [short(d) for d in ALL]
    yield f"| Operation | {' | '.join(names)} | worst |"
    yield f"| --- |{' --- |' * (len(names) + 1)}"
    for name, row in outcomes.items():
        worst = max((o.worst for o in row.values()), default=0.0)
        marks = " | ".join(mark(row[d]) for d in ALL)
        yield f"| `{name}` | {marks} | {worst:.2f} |"
