"""Operations: typed functions over the primitives, one family a file; all names flat here."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tinyt.ops import (
    activation,
    arrange,
    attention,
    backward,
    class_loss,
    complex,
    conv,
    convert,
    creation,
    distance,
    dropout,
    einsum,
    elementwise,
    embedding,
    indexing,
    join,
    linalg,
    loss,
    matrix,
    norm,
    pad,
    pooling,
    random,
    ranges,
    reduce,
    scatter,
    shape,
    split,
    strides,
)
from tinyt.ops.common import OP_TABLE, named
from tinyt.tensor import Tensor

FAMILIES = (
    creation, elementwise, complex, reduce, convert, shape, strides, split, join, arrange, pad,
    indexing, scatter, linalg, matrix, einsum, embedding, conv, pooling, norm, attention,
    activation, loss, class_loss, distance, dropout, ranges, random,
)  # fmt: skip
# EXPORTS are functions of `tinyt`; FUNCTIONAL those that PyTorch has in `nn.functional` alone.
EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {}
for _family in FAMILIES:
    EXPORTS.update(_family.EXPORTS)
    FUNCTIONAL.update(getattr(_family, "FUNCTIONAL", {}))

# A composite that only passes on to the primitive of its own name needs no renaming of errors.
_PRIMITIVES = {row["name"] for row in OP_TABLE}
for _members in (EXPORTS, FUNCTIONAL, dict(vars(Tensor))):
    for _name, _member in _members.items():
        if not isinstance(_member, FunctionType) or _member.__name__.strip("_") in _PRIMITIVES:
            continue
        if _name.startswith("__") or not _member.__module__.startswith("tinyt.ops."):
            continue
        if _members is EXPORTS or _members is FUNCTIONAL:
            _members[_name] = named(_member)
        else:
            setattr(Tensor, _name, named(_member))
globals().update(EXPORTS)
globals().update(FUNCTIONAL)

__all__ = ["EXPORTS", "FAMILIES", "FUNCTIONAL", "backward", *EXPORTS, *FUNCTIONAL]
