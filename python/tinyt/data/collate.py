"""`default_collate`: a list of samples becomes one batch."""

from __future__ import annotations

import copy
from collections.abc import (
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    Sequence,
)
from typing import Any

from tinyt.dtypes import float64
from tinyt.nesting import deeper
from tinyt.ops import as_tensor, stack, tensor
from tinyt.ops.creation.values import from_foreign
from tinyt.tensor import Tensor

# By the type of samples, or types in a tuple: what makes a batch of a list of them. The functions
# are called with the map that they were found in as the keyword `collate_fn_map`.
CollateMap = Mapping[Any, Callable[..., Any]]


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors, stacked."""
    return stack(list(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Floats, as a float64 tensor."""
    return tensor(list(batch), dtype=float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Integers or bools, as a tensor."""
    return tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Text, as it comes: a list, or a tuple inside tuples."""
    return batch


default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """Joins samples along a new first dimension.

    Tensors, also of other libraries with DLPack, and NumPy arrays are stacked, floats become a
    float64 tensor, ints an int64 one; text stays as it is; mappings, tuples and lists are joined
    member by member. Tuples without names become lists, other types of collections stay what they
    are where that can be. Entries of `default_collate_fn_map` say what becomes of further types.

    Raises:
        TypeError: for samples of another type.
        RuntimeError: for sequences of unequal length.
        ValueError: for samples that contain themselves.
    """
    return _collate(batch, 0, default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """As `default_collate`, with a map of one's own from types of samples to functions that join
    a list of them; other samples are collections, whose members are joined likewise, or arrays.

    >>> collate([[1, 2], [3, 4]], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)})
    [4, 6]
    """
    return _collate(batch, 0, collate_fn_map or {})


def _function_for(sample: Any, functions: CollateMap) -> Callable[..., Any] | None:
    """The entry for exactly this type, else the first one for a type that it derives from."""
    found = functions.get(type(sample))
    if found is None and type(sample).__module__ != "numpy":  # a float64 is a float, too
        found = next((f for kind, f in functions.items() if isinstance(sample, kind)), None)
    return found


def _collate(batch: Sequence[Any], depth: int, functions: CollateMap) -> Any:
    first = batch[0]
    if (join := _function_for(first, functions)) is not None:
        return join(batch, collate_fn_map=functions)
    if type(first).__module__ == "numpy":
        return _collate_numpy(batch)
    if isinstance(from_foreign(first), Tensor):
        return stack([as_tensor(sample) for sample in batch])
    if isinstance(first, Mapping):
        depth = deeper("default_collate", depth)
        return _mapping_like(
            first,
            {key: _collate([sample[key] for sample in batch], depth, functions) for key in first},
        )
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        depth = deeper("default_collate", depth)
        columns = [_collate(column, depth, functions) for column in zip(*batch, strict=True)]
        return _sequence_like(first, columns)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first)}"
    )


def default_convert(data: Any) -> Any:
    """A sample with its arrays and foreign tensors as tensors: what a loader without batches gives.

    Mappings, tuples and lists are converted member by member, as by `default_collate`; anything
    else stays as it is.

    Raises:
        ValueError: for a sample that contains itself.
    """
    return _convert(data, 0)


def _convert(data: Any, depth: int) -> Any:
    if isinstance(data, Tensor):
        return data
    if type(data).__module__ == "numpy":
        return as_tensor(data) if data.dtype.kind in "biufc" else data
    if isinstance(data, Mapping):
        depth = deeper("default_convert", depth)
        return _mapping_like(data, {key: _convert(value, depth) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        depth = deeper("default_convert", depth)
        return _sequence_like(data, [_convert(value, depth) for value in data])
    return from_foreign(data)


def _mapping_like(first: Mapping[Any, Any], members: dict[Any, Any]) -> Any:
    return members if type(first) is dict else _like(first, members, members.items())


def _sequence_like(first: Sequence[Any], members: list[Any]) -> Any:
    """As `_like`; a tuple becomes a list unless it is a named one."""
    if isinstance(first, tuple):
        return type(first)(*members) if hasattr(first, "_fields") else members
    return members if type(first) is list else _like(first, members, enumerate(members))


def _like(first: Any, members: Any, items: Iterable[tuple[Any, Any]]) -> Any:
    """`members` in the type of `first` where one can be made: a copy also keeps its attributes."""
    try:
        if not isinstance(first, (MutableMapping, MutableSequence)):
            return type(first)(members)
        made = copy.copy(first)
        for key, value in items:
            made[key] = value
        return made
    except TypeError:
        return members


def _collate_numpy(batch: Sequence[Any]) -> Tensor:
    if batch[0].dtype.kind not in "biufc":
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found array of dtype {batch[0].dtype}"
        )
    if batch[0].shape == ():
        return as_tensor([item.item() for item in batch], dtype=as_tensor(batch[0]).dtype)
    return stack([as_tensor(array) for array in batch])
