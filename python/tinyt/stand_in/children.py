"""Processes of `multiprocessing` that serve tinyt as ``torch``, like the one that starts them.

A forked child has all of its parent. One that is spawned, or comes from a fork server, first reads
what it is to prepare; an object among this installs the import there, before the program's main
module is imported.
"""

from __future__ import annotations

import multiprocessing.spawn
from collections.abc import Callable
from typing import Any

from tinyt.stand_in import pytorch

_Install = Callable[[list[str]], None]
_before: Callable[..., dict[str, Any]] | None = None
_install: _Install | None = None


class _Installs:
    """Read in another process, it serves tinyt as ``torch`` there."""

    def __reduce__(self) -> tuple[_Install, tuple[list[str]]]:
        assert _install is not None
        return _install, (sorted(pytorch.packages()),)


def _preparation_data(name: str) -> dict[str, Any]:
    assert _before is not None
    return {"tinyt.as_torch": _Installs(), **_before(name)}


def start_alike(install: _Install) -> None:
    """From now on children call ``install`` before anything else."""
    global _before, _install
    _before, _install = multiprocessing.spawn.get_preparation_data, install
    multiprocessing.spawn.get_preparation_data = _preparation_data


def start_as_before() -> None:
    """Undoes `start_alike`."""
    global _before
    if _before is not None:
        multiprocessing.spawn.get_preparation_data = _before
    _before = None
