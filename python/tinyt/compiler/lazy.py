"""``lazy``: operations that are recorded and run together when somebody looks at a value."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from tinyt import _core
from tinyt.compiler.api import CacheInfo

__all__ = ["lazy"]

F = TypeVar("F", bound=Callable[..., Any])


class lazy:
    """A block, or a decorated function, whose operations run later, as one fused program.

    In the block an operation gives a tensor whose shape, dtype and strides are known and whose
    values are not there yet; a write in place waits, too. All that waits runs when a value is
    looked at (``item``, ``tolist``, ``numpy``, ``print``, ``if``, DLPack, saving), when
    :meth:`Tensor.compute` is called, when an operation that is not recorded or another thread needs
    it, and when the block ends. Values have eager's bits. Programs are kept by what the operations
    are, so that a loop plans only once.

    An error that depends on values (an index out of range) is raised when they are computed;
    operations before it have run then, as in eager mode, and reading what a later one should have
    made is a RuntimeError. Blocks may be nested: the outermost one decides.
    """

    def __init__(self) -> None:
        self._began: list[bool] = []

    def __enter__(self) -> lazy:
        self._began.append(not _core.is_lazy())
        try:
            _core.begin_lazy()
            return self
        except BaseException:  # an interrupt: no block ends what has begun
            if self._began.pop() and _core.is_lazy():
                _core.end_lazy()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            if self._began[-1]:
                _core.end_lazy()
        finally:
            self._began.pop()

    def __call__(self, function: F) -> F:
        """The function, every call of which is a block."""

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with lazy():
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    @staticmethod
    def cache_info() -> CacheInfo:
        """How often a program was there for what was recorded, as ``functools.lru_cache`` tells it.

        A single operation runs by itself and does not count.
        """
        return CacheInfo(*_core.lazy_cache_info())

    @staticmethod
    def cache_clear() -> None:
        """Forgets all programs."""
        _core.clear_lazy_cache()
