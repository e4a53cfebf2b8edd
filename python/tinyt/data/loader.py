"""`DataLoader`: batches of a dataset, in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tinyt.data.collate import default_collate
from tinyt.data.dataset import Dataset, Subset, TensorDataset
from tinyt.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from tinyt.dtypes import int64
from tinyt.ops import tensor
from tinyt.random import Generator


class DataLoader:
    """Iterates over a dataset in batches, in the calling process.

    The order depends on the generator alone: with equal seeds, equal batches.

    Args:
        dataset: has `__getitem__` and `__len__`.
        batch_size: samples per batch; None gives single samples, not collated.
        shuffle: whether each pass has a new random order.
        sampler: gives the indices; excludes `shuffle`.
        batch_sampler: gives lists of indices; excludes `batch_size`, `shuffle`, `sampler` and
            `drop_last`.
        num_workers: must be 0.
        collate_fn: joins a list of samples; `default_collate` by default.
        drop_last: whether a last batch that is short is left out.
        generator: source of randomness for `shuffle`; the default generator if None.
        seed: shorthand for a generator of its own with this seed; excludes `generator`.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        *,
        generator: Generator | None = None,
        seed: int | None = None,
    ) -> None:
        if num_workers != 0:
            raise ValueError(
                "DataLoader: num_workers must be 0 (batches are made in the calling process), "
                f"got {num_workers}"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if seed is not None:
            if generator is not None:
                raise ValueError("DataLoader: generator is mutually exclusive with seed")
            generator = Generator()
            generator.manual_seed(seed)
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None and batch_sampler is None:
            sampler = (
                RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
                if shuffle
                else SequentialSampler(dataset)  # type: ignore[arg-type]
            )
        if batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.generator = generator
        self.collate_fn = collate_fn

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            assert self.sampler is not None
            for index in self.sampler:
                sample = self.dataset[index]
                yield sample if self.collate_fn is None else self.collate_fn(sample)
            return
        for indices in self.batch_sampler:
            yield self._batch(list(indices))

    def __len__(self) -> int:
        """The number of batches."""
        visits = self.sampler if self.batch_sampler is None else self.batch_sampler
        return len(visits)  # type: ignore[arg-type]

    def _batch(self, indices: list[int]) -> Any:
        if self.collate_fn is None:
            gathered = _gather(self.dataset, indices)
            if gathered is not None:
                return gathered
        collate = default_collate if self.collate_fn is None else self.collate_fn
        return collate([self.dataset[index] for index in indices])


def _gather(dataset: Dataset[Any], indices: list[int]) -> list[Any] | None:
    """The collated samples of a tensor dataset by one indexing per tensor; None for others.

    Exact types only: a subclass may change what a sample is.
    """
    while type(dataset) is Subset:
        indices = [dataset.indices[index] for index in indices]
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset:
        return None
    picked = tensor(indices, dtype=int64)
    return [column[picked] for column in dataset.tensors]
