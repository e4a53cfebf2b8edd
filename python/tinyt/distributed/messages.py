"""Collectives of Python objects; messages to other processes, of which there is none."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

from tinyt.distributed.collectives import Work, check_root
from tinyt.distributed.group import GroupMember, group_of, require_rank
from tinyt.tensor import Tensor

# Objects -----------------------------------------------------------------------------------------


def _sent(obj: Any) -> Any:
    """An object as it arrives: a copy."""
    return pickle.loads(pickle.dumps(obj))


def _one_slot(op: str, name: str, objects: Any) -> list[Any]:
    if not isinstance(objects, list) or len(objects) < 1:
        raise RuntimeError(f"{op}: {name} must be a list with room for one object a process")
    return objects


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Puts copies of the objects of all processes into a list, in each of them."""
    if group_of(group) is not None:
        _one_slot("all_gather_object", "object_list", object_list)[0] = _sent(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Puts copies of the objects of all processes into a list, in process `dst`."""
    if group_of(group) is None:
        return
    check_root("gather_object", dst, group_dst, "dst")
    if not object_gather_list:
        raise ValueError("gather_object: object_gather_list must be given on the destination rank")
    object_gather_list[0] = _sent(obj)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Sends the objects of process `src` to all: with one, the list stays as it is."""
    if group_of(group) is None:
        return
    check_root("broadcast_object_list", src, group_src)
    pickle.dumps(object_list)  # what cannot be sent is found with one process, too


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Puts a copy of an object of the list of process `src` first into a list, each its own."""
    if group_of(group) is None:
        return
    op = "scatter_object_list"
    check_root(op, src, group_src)
    given = _one_slot(op, "scatter_object_input_list", scatter_object_input_list)
    if len(given) != 1:
        raise ValueError(f"{op}: one object a process (1) must be given, got {len(given)}")
    _one_slot(op, "scatter_object_output_list", scatter_object_output_list)[0] = _sent(given[0])


# From one process to another ----------------------------------------------------------------------


class P2POp(NamedTuple):
    """A message for `batch_isend_irecv`."""

    op: Callable[..., Any]
    tensor: Tensor
    peer: int | None = None
    group: Any = None
    tag: int = 0


def _no_peer(op: str, rank: int | None, group: Any) -> None:
    if group is not GroupMember.NON_GROUP_MEMBER:
        group_of(group)
    if rank is None or rank == 0:
        raise ValueError(f"{op}: there is no process but this one, rank 0, to talk to")
    require_rank(op, rank)


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """ValueError: there is nobody to send to."""
    _no_peer("send", dst if group_dst is None else group_dst, group)


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """ValueError: there is nobody to receive from."""
    _no_peer("recv", src if group_src is None else group_src, group)
    return -1


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """ValueError: there is nobody to send to."""
    _no_peer("isend", dst if group_dst is None else group_dst, group)
    return None


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """ValueError: there is nobody to receive from."""
    _no_peer("irecv", src if group_src is None else group_src, group)
    return None


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None, use_batch: bool = False,
) -> None:  # fmt: skip
    """ValueError: there is nobody to send to."""
    _no_peer("send_object_list", dst if group_dst is None else group_dst, group)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None, use_batch: bool = False,
) -> int:  # fmt: skip
    """ValueError: there is nobody to receive from."""
    _no_peer("recv_object_list", src if group_src is None else group_src, group)
    return -1


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Nothing for no messages; ValueError for any: there is nobody to talk to."""
    for message in p2p_op_list:
        _no_peer("batch_isend_irecv", message.peer, message.group)
    return []
