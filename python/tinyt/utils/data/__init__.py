"""`tinyt.data` under PyTorch's name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tinyt.utils.data import distributed
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
    "default_collate",
    "default_convert",
    "distributed",
    "get_worker_info",
    "random_split",
]


def __getattr__(name: str) -> Any:
    if name in ("distributed", "DistributedSampler"):
        module = import_module(f"{__name__}.distributed")
        return module if name == "distributed" else module.DistributedSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
