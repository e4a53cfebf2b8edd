"""The report of a device: a line for each operation, a column for each dtype."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import tinyt
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.cli.backends.check import Outcome, Way

SHORT = {
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip
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


def lines(place: Device, outcomes: Outcomes, dtypes: Sequence[DType]) -> Iterator[str]:
    """The page."""
    facts = next(d for d in tinyt.devices() if d.name == str(place))
    yield f"# Conformance: {place.type}"
    yield ""
    yield f"Made by `tinyt check-backend {place.type} --report FILE.md` on {facts.hardware}."
    yield ""
    yield f"{counts(outcomes)}."
    yield ""
    yield from _LEGEND.splitlines()
    yield ""
    names = [SHORT.get(d.name, d.name) for d in dtypes]
    yield f"| Operation | {' | '.join(names)} | worst |"
    yield f"| --- |{' --- |' * (len(names) + 1)}"
    for name, row in outcomes.items():
        worst = max((o.worst for o in row.values()), default=0.0)
        marks = " | ".join(mark(row[d]) for d in dtypes)
        yield f"| `{name}` | {marks} | {worst:.2f} |"
