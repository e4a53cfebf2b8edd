"""Replacing a file so that an interruption leaves either the old content or the new."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file that takes the place of `path` when the block ends well.

    The content is on disk before the name changes, and the name before this returns. If the block
    raises, `path` is untouched and nothing is left beside it. A killed process leaves nothing
    either where the file system has files without a name (`O_TMPFILE`); elsewhere, the next write
    to the same path removes what it left.

    A file that is replaced keeps its permissions and, where allowed, its owner, group and extended
    attributes; a symbolic link keeps pointing. A FIFO or a device is written to, not replaced.

    Raises:
        OSError: naming `path`, also where the file is there and may not be written.
    """
    name = os.fsdecode(path)
    target = os.path.realpath(name)  # writes through a symbolic link, not over it
    old = _stat(name)
    if old is not None and not _is_replaceable(old, target):
        with open(name, "wb") as file:  # refuses a folder
            yield file
        return
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    with _naming(name):
        temporary = _Temporary(target, old)
    try:
        with os.fdopen(temporary.descriptor, "wb", closefd=False) as file:
            yield file
        temporary.finish()
        with _naming(name):
            temporary.replace()
    finally:
        temporary.close()
    _sync_folder(os.path.dirname(target))


def _is_replaceable(old: os.stat_result, target: str) -> bool:
    """Whether an existing file is a regular one that `target` names (a deleted one has no name)."""
    now = _stat(target)
    return stat.S_ISREG(old.st_mode) and now is not None and os.path.samestat(old, now)


class _Temporary:
    """A locked file in the folder of `target`, without a name where the system allows it.

    The lock tells the next writer that the file's process is alive.
    """

    def __init__(self, target: str, old: os.stat_result | None) -> None:
        self._target, self._old = target, old
        self._name: str | None = None
        # A new file's mode is 0o666 less the umask; that of a replaced one may be narrower.
        self._mode = 0o666 if old is None else 0o600
        self.descriptor = self._open_nameless()
        if self.descriptor < 0:
            self._create()

    def finish(self) -> None:
        """Sets the attributes and syncs."""
        if self._old is not None and hasattr(os, "fchmod"):
            _copy_attributes(self._target, self._old, self.descriptor)
        os.fsync(self.descriptor)

    def replace(self) -> None:
        """Gives the file the name of the target."""
        if self._name is None:
            try:
                self._link()
            except OSError:  # a system that has files without a name, but cannot name them
                self._copy()
        assert self._name is not None
        os.replace(self._name, self._target)
        self._name = None

    def close(self) -> None:
        """Removes the file unless it has replaced the target."""
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name)
        os.close(self.descriptor)

    def _open_nameless(self) -> int:
        """A new file without a name, or -1."""
        flag = getattr(os, "O_TMPFILE", 0)  # Linux
        if not flag or not os.path.isdir("/proc/self/fd"):
            return -1
        try:
            return os.open(os.path.dirname(self._target), os.O_RDWR | flag, self._mode)
        except OSError:
            return -1  # there are none; or an error that opening by name says again

    def _create(self) -> None:
        for name in _names(self._target):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _O_BINARY
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(name, flags, self._mode)
                try:
                    # Between the two calls another writer may have taken it for a dead one's.
                    if _try_lock(descriptor) and _is_named(descriptor, name):
                        self.descriptor, self._name = descriptor, name
                        return
                finally:
                    if self.descriptor != descriptor:
                        os.close(descriptor)

    def _link(self) -> None:
        _try_lock(self.descriptor)
        source = f"/proc/self/fd/{self.descriptor}"
        folder = os.open(os.path.dirname(self._target), os.O_RDONLY)
        try:
            for name in _names(self._target):
                with contextlib.suppress(FileExistsError):
                    # Only with a folder does Python make the call that follows the link.
                    os.link(source, name, src_dir_fd=folder, follow_symlinks=True)
                    self._name = name
                    return
        finally:
            os.close(folder)

    def _copy(self) -> None:
        nameless = self.descriptor
        try:
            self._create()
            os.lseek(nameless, 0, os.SEEK_SET)
            with os.fdopen(self.descriptor, "wb", closefd=False) as file:
                while chunk := os.read(nameless, 1 << 20):
                    file.write(chunk)
        finally:
            if self.descriptor != nameless:
                os.close(nameless)
        self.finish()


def _names(target: str) -> Iterator[str]:
    """Short names beside `target`, those first that earlier writers to it would have used.

    What a dead writer left under a name is removed before the name is given.
    """
    import hashlib  # takes longer to import than most of tinyt's modules

    folder, name = os.path.split(target)
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    for count in range(8):
        path = os.path.join(folder, f".tinyt-{digest}-{count}.tmp")
        _remove_stale(path)
        yield path
    while True:
        yield os.path.join(folder, f".tinyt-{os.urandom(8).hex()}.tmp")


def _remove_stale(path: str) -> None:
    """Removes a temporary file whose writer is dead."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(descriptor, path):
                os.unlink(path)
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Locks an own file; False if another process holds it. True where there are no locks."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks: then nobody removes the file either
    return True


def _is_named(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _copy_attributes(target: str, old: os.stat_result, descriptor: int) -> None:
    """Gives a new file the owner, group, mode and extended attributes of the one it replaces."""
    mode = stat.S_IMODE(old.st_mode) & 0o777
    narrow = mode & ~0o070 | (mode & 0o007) << 3 & mode  # the group gets what everybody gets
    new = os.fstat(descriptor)
    for uid, gid in ((-1, old.st_gid), (old.st_uid, -1)):
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, uid, gid)
    if os.fstat(descriptor).st_gid != old.st_gid or not _copy_extended(target, descriptor):
        mode = narrow  # these bits were another group's, or the mask of a list that is lost
    os.fchmod(descriptor, mode)


_ACCESS_LIST = "system.posix_acl_access"


def _copy_extended(target: str, descriptor: int) -> bool:
    """Copies extended attributes; whether the access list (ACL), if there is one, came along."""
    if not hasattr(os, "listxattr"):
        return True
    try:
        names = os.listxattr(target)
        if _ACCESS_LIST not in names and _ACCESS_LIST in os.listxattr(descriptor):
            os.removexattr(descriptor, _ACCESS_LIST)  # the folder's default
    except OSError:
        return True  # a file system without them
    copied = True
    for name in names:
        try:
            os.setxattr(descriptor, name, os.getxattr(target, name))
        except OSError:
            copied = copied and name != _ACCESS_LIST
    return copied


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Lets errors name the file that was asked for, not the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from None


_O_BINARY = getattr(os, "O_BINARY", 0)  # Windows only


def _sync_folder(folder: str) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows has no handle to sync
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
