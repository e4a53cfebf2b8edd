"""Operations: typed functions over the primitives, one family a file; all names flat here."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

from tinyt.ops import (
    activation,
    arrange,
    attention,
    backward,
    bounded,
    class_loss,
    compare,
    complex,
    conv,
    convert,
    counting,
    creation,
    ctc,
    distance,
    distributions,
    dropout,
    einsum,
    elementwise,
    embedding,
    grid,
    indexing,
    inplace,
    join,
    linalg,
    loss,
    masks,
    matrix,
    multihead,
    norm,
    order,
    pad,
    pooling,
    random,
    ranges,
    reduce,
    resample,
    scan,
    scatter,
    search,
    shape,
    signal,
    slices,
    special,
    split,
    statistics,
    strides,
    triangular,
    unpooling,
    values,
    variates,
    weight_norm,
)
from tinyt.ops.common import OP_TABLE, named, renamed
from tinyt.tensor import Tensor

FAMILIES = (
    creation,
    values,
    elementwise,
    bounded,
    compare,
    special,
    complex,
    reduce,
    statistics,
    scan,
    order,
    search,
    counting,
    convert,
    shape,
    strides,
    split,
    join,
    arrange,
    pad,
    indexing,
    scatter,
    slices,
    masks,
    linalg,
    matrix,
    triangular,
    einsum,
    embedding,
    conv,
    pooling,
    unpooling,
    weight_norm,
    resample,
    grid,
    norm,
    attention,
    activation,
    loss,
    class_loss,
    ctc,
    distance,
    dropout,
    ranges,
    signal,
    random,
    distributions,
    variates,
    multihead,
)
# EXPORTS are functions of `tinyt`; FUNCTIONAL those that PyTorch has in `nn.functional` alone.
EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {}
for _family in FAMILIES:
    EXPORTS.update(_family.EXPORTS)
    FUNCTIONAL.update(getattr(_family, "FUNCTIONAL", {}))

_PRIMITIVES = {row["name"] for row in OP_TABLE if "fused" not in row["flags"]}


@cache
def _wrapped(function: FunctionType) -> Any:
    """A composite as it is called: errors name it, and arguments have other names too.

    One that only passes on to the primitive of its own name needs no renaming of errors; a fused
    row's has more to do.
    """
    return renamed(function) if function.__name__ in _PRIMITIVES else named(function)


for _members in (EXPORTS, FUNCTIONAL, dict(vars(Tensor))):
    for _name, _member in _members.items():
        if not isinstance(_member, FunctionType) or _name.startswith("__"):
            continue
        if not _member.__module__.startswith("tinyt.ops."):
            continue
        if _members is EXPORTS or _members is FUNCTIONAL:
            _members[_name] = _wrapped(_member)
        else:
            setattr(Tensor, _name, _wrapped(_member))
EXPORTS.update(inplace.in_place_functions())
globals().update(EXPORTS)
globals().update(FUNCTIONAL)

__all__ = ["EXPORTS", "FAMILIES", "FUNCTIONAL", "backward", *EXPORTS, *FUNCTIONAL]
