"""Datasets, samplers and the loader that makes batches."""

from __future__ import annotations

from tinyt.data.collate import default_collate
from tinyt.data.dataset import Dataset, Subset, TensorDataset, random_split
from tinyt.data.loader import DataLoader
from tinyt.data.samplers import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "default_collate",
    "random_split",
]
