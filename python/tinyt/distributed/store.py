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
    """What a key-value store has to offer; `HashStore` is the one that there is."""

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
        self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

    def get(self, key: str) -> bytes:
        """The value under a key; RuntimeError where there is none, for nobody else will set it."""
        if key not in self._values:
            raise RuntimeError(f"HashStore: no value under {key!r}; {ALONE}")
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
