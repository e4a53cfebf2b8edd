"""Random streams: counter-based (Philox), the same for any number of threads.

A generator is a seed and a counter; a draw of n elements consumes ceil(n / 4) counters.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyt import _capture, _tensor
from tinyt._core import CaptureError
from tinyt.forks import moment_lock
from tinyt.tensor import Tensor

# Held for a few assignments only, so one serves all streams (and generators can be copied).
_LOCK = moment_lock()


def _fresh_seed() -> int:
    """64 bits of the operating system."""
    return int.from_bytes(os.urandom(8), "little")


class Generator:
    """A random stream: the seed and how many counters were used.

    One that is new starts with PyTorch's fixed seed, the default one of a process with a seed of
    the operating system.
    """

    def __init__(self, device: str | _tensor.device = "cpu") -> None:
        self.device = _tensor.device(device).require_present()
        self._seed = 67280421310721  # PyTorch's default seed
        self._offset = 0

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream of ``seed`` (any 64-bit integer) from its beginning."""
        _capture.refuse_recording("manual_seed")
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"manual_seed: the seed must fit in 64 bits, got {seed}")
        with _LOCK:
            self._seed = seed - 2**64 if seed >= 2**63 else seed
            self._offset = 0
        return self

    def initial_seed(self) -> int:
        """The seed the stream started from, from 0 to 2**64 - 1: of a negative one, its bits."""
        _capture.refuse_recording("initial_seed")
        return self._seed % 2**64

    def seed(self) -> int:
        """Starts from a seed of the operating system and returns it."""
        seed = _fresh_seed()
        self.manual_seed(seed)
        return seed

    def clone_state(self) -> Generator:
        """Another generator that stands where this one does."""
        other = Generator(self.device)
        other.set_state(self.get_state())
        return other

    def get_state(self) -> Tensor:
        """The state as an int64 tensor (seed, counter), on the CPU."""
        _capture.refuse_recording("get_state")
        with _tensor.device("cpu"):
            return _tensor.from_data([self._seed, self._offset])

    def set_state(self, state: Tensor) -> None:
        """Goes back to a state from :meth:`get_state`."""
        _capture.refuse_recording("set_state")
        values = state.tolist()
        if len(values) != 2 or values[1] < 0:
            raise ValueError(f"set_state: expected (seed, counter), got {values}")
        with _LOCK:
            self._seed, self._offset = values

    def draw(self, numel: int, make: Callable[[int, int], Tensor]) -> Tensor:
        """``make(seed, first counter)``; takes the counters for ``numel`` if it succeeds.

        Threads that share the generator get counters of their own.
        """
        recorder = _capture.recorder()
        if recorder is not None:  # each run draws anew
            drawn: Tensor = recorder.draw(self, numel, make)
            return drawn
        with _LOCK:
            seed, first = self._seed, self._offset
            self._offset = end = first + -(-numel // 4)
        try:
            return make(seed, first)
        except BaseException:
            with _LOCK:
                if (self._seed, self._offset) == (seed, end):
                    self._offset = first
            raise

    def take(self, counters: int) -> tuple[int, int]:
        """(seed, first counter) for a program that draws so many counters."""
        with _LOCK:
            first = self._offset
            self._offset = first + counters
            return self._seed, first

    def give_back(self, counters: int, taken: tuple[int, int]) -> None:
        """Undoes :meth:`take` where nobody has drawn since."""
        with _LOCK:
            if (self._seed, self._offset) == (taken[0], taken[1] + counters):
                self._offset = taken[1]


_thread = threading.local()  # .generator: what stands in for the default one in this thread


def _own() -> Generator | None:
    return getattr(_thread, "generator", None)


class _DefaultGenerator(Generator):
    """The stream of this process; in a thread with a stream of its own (a loader's worker), that
    one, for every method."""

    def manual_seed(self, seed: int) -> Generator:
        own = _own()
        if own is None:
            super().manual_seed(seed)
        else:
            own.manual_seed(seed)
        return self

    def initial_seed(self) -> int:
        own = _own()
        return super().initial_seed() if own is None else own.initial_seed()

    def get_state(self) -> Tensor:
        own = _own()
        return super().get_state() if own is None else own.get_state()

    def set_state(self, state: Tensor) -> None:
        own = _own()
        if own is None:
            super().set_state(state)
        else:
            own.set_state(state)

    def draw(self, numel: int, make: Callable[[int, int], Tensor]) -> Tensor:
        own = _own()
        if own is None or _capture.recorder() is not None:
            return super().draw(numel, make)
        return own.draw(numel, make)

    def take(self, counters: int) -> tuple[int, int]:
        own = _own()
        return super().take(counters) if own is None else own.take(counters)

    def give_back(self, counters: int, taken: tuple[int, int]) -> None:
        own = _own()
        if own is None:
            super().give_back(counters, taken)
        else:
            own.give_back(counters, taken)


default_generator: Generator = _DefaultGenerator()
default_generator.seed()


def use_in_this_thread(generator: Generator) -> None:
    """Makes ``generator`` what this thread draws from where no other is given."""
    _thread.generator = generator


def manual_seed(seed: int) -> Generator:
    """Seeds the default generator (in a loader's thread, the one of that thread)."""
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def seed() -> int:
    """Seeds the default generator from the operating system."""
    return default_generator.seed()


def get_rng_state() -> Tensor:
    """The default generator's state."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restores the default generator's state."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cpu",
) -> Iterator[None]:
    """A block after which the default generator stands where it stood before.

    Args:
        devices: indices of other devices whose generators are kept; there are none.
        enabled: whether the block does anything.
        device_type: of `devices`.
    """
    if not enabled:
        yield
        return
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)


def stream_position() -> Any:
    """Where the default generator stands, in a recording too; for `drawing_from`."""
    recorder = _capture.recorder()
    return get_rng_state() if recorder is None else recorder.counter(default_generator)


def _go_to(position: Any) -> None:
    recorder = _capture.recorder()
    if recorder is None:
        set_rng_state(position)
    elif isinstance(position, Tensor):
        raise CaptureError(
            "checkpoint: a compiled function inside of a checkpoint is not captured; put the "
            "checkpoint into the function"
        )
    else:
        recorder.go_to(default_generator, position)


@contextmanager
def drawing_from(position: Any) -> Iterator[None]:
    """Draws from a `stream_position` inside the block, and goes on from here after it; None: as
    without a block."""
    if position is None:
        yield
        return
    now = stream_position()
    try:
        _go_to(position)
        yield
    finally:
        _go_to(now)
