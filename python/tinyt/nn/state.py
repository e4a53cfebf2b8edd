"""Loading a state dict: check everything, then copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tinyt.tensor import Tensor

EXTRA = "_extra_state"  # the key, after a module's prefix, of what get_extra_state returned


class _Keys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_Keys):
    """What `load_state_dict(strict=False)` skipped: `missing_keys` and `unexpected_keys`."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def load_into(
    owner: str,
    own: Mapping[str, Any],
    given: Mapping[str, Any],
    strict: bool,
    keys: IncompatibleKeys,
    errors: list[str],
    store: Callable[[str, Tensor, Tensor], None],
) -> None:
    """Passes the tensors of `given` with those of `own` of the same name to `store`.

    Nothing is stored unless every check passes.

    Args:
        owner: class name for the message.
        own: the tensors to fill; other values are extra state, which is not looked at.
        given: the tensors to read.
        strict: whether missing and unexpected names are errors.
        keys: the names that hooks found missing and unexpected; those found here are added.
        errors: what hooks had to complain about.
        store: called with the name, the tensor to fill and the one to read.
    """
    keys.missing_keys.extend(name for name in own if name not in given)
    keys.unexpected_keys.extend(name for name in given if name not in own)
    messages = []
    if strict and keys.missing_keys:
        messages.append(f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
    if strict and keys.unexpected_keys:
        messages.append(f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
    messages.extend(errors)
    pairs = [
        (name, target, given[name])
        for name, target in own.items()
        if name in given and isinstance(target, Tensor)
    ]
    for name, target, value in pairs:
        if not isinstance(value, Tensor):
            messages.append(
                f'While copying the parameter named "{name}", expected Tensor from checkpoint '
                f"but received {type(value)}"
            )
        elif tuple(value.shape) != tuple(target.shape):
            messages.append(
                f"size mismatch for {name}: copying a param with shape {tuple(value.shape)} from "
                f"checkpoint, the shape in current model is {tuple(target.shape)}."
            )
    if messages:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {owner}:\n\t" + "\n\t".join(messages)
        )
    for name, target, value in pairs:
        store(name, target, value)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
