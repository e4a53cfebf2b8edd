"""Every fused row of the op table in primitives, a family a module.

A decomposition is the oracle of the row's kernels in the tests, and what runs on a device that has
no kernel of its own for it. It takes the row's operands and attributes and returns its results. The
core records it once for each kind of call and keeps that (src/core/graph/decompositions.h): it may
look at shapes and dtypes, not at values, devices or whether gradients are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt import _capture as _capture  # sizes are followed while a decomposition is recorded
from tinyt._core import op_table

if TYPE_CHECKING:
    from tinyt.tensor import Tensor

_FAMILIES = ("activation", "attention", "loss", "norm", "product", "recurrent", "reduce")


@cache
def table() -> dict[str, Callable[..., Any]]:
    """The decomposition of each fused row, by its name."""
    found: dict[str, Callable[..., Any]] = {}
    for family in _FAMILIES:
        found.update(import_module(f"{__name__}.{family}").ROWS)
    return found


@cache
def _variadic() -> frozenset[str]:
    return frozenset(row["name"] for row in op_table() if row["inputs"] < 0)


def call(name: str, operands: list[Tensor], attributes: tuple[Any, ...]) -> Sequence[Tensor]:
    """The results of a row in other operations: what the core asks for."""
    given = (operands,) if name in _variadic() else operands
    found = table()[name](*given, *attributes)
    return found if isinstance(found, tuple) else (found,)
