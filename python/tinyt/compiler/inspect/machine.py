"""What this machine can do, measured through tinyt's own kernels when a report first needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tinyt import _core

if TYPE_CHECKING:
    from tinyt._tensor import dtype

_SMALLEST, _LARGEST = 2**12, 2**27  # bytes of a copy


_MOST = 3  # measurements of one rate

# The best rates, by the measuring function, its argument and the number of threads.
_measured: dict[tuple[Callable[[int], float], int, int], list[float]] = {}


def _rate(measure: Callable[[int], float], argument: int, again: bool) -> float:
    found = _measured.setdefault((measure, argument, _core.num_threads()), [])
    if not found or (again and len(found) < _MOST):
        found.append(measure(argument))
    return max(found)


def bandwidth(nbytes: int, again: bool = False) -> float:
    """Bytes a second, where so many are read and written: caches are faster than memory. Again:
    what was measured may have been disturbed."""
    rounded = 1 << (max(nbytes, 1).bit_length() - 1)
    return _rate(_core.copy_rate, min(max(rounded, _SMALLEST), _LARGEST), again)


def peak(t: dtype, default: dtype, again: bool = False) -> float:
    """Operations a second of products of a dtype; of one that has none, of the default."""
    has_products = t.is_floating_point or t.name == "int8"
    return _rate(_core.product_rate, (t if has_products else default).number, again)
