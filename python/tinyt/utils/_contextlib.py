"""`torch.utils._contextlib`: the base of blocks that are decorators, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["_DecoratorContextManager"]


class _DecoratorContextManager:
    """A block; as a decorator, around each call of a function: a new block, which `clone` makes."""

    def __call__(self, orig_func: Callable[..., Any]) -> Any:
        @wraps(orig_func)
        def around(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return orig_func(*args, **kwargs)

        return around

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __enter__")

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __exit__")

    def clone(self) -> Any:
        """Another block of the same kind; a class with arguments defines its own."""
        return type(self)()
