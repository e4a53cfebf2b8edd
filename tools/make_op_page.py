"""Writes docs/operations.md: what every operation does in every dtype, as tried.

The rows of tests/op_samples.py are run in each dtype: eager, with a gradient, and recorded (with
equal bits). Nothing is claimed that did not run.

    python tools/make_op_page.py            write the page
    python tools/make_op_page.py --check    exit with 1 when the page is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import tinyt  # noqa: E402
from op_rows import Op  # noqa: E402
from op_samples import FAMILIES  # noqa: E402
from sampling import Sample, arrays_in, flat, map_arrays  # noqa: E402
from tinyt.compiler import record  # noqa: E402

PAGE = ROOT / "docs" / "operations.md"
DTYPES = tuple(t.name for t in tinyt.dtypes.ALL)
LARGEST = 100
SAMPLES = 6
HEAD = (
    "# Operations\n\n"
    "Made by `tools/make_op_page.py` from the rows of `tests/op_samples.py`, by trying. Each cell "
    "says what ran in that dtype: **e** eager, **g** a gradient was computed, **r** recorded and "
    "run as a planned program, with the same bits as eager. `.`: a typed error, as a rule where "
    "PyTorch has one too. Results whose shape depends on data (`nonzero`, `unique`, masks) end a "
    "recording.\n\n"
)


def base_dtype(op: Op, dtype: str) -> str:
    """The dtype in which the row's samples are drawn before they are converted."""
    if dtype in op.dtypes:
        return dtype
    same_kind = {"f": "float32", "c": "complex64", "b": "bool"}
    kind = "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    wanted = same_kind.get(kind, "int64")
    if wanted in op.dtypes:
        return wanted
    return op.dtypes[0]


def converted(value: Any, base: str, dtype: str, leaves: list[Any] | None) -> Any:
    """Arrays of the base dtype as tensors of `dtype`; with `leaves`, those require grad."""
    target = getattr(tinyt, dtype)

    def tensor(array: np.ndarray, _: bool) -> Any:
        made = tinyt.tensor(array)
        if array.dtype == base:
            made = made.to(target)
            if leaves is not None and target.is_floating_point:
                leaves.append(made.requires_grad_())
        return made

    return map_arrays(value, tensor, lambda name: getattr(tinyt, name))


def small_samples(op: Op, base: str) -> Iterator[Sample]:
    """The first samples of a row that have elements, but not many."""
    found = 0
    for sample in op.samples(np.random.default_rng(0), base):
        arrays = [a for a, _ in arrays_in([sample.args, sample.kwargs])]
        if all(0 < a.size <= LARGEST for a in arrays) and found < SAMPLES:
            found += 1
            yield sample


def bits(result: Any) -> list[bytes]:
    """What two runs are compared by."""
    return [repr(t.tolist()).encode() for t in flat(result)]


def mode_eager(op: Op, sample: Sample, base: str, dtype: str) -> bool:
    """Whether the row runs."""
    args, kwargs = converted((sample.args, sample.kwargs), base, dtype, None)
    op.function(tinyt)(*args, **kwargs)
    return True


def mode_gradient(op: Op, sample: Sample, base: str, dtype: str) -> bool:
    """Whether a gradient comes back."""
    leaves: list[Any] = []
    args, kwargs = converted((sample.args, sample.kwargs), base, dtype, leaves)
    outputs = [t for t in flat(op.function(tinyt)(*args, **kwargs)) if t.requires_grad]
    if not leaves or not outputs:
        return False
    sum(t.sum() for t in outputs).backward()
    return any(x.grad is not None for x in leaves)


def mode_recorded(op: Op, sample: Sample, base: str, dtype: str) -> bool:
    """Whether a planned program gives the bits of the eager run."""
    args, kwargs = converted((sample.args, sample.kwargs), base, dtype, None)

    def function() -> list[Any]:
        return list(flat(op.function(tinyt)(*args, **kwargs)))

    return bits(record(function).run()) == bits(function())


MODES = {"e": mode_eager, "g": mode_gradient, "r": mode_recorded}
REFUSED = (RuntimeError, IndexError, TypeError, ValueError)


def cell(op: Op, dtype: str) -> str:
    """The modes in which some sample of the row runs."""
    base = base_dtype(op, dtype)
    found = ""
    for letter, mode in MODES.items():
        for sample in small_samples(op, base):
            try:
                if mode(op, sample, base, dtype):
                    found += letter
                    break
            except REFUSED:
                continue
    return found or "."


def page() -> str:
    """The whole page as text."""
    text = HEAD
    for family, ops in FAMILIES.items():
        text += f"## {family}\n\n| operation | {' | '.join(DTYPES)} |\n"
        text += "| --- |" + " --- |" * len(DTYPES) + "\n"
        for op in sorted(ops, key=lambda op: op.name):
            cells = " | ".join(cell(op, dtype) for dtype in DTYPES)
            text += f"| `{op.name}` | {cells} |\n"
        text += "\n"
    return text.rstrip("\n") + "\n"


def main() -> int:
    """Writes or checks the page."""
    made = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != made:
            print(f"{PAGE.relative_to(ROOT)} is out of date: python tools/make_op_page.py")
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
