"""`DataLoader`: batches of a dataset, in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

from tinyt import _core
from tinyt.data.dataset import Dataset, IterableDataset
from tinyt.data.fetch import Fetcher
from tinyt.data.pinning import PinnedFetcher
from tinyt.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from tinyt.data.workers import Job, LoaderIterator, ThreadedIterator
from tinyt.ops import randint
from tinyt.random import Generator

_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)


class InlineIterator(LoaderIterator):
    """Batches of one pass made by the calling thread; after an error of one, the next one follows.

    Args:
        visits: as for `LoaderIterator`.
        make: makes what turns an index into a batch, when the first one is asked for.
        indices: what the batches are made of.
    """

    def __init__(self, visits: Any, make: Callable[[], Fetcher], indices: Iterator[Any]) -> None:
        super().__init__(visits)
        self._make = make
        self._fetch: Fetcher | None = None
        self._indices = indices

    def __next__(self) -> Any:
        if self._fetch is None:
            self._fetch = self._make()
        index = next(self._indices)
        try:
            return self._fetch(index)
        except StopIteration:  # of a stream: nothing comes after it
            self._indices = iter(())
            raise


class DataLoader:
    """Iterates over a dataset in batches.

    The order, and what worker threads draw at random with tinyt, depends on the generator alone:
    with equal seeds, equal batches, for any timing.

    Args:
        dataset: has `__getitem__` and `__len__`, or is an `IterableDataset`.
        batch_size: samples per batch; None gives single samples, not collated.
        shuffle: whether each pass has a new random order.
        sampler: gives the indices; excludes `shuffle`.
        batch_sampler: gives lists of indices; excludes `batch_size`, `shuffle`, `sampler` and
            `drop_last`.
        num_workers: threads that make batches ahead of time; 0: the calling thread does.
        collate_fn: joins a list of samples; `default_collate` by default.
        pin_memory: whether batches are in pinned memory (`Tensor.pin_memory`), from which
            `to("cuda", non_blocking=True)` copies on its own; no effect where no CUDA device opens.
        drop_last: whether a last batch that is short is left out.
        timeout: seconds to wait for a batch of a worker; 0: for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: accepted, no effect: workers are threads.
        generator: source of randomness; the default generator if None.
        prefetch_factor: batches that each worker makes ahead; 2 by default.
        persistent_workers: whether the threads are kept from one pass to the next.
        pin_memory_device: accepted, no effect: pinned memory is for all CUDA devices.
        in_order: False gives the batches of workers as they come.
        seed: shorthand for a generator of its own with this seed; excludes `generator`.

    Errors of a sample, in a worker too, are raised here as they were there; the pass can go on with
    the next batch. A pass with workers stays in its process: in the child of a fork it raises
    RuntimeError, and a new pass has workers of its own.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: object = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if seed is not None:
            if generator is not None:
                raise ValueError("DataLoader: generator is mutually exclusive with seed")
            generator = Generator()
            generator.manual_seed(seed)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self._streamed = isinstance(dataset, IterableDataset)
        self._choose_samplers(batch_size, shuffle, sampler, batch_sampler)
        self._workers: ThreadedIterator | None = None

    def _choose_samplers(
        self,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: Iterable[Any] | None,
        batch_sampler: Iterable[list[Any]] | None,
    ) -> None:
        if self._streamed and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader with IterableDataset: expected unspecified shuffle, sampler and "
                "batch_sampler options"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or self.drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and self.drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if self._streamed:
            sampler = repeat(None)
        elif sampler is None and batch_sampler is None:
            sampler = (
                RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
                if shuffle
                else SequentialSampler(self.dataset)  # type: ignore[arg-type]
            )
        if batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, self.drop_last)
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "batch_sampler" in self.__dict__:  # the last one that is set
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        # One draw for each pass, with or without workers, so that both shuffle alike.
        seed = int(randint(2**62, (), generator=self.generator).item())
        visits = self._visits()
        indices = iter(visits)
        if self.num_workers == 0:
            return InlineIterator(visits, partial(self._fetcher(), self.dataset), indices)
        if self._workers is not None and self._workers.is_of_this_process():
            self._workers.restart(indices)
            return self._workers
        job = Job(self.dataset, self._fetcher(), self.worker_init_fn, seed, self.num_workers)
        assert self.prefetch_factor is not None
        workers = ThreadedIterator(
            visits,
            job,
            indices,
            self.prefetch_factor,
            self.timeout,
            self.in_order,
            self.persistent_workers,
        )
        if self.persistent_workers:
            self._workers = workers
        return workers

    def _fetcher(self) -> Callable[[Dataset[Any]], Fetcher]:
        collate, batched, drop_last = (
            self.collate_fn,
            self.batch_sampler is not None,
            self.drop_last,
        )
        kind = PinnedFetcher if self.pin_memory and _core.has_pinned_memory() else Fetcher
        return lambda dataset: kind(dataset, collate, batched, drop_last)

    def _visits(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        """The number of batches; TypeError where the dataset or sampler has no length."""
        if not self._streamed:
            return len(self._visits())
        samples = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to load in the calling "
            f"thread, got {num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified with workers: num_workers > 0"
        )
    if prefetch_factor is not None and prefetch_factor <= 0:
        raise ValueError(f"prefetch_factor option should be positive, got {prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
