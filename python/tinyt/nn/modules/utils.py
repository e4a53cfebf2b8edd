"""One number or one per axis, as PyTorch's layers take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def _repeated(value: Any, n: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


def _ntuple(n: int, name: str = "parse") -> Any:
    """The function that repeats a number so many times."""

    def parse(x: Any) -> tuple[Any, ...]:
        return _repeated(x, n)

    parse.__name__ = name
    return parse


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """The entries from the last to the first, each so many times."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Sizes with those that are None taken from the last of the defaults; ValueError for more
    sizes than defaults have before their first."""
    if isinstance(out_size, (int, str)) or len(defaults) <= len(out_size):
        if isinstance(out_size, (int, str)):
            return out_size
        raise ValueError(f"expected more than {len(out_size)} defaults, got {len(defaults)}")
    last = defaults[-len(out_size) :]
    return [d if v is None else v for v, d in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes a prefix off the keys of a state dict that have it, in place; off those of its
    `_metadata`, too.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    versions = getattr(state_dict, "_metadata", None)
    if versions is not None:
        for key in [key for key in versions if key]:
            # "module" itself, without the dot, becomes the module at the top.
            if key == prefix.replace(".", "") or key.startswith(prefix):
                versions[key[len(prefix) :]] = versions.pop(key)


def _single(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 1)


def _pair(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 2)


def _triple(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 3)


def _quadruple(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 4)
