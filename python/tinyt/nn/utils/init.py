"""Modules whose parameters are not initialised."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from tinyt.nn.module import Module

__all__ = ["skip_init"]

M = TypeVar("M", bound=Module)


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """A module of this class with arbitrary values in its parameters and buffers.

    Args:
        module_cls: the class; its constructor takes `device`.
        args: the arguments of its constructor.
        kwargs: the keyword arguments; `device` is where the module is to be.

    Raises:
        RuntimeError: no Module class, or one whose constructor takes no `device`.

    >>> import tinyt
    >>> tinyt.nn.utils.skip_init(tinyt.nn.Linear, 5, 1).weight.shape
    tinyt.Size([1, 5])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.get("device", "cpu")
    return module_cls(*args, **kwargs).to_empty(device=device)
