"""Sizes of arguments that may change without the function being captured again.

Such a call is captured once with sizes that are followed (`CaptureLog` of log.pxi): all calls into
the core are kept, with sizes as formulas of those of earlier tensors, and what was decided by them.
For other sizes the core makes the same calls, as long as every decision is what it was.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from math import inf
from numbers import Integral
from typing import TYPE_CHECKING, Any

from tinyt import _core
from tinyt._capture import refuse_recording
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from tinyt.compiler.capture.capture import Capture

# (number of a leaf, dimension) -> least and largest size.
Marks = dict[tuple[int, int], tuple[float, float]]

_MARKS = "_dynamic_sizes"


def mark_dynamic(
    x: Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """Says that a size of an argument changes between calls of a compiled function, as
    ``torch._dynamo.mark_dynamic`` does.

    ``index`` is a dimension of ``x``, or several. A function that :func:`tinyt.compile` captures
    for this very tensor is not captured again where another argument in its place has another size
    there, from ``min`` to ``max``, as long as what the function decides by the size stays as it is.
    Where it does not, the function is captured anew, which `Compiled.explain` tells; in PyTorch
    that is an error. IndexError where ``x`` has no such dimension; CaptureError inside of a
    compiled function.
    """
    refuse_recording("mark_dynamic")
    if not isinstance(x, Tensor):
        raise TypeError(f"mark_dynamic: expected a Tensor, got {type(x).__name__}")
    marks = dict(getattr(x, _MARKS, {}))
    least, most = _bound("min", min, 0), _bound("max", max, inf)
    if least > most:
        raise ValueError(f"mark_dynamic: min {min} is more than max {max}")
    for dim in index if isinstance(index, Iterable) else [index]:
        if not _is_int(dim):
            raise TypeError(f"mark_dynamic: index must be an int or several, got {index!r}")
        if not -x.dim() <= dim < x.dim():
            raise IndexError(f"mark_dynamic: dim {dim} is out of range for {x.dim()} dimensions")
        marks[dim % x.dim()] = least, most
    setattr(x, _MARKS, marks)


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _bound(name: str, value: int | None, default: float) -> float:
    if value is None:
        return default
    if not _is_int(value):
        raise TypeError(f"mark_dynamic: {name} must be an int or None, got {value!r}")
    if value < 0:
        raise ValueError(f"mark_dynamic: {name} must be at least 0, got {value}")
    if value >= 2**63:
        raise ValueError(f"mark_dynamic: {name} must be less than 2**63, got {value}")
    return int(value)


def marks_of(leaves: Sequence[Any], all_sizes: bool) -> Marks:
    """The marked sizes of arguments; or all of them."""
    marks: Marks = {}
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor):
            own = getattr(x, _MARKS, {})
            for dim in range(x.dim()) if all_sizes else own:
                marks[i, dim] = own.get(dim, (0, inf))
    return marks


class Dynamic:
    """A traced capture, and the sizes that others may take the place of. ``failure``: why it cannot
    be made of others, if it cannot."""

    def __init__(self, capture: Capture | None, marks: Marks, failure: str = "") -> None:
        self.capture, self.marks, self._failure = capture, marks, failure

    def resized(
        self, sizes: Sequence[tuple[int, int, int]], leaves: Sequence[Any]
    ) -> Capture | str:
        """The capture of a call that has these sizes (argument, dimension, size), made without the
        function; or why it must be captured."""
        for i, dim, n in sizes:
            least, most = self.marks.get((i, dim), (1, 0))
            if not least <= n <= most:
                return f"dimension {dim} of argument {i} is not marked for {n}"
        was = self.capture
        if was is None or was.log is None:
            return self._failure
        if any(
            isinstance(x, tuple) and type(x[1]) is int and x[0] == "grad" for x in was.arguments
        ):
            return "the gradient of an argument is read"
        given = [leaves[x] if isinstance(x, int) else None for x in was.arguments]
        core = _core.Graph()
        found = was.log.replay(was.core, core, given, [n for _, n in was.draws])
        if isinstance(found, str):
            return found
        made = copy.copy(was)
        made.dynamic = self
        vars(made).pop("graph", None)  # of another size
        made.core, made.resized = core, None
        made.draws = [(x, n) for (x, _), n in zip(made.draws, found, strict=True)]
        return made
