"""Batches in pinned memory, which CUDA devices copy from on their own."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy
from typing import Any

from tinyt.data.fetch import Fetcher
from tinyt.tensor import Tensor


def pinned(data: Any) -> Any:
    """The tensors of nested containers in pinned memory (`Tensor.pin_memory`), in containers of the
    same types; what has a `pin_memory` of its own by that; anything else as it is."""
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, Mapping):
        return _pinned_mapping(data)
    if isinstance(data, tuple):
        parts = [pinned(item) for item in data]
        return type(data)(*parts) if hasattr(data, "_fields") else type(data)(parts)
    if isinstance(data, Sequence):
        return _pinned_sequence(data)
    return data


def _pinned_mapping(data: Mapping[Any, Any]) -> Any:
    items = {key: pinned(value) for key, value in data.items()}
    try:
        if not isinstance(data, MutableMapping):
            return type(data)(items)  # type: ignore[call-arg]
        made = copy(data)  # with what else it has
        made.update(items)
        return made
    except TypeError:  # one that is made otherwise
        return items


def _pinned_sequence(data: Sequence[Any]) -> Any:
    items = [pinned(item) for item in data]
    try:
        if not isinstance(data, MutableSequence):
            return type(data)(items)  # type: ignore[call-arg]
        made = copy(data)
        for i, item in enumerate(items):
            made[i] = item
        return made
    except TypeError:
        return items


class PinnedFetcher(Fetcher):
    """Makes batches in pinned memory."""

    def __call__(self, index: Any) -> Any:
        """The batch for `index`, as `Fetcher`'s."""
        return pinned(super().__call__(index))
