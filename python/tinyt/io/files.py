"""Opening files to read, and writing to files that others opened."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import Any, BinaryIO


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file to read it.

    Raises:
        OSError: for anything else: a FIFO or a device has no size to check claims against, and may
            never end. It does not wait for a FIFO's writer.
    """
    # It owns the descriptor, so that an interrupt cannot have it closed twice.
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115
    try:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(
                errno.EINVAL,
                f"load: {_kind(mode)} is no regular file; open it yourself and pass what "
                "you read as io.BytesIO",
                os.fspath(path),
            )
    except BaseException:
        file.close()
        raise
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | _O_NONBLOCK)


def write_all(file: Any, content: Any) -> None:
    """Writes all bytes of `content`, an object of bytes with one dimension.

    `file.write` may take a part of them, as that of an unbuffered file does, and say how many.

    Raises:
        OSError: if it takes none.
        ValueError: if what `file.write` returns is no number of bytes.
    """
    rest = memoryview(content).cast("B")
    while True:
        count = file.write(rest)
        if count is None and not isinstance(file, io.RawIOBase):
            return  # a writer that is no file and reports nothing
        if count is not None and not (isinstance(count, int) and 0 <= count <= len(rest)):
            raise ValueError(
                f"save: the file's write returned {count!r}, not how many of the {len(rest)} bytes "
                "it has taken"
            )
        if not count and len(rest):
            raise BlockingIOError(
                errno.EAGAIN, f"save: the file takes none of the {len(rest)} bytes that are left"
            )
        rest = rest[count:]
        if not len(rest):
            return


_O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # not on Windows

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFSOCK: "a socket",
}


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "this")
