"""Numbers that a run computes of what tensors hold before it, as optimisers that count do: Python's
floats, which operations read from cells, as doubles of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt.compiler.export.program import Weight

# SymbolicScalars::Op, and how C writes each.
_GIVEN, _ITEM, _INT, _REAL = 5, 6, 7, 8
_BINARY = {9: "+", 10: "-", 11: "*", 15: "+", 16: "-", 17: "*", 18: "/"}
_TO_REAL, _REAL_POWER, _NEGATED, _ABSOLUTE = 14, 19, 20, 21
_DIVIDED = 18
# SymbolicScalars::Test; the last asks for the same bits.
_TESTS = ("<", "<=", "==", "!=", ">", ">=", "==")
_CHANGED = "a number that the program was made for is another one now"
_POWER = """\
// Python's, which has no infinity of finite numbers.
static int tt_power(double a, double b, double* out) {
  *out = pow(a, b);
  return !isinf(a) && !isinf(b) && !isnan(a) && !isnan(b) && (isinf(*out) || isnan(*out));
}
"""


def write_numbers(
    graph: _core.Graph,
    weights: Sequence[Weight],
    fault: Callable[[str], int],
    helper: Callable[[str, str], None],
) -> Iterator[str]:
    """Statements at the beginning of a run; none where no number comes of a tensor.

    NotImplementedError for what has no form.
    """
    rows = graph.scalars()
    _, _, items, cells, guards = graph.number_parts()
    moves = _moving(rows)
    if not moves:
        return
    by_place = {w.tensor.data_ptr(): w for w in weights}
    known: dict[int, str] = {}
    for number, cell in cells:
        weight = by_place.get(cell.data_ptr())
        if weight is not None and number not in moves:
            known[number] = f"{weight.name}[0]"
    writer = _Writer(rows, known, fault, helper)
    for number in sorted(_needed(rows, moves)):
        kind, _, left, _, value = rows[number]
        if number in known:
            continue
        if kind == "item":
            yield f"const double number_{number} = {_item(items[left], weights)};"
            known[number] = f"number_{number}"
        elif number in moves:
            yield from writer.computed(number)
        else:
            known[number] = _literal(value)
    code = fault(_CHANGED)
    for test, outcome, left, right in guards:
        if left in moves or right in moves:
            condition = f"{writer.text(left)} {_TESTS[test]} {writer.text(right)}"
            yield f"if ({'!' if outcome else ''}({condition})) return {code};"
    for number, cell in cells:
        weight = by_place.get(cell.data_ptr())
        if weight is not None and number in moves:
            yield f"{weight.name}[0] = {known[number]};"


def _moving(rows: Sequence[tuple[str, int, int, int, float]]) -> set[int]:
    """The numbers that come of tensors."""
    found: set[int] = set()
    for number, (kind, _, left, right, _) in enumerate(rows):
        if kind == "item" or (kind == "computed" and (left in found or right in found)):
            found.add(number)
    return found


def _needed(rows: Sequence[tuple[str, int, int, int, float]], moves: set[int]) -> set[int]:
    """These, and what they are computed of."""
    found = set(moves)
    for number in moves:
        kind, _, left, right, _ = rows[number]
        if kind == "computed":
            found |= {x for x in (left, right) if x >= 0}
    return found


def _item(x: object, weights: Sequence[Weight]) -> str:
    at = x.data_ptr()  # type: ignore[attr-defined]
    for w in weights:
        begin = w.tensor.data_ptr()
        if begin <= at < begin + w.tensor.numel() * w.tensor.dtype.itemsize:
            place = (at - begin) // w.tensor.dtype.itemsize
            return f"(double){w.name}[{place}]"
    raise NotImplementedError(
        "export_c: each run reads a number, with item(), of a tensor that no step of it uses"
    )


def _literal(value: float) -> str:
    text = float(value).hex()
    return f"({text})" if text.startswith("-") else text


class _Writer:
    """Expressions by their numbers."""

    def __init__(
        self,
        rows: Sequence[tuple[str, int, int, int, float]],
        known: dict[int, str],
        fault: Callable[[str], int],
        helper: Callable[[str, str], None],
    ) -> None:
        self.rows, self.known, self._fault, self._helper = rows, known, fault, helper

    def text(self, number: int) -> str:
        """A number, in C."""
        if number not in self.known:
            self.known[number] = _literal(self.rows[number][4])
        return self.known[number]

    def computed(self, number: int) -> Iterator[str]:
        """The statements that compute one."""
        _, op, left, right, _ = self.rows[number]
        name = self.known[number] = f"number_{number}"
        a = self.text(left)
        if op in (_TO_REAL, _NEGATED, _ABSOLUTE):
            form = {_TO_REAL: "{}", _NEGATED: "-{}", _ABSOLUTE: "fabs({})"}[op]
            yield f"const double {name} = {form.format(a)};"
            return
        b = self.text(right)
        if op == _REAL_POWER:
            self._helper("tt_power", _POWER)
            yield f"double {name};"
            yield f"if (tt_power({a}, {b}, &{name})) return {self._fault(_CHANGED)};"
            return
        if op not in _BINARY:
            raise NotImplementedError("export_c: a number of a run is divided as integers are")
        if op == _DIVIDED:
            yield f"if ({b} == 0) return {self._fault(_CHANGED)};"
        yield f"const double {name} = {a} {_BINARY[op]} {b};"
