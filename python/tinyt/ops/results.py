"""What operations with several results return: see :mod:`tinyt.return_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from tinyt import return_types
from tinyt._core import ShapeError
from tinyt.ops.common import takes_shape, write_out
from tinyt.return_types import StructSequence
from tinyt.tensor import Tensor

Kind = TypeVar("Kind", bound=StructSequence)


def returned(
    kind: type[Kind], op: str, out: Sequence[Tensor] | None, results: tuple[Any, Any]
) -> Kind:
    """Two results, or the two tensors of ``out`` after they were written there, by their names."""
    if out is None:
        made: Kind = getattr(return_types, op)(results)
    else:
        made = getattr(return_types, f"{op}_out")(write_pair(op, out, results))
    return made


def write_pair(
    op: str, out: Sequence[Tensor], results: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """The two tensors of ``out`` after the results were written there."""
    pair = tuple(out)
    if len(pair) != 2 or not isinstance(pair[0], Tensor) or not isinstance(pair[1], Tensor):
        raise TypeError(f"{op}: out must be a tuple of two tensors, got {len(pair)} values")
    for tensor, result in zip(pair, results, strict=True):
        if not takes_shape(tensor, result):
            raise ShapeError(
                f"{op}: the result has shape {tuple(result.shape)}, out has {tuple(tensor.shape)}"
            )
    return write_out(pair[0], results[0]), write_out(pair[1], results[1])
