"""Datasets: objects with a length and numbered samples."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from tinyt.ops import randperm
from tinyt.random import Generator
from tinyt.tensor import Tensor

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Base class: a subclass defines `__getitem__(index)` and `__len__()`."""

    def __getitem__(self, index: int) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """Base class of streams: a subclass defines `__iter__()`.

    With worker threads each of them iterates over a shallow copy of its own; `get_worker_info()`
    says which part of the stream is whose.
    """

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __add__(self, other: Dataset[Any]) -> Dataset[Any]:
        return ChainDataset([self, other])


class ConcatDataset(Dataset[Any]):
    """The samples of several datasets, one after another."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise ValueError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"ConcatDataset: index {index} is out of range, got {len(self)} samples"
            )
        index %= len(self)
        which = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which > 0 else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[Any]):
    """Several streams, one after another."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)  # type: ignore[arg-type, misc]


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side: samples are tuples, or dicts of named ones."""

    datasets: tuple[Dataset[Any], ...] | dict[str, Dataset[Any]]

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset: datasets are given either in order or by name, and at least one"
            )
        sizes = [len(dataset) for dataset in (*args, *kwargs.values())]  # type: ignore[arg-type]
        if len(set(sizes)) != 1:
            raise ValueError(f"StackDataset: size mismatch between datasets, got {sizes}")
        self._length = sizes[0]
        self.datasets = args or kwargs

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples along the first dimension of tensors of equal length; sample i is a tuple."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise ValueError("TensorDataset: at least one tensor is needed")
        sizes = [tuple(tensor.shape) for tensor in tensors]
        if any(not shape for shape in sizes) or len({shape[0] for shape in sizes}) != 1:
            raise AssertionError(
                "TensorDataset: tensors must agree in the size of dimension 0, got shapes "
                + ", ".join(map(str, sizes))
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class Subset(Dataset[Sample]):
    """The samples of `dataset` at `indices`, in that order."""

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> Sample:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Sample],
    lengths: Sequence[int | float],
    generator: Generator | None = None,
) -> list[Subset[Sample]]:
    """Splits `dataset` at random into disjoint subsets.

    Args:
        dataset: what to split.
        lengths: sizes that sum to `len(dataset)`, or fractions that sum to 1 (what rounding down
            leaves over goes to the first subsets, one sample each).
        generator: source of randomness; the default generator if None.
    """
    total = len(dataset)  # type: ignore[arg-type]
    sizes = list(lengths)
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        sizes = _sizes_of_fractions(sizes, total)
    if sum(sizes) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(total, generator=generator).tolist()
    subsets, start = [], 0
    for size in sizes:
        subsets.append(Subset(dataset, order[start : start + int(size)]))
        start += int(size)
    return subsets


def _sizes_of_fractions(fractions: list[int | float], total: int) -> list[int | float]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    return list(sizes)
