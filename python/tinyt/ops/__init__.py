"""Operations: typed functions over the primitives, a folder a family; all names flat here."""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

from tinyt.ops import backward, convert, inplace
from tinyt.ops.common import OP_TABLE, named, renamed
from tinyt.ops.creation import filled, ranges, signal, values
from tinyt.ops.elementwise import bounded, compare, complex, functions, special
from tinyt.ops.index import indexing, masks, scatter, search, slices
from tinyt.ops.linalg import distance, einsum, matrix, products, triangular
from tinyt.ops.nn import (
    activation,
    attention,
    class_loss,
    conv,
    ctc,
    dropout,
    embedding,
    grid,
    loss,
    multihead,
    norm,
    pooling,
    resample,
    unpooling,
    weight_norm,
)
from tinyt.ops.random import distributions, draws, variates
from tinyt.ops.reduce import counting, order, reductions, scan, statistics
from tinyt.ops.shape import arrange, join, pad, reshape, split, strides
from tinyt.tensor import Tensor

FAMILIES = (
    filled,
    values,
    functions,
    bounded,
    compare,
    special,
    complex,
    reductions,
    statistics,
    scan,
    order,
    search,
    counting,
    convert,
    reshape,
    strides,
    split,
    join,
    arrange,
    pad,
    indexing,
    scatter,
    slices,
    masks,
    products,
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
    draws,
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
