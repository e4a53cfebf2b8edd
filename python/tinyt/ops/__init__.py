"""Operations: typed functions over the primitives, one family a file; all names flat here."""

from __future__ import annotations

from typing import Any

from tinyt.ops import (
    backward,
    conv,
    creation,
    elementwise,
    indexing,
    linalg,
    loss,
    norm,
    random,
    reduce,
    shape,
)

FAMILIES = (creation, elementwise, reduce, shape, indexing, linalg, conv, norm, loss, random)
EXPORTS: dict[str, Any] = {}
for _family in FAMILIES:
    EXPORTS.update(_family.EXPORTS)
globals().update(EXPORTS)

__all__ = ["EXPORTS", "FAMILIES", "backward", *EXPORTS]
