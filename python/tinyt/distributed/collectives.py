"""Collectives in a group of one: what each process gets is what this one gives.

All check their arguments as between several processes, and return None, or with `async_op=True` a
`Work` that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from tinyt.autograd import no_grad
from tinyt.distributed.group import group_of, require_rank
from tinyt.tensor import Tensor


class RedOpType(str):
    """How the tensors of all processes are joined; with one process all give its tensor."""

    def __repr__(self) -> str:
        return f"<RedOpType.{self}>"


class ReduceOp:
    """Names of joining operations: ``ReduceOp.SUM`` and so on."""

    SUM = RedOpType("SUM")
    AVG = RedOpType("AVG")
    PRODUCT = RedOpType("PRODUCT")
    MIN = RedOpType("MIN")
    MAX = RedOpType("MAX")
    BAND = RedOpType("BAND")
    BOR = RedOpType("BOR")
    BXOR = RedOpType("BXOR")
    PREMUL_SUM = RedOpType("PREMUL_SUM")
    RedOpType = RedOpType


# PyTorch's older name.
reduce_op = ReduceOp


class Work:
    """A collective that is done."""

    def __init__(self, result: list[Tensor] | None = None) -> None:
        self._result = result or []

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True, at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def exception(self) -> None:
        """None."""

    def result(self) -> list[Tensor]:
        """The tensors that were written."""
        return self._result

    def get_future(self) -> _Done:
        """The same as a future."""
        return _Done(self._result)


class _Done:
    """A future whose value is there."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """The value."""
        return self._value

    value = wait

    def done(self) -> bool:
        """True."""
        return True

    def then(self, callback: Callable[[_Done], Any]) -> _Done:
        """The future of what `callback` makes of this one."""
        return _Done(callback(self))


def _tensor(op: str, name: str, x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"{op}: {name} must be a tensor, got {type(x).__name__}")
    return x


def _one(op: str, name: str, tensors: Any) -> Tensor:
    """The tensor in a list of one for each process."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{op}: {name} must be a list of tensors, got {type(tensors).__name__}")
    if len(tensors) != 1:
        raise ValueError(f"{op}: {name} must have one tensor a process (1), got {len(tensors)}")
    return _tensor(op, f"{name}[0]", tensors[0])


def _check_op(op: str, kind: Any) -> None:
    if not isinstance(kind, RedOpType):
        raise TypeError(f"{op}: op must be one of ReduceOp's, got {kind!r}")


def _finish(written: Tensor | None, async_op: bool) -> Work | None:
    return Work([] if written is None else [written]) if async_op else None


def _copy(op: str, to: Tensor, source: Tensor) -> None:
    """Writes a tensor into one of as many elements and the same dtype."""
    if to.dtype != source.dtype:
        raise TypeError(f"{op}: expected dtype {source.dtype}, got {to.dtype}")
    if to.numel() != source.numel():
        raise ValueError(
            f"{op}: the result has shape {tuple(source.shape)}, the tensor for it {tuple(to.shape)}"
        )
    with no_grad():
        to.copy_(source.detach().reshape(to.shape))


def check_root(op: str, rank: int | None, group_rank: int | None, what: str = "src") -> None:
    """Checks who a collective goes from or to."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{op}: can't specify both {what} and group_{what}")
    for given in (rank, group_rank):
        if given is not None:
            require_rank(op, given)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Joins `tensor` of all processes, in each of them: with one, it stays as it is."""
    _tensor("all_reduce", "tensor", tensor)
    _check_op("all_reduce", op)
    return None if group_of(group) is None else _finish(tensor, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Joins `tensor` of all processes, in process `dst`: with one, it stays as it is."""
    _tensor("reduce", "tensor", tensor)
    _check_op("reduce", op)
    if group_of(group) is None:
        return None
    check_root("reduce", dst, group_dst, "dst")
    return _finish(tensor, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Sends `tensor` of process `src` to all: with one, it stays as it is."""
    _tensor("broadcast", "tensor", tensor)
    if group_of(group) is None:
        return None
    check_root("broadcast", src, group_src)
    return _finish(tensor, async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Writes `tensor` of each process into the tensors of a list, in each of them."""
    if group_of(group) is None:
        return None
    to = _one("all_gather", "tensor_list", tensor_list)
    _copy("all_gather", to, _tensor("all_gather", "tensor", tensor))
    return _finish(to, async_op)


def all_gather_single(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_gather` into one tensor, which holds those of all processes one after another."""
    if group_of(group) is None:
        return None
    op = "all_gather_single"
    _copy(
        op, _tensor(op, "output_tensor", output_tensor), _tensor(op, "input_tensor", input_tensor)
    )
    return _finish(output_tensor, async_op)


# PyTorch's older name.
all_gather_into_tensor = all_gather_single


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Writes `tensor` of each process into the tensors of a list, in process `dst`."""
    if group_of(group) is None:
        return None
    check_root("gather", dst, group_dst, "dst")
    if not gather_list:
        raise ValueError("gather: gather_list must be given on the destination rank")
    to = _one("gather", "gather_list", gather_list)
    _copy("gather", to, _tensor("gather", "tensor", tensor))
    return _finish(to, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Writes a tensor of the list of process `src` into `tensor`, each process its own."""
    if group_of(group) is None:
        return None
    check_root("scatter", src, group_src)
    if not scatter_list:
        raise ValueError("scatter: scatter_list must be given on the source rank")
    _copy(
        "scatter",
        _tensor("scatter", "tensor", tensor),
        _one("scatter", "scatter_list", scatter_list),
    )
    return _finish(tensor, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Joins the lists of all processes and writes a tensor of that into `output`."""
    _check_op("reduce_scatter", op)
    if group_of(group) is None:
        return None
    source = _one("reduce_scatter", "input_list", input_list)
    _copy("reduce_scatter", _tensor("reduce_scatter", "output", output), source)
    return _finish(output, async_op)


def reduce_scatter_single(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`reduce_scatter` of one tensor that holds all parts one after another."""
    name = "reduce_scatter_single"
    _check_op(name, op)
    if group_of(group) is None:
        return None
    _copy(name, _tensor(name, "output", output), _tensor(name, "input", input))
    return _finish(output, async_op)


# PyTorch's older name.
reduce_scatter_tensor = reduce_scatter_single


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Each process sends each other one a tensor of its list."""
    if group_of(group) is None:
        return None
    to = _one("all_to_all", "output_tensor_list", output_tensor_list)
    _copy("all_to_all", to, _one("all_to_all", "input_tensor_list", input_tensor_list))
    return _finish(to, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`all_to_all` of parts of one tensor."""
    if group_of(group) is None:
        return None
    name = "all_to_all_single"
    for sizes, x in ((output_split_sizes, output), (input_split_sizes, input)):
        _tensor(name, "output and input", x)
        if sizes and (len(sizes) != 1 or sizes[0] != len(x)):
            raise RuntimeError(
                f"{name}: split sizes must be one a process, with sum {len(x)}, got {list(sizes)}"
            )
    _copy(name, output, input)
    return _finish(output, async_op)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Waits for all processes: for nobody."""
    return None if group_of(group) is None else _finish(None, async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits for all processes: for nobody."""
    group_of(group)
