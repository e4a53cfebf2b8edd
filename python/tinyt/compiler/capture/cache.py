"""What passes made of recordings, on disk by content, so that another process need not run them.

Off unless a folder is named: by `set_cache_dir`, or TINYT_CACHE_DIR. The name of a file is a
fingerprint of a whole recording (operations, attributes, shapes, Python's numbers) and of the
passes; the file holds the nodes that took the place of the recorded ones. These are checked as
those of the passes themselves, by inference, so that a damaged file is one that is not there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt.compiler import passes
from tinyt.dtypes import int64
from tinyt.forks import made_once
from tinyt.io import safetensors
from tinyt.ops import frombuffer, tensor
from tinyt.ops.common import OP_TABLE
from tinyt.version import __version__

if TYPE_CHECKING:
    from tinyt import _core

_FORMAT = "1"


class _Setting:
    """The folder that was set, and whether it was: else the environment has it."""

    def __init__(self) -> None:
        self.is_set = False
        self.folder: Path | None = None
        self.warned: set[Path] = set()

    @made_once
    def passes(self) -> bytes:
        """A fingerprint of what simplifies: its sources, and the rows that it knows."""
        rows = [sorted((key, _plain(x)) for key, x in row.items()) for row in OP_TABLE]
        found = hashlib.sha256(f"{__version__} {_FORMAT} {rows!r}".encode())
        for path in sorted(Path(passes.__file__).parent.glob("*.py")):
            found.update(path.read_bytes())
        return found.digest()


def _plain(x: object) -> str:
    return repr(sorted(x) if isinstance(x, frozenset) else x)


_setting = _Setting()


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Keeps what passes make of recordings in a folder, which is made where there is none, and
    takes it from there in later processes; None: nowhere, whatever TINYT_CACHE_DIR says.

    The folder must be the user's own: one that others may write to is not used, with a warning.
    What lies there may be deleted at any time.

    >>> import tinyt
    >>> tinyt.compiler.set_cache_dir(None)
    """
    _setting.folder = None if path is None else Path(path)
    _setting.is_set = True


def _folder() -> Path | None:
    """The folder, if there is one that may be used."""
    named = os.environ.get("TINYT_CACHE_DIR")
    folder = _setting.folder if _setting.is_set else Path(named) if named else None
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
    except OSError as error:
        _refuse(folder, str(error))
        return None
    is_own = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
    if not is_own or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        _refuse(folder, "others may write to it")
        return None
    return folder


def _refuse(folder: Path, why: str) -> None:
    if folder not in _setting.warned:
        _setting.warned.add(folder)
        warnings.warn(f"compile: the cache {folder} is not used: {why}", stacklevel=2)


class Cached(NamedTuple):
    """Nodes as `Graph.rewritten` takes them, and which recorded node each comes from."""

    flat: bytes
    origins: list[int]


def fingerprint(core: _core.Graph) -> str:
    """Of all that passes see of a recording."""
    inputs = [
        (value, argument, is_live, is_weak, _number(x) if is_weak else None)
        for value, x, argument, is_live, is_weak in core.inputs()
    ]
    writes = [(value, argument) for value, _, argument in core.writes()]
    rows = core.nodes(), core.values(), inputs, core.outputs(), writes, core.split_point()
    return hashlib.sha256(repr(rows).encode() + _setting.passes).hexdigest()


def _number(x: Any) -> str:
    return f"{x.dtype.name} {x.item()!r}"


def find(core: _core.Graph) -> tuple[_core.Graph, list[int]] | None:
    """The simplified graph of a recording and where its nodes come from, if they are known."""
    folder = _folder()
    if folder is None:
        return None
    path = folder / f"{fingerprint(core)}.graph"
    try:
        tensors, _ = safetensors.read(path)
        origins = tensors["origins"].tolist()
        found = core.rewritten(memoryview(tensors["nodes"]).tobytes())
        is_whole = len(origins) == found.node_count and all(
            -1 <= x < core.node_count for x in origins
        )
    except (OSError, RuntimeError, ValueError, LookupError, TypeError):
        return None
    return (found, origins) if is_whole else None


def keep(core: _core.Graph, made: Cached) -> None:
    """Writes what was made of a recording; nothing where that fails."""
    folder = _folder()
    if folder is None:
        return
    nodes = frombuffer(bytearray(made.flat), dtype=int64)
    tensors = {"nodes": nodes, "origins": tensor(made.origins, dtype=int64)}
    try:
        safetensors.write(folder / f"{fingerprint(core)}.graph", tensors)
    except OSError as error:
        _refuse(folder, str(error))
