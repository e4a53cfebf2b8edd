"""How a tensor goes to another process: by a descriptor of its memory, which all of them map."""

from __future__ import annotations

from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from tinyt import _tensor
from tinyt._tensor import dtype as DType
from tinyt.nn.parameter import Buffer, Parameter
from tinyt.tensor import Tensor, prim


def reduce_tensor(x: Tensor) -> tuple[Any, ...]:
    """What a tensor is made of again in another process; moves it into shared memory.

    Of a tensor whose memory an array uses, which cannot move, a copy is sent. RuntimeError for one
    that the tape has computed.
    """
    if x.requires_grad and not x.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    memory: Any = x.detach()
    try:
        _tensor.move_to_shared(memory)
    except RuntimeError:
        memory = prim.copy(memory)
        _tensor.move_to_shared(memory)
    nbytes = memory._storage_elements * memory.itemsize
    layout = (tuple(x.shape), memory.stride(), memory.storage_offset())
    descriptor = DupFd(_tensor.shared_descriptor(memory))
    return rebuild_tensor, (type(x), descriptor, nbytes, x.dtype, *layout, x.requires_grad)


def rebuild_tensor(
    cls: type[Tensor],
    descriptor: Any,
    nbytes: int,
    dtype: DType,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    requires_grad: bool,
) -> Tensor:
    """The tensor that `reduce_tensor` took apart, over the same memory."""
    flat: Any = _tensor.map_shared(descriptor.detach(), nbytes)
    whole = _tensor.view_dtype(flat, dtype)
    return _tensor.make_subclass(cls, prim.as_strided(whole, shape, stride, offset), requires_grad)


def init_reductions() -> None:
    """Makes queues, pipes and processes of `multiprocessing` send tensors like this."""
    for kind in (Tensor, Parameter, Buffer):
        ForkingPickler.register(kind, reduce_tensor)
