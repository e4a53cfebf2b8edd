"""Calls of a module with other tensors in the place of its own: `torch.func.functional_call`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tinyt.nn.module import Module
from tinyt.tensor import Tensor

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with other tensors in the place of parameters and buffers.

    The module is as it was afterwards; in-place writes to a buffer that is replaced go to the
    tensor given.

    Args:
        module: the module to call.
        parameters_and_buffers: tensors by dotted name, in one dict or several of different keys.
        args: the arguments; what is no tuple is the only one.
        kwargs: the keyword arguments.
        tie_weights: whether a tensor that a module has under several names is replaced under all
            of them.
        strict: whether a missing or unknown name is a RuntimeError.

    Raises:
        ValueError: two of the dicts, or two names of one tensor, give different tensors.
        AttributeError: a name of a module that there is not; an unknown name in one is ignored,
            unless `strict`.

    >>> import tinyt
    >>> layer = tinyt.nn.Linear(2, 1, bias=False)
    >>> tinyt.nn.utils.stateless.functional_call(
    ...     layer, {"weight": tinyt.tensor([[2.0, 3.0]])}, tinyt.ones(2))
    tensor([5.])
    """
    given = _merged(parameters_and_buffers)
    owners = _places(module)
    given = _tied(module, given) if tie_weights else given
    if strict:
        unknown = [name for name in given if name not in owners]
        missing = [name for name in owners if name not in given]
        messages = [
            f"{kind} key(s): " + ", ".join(map(repr, names)) + "."
            for kind, names in (("Unexpected", unknown), ("Missing", missing))
            if names
        ]
        if messages:
            raise RuntimeError(
                f"Error(s) in reparametrizing for {type(module).__name__}:\n\t"
                + "\n\t".join(messages)
            )
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given):
        return module(*arguments, **(kwargs or {}))


def _merged(given: Any) -> dict[str, Tensor]:
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence) or not all(isinstance(part, Mapping) for part in given):
        raise ValueError(
            "Expected parameters_and_buffers to be a dict, or a list/tuple of dicts, "
            f"but got {type(given)}"
        )
    merged: dict[str, Tensor] = {}
    for part in given:
        for name, value in part.items():
            if name in merged and merged[name] is not value:
                raise ValueError(f"{name} appears in several dictionaries; only one may have it")
            merged[name] = value
    return merged


def _places(module: Module) -> dict[str, Tensor]:
    """All parameters and buffers, a shared one under each of its names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _tied(module: Module, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors for all names of what they replace."""
    names: dict[int, list[str]] = {}
    for name, tensor in _places(module).items():
        names.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for group in names.values():
        values = [given[name] for name in group if name in given]
        if any(value is not values[0] for value in values):
            raise ValueError(
                f"functional_call: {sorted(n for n in group if n in given)} are tied, but got "
                "different tensors; pass one, or tie_weights=False"
            )
        for name in group if values else ():
            found[name] = values[0]
    return found


@contextmanager
def _replaced(module: Module, given: Mapping[str, Tensor]) -> Iterator[None]:
    """A block within which modules have other tensors."""
    kept: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for path, value in given.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            for table in (owner._parameters, owner._buffers):
                if name in table:
                    kept.append((table, name, table[name]))
                    table[name] = value  # type: ignore[assignment]
        yield
    finally:
        for table, name, value in reversed(kept):
            table[name] = value
