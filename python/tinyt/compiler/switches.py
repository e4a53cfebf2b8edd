"""PyTorch's switches of `torch.compiler`: what a program asks, and what it may leave out here.

A compiled function is captured whole, so that there is nothing to break out of it, to reset or to
mark: these functions return what they were given. `disable` keeps `tinyt.compile` away.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from tinyt import _core

T = TypeVar("T")

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

_DISABLED = "_compile_disabled"

# Environment variables: this library's own, and PyTorch's.
OFF = ("TINYT_COMPILE_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
SUPPRESS = "TORCHDYNAMO_SUPPRESS_ERRORS"


class _State(threading.local):
    depth = 0


_state = _State()


class compiling:
    """A block in which a compiled function runs as it is, for its program: `is_compiling` there."""

    def __enter__(self) -> None:
        _state.depth += 1

    def __exit__(self, *args: object) -> None:
        _state.depth -= 1


def is_compiling() -> bool:
    """True inside of a function that `tinyt.compile` compiles, at its first call too.

    >>> import tinyt
    >>> tinyt.compiler.is_compiling()
    False
    >>> tinyt.compile(lambda x: x + tinyt.compiler.is_compiling())(tinyt.zeros(2))
    tensor([1., 1.])
    """
    return _state.depth > 0 or _core.is_recording()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """False: there is no export."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that `tinyt.compile` returns as it is; a module likewise. Also a decorator.

    Inside a function that is compiled it is captured as the rest is: a program is whole, and what
    cannot be part of it is a CaptureError that says so.

    Args:
        fn: function, class or module; None for a decorator with arguments.
        recursive, reason: PyTorch's; no effect.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise TypeError(f"disable: expected a function or module, got {type(fn).__name__}")
    if isinstance(fn, type) or not hasattr(fn, "__name__"):  # a class; a module or the like
        object.__setattr__(fn, _DISABLED, True) if not isinstance(fn, type) else None
        return fn

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    disabled.__dict__[_DISABLED] = True
    return disabled


def is_disabled(fn: Any) -> bool:
    """Whether `disable` made or marked a function or module."""
    return bool(getattr(fn, "__dict__", {}).get(_DISABLED, False))


def is_off() -> bool:
    """Whether nothing is to be compiled: one of `OFF` is "1", or `_dynamo.config.disable` true."""
    return _setting("disable") or any(os.environ.get(name) == "1" for name in OFF)


def suppresses_errors() -> bool:
    """Whether what cannot be captured runs as written: `SUPPRESS` is "1", or
    `_dynamo.config.suppress_errors` true."""
    return _setting("suppress_errors") or os.environ.get(SUPPRESS) == "1"


def _setting(name: str) -> bool:
    """One of `tinyt._dynamo.config`, which is false unless that has been imported."""
    return bool(getattr(sys.modules.get("tinyt._dynamo.config"), name, False))


def reset() -> None:
    """Does nothing: each compiled function has programs of its own, which go with it."""


def allow_in_graph(fn: T) -> T:
    """The function itself, which is captured as it runs."""
    return fn


def assume_constant_result(fn: T) -> T:
    """The function itself: what it reads is watched, so that its result need not be assumed."""
    return fn


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[T], T]:
    """A decorator that leaves both functions as they are: C functions are called as they are."""
    return lambda fn: fn


def cudagraph_mark_step_begin() -> None:
    """Does nothing: a program's results are never overwritten by its next run."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """["inductor"]: PyTorch's default stands for the one way of compiling that there is."""
    return ["inductor"]


class set_stance:
    """A block or call that sets when compiled functions are compiled: "default" only.

    NotImplementedError for the others; `compile(disable=True)` leaves a function eager.
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:  # fmt: skip
        if stance != "default" or force_backend is not None:
            raise NotImplementedError(
                f"compiler.set_stance: only the stance 'default' is there, got {stance!r}; "
                "tinyt.compile(fn, disable=True) leaves a function eager"
            )

    def __call__(self, fn: T) -> T:
        """As a decorator: the function itself."""
        return fn

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: object) -> None:
        return None


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Changes nothing: there is one process. False, the setting before."""
    return False


def wrap_numpy(fn: Any) -> NoReturn:
    """NotImplementedError: functions of NumPy arrays are not captured."""
    raise NotImplementedError(
        "compiler.wrap_numpy: NumPy is not captured; write the function with tensors"
    )
