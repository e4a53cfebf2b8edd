"""Replacing a file so that an interruption leaves either the old content or the new."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a temporary file beside `path` that takes its place when the block ends well.

    The content is on disk before the name changes, and the name before this returns. If the block
    raises, the temporary file is removed and `path` is untouched.
    """
    target = os.path.realpath(os.fspath(path))  # writes through a symbolic link, not over it
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _O_BINARY, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(folder)


_O_BINARY = getattr(os, "O_BINARY", 0)  # Windows only


def _sync_folder(folder: str) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows has no handle to sync
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
