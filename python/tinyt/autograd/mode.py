"""Blocks and decorators that turn recording on and off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

from tinyt._autograd import GradMode, _set_grad_enabled, is_grad_enabled

CO_GENERATOR = 0x20  # as in `inspect`, whose import takes milliseconds
F = TypeVar("F", bound=Callable[..., Any])


class _Mode(GradMode):
    """A grad mode for a block, or for every call of a decorated function or generator."""

    def _again(self) -> Any:
        """A block of the same mode, of its own."""
        return GradMode(self.mode)

    def __call__(self, function: F) -> F:
        if isinstance(function, FunctionType) and function.__code__.co_flags & CO_GENERATOR:
            return self._around_generator(function)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    def _around_generator(self, function: F) -> F:
        """The mode holds while the generator's own code runs, not while it waits."""

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            sent = None
            try:
                while True:
                    try:
                        with self._again():
                            value = generator.send(sent)
                    except StopIteration as end:
                        return end.value
                    sent = yield value
            finally:
                generator.close()

        return wrapped  # type: ignore[return-value]


class no_grad(_Mode):
    """Operations in the block (or the decorated function) are not recorded for backward."""

    def __new__(cls, orig_func: Any = None) -> no_grad:  # noqa: D102
        # As a decorator, it may stand without parentheses.
        return GradMode.__new__(cls) if orig_func is None else cls()(orig_func)


class enable_grad(_Mode):
    """Operations in the block (or the decorated function) are recorded for backward."""

    def __new__(cls, orig_func: Any = None) -> enable_grad:  # noqa: D102
        block = GradMode.__new__(cls)
        block.mode = True
        return block if orig_func is None else block(orig_func)


_inference = threading.local()


class inference_mode(_Mode):
    """Like :class:`no_grad`; tensors made inside are ordinary ones."""

    def __new__(cls, mode: Any = True) -> Any:  # noqa: D102
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls(True)(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)
        self._enabled = mode
        self._before: list[bool] = []

    def __enter__(self) -> None:
        enter = super().__enter__
        self._before.append(is_inference_mode_enabled())
        try:
            _inference.enabled = self._enabled
            enter()
        except BaseException:  # an interrupt: no block ends what has begun
            self.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            super().__exit__(*exc)
        finally:
            _inference.enabled = self._before.pop()

    def _again(self) -> inference_mode:
        return inference_mode(self._enabled)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in an :class:`inference_mode` block."""
    return getattr(_inference, "enabled", False)


class set_grad_enabled(_Mode):
    """Sets the mode at once; as a block, restores it at the end; as a decorator, holds the mode
    in each call and leaves it outside."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled: mode must be a bool, got {type(mode).__name__}")
        super().__init__(mode)
        self._before = is_grad_enabled()
        _set_grad_enabled(mode)

    def __enter__(self) -> None:
        try:
            _set_grad_enabled(self.mode)
        except BaseException:  # an interrupt: no block ends what has begun
            _set_grad_enabled(self._before)
            raise

    def __exit__(self, *exc: object) -> None:
        _set_grad_enabled(self._before)

    def __call__(self, function: F) -> F:  # noqa: D102
        _set_grad_enabled(self._before)
        return super().__call__(function)
