"""Blocks and decorators that turn recording on and off."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from tinyt._tensor import GradMode, _set_grad_enabled, is_grad_enabled

P = ParamSpec("P")
R = TypeVar("R")


class _Mode:
    """A grad mode for a block, or for every call of a decorated function."""

    def __init__(self, mode: bool) -> None:
        self._block = GradMode(mode)
        self._mode = mode

    def __enter__(self) -> None:
        self._block.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._block.__exit__(*exc)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        mode = self._mode

        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            with GradMode(mode):
                return function(*args, **kwargs)

        return wrapped


class no_grad(_Mode):
    """Operations in the block (or the decorated function) are not recorded for backward."""

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Mode):
    """Operations in the block (or the decorated function) are recorded for backward."""

    def __init__(self) -> None:
        super().__init__(True)


class inference_mode(_Mode):
    """Like :class:`no_grad`; tensors made inside are ordinary ones."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)


class set_grad_enabled(_Mode):
    """Sets the mode at once; as a block, restores it at the end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._before = is_grad_enabled()
        _set_grad_enabled(mode)

    def __enter__(self) -> None:
        """The mode was set when the object was made."""

    def __exit__(self, *exc: object) -> None:
        _set_grad_enabled(self._before)
