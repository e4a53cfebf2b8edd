"""From indices to a batch, in whichever thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from typing import Any

from tinyt.data.collate import default_collate, default_convert
from tinyt.data.dataset import Dataset, IterableDataset, Subset, TensorDataset
from tinyt.dtypes import int64
from tinyt.ops import tensor


class Fetcher:
    """Makes batches of a dataset: of its samples at given indices, or of the next of its stream.

    Args:
        dataset: by number or a stream.
        collate: joins samples; None for the default.
        batched: whether samples are joined.
        drop_last: whether a stream's last batch is left out if it is short.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        collate: Callable[[Any], Any] | None,
        batched: bool,
        drop_last: bool,
    ) -> None:
        self._dataset = dataset
        self._collate = collate
        self._batched = batched
        self._drop_last = drop_last
        self._stream: Iterator[Any] | None = None
        if isinstance(dataset, IterableDataset):
            self._stream = iter(dataset)

    def __call__(self, index: Any) -> Any:
        """The batch for `index`: a list of indices, or one; StopIteration at a stream's end."""
        if not self._batched:
            sample = self._dataset[index] if self._stream is None else next(self._stream)
            return (self._collate or default_convert)(sample)
        if self._stream is not None:
            samples = list(islice(self._stream, len(index)))
            if not samples or (self._drop_last and len(samples) < len(index)):
                raise StopIteration
            return (self._collate or default_collate)(samples)
        if self._collate is None:
            gathered = _gather(self._dataset, index)
            if gathered is not None:
                return gathered
        several = getattr(self._dataset, "__getitems__", None)
        samples = several(index) if several else [self._dataset[i] for i in index]
        return (self._collate or default_collate)(samples)


def _gather(dataset: Dataset[Any], indices: Any) -> list[Any] | None:
    """The collated samples of a tensor dataset by one indexing per tensor; None for others.

    Exact types of datasets only: a subclass may change what a sample is. Numbers only: any other
    index means something else alone than in a list.
    """
    while type(dataset) is Subset and isinstance(indices, Sequence):
        indices = [dataset.indices[index] for index in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or not _are_numbers(indices):
        return None
    picked = tensor(indices, dtype=int64)
    return [column[picked] for column in dataset.tensors]


def _are_numbers(indices: Any) -> bool:
    if not isinstance(indices, Sequence) and type(indices).__module__ != "numpy":
        return False  # it may be an iterator, whose items come once
    kinds = set(map(type, indices))
    return kinds == {int} or all(
        issubclass(kind, Integral) and not issubclass(kind, bool) for kind in kinds
    )
