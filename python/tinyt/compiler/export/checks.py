"""The test program of a project: one run on recorded arguments, compared with recorded results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tinyt.compiler.export.literals import rows_of, whole
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.texts import FLOAT_KINDS, comparison

if TYPE_CHECKING:
    from tinyt._tensor import dtype
    from tinyt.compiler.export.program import Exported, Weight
    from tinyt.tensor import Tensor


class _Compared(NamedTuple):
    """An array after the run beside ``expected_`` of its label; ``more`` is added to what it may
    differ by."""

    label: str
    array: str
    dtype: dtype
    nbytes: int
    more: float = 0.0


class Recorded(NamedTuple):
    """A run: the program as it is for its sizes, its arguments, its results, and what the written
    weights are then."""

    parts: Exported
    given: Sequence[Tensor]
    expected: Sequence[Tensor]
    after: Sequence[Tensor]


class Check:
    """Writes the test program of a run; written weights are compared where they are arrays
    (``has_file``: they are none)."""

    def __init__(self, name: str, run: Recorded, has_file: bool) -> None:
        parts = run.parts
        self.name, self.parts, self.has_file = name, parts, has_file
        self.given, self.expected = run.given, run.expected
        written: list[Weight] = [] if has_file else [w for w in parts.weights if w.written]
        self.weights = list(zip(written, run.after, strict=False))
        self.compared = [_Compared(y.name, y.name, y.dtype, y.nbytes) for y in parts.outputs]
        for w, tensor in self.weights:
            t = w.tensor.dtype
            nbytes = w.tensor.numel() * t.itemsize
            more = 2 * _change(w.tensor, tensor)
            self.compared.append(_Compared(w.name, f"{name}_{w.name}", t, nbytes, more))

    def text(self) -> str:
        """The program."""
        lines = [
            f"// Runs {self.name} once on recorded arguments, and compares with recorded results.",
            f'#include "{self.name}.h"',
            "",
            *("#include <math.h>", "#include <stdio.h>", "#include <string.h>", ""),
            *self._arrays(),
            "",
            *self._comparisons(),
            "int main(int argc, char** argv) {",
            *self._run(),
            "  int wrong = 0;",
            *self._compare(),
            "  return wrong != 0;",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _arrays(self) -> Iterator[str]:
        for x, tensor in zip(self.parts.inputs, self.given, strict=True):
            const = "" if x.written else "const "
            yield f"static {const}{c_type(x.dtype)} {x.name}[{max(1, x.elements)}] = {{"
            yield from (*rows_of(whole(tensor)), "};")
        for y, tensor in zip(self.parts.outputs, self.expected, strict=True):
            type_, size = c_type(y.dtype), max(1, y.elements)
            yield f"static const {type_} expected_{y.name}[{size}] = {{"
            yield from (*rows_of(tensor), "};")
            yield f"static {type_} {y.name}[{size}];"
        for w, tensor in self.weights:
            type_ = c_type(w.tensor.dtype)
            yield f"static const {type_} expected_{w.name}[{max(1, tensor.numel())}] = {{"
            yield from (*rows_of(tensor), "};")

    def _comparisons(self) -> Iterator[str]:
        """The functions that are called."""
        kinds = dict.fromkeys(comparison(x.dtype.name) for x in self.compared)
        yield from "".join(kinds).splitlines()

    def _run(self) -> Iterator[str]:
        name = self.name
        now = [str(s.now) for s in self.parts.sizes]
        arguments = ", ".join([*now, *(x.name for x in (*self.parts.inputs, *self.parts.outputs))])
        if self.has_file:
            yield f'  const char* path = argc > 1 ? argv[1] : "{name}.weights";'
            yield f"  int error = {name}_load(path);"
            yield "  if (error != 0) {"
            yield f'    fprintf(stderr, "%s: %s\\n", path, {name}_error(error));'
            yield "    return 1;"
            yield "  }"
            yield f"  error = {name}_run({arguments});"
        else:
            yield "  (void)argc;"
            yield "  (void)argv;"
            yield f"  const int error = {name}_run({arguments});"
        yield "  if (error != 0) {"
        yield f'    fprintf(stderr, "%s\\n", {name}_error(error));'
        yield "    return 1;"
        yield "  }"

    def _compare(self) -> Iterator[str]:
        for label, have, t, nbytes, more in self.compared:
            count, want = nbytes // t.itemsize, f"expected_{label}"
            if t.name in FLOAT_KINDS:
                kind = FLOAT_KINDS[t.name][0]
                call = f'compare_{kind}("{label}", {have}, {want}, {count}, {more:.3g})'
            else:
                call = f'compare_bytes("{label}", {have}, {want}, {nbytes}, {count})'
            yield f"  wrong += {call};"


def _change(before: Tensor, after: Tensor) -> float:
    """The largest change of an element: optimisers divide by the size of gradients, so that where
    a gradient is rounding errors alone, any such change may be made."""
    if not after.dtype.is_floating_point or after.numel() == 0:
        return 0.0
    found = (after.double() - before.double()).abs().max().item()
    return found if found < float("inf") else 0.0
