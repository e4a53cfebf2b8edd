"""Stores of keys and values, of which one process needs a dict."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

# Why there is no other process, and what to do.
ALONE = (
    "tinyt runs in one process and cannot talk to others; start one process (without torchrun, or "
    "with --nproc_per_node=1), and use its threads: tinyt.set_num_threads"
)


class Store:
    """What a key-value store has to offer; `HashStore` is the one that the others are, too."""

    def set(self, key: str, value: str | bytes) -> None:
        """Puts a value under a key."""
        raise NotImplementedError(f"{type(self).__name__} must define set()")

    def get(self, key: str) -> bytes:
        """The value under a key."""
        raise NotImplementedError(f"{type(self).__name__} must define get()")


class HashStore(Store):
    """A store in a dict of this process.

    >>> from tinyt.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("key", "value")
    >>> store.get("key"), store.add("count", 2)
    (b'value', 2)
    """

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: str | bytes) -> None:
        """Puts a value under a key."""
        self._values[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        """The value under a key; RuntimeError where there is none, for nobody else will set it."""
        if key not in self._values:
            raise RuntimeError(f"{type(self).__name__}: no value under {key!r}; {ALONE}")
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        """Adds to the number under a key, which begins at 0; the sum."""
        total = int(self._values.get(key, b"0")) + int(amount)
        self._values[key] = str(total).encode()
        return total

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """RuntimeError where a key has no value."""
        for key in keys:
            self.get(key)

    def delete_key(self, key: str) -> bool:
        """Takes a key away; whether it was there."""
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._values)

    def append(self, key: str, value: str | bytes) -> None:
        """Puts a value behind the one under a key."""
        self._values[key] = self._values.get(key, b"") + _bytes(value)

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Puts the desired value where the expected one, or for "" none, is; what is there then."""
        if self._values.get(key, b"") == _bytes(expected_value):
            self.set(key, desired_value)
        return self._values.get(key, _bytes(expected_value))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values under keys; RuntimeError where one has none."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Puts values under keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def set_timeout(self, timeout: timedelta) -> None:
        """Kept; nobody is waited for."""
        self.timeout = timeout


class TCPStore(HashStore):
    """A `HashStore` with PyTorch's arguments of a server; no port is opened.

    RuntimeError for more than one process, or one that is not the server: it would wait for it.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not is_master or (world_size is not None and world_size > 1):
            raise RuntimeError(
                f"TCPStore: got world_size={world_size}, is_master={is_master}; {ALONE}"
            )
        self.host, self.port, self.timeout = host_name, port, timeout


class FileStore(HashStore):
    """A `HashStore` with PyTorch's arguments of a file, which is not written.

    RuntimeError for more than one process.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        if world_size > 1:
            raise RuntimeError(f"FileStore: got world_size={world_size}; {ALONE}")
        self.path = file_name


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
