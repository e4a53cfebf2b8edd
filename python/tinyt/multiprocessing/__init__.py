"""PyTorch's `torch.multiprocessing`: Python's `multiprocessing`, with tensors in shared memory.

All names of `multiprocessing` are here. Once this module is imported, a tensor that goes to another
process (through a queue, a pipe, or as an argument of a process) is moved into shared memory and
arrives there as the same memory: what one process writes, the others see. Nothing has to be cleaned
up: the memory has no name, and goes with the last process that uses it.

>>> import tinyt
>>> from tinyt import multiprocessing as mp
>>> x = tinyt.zeros(2).share_memory_()
>>> process = mp.get_context("fork").Process(target=x.fill_, args=(3.0,))
>>> process.start(); process.join()
>>> x
tensor([3., 3.])
"""

from __future__ import annotations

import multiprocessing
from importlib import import_module
from multiprocessing import *  # noqa: F403
from typing import Any

from tinyt.multiprocessing import reductions
from tinyt.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
__all__ += multiprocessing.__all__

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The name that was set; "file_descriptor" at first."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Sets how shared memory is found by other processes.

    It always travels as a descriptor. "file_system", which programs set where descriptors run out
    ("Too many open files"), raises this process's limit of them to the most that it may have.

    Raises ValueError for another name.
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise ValueError(
            f"set_sharing_strategy: must be one of {', '.join(sorted(_STRATEGIES))}, "
            f"got {new_strategy!r}"
        )
    if new_strategy == "file_system":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _strategy = new_strategy


def __getattr__(name: str) -> Any:
    """Modules of `multiprocessing`: `pool`, `connection` and the like."""
    if not name.startswith("_"):
        try:
            return import_module(f"multiprocessing.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


reductions.init_reductions()
