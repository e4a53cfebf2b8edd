"""Parts of a batch for several devices, and one result of theirs, where all devices are the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyt._tensor import device as Device
from tinyt.nesting import deeper
from tinyt.ops import cat, chunk
from tinyt.tensor import Tensor

__all__ = ["gather", "scatter", "scatter_kwargs"]


def check_device(device: Any) -> None:
    """RuntimeError for a device that is not here; -1 is the CPU, and so is None."""
    if device is not None and device != -1:
        Device(device).require_present()


def _is_namedtuple(obj: Any) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Splits the tensors in nested lists, tuples and dicts evenly; other values are repeated.

    Args:
        inputs: a tensor, or containers of them.
        target_gpus: the devices, one a part: each must be the CPU.
        dim: along which tensors are split; there are fewer parts where it is too small.

    Returns:
        A tuple of tensors for a tensor, else a list of containers.

    Raises:
        RuntimeError: for a device that is not here.
        ValueError: for containers that contain themselves.

    >>> import tinyt
    >>> [x.tolist() for x in scatter(tinyt.arange(4), ["cpu", "cpu"])]
    [[0, 1], [2, 3]]
    """
    for device in target_gpus:
        check_device(device)
    return _parts(inputs, len(target_gpus), dim, 0)


def _parts(obj: Any, count: int, dim: int, depth: int) -> Any:
    if isinstance(obj, Tensor):
        return tuple(chunk(obj, count, dim)) if count else ()
    if isinstance(obj, (list, tuple, dict)) and obj:
        depth = deeper("scatter", depth)
        values = obj.items() if isinstance(obj, dict) else obj
        rows = zip(*(_parts(value, count, dim, depth) for value in values), strict=False)
        kind = type(obj)
        if _is_namedtuple(obj):
            return [kind(*row) for row in rows]
        if isinstance(obj, dict):
            return [kind(row) for row in rows]
        return [list(row) if isinstance(obj, list) else row for row in rows]
    return [obj] * count


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """`scatter` of positional and named arguments, as many of the one as of the other."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{} for _ in range(count - len(named))]
    return tuple(positional), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Joins what several devices gave, tensors in nested containers along ``dim``.

    Args:
        outputs: one value a device.
        target_device: where the result is to be: the CPU, or -1 for it.
        dim: along which tensors are joined; 0-d ones become one dimension.

    Raises:
        RuntimeError: for a device that is not here.
        ValueError: for dicts with other keys, and for containers that contain themselves.

    >>> import tinyt
    >>> gather([tinyt.zeros(1), tinyt.ones(2)], "cpu").tolist()
    [0.0, 1.0, 1.0]
    """
    check_device(target_device)
    return _joined(list(outputs), dim, 0)


def _joined(outputs: list[Any], dim: int, depth: int) -> Any:
    first = outputs[0]
    if isinstance(first, Tensor):
        return cat([x.reshape(1) if x.dim() == 0 else x for x in outputs], dim)
    if first is None:
        return None
    kind: Any = type(first)
    depth = deeper("gather", depth)
    if isinstance(first, Mapping):
        if any(len(first) != len(other) for other in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return kind((key, _joined([other[key] for other in outputs], dim, depth)) for key in first)
    rows = (_joined(list(row), dim, depth) for row in zip(*outputs, strict=True))
    return kind._make(rows) if _is_namedtuple(first) else kind(rows)
