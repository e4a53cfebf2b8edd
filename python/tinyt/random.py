"""Random streams: counter-based (Philox), the same for any number of threads.

A generator is a seed and a counter; a draw of n elements consumes ceil(n / 4) counters.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
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
        counters = -(-numel // 4)
        taken = self.take(counters)
        try:
            return make(*taken)
        except BaseException:
            self.give_back(counters, taken)
            raise

    def take(self, counters: int) -> tuple[int, int]:
        """(seed, first counter) for a program that draws so many counters."""
        draws = _captured_draws()
        if draws is not None:
            return draws.take(self, counters)
        with _LOCK:
            first = self._offset
            self._offset = first + counters
            return self._seed, first

    def give_back(self, counters: int, taken: tuple[int, int]) -> None:
        """Undoes :meth:`take` where nobody has drawn since."""
        draws = _captured_draws()
        if draws is not None:
            return draws.give_back(counters, taken)
        with _LOCK:
            if (self._seed, self._offset) == (taken[0], taken[1] + counters):
                self._offset = taken[1]


# .generator: what stands in for the default one in this thread; .draws: of its captured graph
_thread = threading.local()


# ---- draws of captured graphs (tinyt.cuda.graphs)


class CapturedDraws:
    """What a captured graph of a device draws: kernels take numbers that stand for seeds and
    counters, and each launch puts the next ones of the generators in their place."""

    # As no size, and no float that anybody computes with, has them. A kernel takes the lower and
    # the upper half of a seed as signed numbers of 32 bits.
    _LOW, _HIGH = 0x4D9E6A71, 0x5B37C20F
    _COUNTER = 0x2A6D39B7 << 32

    def __init__(self) -> None:
        self._process = os.getpid()
        self._is_open = True
        self._generators: list[Generator] = []
        self._draws: list[tuple[Generator, int]] = []  # with how many counters
        self._count = 0

    def is_open(self) -> bool:
        """Whether draws are captured: not in a child of a fork."""
        return self._is_open and self._process == os.getpid()

    def end(self) -> None:
        """No more draws are its own."""
        self._is_open = False

    def take(self, generator: Generator, counters: int) -> tuple[int, int]:
        """What stands for a seed and a first counter."""
        if generator not in self._generators:
            self._generators.append(generator)
        at = self._generators.index(generator)
        first = self._COUNTER + self._count
        if counters:
            self._draws.append((generator, counters))
            self._count += counters
        return (self._HIGH + at) << 32 | (self._LOW + at), first

    def give_back(self, counters: int, taken: tuple[int, int]) -> None:
        """Undoes the last `take`."""
        if counters and taken[1] + counters == self._COUNTER + self._count:
            self._draws.pop()
            self._count -= counters

    def _drawn_from(self) -> list[Generator]:
        return [g for g in self._generators if any(g is other for other, _ in self._draws)]

    def ranges(self) -> list[tuple[int, int]]:
        """(first, how many) of the numbers that stand for something: of each draw, then of each
        generator."""
        found, first = [], self._COUNTER
        for _, counters in self._draws:
            found.append((first, counters))
            first += counters
        for generator in self._drawn_from():
            at = self._generators.index(generator)
            found += [(self._LOW + at, 1), (self._HIGH + at, 1)]
        return found

    @contextmanager
    def values(self) -> Iterator[Sequence[int]]:
        """What each range begins with in a launch, which the block is: of one that fails nothing
        is drawn."""
        taken = [(generator, n, generator.take(n)) for generator, n in self._draws]
        values = [first for _, _, (_, first) in taken]
        for generator in self._drawn_from():
            seed = next(place[0] for other, _, place in taken if other is generator)
            values += [(part + 2**31) % 2**32 - 2**31 for part in (seed, seed >> 32)]
        try:
            yield values
        except BaseException:
            for generator, counters, place in reversed(taken):
                generator.give_back(counters, place)
            raise


def begin_captured_draws() -> CapturedDraws:
    """This thread's draws are of a captured graph until their `end`."""
    _thread.draws = draws = CapturedDraws()
    return draws


def _captured_draws() -> CapturedDraws | None:
    draws: CapturedDraws | None = getattr(_thread, "draws", None)
    return draws if draws is not None and draws.is_open() else None


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
