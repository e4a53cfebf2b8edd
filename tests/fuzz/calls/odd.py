"""What the texts of calls name besides tinyt and NumPy: awkward tensors, arrays and objects."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tinyt
from fuzz.calls import planted

__all__ = [
    "T",
    "applied",
    "bare",
    "changed",
    "clearing",
    "compiled",
    "ending",
    "entered",
    "exercise",
    "giving",
    "identity",
    "in_lazy",
    "nested",
    "np",
    "planted",
    "raising",
    "read_only",
    "rebinding",
    "self_containing",
    "shared",
    "slow_iterator",
    "tinyt",
    "unaligned",
]


class PlantedError(Exception):
    """Raised by an object among the arguments, so never a finding."""


def T(shape: tuple[int, ...], dtype: str = "float32", how: str = "") -> tinyt.Tensor:
    """A tensor of small values; `how` it lies in memory, or that it requires grad."""
    wanted = getattr(tinyt, dtype)
    values = (np.arange(int(np.prod(shape))) % 7 - 2).reshape(shape)
    x = tinyt.tensor(values).to(wanted)
    if how == "grad":
        return x.requires_grad_()
    if how == "result":
        return x.requires_grad_() * 1
    if how == "transposed":
        return x.permute(*reversed(range(x.ndim))).clone().permute(*reversed(range(x.ndim)))
    if how == "stepped":
        return tinyt.stack([x, x], -1)[..., 0]
    if how == "overlapping" and x.ndim:
        return x.flatten()[:1].expand(x.shape) if x.numel() else x
    if how == "odd bytes":
        return tinyt.full(shape, 128, dtype=tinyt.uint8).view(tinyt.bool)
    if how == "nan":
        return (x * float("nan")).to(wanted)
    if how == "offset":
        return tinyt.cat([x.flatten()[:0], x.flatten().new_zeros(1), x.flatten()])[1:].view(shape)
    return x


def unaligned(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """An array one byte off its alignment."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    return np.zeros(size + 1, np.uint8)[1 : size + 1].view(kind).reshape(shape)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _object(name: str, method: Callable[..., Any]) -> Any:
    return type("Odd", (), {name: method})()


def raising(name: str) -> Any:
    """An object with one special method, which raises."""

    def method(*args: Any) -> Any:
        raise PlantedError(name)

    return _object(name, method)


def giving(name: str, value: Any) -> Any:
    """An object with one special method, which returns the value."""
    if name == "__getitem__":  # the old protocol of iteration, with an end

        def item(self: Any, index: Any) -> Any:
            if index == 3:
                raise IndexError
            return value

        return _object(name, item)
    return _object(name, lambda *args: value)


def clearing(name: str = "__index__", length: int = 3) -> list[Any]:
    """A list that the special method of its elements clears."""
    items: list[Any] = []

    def method(*args: Any) -> Any:
        items.clear()
        return 1.0 if name == "__float__" else 1

    items.extend(_object(name, method) for _ in range(length))
    return items


_shared: list[tinyt.Tensor] = []


def shared() -> tinyt.Tensor:
    """A tensor of twelve numbers, the same one at each mention within a call."""
    if not _shared:
        _shared.append(T((12,)))
    return _shared[0]


def fresh() -> None:
    """Forgets the shared tensor: the next call gets another one."""
    _shared.clear()


def rebinding(name: str = "__index__", how: str = "data") -> Any:
    """An object whose special method exchanges or shrinks the memory of the shared tensor."""

    def method(*args: Any) -> Any:
        x = shared()
        if how == "data":
            x.data = tinyt.zeros(0)
        else:
            x.requires_grad_(False).set_(tinyt.zeros(1)) if hasattr(x, "set_") else x.resize_(1)
        return 7.0 if name == "__float__" else 7

    return _object(name, method)


def nested(depth: int, inside: Any = 1) -> Any:
    """A list in a list in a list."""
    for _ in range(depth):
        inside = [inside]
    return inside


def self_containing() -> list[Any]:
    items: list[Any] = [1]
    items.append(items)
    return items


def bare(kind: type) -> Any:
    """An instance whose __init__ has not run."""
    return kind.__new__(kind)


def slow_iterator(length: int = 3) -> Iterator[int]:
    """A generator: no length, and used up after one pass."""
    yield from range(length)


def identity(*args: Any, **kwargs: Any) -> Any:
    """A function of anything."""
    return args[0] if args else None


def ending(condition: Any) -> Any:
    """The condition of a loop, false from its twentieth answer on; anything else as it is."""
    answers = itertools.count()
    if not callable(condition):
        return condition
    return lambda *args: condition(*args) if next(answers) < 20 else False


def compiled(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a compiled call, from the program that the second one runs."""
    program = tinyt.compile(function)
    program(*args, **kwargs)
    return program(*args, **kwargs)


def in_lazy(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call in a lazy block."""
    with tinyt.lazy():
        return function(*args, **kwargs)


def entered(context: Any) -> Any:
    """A context manager, entered and left."""
    with context as value:
        (T((2,), "float32", "grad") * 2).sum().backward()
    return value


def applied(layer: Any, x: tinyt.Tensor) -> None:
    """A layer and its result, used as their owner would."""
    exercise(layer)
    exercise(layer(x))


def changed(owner: Any, name: str, value: Any) -> None:
    """An object with another attribute, used as its owner would."""
    setattr(owner, name, value)
    exercise(owner)
    if callable(owner):
        exercise(owner(T((2, 3), "float32", "grad")))


def exercise(value: Any, depth: int = 0) -> None:
    """Uses a result as its owner would: a bad one that only later crashes is found here."""
    if isinstance(value, tinyt.Tensor):
        if value.numel() <= 10_000:
            repr(value)
            value.detach().clone().tolist() if value.numel() <= 100 else value.sum()
            if value.requires_grad and (value.is_floating_point() or value.is_complex()):
                total = value.sum()
                (total.real if value.is_complex() else total).backward()
        return
    if isinstance(value, (list, tuple)) and depth < 3:
        for item in itertools.islice(value, 4):
            exercise(item, depth + 1)
    elif isinstance(value, tinyt.optim.Optimizer):
        for group in value.param_groups:
            for parameter in group["params"]:
                parameter.grad = tinyt.ones_like(parameter)
        value.step()
    elif isinstance(value, tinyt.optim.lr_scheduler.LRScheduler):
        value.optimizer.step()
        value.step()
        value.state_dict()
    elif isinstance(value, tinyt.nn.Module):
        repr(value)
        value.state_dict()
        for parameter in itertools.islice(value.parameters(), 4):
            exercise(parameter.detach())
    elif isinstance(value, Iterator):
        exercise(list(itertools.islice(value, 3)), depth + 1)
    elif not isinstance(value, (int, float, complex, str, bytes, type, os.PathLike)):
        repr(value)
