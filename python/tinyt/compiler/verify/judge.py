"""Whether what a node made is within its stated bound of float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinyt.compiler.capture.trial import Difference, array_of, at_first
from tinyt.compiler.graph.graph import OPS
from tinyt.dtypes import bfloat16, finfo, float16, float32, promote_types
from tinyt.tensor import Tensor, prim
from tinyt.testing.reference import Array, Sized, table

if TYPE_CHECKING:
    from tinyt._tensor import dtype

_HALVES = (float16, bfloat16)
_COMPUTED = {name for name, row in OPS.items() if row["dtype_rule"] in ("same", "float", "bool")}


def error_of(
    op: str, attrs: Sequence[Any], inputs: Sequence[Tensor], made: Sequence[Tensor]
) -> list[tuple[float, Difference | None]] | None:
    """Of every output of a node: the largest part of its bound that an error takes up, and the
    first element beyond. None where float64 has no form of the operation."""
    import numpy as np

    row = table().get(op)
    if row is None:
        return None
    works = _works_in(op, inputs, made[0].dtype) if inputs and op in _COMPUTED else None
    operands = [_wide(x, works) for x in inputs]
    with np.errstate(all="ignore"):
        found = row.function(*operands, *attrs)
        wants = found if isinstance(found, tuple) and not isinstance(found, Sized) else (found,)
        # Complex numbers are close in the plane, not in each part.
        is_complex = any(x.dtype.is_complex for x in inputs) and OPS[op]["kind"] == "scalar"
        ulp = max(row.ulp, 4.0) if is_complex else row.ulp
        return [_judge(ulp, x, want) for x, want in zip(made, wants, strict=True)]


def _works_in(op: str, inputs: Sequence[Tensor], result: dtype) -> dtype:
    """The dtype that operands are converted to."""
    if OPS[op]["dtype_rule"] != "bool":
        return result
    whole = [x.dtype for x in inputs if x.dim() > 0] or [x.dtype for x in inputs]
    found = whole[0]
    for other in whole[1:]:
        found = promote_types(found, other)
    numbers = [x.dtype for x in inputs if _category(x.dtype) > _category(found)]
    for other in numbers:
        found = promote_types(found, other if other.itemsize <= 4 else float32)
    return found


def _category(t: dtype) -> int:
    return 3 if t.is_complex else 2 if t.is_floating_point else 1 if t.name != "bool" else 0


def _wide(x: Tensor, works: dtype | None) -> Array:
    """The values in float64 or complex128, rounded as the operation takes them; integers and bool
    as they are, or in the dtype that it works in."""
    import numpy as np

    if works in _HALVES and x.dim() > 0 and not x.dtype.is_complex and x.dtype not in _HALVES:
        x = x if x.dtype.is_floating_point else prim.cast(x, works)  # as it is converted
    a = array_of(x)
    if works is None or a.dtype.kind in "fc":
        if works is not None and _is_narrow(works):
            a = a.astype(np.complex64 if a.dtype.kind == "c" else np.float32)
        return a.astype({"f": np.float64, "c": np.complex128}.get(a.dtype.kind, a.dtype))
    if works.is_floating_point or works.is_complex:
        return (a.astype(np.float32) if _is_narrow(works) else a).astype(np.float64)
    return a.astype(works.name)


def _is_narrow(t: dtype) -> bool:
    return (t.is_floating_point and t.itemsize <= 4) or t.name == "complex64"


def _judge(ulp: float, got: Tensor, found: Any) -> tuple[float, Difference | None]:
    import numpy as np

    if found is None:  # any will do, as the index of one of equal values
        return 0.0, None
    want, scale, rounded, below, flushed = found if isinstance(found, Sized) else Sized(found)
    have, want = array_of(got), np.asarray(want)
    if have.shape != want.shape:
        return np.inf, Difference(None, f"shape {have.shape} instead of {want.shape}")
    if have.dtype.kind not in "fc":
        wrong = np.asarray(have != want)
        return float(wrong.any()), at_first(wrong, have, want)
    info = finfo(got.dtype)
    works = finfo(float32) if got.dtype in _HALVES else info
    # The reference rounds to float64, too.
    factor = ulp if info.bits < 64 else 2 * ulp + 4 if ulp > 0 else 0.0
    size = np.abs(want)
    bound = info.eps / 2 * size + info.eps * (rounded + info.tiny)
    if factor > 0:
        bound = bound + factor * works.eps * (size + scale + works.tiny)
    if info.bits < 64:
        bound = bound + below * works.tiny
    if got.dtype is bfloat16:
        bound = bound + flushed * works.tiny
    wide = have.astype(np.complex128 if have.dtype.kind == "c" else np.float64)
    part = np.where(wide == want, 0.0, np.abs(wide - want) / bound)
    # Beyond the finite numbers: what overflows on the way, or nearly does, may be infinite or NaN.
    large = (size >= info.max / 4) | ((factor * (scale + size) >= info.max / 4) & (factor > 0))
    of_large = ~np.isfinite(wide) | (np.abs(wide) >= info.max / 4)
    part = np.where((large | ~np.isfinite(want)) & of_large, 0.0, part)
    wrong = np.asarray(~(part <= 1))
    part = np.where(np.isnan(part), np.inf, part)
    return float(part.max(initial=0.0)), at_first(wrong, have, want)
