"""What operations with several results return: named tuples with PyTorch's field names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinyt._core import ShapeError
from tinyt.ops.common import write_out
from tinyt.tensor import Tensor


class ValuesIndices(NamedTuple):
    """Values and where they were found."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The smallest and the largest value."""

    min: Tensor
    max: Tensor


class Histogram(NamedTuple):
    """Counts and the edges they are counted between."""

    hist: Tensor
    bin_edges: Tensor


class HistogramDD(NamedTuple):
    """Counts in several dimensions and the edges along each."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def write_pair(
    op: str, out: Sequence[Tensor] | None, results: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Two results, or the two tensors of ``out`` after they were written there."""
    if out is None:
        return results
    pair = tuple(out)
    if len(pair) != 2 or not isinstance(pair[0], Tensor) or not isinstance(pair[1], Tensor):
        raise TypeError(f"{op}: out must be a tuple of two tensors, got {len(pair)} values")
    for tensor, result in zip(pair, results, strict=True):
        if tuple(tensor.shape) != tuple(result.shape):
            raise ShapeError(
                f"{op}: the result has shape {tuple(result.shape)}, out has {tuple(tensor.shape)}"
            )
    return write_out(pair[0], results[0]), write_out(pair[1], results[1])
