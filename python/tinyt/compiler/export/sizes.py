"""Programs whose sizes are arguments in C.

A captured call with marked sizes is planned and written for each size up to the bound, without the
function. Sizes whose statements have one form are written once, with each number that changes as a
formula of the sizes, or as a table of them: every formula is compared with every size that there
is, so that the C is what an export of that size alone would be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tinyt.compiler.export.literals import values_of
from tinyt.compiler.export.memory import Piece, assign
from tinyt.compiler.export.program import Draft, Exported, Port
from tinyt.compiler.export.source import c_type, placed
from tinyt.dtypes import ALL
from tinyt.ops.creation.filled import empty_strided

if TYPE_CHECKING:
    from tinyt._capture import CompiledGraph
    from tinyt.compiler.capture.capture import Capture
    from tinyt.compiler.export.program import Weight
    from tinyt.compiler.export.source import Source
    from tinyt.tensor import Tensor

MOST_SIZES = 1024  # that a program is planned for
MOST_FORMS = 8
_BLOCKS = (2, 4, 6, 8, 16, 32, 64, 128, 256, 512, 1024)
# A number by itself: hexadecimal and decimal floats, integers.
_NUMBER = re.compile(r"(?<![\w.])(?:0x[\da-f.]+p[+-]?\d+f?|\d+\.?\d*(?:e[+-]?\d+)?[uf]?)(?![\w.])")
_MOST_WRITTEN_OUT = 16  # elements of a constant
_CONSTANT = (
    "export_c: a constant of the program depends on a marked size; make it of an argument, or mark "
    "another size"
)


class Size(NamedTuple):
    """One that is an argument: its name, its bounds, what it is in the call, and the dimensions of
    arguments that have it."""

    name: str
    least: int
    most: int
    now: int
    places: tuple[tuple[int, int], ...]


def sizes_of(entry: CompiledGraph) -> list[Size]:
    """The sizes of a captured call that are marked with a bound: those that are equal in the call
    are one argument."""
    dynamic = entry.capture.dynamic
    marks = {} if dynamic is None else dynamic.marks
    groups: dict[int, list[tuple[int, int]]] = {}
    for (i, dim), (_, most) in marks.items():
        if most == inf:  # that of the call
            continue
        groups.setdefault(entry.facts[i].row()[3][dim], []).append((i, dim))
    found = []
    for number, (now, places) in enumerate(sorted(groups.items(), reverse=True)):
        least = max(1, *(int(marks[place][0]) for place in places))
        most = min(int(marks[place][1]) for place in places)
        name = "n" if len(groups) == 1 else f"n_{number}"
        found.append(Size(name, least, most, now, tuple(places)))
    return found


Draw = Callable[["Capture", "Draft | None"], Draft]


def export_sized(
    entry: CompiledGraph, sizes: Sequence[Size], draft_of: Draw
) -> tuple[Exported, Exported]:
    """The program with its sizes as arguments, and what it is for the sizes of the call alone.

    NotImplementedError where the function decides by a size, where a constant depends on one, and
    where sizes have too many forms.
    """
    every = list(product(*(range(s.least, s.most + 1) for s in sizes)))
    if len(every) > MOST_SIZES:
        raise NotImplementedError(
            f"export_c: {len(every)} combinations of sizes would each be planned, at most "
            f"{MOST_SIZES} are; state lower bounds, or mark fewer sizes"
        )
    now = tuple(s.now for s in sizes)
    if 0 in now:
        raise NotImplementedError(
            "export_c: a marked size of the call is 0, for which there is no C: sizes are from 1 "
            "on; give arguments of another size"
        )
    if now not in every:
        raise ValueError(f"export_c: the sizes of the call, {now}, are not within their bounds")
    drafts: dict[tuple[int, ...], Draft] = {}
    last: Draft | None = None
    for point in reversed(every):
        # That of the call is the one that is run for the test, in the memory of its weights.
        capture = entry.capture if point == now else _resized(entry, sizes, point)
        last = drafts[point] = draft_of(capture, last)
    largest = drafts[every[-1]]
    weights = _name_weights(drafts, now)
    forms, total = _forms(drafts, sizes)
    inputs, outputs = [
        [_port(k, drafts, sizes, kind) for k in range(len(getattr(largest, kind)))]
        for kind in ("inputs", "outputs")
    ]
    parts = Exported(
        largest.source,
        [*_range_checks(sizes, largest.faults), *forms],
        total,
        inputs,
        outputs,
        weights,
        largest.faults,
        largest.generators,
        tuple(sizes),
    )
    call = drafts[now]
    return parts, parts._replace(inputs=call.inputs, outputs=call.outputs)


def _resized(entry: CompiledGraph, sizes: Sequence[Size], point: tuple[int, ...]) -> Capture:
    """The capture of a call of other sizes."""
    other: dict[tuple[int, int], int] = {
        place: n for s, n in zip(sizes, point, strict=True) for place in s.places
    }
    leaves: list[Tensor | float] = []
    for i, fact in enumerate(entry.facts):
        if isinstance(fact, type):
            leaves.append(0.0)
            continue
        _, _, t, shape, strides, *_ = fact.row()
        sizes_there = [other.get((i, d), n) for d, n in enumerate(shape)]
        steps = _strides_of(sizes_there, _order_of(i, shape, strides))
        leaves.append(empty_strided(sizes_there, steps, dtype=ALL[t]))
    changed = [(i, d, n) for (i, d), n in other.items()]
    found: Capture | str = entry.capture.dynamic.resized(changed, leaves)
    if isinstance(found, str):
        text = ", ".join(f"{s.name} = {n}" for s, n in zip(sizes, point, strict=True))
        raise NotImplementedError(
            f"export_c: with {text} the function does something else: {_explained(found)}"
        )
    return found


_COMPARED = re.compile(r"(-?\d+ (==|<|>) (-?\d+)) before, now (\S+ \S+ \S+)(?: \((.*)\))?")
_NUMBERS_DIFFER = re.compile(r"(-?[\d.]+) before, now (-?[\d.]+)(?: \((.*)\))?")


def _explained(found: str) -> str:
    """Why a capture is not that of other sizes, and what to do, in words of the function's."""
    bounds = "state other bounds, by min and max of mark_dynamic"
    kept = (
        "a size is used as a number there (by **, as a result, a value or an output size), or "
        "must equal another one that is not marked; mark that one, too, or export each size alone"
    )
    if (parts := _NUMBERS_DIFFER.fullmatch(found)) is not None:
        before, now, where = parts.groups()
        at = f" at {where}" if where else ""
        return f"a number is {before} in the call and {now} then{at}: {kept}"
    if (parts := _COMPARED.fullmatch(found)) is None:
        return f"{found}; {bounds}"
    before, test, right, now, where = parts.groups()
    at = f" at {where}" if where else ""
    if test != "==":
        return f"it compares sizes{at}: {before} in the call, {now} then; {bounds}"
    return f"it is for a size of {right} alone{at} ({before} in the call, {now} then): {kept}"


def _order_of(i: int, shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dimensions of an argument from the outermost to the innermost one: in their order where
    it is row-major, else by its strides. NotImplementedError where its elements do not lie one
    after another: for other sizes their places would be unknown."""
    rows = list(range(len(shape)))
    if 0 in shape or _lies_so(shape, strides, rows):
        return rows
    order = sorted(rows, key=lambda d: -strides[d])
    if not _lies_so(shape, strides, order):
        raise NotImplementedError(
            f"export_c: elements of argument {i}, of strides {list(strides)}, do not lie one after "
            "another, which sizes as arguments need; pass contiguous()"
        )
    return order


def _lies_so(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    want = _strides_of(shape, order)
    return all(n == 1 or a == b for n, a, b in zip(shape, strides, want, strict=True))


def _strides_of(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a tensor without gaps whose dimensions have this order."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(1, shape[d])
    return strides


def _name_weights(drafts: dict[tuple[int, ...], Draft], now: tuple[int, ...]) -> list[Weight]:
    """Gives what all drafts read one name in all of them, and writes out small constants that
    depend on a size, as the factor of a mean does. The result is in the memory of the one of
    ``now``."""
    own = [{w.tensor.data_ptr() for w in draft.weights} for draft in drafts.values()]
    captured = set.intersection(*own)
    keys = {point: _keys(draft.weights, captured) for point, draft in drafts.items()}
    in_all = set.intersection(*(set(own) for own in keys.values()))
    shared: list[Weight] = []
    names: dict[object, str] = {}
    for key, w in zip(keys[now], drafts[now].weights, strict=True):
        if key in in_all:
            names[key] = f"weight_{len(shared)}"
            shared.append(w._replace(name=names[key]))
    for point, draft in drafts.items():
        taken = {
            w.name: names[key] if key in names else _written_out(w)
            for key, w in zip(keys[point], draft.weights, strict=True)
        }
        draft.statements[:] = [_renamed(statement, taken) for statement in draft.statements]
    return shared


def _keys(weights: Sequence[Weight], captured: set[int]) -> list[object]:
    """What tells weights apart in every draft: captured memory, or else elements, of which several
    may be equal, and where a run writes them before it reads them, their order."""
    counts: Counter[object] = Counter()
    found: list[object] = []
    for w in weights:
        key: object = w.tensor.data_ptr()
        if w.is_number:
            key = "number", w.number
        elif key not in captured and w.is_fresh:
            key = "fresh", w.tensor.dtype.name, w.tensor.numel()
        elif not w.written and w.tensor.numel() <= _MOST_WRITTEN_OUT:
            key = w.tensor.dtype.name, tuple(w.tensor.shape), *values_of(w.tensor)
        counts[key] += 1
        found.append((key, counts[key]))
    return found


def _renamed(statement: str, names: dict[str, str]) -> str:
    return re.sub(r"\bweight_\d+\b", lambda found: names[found[0]], statement)


def _written_out(w: Weight) -> str:
    if w.written or w.is_number or w.tensor.numel() > _MOST_WRITTEN_OUT:
        raise NotImplementedError(_CONSTANT)
    values = ", ".join(values_of(w.tensor)) or "0"
    return f"((const {c_type(w.tensor.dtype)}[]){{{values}}})"


def _range_checks(sizes: Sequence[Size], faults: list[str]) -> Iterator[str]:
    for s in sizes:
        faults.append(f"{s.name} must be from {s.least} to {s.most}")
        yield f"if ({s.name} < {s.least} || {s.name} > {s.most}) return {len(faults)};"


def _port(k: int, drafts: dict[tuple[int, ...], Draft], sizes: Sequence[Size], kind: str) -> Port:
    """An argument or result at its largest, described by the names of sizes."""
    ports: dict[tuple[int, ...], Port] = {
        point: getattr(draft, kind)[k] for point, draft in drafts.items()
    }
    numbers = _Numbers(sizes, list(ports))
    rank = range(len(next(iter(ports.values())).shape))
    shape, strides = [
        [numbers.formula([getattr(x, what)[d] for x in ports.values()]) or "?" for d in rank]
        for what in ("shape", "stride")
    ]
    largest = max(ports.values(), key=lambda x: x.nbytes)
    text = f"{largest.dtype.name}[{', '.join(shape)}]"
    if not all(x.is_dense for x in ports.values()):
        text += f", strides [{', '.join(strides)}]"
    return largest._replace(text=text)


# ---- forms


def _forms(drafts: dict[tuple[int, ...], Draft], sizes: Sequence[Size]) -> tuple[list[str], int]:
    """The statements of all sizes, and the bytes of the arena that they take."""
    groups: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
    for point, draft in drafts.items():
        key = (
            tuple(_NUMBER.sub("#", x) for x in draft.statements if not x.startswith("//")),
            tuple((p.first, p.last) for p in draft.pieces),
        )
        groups.setdefault(key, []).append(point)
    if len(groups) > MOST_FORMS:
        raise NotImplementedError(
            f"export_c: the program has {len(groups)} forms for the marked sizes, at most "
            f"{MOST_FORMS} are written; state bounds that are nearer to each other"
        )
    total = 0
    written = []
    source = next(iter(drafts.values())).source
    for points in groups.values():
        pieces = [
            Piece(max(p.nbytes for p in same), same[0].first, same[0].last)
            for same in zip(*(drafts[point].pieces for point in points), strict=True)
        ]
        offsets, nbytes = assign(pieces)
        total = max(total, nbytes)
        numbers = _Numbers(sizes, points, source)
        rows = [placed(drafts[point].statements, offsets) for point in points]
        written.append([numbers.statement(list(lines)) for lines in zip(*rows, strict=True)])
    if len(written) == 1:
        return written[0], total
    every = sorted(drafts)
    form_of = {point: k for k, points in enumerate(groups.values()) for point in points}
    table = source.constant("uint8_t", [str(form_of[point]) for point in every])
    lines = [f"const int form = {table}[{_place(sizes)}];"]
    for k, statements in enumerate(written):
        lines.append(f"{'' if k == 0 else '} else '}if (form == {k}) {{")
        lines += [f"  {statement}" for statement in statements]
    return [*lines, "}"], total


def _place(sizes: Sequence[Size]) -> str:
    """The number of a combination among all."""
    text = ""
    for s in sizes:
        own = s.name if s.least == 0 else f"({s.name} - {s.least})"
        text = own if not text else f"({text} * {s.most - s.least + 1} + {own})"
    return text


class _Numbers:
    """Numbers of statements as formulas of sizes, for these combinations of them."""

    def __init__(
        self,
        sizes: Sequence[Size],
        points: Sequence[tuple[int, ...]],
        source: Source | None = None,
    ) -> None:
        self.sizes, self.points, self.source = sizes, points, source
        self._known: dict[tuple[str, ...], str] = {}

    def statement(self, lines: Sequence[str]) -> str:
        """One line for all sizes of a form."""
        if lines[0].startswith("//") or all(x == lines[0] for x in lines):
            return lines[0]
        columns = zip(*(_NUMBER.findall(line) for line in lines), strict=True)
        texts = iter([self._text(column) for column in columns])
        return _NUMBER.sub(lambda _: next(texts), lines[0])

    def _text(self, column: tuple[str, ...]) -> str:
        if all(x == column[0] for x in column):
            return column[0]
        if column not in self._known:
            self._known[column] = self._made(column)
        return self._known[column]

    def _made(self, column: tuple[str, ...]) -> str:
        is_unsigned = column[0].endswith("u")
        plain = [x.removesuffix("u") for x in column]
        if all(x.isdigit() for x in plain):
            found = self.formula([int(x) for x in plain])
            if found is not None:
                return f"(uint64_t)({found})" if is_unsigned else f"({found})"
            kind = "uint64_t" if is_unsigned else "int64_t"
        else:
            kind = "float" if column[0].endswith("f") else "double"
        by_point = dict(zip(self.points, column, strict=True))
        every = product(*(range(s.least, s.most + 1) for s in self.sizes))
        assert self.source is not None
        name = self.source.constant(kind, [by_point.get(point, "0") for point in every])
        return f"{name}[{_place(self.sizes)}]"

    def formula(self, values: Sequence[int]) -> str | None:
        """A formula in C that has these values, and is checked for each; None where none is
        found."""
        if all(v == values[0] for v in values):
            return str(values[0])
        names = [s.name for s in self.sizes]
        found = _polynomial(self.points, values, names)
        for k in () if found else _BLOCKS:
            for text, blocks in (
                (f"(({{}} + {k - 1}) / {k})", lambda n, k=k: (n + k - 1) // k),
                (f"({{}} / {k})", lambda n, k=k: n // k),
            ):
                points = [tuple(map(blocks, point)) for point in self.points]
                found = found or _polynomial(points, values, [text.format(n) for n in names])
        return found


def _polynomial(
    points: Sequence[tuple[int, ...]], values: Sequence[int], names: Sequence[str]
) -> str | None:
    """A polynomial of the second degree with whole coefficients through all points."""
    import numpy as np

    count = len(names)
    powers = [p for p in product(range(3), repeat=count) if sum(p) <= 2]
    powers.sort(key=sum, reverse=True)
    grid = np.array(points, float)
    terms = np.stack([np.prod(grid ** np.array(p), axis=1) for p in powers], axis=1)
    # Scaled, so that the squares of large sizes do not drown the rest.
    scale = np.abs(terms).max(axis=0).clip(min=1)
    solved = np.linalg.lstsq(terms / scale, np.array(values, float), rcond=None)[0] / scale
    whole = [round(c) for c in solved]
    if max(map(abs, whole)) >= 2**53:
        return None

    def at(point: tuple[int, ...]) -> int:
        total = 0
        for c, p in zip(whole, powers, strict=True):
            term = c
            for n, exponent in zip(point, p, strict=True):
                term *= n**exponent
            total += term
        return total

    if any(at(point) != v for point, v in zip(points, values, strict=True)):
        return None
    parts = []
    for c, p in zip(whole, powers, strict=True):
        if c:
            factors = [n for n, exponent in zip(names, p, strict=True) for _ in range(exponent)]
            coefficient = [] if c == 1 and factors else [str(c)]
            parts.append(" * ".join([*coefficient, *factors]))
    return " + ".join(parts) or "0"
