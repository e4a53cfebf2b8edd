"""PyTorch's module of what gets samples of a dataset by their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tinyt.data.fetch import Fetcher

__all__ = ["_BaseDatasetFetcher", "_IterableDatasetFetcher", "_MapDatasetFetcher"]


class _BaseDatasetFetcher:
    """A loader's way to its dataset: `fetch(indices)` gives a batch.

    Args:
        dataset: by number or a stream.
        auto_collation: whether samples are joined.
        collate_fn: joins samples.
        drop_last: whether a stream's last batch is left out if it is short.
    """

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> NoReturn:
        """NotImplementedError: of the classes below."""
        raise NotImplementedError(f"{type(self).__name__} must define fetch")


class _Fetching(_BaseDatasetFetcher):
    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self._fetcher = Fetcher(dataset, collate_fn, auto_collation, drop_last)

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch for a list of indices, or the sample for one; StopIteration at the end."""
        return self._fetcher(possibly_batched_index)


class _MapDatasetFetcher(_Fetching):
    """Of a dataset with numbers."""


class _IterableDatasetFetcher(_Fetching):
    """Of a stream."""
