"""save to every kind of file: what is replaced, what is kept, and what a killed writer leaves."""

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

import tinyt
from interrupts import interrupted_at
from tinyt import ops
from tinyt.io import atomic, files
from tinyt.io.files import write_all

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes, FIFOs and locks of POSIX")
as_root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="needs root")
needs_nameless = pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs O_TMPFILE")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.safetensors"


@pytest.fixture(params=["nameless", "named", "not linkable"])
def ways(request, monkeypatch):
    """The ways to a temporary file: where the system has O_TMPFILE and where not."""
    if request.param == "named":
        monkeypatch.delattr(atomic.os, "O_TMPFILE", raising=False)
    elif request.param == "not linkable":

        def refuse(*args, **kwargs):
            raise OSError(errno.EXDEV, "no links")

        monkeypatch.setattr(atomic.os, "link", refuse)
    return request.param


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# What stays of the file that is replaced ---------------------------------------------------------


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755, 0o200])
def test_mode_is_kept(path, mode):
    path.touch()
    path.chmod(mode)
    tinyt.save({"x": ops.ones(3)}, path)
    assert mode_of(path) == mode
    path.chmod(0o600)
    assert tinyt.load(path)["x"].tolist() == [1, 1, 1]
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_new_file_obeys_the_umask(path, umask):
    before = os.umask(umask)
    try:
        tinyt.save([1], path)
    finally:
        os.umask(before)
    assert mode_of(path) == 0o666 & ~umask


def test_private_file_is_private_while_it_is_written(path):
    path.touch()
    path.chmod(0o600)
    with atomic.atomic_write(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600


@as_root
@pytest.mark.usefixtures("ways")
def test_owner_and_group_are_kept(path):
    path.touch()
    path.chmod(0o640)
    os.chown(path, 12345, 23456)
    tinyt.save([1], path)
    now = os.stat(path)
    assert (now.st_uid, now.st_gid, mode_of(path)) == (12345, 23456, 0o640)


def test_another_group_gets_no_more_than_everybody(path, monkeypatch):
    path.touch()
    path.chmod(0o664)

    def refuse(*args):
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(atomic.os, "fchown", refuse)
    descriptor = os.open(path.parent / "new", os.O_RDWR | os.O_CREAT, 0o600)
    old = os.stat(path)
    foreign = os.stat_result((*old[:5], old.st_gid + 1, *old[6:]))
    try:
        atomic._copy_attributes(str(path), foreign, descriptor)
        assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o644
    finally:
        os.close(descriptor)


def test_extended_attributes_are_kept(path):
    path.touch()
    try:
        os.setxattr(path, "user.origin", b"here")
    except (OSError, AttributeError):
        pytest.skip("the file system has no extended attributes")
    tinyt.save([1], path)
    assert os.getxattr(path, "user.origin") == b"here"


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write")
def test_read_only_file_is_not_replaced(path):
    tinyt.save([1], path)
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        tinyt.save([2], path)
    assert tinyt.load(path) == [1]


def test_unwritable_file_is_refused(path, monkeypatch):
    tinyt.save([1], path)
    monkeypatch.setattr(atomic.os, "access", lambda *args: False)
    with pytest.raises(PermissionError, match=r"file\.safetensors"):
        tinyt.save([2], path)
    assert tinyt.load(path) == [1]


@pytest.mark.usefixtures("ways")
def test_symbolic_links_keep_pointing(path):
    folder = path.parent / "folder"
    folder.mkdir()
    path.symlink_to("folder/next")
    (folder / "next").symlink_to("end")
    for value in ([1], [2]):  # a link to nothing, then to a file
        tinyt.save(value, path)
        assert os.readlink(path) == "folder/next"
        assert tinyt.load(folder / "end") == value
        assert sorted(os.listdir(folder)) == ["end", "next"]
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(OSError, match="symbolic links"):
        tinyt.save([1], path)


# What is no regular file -------------------------------------------------------------------------


def test_fifo_is_written_to_and_stays(path):
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    tinyt.save({"x": ops.ones(3)}, path)
    reader.join()
    assert stat.S_ISFIFO(os.stat(path).st_mode)
    assert tinyt.load(io.BytesIO(received[0]))["x"].tolist() == [1, 1, 1]
    assert os.listdir(path.parent) == [path.name]


def test_devices_are_written_to_and_stay(path):
    tinyt.save([1], os.devnull)
    path.symlink_to(os.devnull)
    tinyt.save([1], path)
    assert path.is_symlink()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.path.exists(os.devnull)


@as_root
def test_own_device_node_stays(path):
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        with open(path, "wb") as file:
            file.write(b"x")
    except OSError:
        pytest.skip("no devices can be made here")
    tinyt.save([1], path)
    assert stat.S_ISCHR(os.stat(path).st_mode)


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
def test_open_descriptors_by_path(path):
    read, write = os.pipe()
    tinyt.save([1], f"/proc/self/fd/{write}")
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert tinyt.load(file) == [1]
    with open(path, "wb") as file:  # a file that has lost its name
        path.unlink()
        tinyt.save([1], f"/proc/self/fd/{file.fileno()}")
        with open(f"/proc/self/fd/{file.fileno()}", "rb") as same:
            assert tinyt.load(same) == [1]
    assert os.listdir(path.parent) == []


def test_folder_is_refused(tmp_path):
    for action in (lambda: tinyt.save([1], tmp_path), lambda: tinyt.load(tmp_path)):
        with pytest.raises(IsADirectoryError, match=str(tmp_path)):
            action()
    assert os.listdir(tmp_path) == []


def test_load_of_a_fifo_does_not_wait(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="load: a FIFO is no regular file"):
        tinyt.load(path)
    with pytest.raises(OSError, match="load: a character device is no regular file"):
        tinyt.load("/dev/zero")
    path.unlink()
    path.symlink_to(os.devnull)
    with pytest.raises(OSError, match="is no regular file"):
        tinyt.load(path)


# Names -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("name", ["n" * 250, "n" * 255, "é" * 127, "a b\n.tmp", "-", ".hidden"])
def test_every_name_that_the_system_has(tmp_path, name):
    tinyt.save([1], tmp_path / name)
    tinyt.save([2], tmp_path / name)
    assert tinyt.load(tmp_path / name) == [2]
    assert os.listdir(tmp_path) == [name]


@pytest.mark.usefixtures("ways")
def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(OSError, match=r"n{256}") as caught:
        tinyt.save([1], tmp_path / ("n" * 256))
    assert caught.value.errno == errno.ENAMETOOLONG
    with pytest.raises(FileNotFoundError, match="nowhere/file") as caught:
        tinyt.save([1], tmp_path / "nowhere" / "file")
    assert ".tmp" not in str(caught.value)


def test_relative_and_other_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class BytesPath:
        def __fspath__(self):
            return b"bytes"

    for name in ("plain", BytesPath()):
        tinyt.save([1], name)
        assert tinyt.load(name) == [1]
    assert sorted(os.listdir()) == ["bytes", "plain"]


# Killed writers ----------------------------------------------------------------------------------

KILLED = """
import os, sys
from tinyt.io import atomic
if sys.argv[2] == "named":
    del os.O_TMPFILE
if sys.argv[2] == "linked":
    os.replace = lambda *args: os.kill(os.getpid(), 9)
with atomic.atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    if sys.argv[2] != "linked":
        os.kill(os.getpid(), 9)
"""


def kill_a_writer(path, way):
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), way], check=False)
    assert done.returncode == -signal.SIGKILL


@needs_nameless
def test_killed_writer_leaves_nothing(path):
    tinyt.save([1], path)
    with open(path.parent / "probe", "wb"):
        os.unlink(path.parent / "probe")
    kill_a_writer(path, "nameless")
    assert os.listdir(path.parent) == [path.name]
    assert tinyt.load(path) == [1]


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("way", ["named", "linked"])
def test_next_save_removes_what_a_killed_writer_left(path, way):
    tinyt.save([1], path)
    kill_a_writer(path, way)
    assert len(os.listdir(path.parent)) == 2
    assert tinyt.load(path) == [1]
    tinyt.save([2], path)
    assert os.listdir(path.parent) == [path.name]
    assert tinyt.load(path) == [2]


@pytest.mark.usefixtures("ways")
def test_a_live_writer_is_not_disturbed(path):
    with atomic.atomic_write(path) as slow:
        slow.write(b"slow")
        tinyt.save([1], path)
        assert tinyt.load(path) == [1]
        with atomic.atomic_write(path) as third:
            third.write(b"third")
        assert path.read_bytes() == b"third"
    assert path.read_bytes() == b"slow"
    assert os.listdir(path.parent) == [path.name]


def test_many_writers_at_once(path):
    problems = []

    def write(number):
        try:
            for _ in range(10):
                tinyt.save([number] * 100, path)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(set(tinyt.load(path))) == 1
    assert os.listdir(path.parent) == [path.name]


# Files of callers --------------------------------------------------------------------------------


class Slow(io.RawIOBase):
    """An unbuffered file that takes a few bytes at a time, as a pipe or a socket may."""

    def __init__(self, most):
        self.content, self.most = bytearray(), most

    def writable(self):
        return True

    def write(self, data):
        taken = bytes(data)[: self.most]
        self.content += taken
        return len(taken)


def same(loaded):
    return loaded["x"].tolist() == list(range(1000)) and loaded["y"][1] == "text"


def made():
    return {"x": ops.arange(1000), "y": [ops.ones(3, dtype=tinyt.bool), "text"]}


@pytest.mark.parametrize("most", [1, 7, 1000, 10**6])
def test_short_writes_are_continued(most):
    file = Slow(most)
    tinyt.save(made(), file)
    assert same(tinyt.load(io.BytesIO(bytes(file.content))))


def test_writer_that_reports_nothing():
    class Plain:
        content = b""

        def write(self, data):
            self.content += bytes(data)

    file = Plain()
    tinyt.save(made(), file)
    assert same(tinyt.load(io.BytesIO(file.content)))


@pytest.mark.parametrize("answer", [0, None])
def test_file_that_takes_nothing_is_an_error(answer):
    class Full(io.RawIOBase):
        def write(self, data):
            return answer

    with pytest.raises(BlockingIOError, match="save: the file takes none of the 8 bytes"):
        tinyt.save([1], Full())


@pytest.mark.parametrize("answer", [-1, 10**9, "8"])
def test_wrong_counts_are_an_error(answer):
    class Wrong:
        def write(self, data):
            return answer

    with pytest.raises(ValueError, match="write returned"):
        write_all(Wrong(), b"12345678")


def test_unbuffered_files_of_the_system(path):
    with open(path, "wb", buffering=0) as file:
        tinyt.save(made(), file)
    with open(path, "rb", buffering=0) as file:
        assert same(tinyt.load(file))
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb", buffering=0) as sink:
        tinyt.save([1], sink)
        sink.close()
        assert tinyt.load(source) == [1]


def test_reader_that_has_nothing_yet():
    class Empty(io.RawIOBase):
        def read(self, size=-1):
            return None

    with pytest.raises(BlockingIOError, match="load: the file has no bytes yet"):
        tinyt.load(Empty())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the file that was being opened
def test_an_interrupt_anywhere_in_load_is_what_comes(path):
    """A descriptor that is closed twice would be an OSError, or another thread's file."""
    tinyt.save({"a": ops.ones(2)}, path)
    step = 1
    while interrupted_at(step, [files, os], lambda: tinyt.load(path)):
        step += 1
    assert step > 5


def test_an_interrupt_anywhere_in_save_leaves_the_old_file_or_the_new(path, ways):
    def run():
        tinyt.save({"a": ops.ones(2)}, path)

    tinyt.save({"a": ops.zeros(2)}, path)
    step = 1
    while interrupted_at(step, [atomic], run, ["_names"]):
        assert tinyt.load(path)["a"].tolist() in ([0, 0], [1, 1])
        step += 1
    assert step > 20
    assert tinyt.load(path)["a"].tolist() == [1, 1]
