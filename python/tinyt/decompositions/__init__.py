"""Every fused row of the op table in primitives, a family a module; and, in `complex`, every row
with arithmetic of complex numbers in operations on their parts.

A decomposition is the oracle of the row's kernels in the tests, and what runs on a device that has
no kernel of its own for it, or none for complex numbers. It takes the row's operands and attributes
and returns its results. The core records it once for each kind of call and keeps that
(src/core/graph/decompositions.h): it may look at shapes and dtypes, not at values, devices or
whether gradients are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt import _capture as _capture  # sizes are followed while a decomposition is recorded

if TYPE_CHECKING:
    from tinyt.tensor import Tensor

_FAMILIES = ("activation", "attention", "loss", "norm", "product", "recurrent", "reduce")

_table: dict[str, Callable[..., Any]] = {}


def table() -> dict[str, Callable[..., Any]]:
    """The decomposition of each fused row, by its name."""
    if not _table:
        found: dict[str, Callable[..., Any]] = {}
        for family in _FAMILIES:
            found |= import_module(f"{__name__}.{family}").ROWS
        _table.update(found)  # at once, whichever thread is first
    return _table


def of_complex() -> dict[str, Callable[..., Any]]:
    """The decomposition of each row that computes with complex numbers, by its name."""
    rows: dict[str, Callable[..., Any]] = import_module(f"{__name__}.complex").ROWS
    return rows


def call(name: str, operands: Sequence[Any], attributes: tuple[Any, ...]) -> Sequence[Tensor]:
    """The results of a row in other operations: what the core asks for."""
    row = table().get(name) or of_complex()[name]
    found = row(*operands, *attributes)
    return found if isinstance(found, tuple) else (found,)
