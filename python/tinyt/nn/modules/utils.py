"""`torch.nn.modules.utils`: one value or one for each axis, as PyTorch's layers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a value n times, and makes a tuple of an iterable."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """The values from the last to the first, each n times: a layer's padding as `pad` takes it."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Sizes of which None stands for the one of `defaults`, whose last ones count."""
    if not isinstance(out_size, Iterable):
        return out_size
    sizes = list(out_size)
    if len(defaults) <= len(sizes):
        raise ValueError(f"Input dimension should be at least {len(sizes) + 1}")
    usual = defaults[len(defaults) - len(sizes) :]
    return [d if v is None else v for v, d in zip(sizes, usual, strict=True)]


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, Any], prefix: str
) -> None:
    """Takes a prefix off the names of a state dict, in place, as `DataParallel` leaves "module.".

    >>> state = {"module.weight": 1, "module.bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1, 'bias': 2}
    """
    _without_prefix(state_dict, prefix)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        _without_prefix(metadata, prefix, prefix.replace(".", ""))


def _without_prefix(names: MutableMapping[str, Any], *prefixes: str) -> None:
    for key in list(names):
        if key and (key.startswith(prefixes[0]) or key in prefixes):
            names[key[len(prefixes[0]) :]] = names.pop(key)
