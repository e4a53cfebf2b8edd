"""PyTorch's module of the loader."""

from __future__ import annotations

from tinyt.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    default_collate,
    default_convert,
    get_worker_info,
)
from tinyt.data.loader import InlineIterator as _SingleProcessDataLoaderIter
from tinyt.data.workers import LoaderIterator as _BaseDataLoaderIter
from tinyt.data.workers import ThreadedIterator as _MultiProcessingDataLoaderIter

__all__ = [
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "_BaseDataLoaderIter",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "default_collate",
    "default_convert",
    "get_worker_info",
]
