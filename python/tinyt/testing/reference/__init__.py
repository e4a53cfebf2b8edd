"""NumPy reference: the one meaning of every operation, in float64, written from definitions.

A module for each family, whose functions have the arguments of the public operation. Tests call
them; `table` has them by primitive, with the bound that `compile(verify=True)` holds results to. A
row is a function of the operands (float64 or complex128; integers in the dtype that the operation
works in) and attributes, and a bound in units in the last place. A result got for a result wanted
is right where, with eps that of the result's dtype and eps32 that of what it is computed in
(float32 for halves),

    |got - want| <= eps / 2 |want| + ulp eps32 (|want| + scale) + eps rounded

The last two are what a function gives besides (`Sized`): the size of what is added up, times the
number of additions, where terms cancel; and the size of what is rounded to the result's dtype on
the way. Nothing here runs tinyt's kernels.
"""

from __future__ import annotations

from importlib import import_module

from tinyt.testing.reference.form import Array, Row, Sized

__all__ = ["Array", "Row", "Sized", "table"]

_FAMILIES = (
    *("elementwise", "activation", "special", "shape", "index", "reduce", "order", "products"),
    *("spatial", "norm", "loss", "attention", "random"),
)
_TABLE: dict[str, Row] = {}


def table() -> dict[str, Row]:
    """The rows by the operation's name. Loaded when first asked for: few programs verify others,
    and NumPy need not be there before."""
    if not _TABLE:
        for family in _FAMILIES:
            _TABLE.update(import_module(f"{__name__}.{family}").ROWS)
    return _TABLE
