"""What a device makes of the calls of an operation in a dtype, and how well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import tinyt
from tinyt import Tensor, _core, _tensor
from tinyt._core import DTypeError
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.cli.backends import updates
from tinyt.cli.backends.calls import Call, Calls, Draw, calls_of
from tinyt.compiler.verify.judge import error_of
from tinyt.dtypes import finfo
from tinyt.ops.common import OP_TABLE
from tinyt.tensor import prim

_UPDATE: dict[str, Any] = {
    "kind": "update",
    "inputs": -1,
    "attributes": "",
    "flags": "",
    "dtype_rule": "same",
}
ROWS: dict[str, Any] = {row["name"]: row for row in OP_TABLE}
ROWS |= dict.fromkeys(updates.NAMES, _UPDATE)
# Of operations that float64 has no form of: what the CPU makes, within so many units in the last
# place: of each element of a scalar operation, else of the largest one.
BESIDE_THE_CPU = {"scalar": 2.0, "struct": 16.0, "update": 16.0}


class Way(Enum):
    """How a device has an operation, with its letter in reports."""

    KERNEL = "k"  # or a view, which needs none
    DECOMPOSED = "d"
    REFUSED = "r"
    UNDEFINED = "."  # by the CPU, too


@dataclass(frozen=True)
class Outcome:
    """Of all calls of an operation in a dtype."""

    way: Way
    worst: float = 0.0  # part of the bound that errors take up; beyond 1 it is wrong
    bits: bool = True  # as the CPU's
    why: str = ""  # it is refused, or wrong

    @property
    def is_wrong(self) -> bool:
        """Whether a result is beyond its bound."""
        return not self.worst <= 1


def check(name: str, dtype: DType, place: Device, seed: int = 0) -> Outcome:
    """Runs the calls of an operation on a device, and looks at what comes back."""
    outcome = Outcome(Way.UNDEFINED)
    for call, wants in _defined_calls(name, dtype, seed):
        found = _check_call(name, dtype, call, wants, place)
        if found.way is Way.REFUSED or found.is_wrong:
            return found
        outcome = Outcome(found.way, max(outcome.worst, found.worst), outcome.bits and found.bits)
    return outcome


def _defined_calls(name: str, dtype: DType, seed: int) -> list[tuple[Call, tuple[Tensor, ...]]]:
    """The calls with what the CPU makes of them; none in a dtype that it does not take."""
    if not ROWS[name]["inputs"] and "t" not in _kinds(name) and dtype is not tinyt.int64:
        return []  # it makes int64 of nothing
    try:
        calls = _calls(name)(Draw(dtype, seed))
        return [(call, _run(name, call.operands, call.attributes)) for call in calls]
    except (DTypeError, NotImplementedError):
        return []


def _calls(name: str) -> Calls:
    if name in updates.NAMES:
        return lambda draw: [Call(updates.operands_of(draw))]
    return calls_of(name)


def _kinds(name: str) -> str:
    return "".join(part.split(":")[1][0] for part in ROWS[name]["attributes"].split())


def _run(name: str, operands: Sequence[Tensor], attributes: Sequence[Any]) -> tuple[Tensor, ...]:
    if name in updates.NAMES:
        return updates.run(name, operands)
    function = getattr(prim, name)
    given = [tuple(operands)] if ROWS[name]["inputs"] < 0 else list(operands)
    with tinyt.no_grad():
        made = function(*given, *attributes)
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _check_call(
    name: str, dtype: DType, call: Call, wants: tuple[Tensor, ...], place: Device
) -> Outcome:
    attributes = [place if isinstance(a, Device) else a for a in call.attributes]
    try:
        operands = [x.to(place) for x in call.operands]
        made = tuple(x.cpu() for x in _run(name, operands, attributes))
    except NotImplementedError as error:
        return Outcome(Way.REFUSED, why=str(error))
    except RuntimeError as error:
        return Outcome(Way.KERNEL, float("inf"), False, str(error))
    plain = [
        a.number if isinstance(a, DType) else 0 if isinstance(a, Device) else a
        for a in call.attributes
    ]
    worst, why = 0.0, ""
    judged = error_of(name, plain, call.operands, made)
    if judged is None:
        bound = BESIDE_THE_CPU[ROWS[name]["kind"]]
        pairs = zip(made, wants, strict=True)
        judged = [(_beside(got, want, bound, name), None) for got, want in pairs]
    for part, difference in judged:
        worst = max(worst, part)
        why = why or (str(difference.message) if difference is not None else "")
    code = _tensor.number_of_device(place)
    has = "view" in ROWS[name]["flags"] or _core.has_kernel(name, _works_in(name, dtype), code)
    return Outcome(Way.KERNEL if has else Way.DECOMPOSED, worst, _same(made, wants), why)


def _works_in(name: str, dtype: DType) -> DType:
    """The dtype that a call is computed in, as kernels are looked up by it."""
    rule = ROWS[name]["dtype_rule"]
    if rule == "float" and not (dtype.is_floating_point or dtype.is_complex):
        return tinyt.float32
    return dtype


def _same(made: Sequence[Tensor], wants: Sequence[Tensor]) -> bool:
    def bits(x: Tensor) -> list[Any]:
        wide = x.double() if x.dtype.is_floating_point else x
        return list(map(repr, wide.flatten().tolist()))

    return all(
        got.dtype is want.dtype and bits(got) == bits(want)
        for got, want in zip(made, wants, strict=True)
    )


def _beside(got: Tensor, want: Tensor, factor: float, name: str) -> float:
    """The largest part of its bound that an error takes up, by what the CPU has made."""
    if got.shape != want.shape or got.dtype is not want.dtype:
        return math.inf
    if not (want.dtype.is_floating_point or want.dtype.is_complex):
        return 0.0 if tinyt.equal(got, want) else math.inf
    if not want.numel():
        return 0.0
    found, wide = got.double(), want.double()
    size = wide.abs()
    if ROWS[name]["kind"] != "scalar":
        size = size.where(wide.isfinite(), 0.0).max()
    info = finfo(want.dtype)
    parts = (found - wide).abs() / (factor * info.eps * (size + info.tiny))
    same = (found == wide) | (found.isnan() & wide.isnan())
    parts = parts.where(~same, 0.0)
    return float(parts.nan_to_num(nan=math.inf).max().item())
