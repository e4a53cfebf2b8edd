"""`torch._utils`: lists of tensors as one, under the names that programs import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tinyt.ops import cat
from tinyt.tensor import Tensor

__all__ = ["_flatten_dense_tensors", "_take_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of all tensors in a row; ValueError for no tensors.

    >>> import tinyt
    >>> flat = _flatten_dense_tensors([tinyt.ones(2), tinyt.zeros(1, 2)])
    >>> flat
    tensor([1., 1., 0., 0.])
    >>> _unflatten_dense_tensors(flat, [tinyt.ones(2), tinyt.zeros(1, 2)])
    (tensor([1., 1.]), tensor([[0., 0.]]))
    """
    rows = [x.reshape(-1) for x in tensors]
    if not rows:
        raise ValueError("_flatten_dense_tensors: expected a non-empty list of tensors")
    return cat(rows)


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of a row of elements, in the shapes of tensors."""
    views, start = [], 0
    for x in tensors:
        views.append(flat[start : start + x.numel()].view(tuple(x.shape)))
        start += x.numel()
    return tuple(views)


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Groups of tensors of one dtype, each of ``size_limit`` bytes or the last tensor more."""
    groups: dict[object, tuple[list[Tensor], int]] = {}
    for x in tensors:
        group, size = groups.get(x.dtype, ([], 0))
        if group and size + x.nbytes > size_limit:
            yield group
            group, size = [], 0
        group.append(x)
        groups[x.dtype] = group, size + x.nbytes
    for group, _ in groups.values():
        if group:
            yield group
