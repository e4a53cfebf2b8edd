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
