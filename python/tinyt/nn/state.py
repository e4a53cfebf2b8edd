"""Loading a state dict: check everything, then copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tinyt.tensor import Tensor


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
    owner: str, own: Mapping[str, Tensor], given: Mapping[str, Any], strict: bool
) -> IncompatibleKeys:
    """Copies the tensors of `given` into those of `own` with the same name.

    Nothing is written unless every check passes.

    Args:
        owner: class name for the message.
        own: the tensors to fill.
        given: the tensors to read, converted to the dtype of their target.
        strict: whether missing and unexpected names are errors.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(given)}.")
    keys = IncompatibleKeys(
        [name for name in own if name not in given], [name for name in given if name not in own]
    )
    errors = []
    if strict and keys.unexpected_keys:
        errors.append(f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
    if strict and keys.missing_keys:
        errors.append(f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
    pairs = [(name, own[name], given[name]) for name in own if name in given]
    for name, target, value in pairs:
        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{name}", expected Tensor from checkpoint '
                f"but received {type(value)}"
            )
        elif tuple(value.shape) != tuple(target.shape):
            errors.append(
                f"size mismatch for {name}: copying a param with shape {tuple(value.shape)} from "
                f"checkpoint, the shape in current model is {tuple(target.shape)}."
            )
    if errors:
        raise RuntimeError(f"Error(s) in loading state_dict for {owner}:\n\t" + "\n\t".join(errors))
    for _, target, value in pairs:
        target.copy_(value)
    return keys


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
