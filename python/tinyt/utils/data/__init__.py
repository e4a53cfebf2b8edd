"""`tinyt.data` under PyTorch's name."""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    WorkerInfo,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

if _typing.TYPE_CHECKING:
    from tinyt.utils.data import _utils, dataloader, dataset, distributed, sampler
    from tinyt.utils.data.distributed import DistributedSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "_utils",
    "dataloader",
    "dataset",
    "default_collate",
    "default_convert",
    "distributed",
    "get_worker_info",
    "random_split",
    "sampler",
]

# Modules under PyTorch's paths, loaded when they are first asked for.
_LAZY = {"_utils", "dataloader", "dataset", "distributed", "sampler"}


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    if name == "DistributedSampler":
        return import_module(f"{__name__}.distributed").DistributedSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})
