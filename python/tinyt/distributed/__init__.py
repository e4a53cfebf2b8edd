"""PyTorch's `torch.distributed` for one process: a group of one, in which collectives are copies.

A script that is written for several processes runs alone as it is: `init_process_group` makes a
group of world size 1, with or without the variables that `torchrun` sets. There is no transport, so
`is_available()` is False, and a world of more than one process is an error that says so.

>>> import tinyt
>>> from tinyt import distributed as dist
>>> dist.init_process_group("gloo")
>>> dist.get_rank(), dist.get_world_size()
(0, 1)
>>> x = tinyt.tensor([1.0, 2.0])
>>> dist.all_reduce(x)
>>> x
tensor([1., 2.])
>>> dist.destroy_process_group()
"""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.distributed.collectives import (
    ReduceOp,
    Work,
    all_gather,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_op,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from tinyt.distributed.group import (
    Backend,
    GroupMember,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
)
from tinyt.distributed.messages import (
    P2POp,
    all_gather_object,
    batch_isend_irecv,
    broadcast_object_list,
    gather_object,
    irecv,
    isend,
    recv,
    recv_object_list,
    scatter_object_list,
    send,
    send_object_list,
)
from tinyt.distributed.store import FileStore, HashStore, Store, TCPStore

__all__ = [
    "Backend",
    "FileStore",
    "GroupMember",
    "HashStore",
    "P2POp",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
]

# Parts of PyTorch that need several processes, and what to do without them.
_ABSENT = {
    "PrefixStore": "a store of one process is HashStore",
    "tensor": "there is one process; tensors are whole",
    "rpc": "there is one process",
    "pipelining": "there is one process; call the stages one after another",
    "checkpoint": "there is one process; use tinyt.save and tinyt.load",
}


# Loaded when they are first asked for.
_LAZY = {"algorithms", "device_mesh", "elastic", "fsdp", "nn", "optim"}


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(import_module(f"{__name__}.device_mesh"), name)
    hint = _ABSENT.get(name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}" + (f": {hint}" if hint else "")
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})
