"""Locks and state across `os.fork`, and no import but in the main interpreter.

A child has the thread that forked and no other: what another thread held is free there, and what it
was in the middle of is undone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


def _refuse_subinterpreters() -> None:
    """ImportError in a subinterpreter: the extension modules hold state of one interpreter, and
    their import would wait for its lock for ever."""
    for name in ("_interpreters", "_xxsubinterpreters"):  # since Python 3.13, before
        if find_spec(name) is None:
            continue
        interpreters = import_module(name)
        here, main = interpreters.get_current(), interpreters.get_main()
        if isinstance(here, tuple):
            here, main = here[0], main[0]
        if here != main:
            raise ImportError(
                "tinyt: cannot be imported in a subinterpreter; use a thread or another process"
            )
        return


_refuse_subinterpreters()

_unfinished: dict[object, tuple[int, Callable[[], object]]] = {}


def moment_lock() -> threading.Lock:
    """A lock held for a few assignments only: every fork takes it first, so that the child finds
    whole what it guards."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


def run_lock() -> threading.RLock:
    """A lock held for as long as the user's code takes, which no fork waits for: in a child it is
    free unless the thread that forked holds it. What it guards is to be `undone_in_child`."""
    lock = threading.RLock()

    def free() -> None:
        if not lock._is_owned():  # type: ignore[attr-defined]
            lock._at_fork_reinit()  # type: ignore[attr-defined]

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=free)
    return lock


class made_once(Generic[T]):
    """An attribute that is made when it is first asked for: `functools.cached_property` without its
    lock, which is one for all instances before Python 3.12, and may be taken in a child."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> made_once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object, owner: type) -> made_once[T] | T:
        if instance is None:
            return self
        # Two threads that ask at the same time get the same one.
        value: T = instance.__dict__.setdefault(self._name, self._make(instance))
        return value


@contextmanager
def undone_in_child(undo: Callable[[], object]) -> Iterator[None]:
    """While the block runs, a child that another thread forks calls ``undo``, as the block's end
    never comes there."""
    key = object()
    try:
        _unfinished[key] = threading.get_ident(), undo
        yield
    finally:
        _unfinished.pop(key, None)


def _undo_lost() -> None:
    """Undoes what threads that the child has not got left unfinished, the last first."""
    for key, (thread, undo) in reversed(tuple(_unfinished.items())):
        if thread != threading.get_ident():
            del _unfinished[key]
            undo()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_undo_lost)
