"""Limits and mixtures: clamp, lerp, addcmul, addcdiv, nan_to_num."""

from __future__ import annotations

from typing import Any

from tinyt._core import DTypeError
from tinyt.dtypes import result_type
from tinyt.ops.common import Number, Scalar, need_tensor, overwrite, write_out
from tinyt.tensor import Tensor, attach, method, prim

LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


@method
def clamp(
    input: Tensor,
    min: Tensor | Number | None = None,
    max: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Limits values to [min, max]. ``max`` wins where ``min > max``; NaN stays, and a NaN bound
    gives NaN."""
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of min and max must not be None")
    if min is not None and max is not None:
        return prim.clamp(input, min, max, out=out)
    if min is not None:
        return prim.clamp_min(input, min, out=out)
    assert max is not None
    return prim.clamp_max(input, max, out=out)


@method
def clamp_(
    input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """Limits values in place."""
    return overwrite(input, clamp, min, max)


@method
def clamp_min(input: Tensor, min: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Limits values from below."""
    return prim.clamp_min(input, min, out=out)


@method
def clamp_max(input: Tensor, max: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Limits values from above."""
    return prim.clamp_max(input, max, out=out)


@method
def clamp_min_(input: Tensor, min: Tensor | Number) -> Tensor:
    """Limits values from below in place."""
    return overwrite(input, prim.clamp_min, min)


@method
def clamp_max_(input: Tensor, max: Tensor | Number) -> Tensor:
    """Limits values from above in place."""
    return overwrite(input, prim.clamp_max, max)


def _factor(value: Scalar, *others: Tensor) -> Scalar:
    """The value, as a number of the kind that the operands are of; bools have no products."""
    dtype = result_type(*others)
    if value == 1 and dtype.name == "bool":
        return True
    return value if dtype.is_floating_point or not isinstance(value, float) else int(value)


@method
def addcmul(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: Scalar = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
    if result_type(input, tensor1, tensor2, value).is_complex:
        return prim.add(input, prim.mul(prim.mul(tensor1, value), tensor2), out=out)
    factor = _factor(value, input, tensor1, tensor2)
    return prim.addcmul(input, tensor1, tensor2, factor, out=out)


@method
def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """Adds ``value * tensor1 * tensor2`` in place."""
    return overwrite(self, addcmul, tensor1, tensor2, value=value)


@method
def addcdiv(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: Scalar = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input + value * tensor1 / tensor2``; RuntimeError where both of these are integers."""
    if result_type(input, tensor1, tensor2, value).is_complex:
        return prim.add(input, prim.div(prim.mul(tensor1, value), tensor2), out=out)
    if not result_type(tensor1, tensor2).is_floating_point:
        raise DTypeError(
            f"addcdiv: integer division is not supported, got {tensor1.dtype.name} / "
            f"{tensor2.dtype.name}; make one of them float"
        )
    return prim.addcdiv(input, tensor1, tensor2, value, out=out)


@method
def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """Adds ``value * tensor1 / tensor2`` in place."""
    return overwrite(self, addcdiv, tensor1, tensor2, value=value)


@method
def lerp(
    input: Tensor, end: Tensor, weight: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor:
    """``input + weight * (end - input)``, exact at both ends. One dtype, floats only."""
    input, end = (need_tensor("lerp", x) for x in (input, end))
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise DTypeError(f"lerp: not defined for dtype {input.dtype.name}")
    others = {"end": end}
    if isinstance(weight, Tensor) and weight.dim() > 0:
        others["weight"] = weight
    for name, other in others.items():
        if other.dtype is not input.dtype:
            raise DTypeError(
                f"lerp: {name} must have the dtype of input, got {other.dtype.name} and "
                f"{input.dtype.name}"
            )
    if not input.dtype.is_complex:
        return prim.lerp(input, end, weight, out=out)
    near = prim.lt(prim.abs(to_tensor(weight, input)), 0.5)
    way = prim.sub(end, input)
    from_start, from_end = input + way * weight, end - way * (1 - weight)
    return prim.where(near, from_start, from_end, out=out)


def to_tensor(weight: Tensor | Scalar, like: Tensor) -> Tensor:
    """A number as a 0-d tensor of the dtype of ``like``."""
    if isinstance(weight, Tensor):
        return weight
    return prim.mul(prim.fill((), like.dtype, 1.0, 1), weight)


@method
def lerp_(self: Tensor, end: Tensor, weight: Tensor | Scalar) -> Tensor:
    """Moves towards ``end`` by ``weight`` in place."""
    return overwrite(self, lerp, end, weight)


@method
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """NaN as ``nan`` (0), infinities as ``posinf`` and ``neginf`` (the dtype's largest); in each
    part of a complex number."""
    if need_tensor("nan_to_num", input).dtype.is_complex:
        parts = nan_to_num(prim.view_as_real(input), nan, posinf, neginf)
        return write_out(out, prim.view_as_complex(parts))
    if not input.dtype.is_floating_point:
        return prim.where(prim.eq(input, input), input, input, out=out)
    largest = LARGEST[input.dtype.name]
    result = prim.where(prim.isnan(input), 0.0 if nan is None else nan, input)
    result = prim.where(prim.gt(input, largest), largest if posinf is None else posinf, result)
    return prim.where(
        prim.lt(input, -largest), -largest if neginf is None else neginf, result, out=out
    )


@method
def nan_to_num_(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Replaces NaN and infinities in place."""
    return overwrite(input, nan_to_num, nan, posinf, neginf)


attach(clip=clamp, clip_=clamp_)
EXPORTS: dict[str, Any] = {
    **{f.__name__: f for f in (clamp, clamp_min, clamp_max, addcmul, addcdiv, lerp, nan_to_num)},
    "clip": clamp,
}
