"""Files as memory."""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

# Not waiting for a FIFO's writer: none can be mapped. Each is of some systems only.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def map_file(path: str | os.PathLike[str], shared: bool, nbytes: int) -> mmap.mmap | bytearray:
    """The first ``nbytes`` bytes of a file as memory that can be written to.

    Args:
        path: of a regular file.
        shared: whether writes go to the file, which is made, or made longer, where that is needed;
            otherwise they stay here.
        nbytes: how many. None of them are no mapping.

    Raises:
        RuntimeError: for a file that cannot be opened, and one of fewer bytes that is not shared.
        ValueError: for less than no bytes.
    """
    import mmap  # here, because few programs need it

    nbytes = operator.index(nbytes)
    if nbytes < 0:
        raise ValueError(f"from_file: expected a number of bytes, got {nbytes}")
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        descriptor = os.open(path, flags | _FLAGS)
    except OSError as error:
        raise RuntimeError(f"from_file: cannot open {os.fspath(path)!r}: {error}") from error
    try:
        held = os.fstat(descriptor).st_size
        if held < nbytes and not shared:
            raise RuntimeError(
                f"from_file: {os.fspath(path)!r} has {held} bytes, {nbytes} are asked for"
            )
        if held < nbytes:
            os.truncate(descriptor, nbytes)
        if nbytes == 0:
            return bytearray()
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return mmap.mmap(descriptor, nbytes, access=access)
    except (OSError, OverflowError, ValueError) as error:
        raise RuntimeError(
            f"from_file: cannot map {nbytes} bytes of {os.fspath(path)!r}: {error}"
        ) from error
    finally:
        os.close(descriptor)
