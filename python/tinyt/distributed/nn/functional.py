"""Collectives that return new tensors and pass gradients through: in a group of one, copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt.distributed.collectives import ReduceOp
from tinyt.distributed.group import group_of, require_rank
from tinyt.tensor import Tensor

WORLD = None  # PyTorch's default of `group`


def _one(op: str, tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) != 1:
        raise ValueError(f"{op}: expected one tensor a process (1), got {len(tensors)}")
    return tensors[0].clone()


def broadcast(tensor: Tensor, src: int, group: Any = WORLD) -> Tensor:
    """`tensor` of process `src`, in each of them."""
    group_of(group)
    require_rank("broadcast", src)
    return tensor.clone()


def gather(tensor: Tensor, dst: int = 0, group: Any = WORLD) -> tuple[Tensor]:
    """`tensor` of each process, in process `dst`."""
    group_of(group)
    require_rank("gather", dst)
    return (tensor.clone(),)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = WORLD) -> Tensor:
    """This process's tensor of those of process `src`."""
    group_of(group)
    require_rank("scatter", src)
    return _one("scatter", tensors)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = WORLD) -> Tensor:
    """`tensor` of all processes joined, in process `dst`."""
    group_of(group)
    require_rank("reduce", dst)
    return tensor.clone()


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = WORLD
) -> Tensor:
    """This process's part of the lists of all joined."""
    group_of(group)
    return _one("reduce_scatter", input_list)


def all_gather(tensor: Tensor, group: Any = WORLD) -> tuple[Tensor]:
    """`tensor` of each process, in each of them."""
    group_of(group)
    return (tensor.clone(),)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = WORLD
) -> tuple[Tensor]:
    """What each process sends to this one."""
    group_of(group)
    return (_one("all_to_all", input_tensor_list),)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = WORLD,
) -> Tensor:
    """What each process sends to this one, parts of one tensor."""
    group_of(group)
    return input.clone()


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = WORLD) -> Tensor:
    """`tensor` of all processes joined, in each of them."""
    group_of(group)
    return tensor.clone()
