"""`torch.nn.parallel` where there is one process and one device."""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.nn.parallel.data_parallel import DataParallel, data_parallel
from tinyt.nn.parallel.parallel_apply import parallel_apply
from tinyt.nn.parallel.replicate import replicate
from tinyt.nn.parallel.scatter_gather import gather, scatter

if _typing.TYPE_CHECKING:
    from tinyt.nn.parallel.distributed import DistributedDataParallel

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]


def __getattr__(name: str) -> _typing.Any:
    if name == "DistributedDataParallel":
        return import_module(f"{__name__}.distributed").DistributedDataParallel
    if name == "comm":
        return import_module(f"{__name__}.comm")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
