"""`torch.distributed.fsdp`, to be imported: with one process there is nothing to shard."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tinyt.absent import refusing_class

_HINT = (
    "there is one process, and nothing to shard; use the module itself, or "
    "nn.parallel.DistributedDataParallel"
)

FullyShardedDataParallel = refusing_class("distributed.fsdp", "FullyShardedDataParallel", _HINT)
FSDPModule = refusing_class("distributed.fsdp", "FSDPModule", _HINT)


class _Settings:
    """Settings of a wrapper that is never made: any, kept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.__dict__.update(kwargs)


class MixedPrecision(_Settings):
    """Settings."""


class MixedPrecisionPolicy(_Settings):
    """Settings."""


class CPUOffload(_Settings):
    """Settings."""


class FullStateDictConfig(_Settings):
    """Settings."""


class FullOptimStateDictConfig(_Settings):
    """Settings."""


class ShardingStrategy(Enum):
    """PyTorch's choices."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(Enum):
    """PyTorch's choices."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(Enum):
    """PyTorch's choices."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: there is one process, and nothing to shard."""
    return FSDPModule(module)


__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FSDPModule",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "MixedPrecisionPolicy",
    "ShardingStrategy",
    "StateDictType",
    "fully_shard",
]
