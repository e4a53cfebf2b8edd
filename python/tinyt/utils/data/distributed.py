"""`DistributedSampler`: a part of a dataset's indices for each of several processes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from tinyt.data.samplers import Sampler
from tinyt.distributed.group import get_rank, get_world_size
from tinyt.ops import randperm
from tinyt.random import Generator

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from the `rank`-th on, of an order that all processes have.

    All parts have one length: without `drop_last` the order is filled up from its beginning, with
    it cut at its end. The order is PyTorch's way of making one, from this library's generator.

    Args:
        dataset: what is sampled; only its length counts.
        num_replicas: how many parts there are; the size of the process group by default.
        rank: which part this is; the rank in the process group by default.
        shuffle: whether each epoch (`set_epoch`) has an order of its own, of the seed.
        seed: the same in all processes.
        drop_last: whether the order is cut to a multiple of the parts, not filled up.

    Raises:
        ValueError: without a process group where one is asked for, and for a rank that there is
            not.

    >>> from tinyt.utils.data.distributed import DistributedSampler
    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = get_world_size()
        if rank is None:
            rank = get_rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        if drop_last and count % num_replicas != 0:
            self.num_samples = math.ceil((count - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order: list[int] = randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        if self.drop_last:
            order = order[: self.total_size]
        elif order:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / len(order)))[:missing]
        if len(order) != self.total_size:
            raise AssertionError(
                f"Number of subsampled indices ({len(order)}) does not match total_size "
                f"({self.total_size})"
            )
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets which order `shuffle` gives; call it before each pass, in all processes alike."""
        self.epoch = epoch
