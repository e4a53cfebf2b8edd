"""Faults of a device's driver, whichever that is: a library that fails where it is told to
(`faulty_calls.h`), and checks that a failed call leaves things as they were. The tests at the end
are of drivers whose calls return a status: files that import all of this have the fixtures `faulty`
(a `StatusDevice`), `failure` and `build_failures`."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor, nn
from tinyt.memory import empty_cache, live_tensors, statistics

EVER = -1
X = tinyt.arange(6.0).reshape(2, 3)


def raised_by(call: Callable[[], Any]) -> Exception | None:
    """Without its traceback, whose frames hold tensors."""
    try:
        call()
    except (RuntimeError, IndexError, NotImplementedError) as error:
        return error.with_traceback(None)
    return None


class FaultyDevice:
    """The first device of a kind, on the library that TINYT_<KIND>_LIBRARY names."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.device = tinyt.device(f"{kind}:0")
        self._library = ctypes.CDLL(os.environ[f"TINYT_{kind.upper()}_LIBRARY"])
        self._library.faulty_calls.restype = ctypes.c_long
        self._library.faulty_fail.argtypes = [ctypes.c_char_p, *[ctypes.c_long] * 2, ctypes.c_int]

    def calls(self, function: str) -> int:
        """How often it was called so far."""
        return self._library.faulty_calls(function.encode())

    def fail(self, function: str, status: int, nth: int = 1, times: int = EVER) -> None:
        """From its nth call on, until `reset`."""
        self._library.faulty_fail(function.encode(), nth, times, status)

    def reset(self) -> None:
        self._library.faulty_reset()

    @contextmanager
    def failing(
        self, function: str, status: int, nth: int = 1, times: int = EVER
    ) -> Iterator[None]:
        """Calls of the driver fail from the nth on; at the end none any more."""
        self.fail(function, status, nth, times)
        try:
            yield
        finally:
            self.reset()

    def in_use(self) -> tuple[int, int, int]:
        found = statistics(self.device)
        return live_tensors(), found["live_blocks"], found["current_bytes"]


def check_fault_word(
    faulty: FaultyDevice, write: tuple[str, int], read: tuple[str, int], kind: type[Exception]
) -> None:
    """The first kernel of the process that checks indices makes the memory for what it finds, all
    of it or none; what a kernel has found is not forgotten when it cannot be read."""
    x, index = tinyt.arange(4.0).to(faulty.device), tinyt.tensor([1, 2]).to(faulty.device)
    before = faulty.in_use()
    with faulty.failing(*write):
        error = raised_by(lambda: x.gather(0, index))
    assert isinstance(error, kind), repr(error)
    assert str(error).startswith(f"gather: {faulty.kind}: "), str(error)
    assert faulty.in_use() == before
    writes = faulty.calls(write[0])
    kept = x.gather(0, index)
    assert faulty.calls(write[0]) == writes + 1
    assert kept.tolist() == [1.0, 2.0]
    x.gather(0, index * 2)
    with faulty.failing(*read):
        assert isinstance(raised_by(lambda: x.cpu()), kind)
    error = raised_by(lambda: x.cpu())
    assert isinstance(error, IndexError), repr(error)
    assert "gather: index 4 is out of range for dimension 0 of size 4" in str(error)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def calls_that_need(device: tinyt.device, x: Tensor) -> list[Callable[[], Any]]:
    """Calls that fail once the device of x is lost."""
    return [
        lambda: x + x,
        lambda: x.cpu(),
        lambda: x.tolist(),
        lambda: X.to(device),
        lambda: x.sum().item(),
        lambda: x.add_(1),
        lambda: tinyt.accelerator.synchronize(device),
    ]


def check_lost(faulty: FaultyDevice, x: Tensor) -> None:
    """Everything there raises, and nothing elsewhere; tensors of it can go."""
    before = faulty.in_use()
    empty_cache(faulty.device)
    for call in calls_that_need(faulty.device, x):
        error = raised_by(call)
        assert isinstance(error, tinyt.DeviceError), repr(error)
        assert "start another process, or use the CPU" in str(error)
    assert_same_bits(X + X, 2 * X)
    y = x.view(-1)
    del y
    assert faulty.in_use() == before


class Training:
    """A small training step, and what it changes."""

    def __init__(self, device: tinyt.device, compiled: bool) -> None:
        tinyt.manual_seed(2)
        self.model = model = nn.Linear(3, 2).to(device)
        self.optimizer = optimizer = tinyt.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, target = X.to(device), tinyt.ones(2, 2).to(device)

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = (model(x) - target).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        self.call = tinyt.compile(step) if compiled else step

    def tensors(self) -> list[Tensor]:
        state = self.optimizer.state
        parameters = list(self.model.parameters())
        return [p.detach() for p in parameters] + [state[p]["momentum_buffer"] for p in parameters]

    def values(self) -> list[list[float]]:
        return [x.cpu().reshape(-1).tolist() for x in self.tensors()]

    def restore(self, saved: list[Tensor]) -> None:
        for x, was in zip(self.tensors(), saved, strict=True):
            x.copy_(was)


def check_training_that_fails(
    faulty: FaultyDevice,
    compiled: bool,
    failure: tuple[str, int],
    kind: type[Exception],
    texts: tuple[str, ...],
    changes_nothing: bool,
) -> None:
    """At every call of a function, and at those after it. Nothing is left alive, and the next step
    is as if nothing had been."""
    training = Training(faulty.device, compiled)
    for _ in range(3):
        training.call()
    saved = [x.cpu() for x in training.tensors()]
    training.optimizer.zero_grad()
    loss = training.call().item()
    want = training.values()
    for nth in count(1):
        training.restore(saved)
        training.optimizer.zero_grad()
        tinyt.accelerator.synchronize(faulty.device)
        empty_cache(faulty.device)
        before = faulty.in_use()
        with faulty.failing(*failure, nth):
            error = raised_by(training.call)
        training.optimizer.zero_grad()
        if error is None:
            break
        assert isinstance(error, kind), repr(error)
        assert any(text in str(error) for text in texts), str(error)
        assert faulty.in_use() == before, f"call {nth}: {error}"
        if changes_nothing:
            for x, was in zip(training.tensors(), saved, strict=True):
                assert_same_bits(x.cpu(), was)
    assert nth > 3
    training.restore(saved)
    assert training.call().item() == loss
    assert training.values() == want


def check_training_short_once(
    faulty: FaultyDevice, compiled: bool, failure: tuple[str, int], times: int = 2
) -> None:
    """Of memory, at each allocation, which a driver may ask for again itself: the step does what it
    does undisturbed."""
    training = Training(faulty.device, compiled)
    for _ in range(2):
        training.call()
    saved = [x.cpu() for x in training.tensors()]
    loss = training.call().item()
    for nth in range(1, 12, 2):
        training.restore(saved)
        empty_cache(faulty.device)
        with faulty.failing(*failure, nth, times):
            assert training.call().item() == loss


# ---- drivers whose calls return a status

LOST, SHORT = tinyt.DeviceError, tinyt.OutOfMemoryError
Call = Callable[[Tensor], Any]
# What the error names, and what is called.
ADD: tuple[str, Call] = ("add", lambda x: x + x)
ADD_IN_PLACE: tuple[str, Call] = ("add", lambda x: x.add_(1))
TO_DEVICE: tuple[str, Call] = ("to", lambda x: X.to(x.device))
TO_CPU: tuple[str, Call] = ("cpu", lambda x: x.cpu())
CLONE: tuple[str, Call] = ("clone", lambda x: x.clone())
CONTIGUOUS: tuple[str, Call] = ("contiguous", lambda x: x.t().contiguous())
WAIT: tuple[str, Call] = ("synchronize", lambda x: tinyt.accelerator.synchronize(x.device))

# A function, the status it fails with, the error, and what is called.
Failure = tuple[str, int, type[Exception], tuple[str, Call]]
# A function, the status it fails with, the error, and a part of its message.
BuildFailure = tuple[str, int, type[Exception], str]


def failure_id(failure: Failure) -> str:
    function, status, _, (op, _) = failure
    return f"{function}-{status}-{op}"


@dataclass(frozen=True)
class DriverCalls:
    """The functions of a driver by what they do, and statuses."""

    allocate: str
    release: str
    launch: str
    write: str
    read: str
    fill: str
    wait: str
    waiting_write: str  # called for each copy to the device that waits
    staging: tuple[str, ...]  # those that give memory for copies that do not
    short: tuple[int, ...]  # there is no memory
    lost: tuple[int, ...]
    tries: int  # of an allocation, before memory that is kept goes back


class StatusDevice(FaultyDevice):
    """Its first device, and the functions of its driver."""

    def __init__(self, kind: str, names: DriverCalls) -> None:
        super().__init__(kind)
        self.names = names


@pytest.fixture(autouse=True)
def no_faults_left(faulty: StatusDevice) -> Iterator[None]:
    yield
    faulty.reset()


def test_copies_without_memory_for_them(faulty: StatusDevice) -> None:
    """The first ones of the process, which has none kept."""
    tinyt.empty(1, device=faulty.device)  # it is open
    names = faulty.names
    for function in names.staging:
        waits = faulty.calls(names.waiting_write)
        with faulty.failing(function, names.short[0]):
            x = X.to(faulty.device)
        assert faulty.calls(names.waiting_write) == waits + 1
        assert_same_bits(x.cpu(), X)


def test_a_fault_word_is_there_whole_or_not_at_all(faulty: StatusDevice) -> None:
    fill, read = faulty.names.fill, faulty.names.read
    check_fault_word(faulty, (fill, faulty.names.lost[0]), (read, faulty.names.lost[0]), LOST)


def test_a_call_that_fails(faulty: StatusDevice, failure: Failure) -> None:
    function, status, kind, (op, call) = failure
    x = X.to(faulty.device)
    (x + x, call(x))  # their kernels are there
    x.copy_(X)
    tinyt.accelerator.synchronize(faulty.device)
    before = faulty.in_use()
    empty_cache(faulty.device)
    with faulty.failing(function, status):
        error = raised_by(lambda: call(x))
    assert isinstance(error, kind), repr(error)
    if function == faulty.names.allocate and kind is SHORT:
        text = f"memory: {faulty.device} has no more, "
    else:
        text = f"{faulty.kind}: {function} failed with "
    assert str(error).startswith(f"{op}: {text}"), str(error)
    assert faulty.in_use() == before
    assert_same_bits((x + x).cpu(), X + X)  # as before
    assert raised_by(lambda: call(x)) is None


@pytest.mark.parametrize("what", ["allocate", "launch", "write"])
def test_once_more_when_memory_went_back(faulty: StatusDevice, what: str) -> None:
    """What is kept for the next tensor goes back before a call fails for want of memory."""
    names = faulty.names
    function, times = getattr(names, what), names.tries if what == "allocate" else 1
    for status in names.short:
        empty_cache(faulty.device)
        x, ones = X.to(faulty.device), tinyt.ones(5000).to(faulty.device)
        y = x + x
        kept = [tinyt.empty(1000, device=faulty.device) for _ in range(3)]
        del kept, y
        assert statistics(faulty.device)["cached_bytes"] >= 12000
        released = faulty.calls(names.release)
        with faulty.failing(function, status, times=times):
            if what == "write":
                x = X.to(faulty.device)
            y = ones + ones
        assert faulty.calls(names.release) >= released + 3
        assert_same_bits(y.cpu(), tinyt.ones(5000) * 2)
        assert_same_bits((x + x).cpu(), X + X)
        del x, y, ones


def test_copies_to_the_device_wait_for_nothing(faulty: StatusDevice) -> None:
    """Those of up to 16 MB."""
    small, large = tinyt.arange(4 << 20).float(), tinyt.arange((4 << 20) + 1).float()

    def counts() -> tuple[int, int]:
        return faulty.calls(faulty.names.waiting_write), faulty.calls(faulty.names.write)

    small.to(faulty.device)  # memory for it is there
    waits, pieces = counts()
    for _ in range(4):  # more than there are pieces
        x = small.to(faulty.device)
    assert counts() == (waits, pieces + 4 * 16)
    assert_same_bits(x.cpu(), small)
    waits, pieces = counts()
    y = large.to(faulty.device)
    assert counts() == (waits + 1, pieces + 1)
    assert_same_bits(y.cpu(), large)


def test_a_kernel_that_is_not_built(
    faulty: StatusDevice, build_failures: list[BuildFailure]
) -> None:
    """It is built when it is asked for next."""
    x, place = X.to(faulty.device), str(faulty.device)
    (x + x).cpu()
    before, kernels = faulty.in_use(), tinyt._core.gpu_kernels(place)
    for function, status, kind, text in build_failures:
        with faulty.failing(function, status):
            error = raised_by(lambda: x.atan())
        assert isinstance(error, kind), repr(error)
        assert str(error).startswith(f"atan: {faulty.kind}: "), str(error)
        assert text in str(error)
        assert faulty.in_use() == before
        assert tinyt._core.gpu_kernels(place) == kernels
        assert_same_bits((x + x).cpu(), X + X)
    x.atan().cpu()
    assert tinyt._core.gpu_kernels(place) == kernels + 1


def test_a_device_that_is_lost(faulty: StatusDevice) -> None:
    x, names = X.to(faulty.device), faulty.names
    x.cpu()
    for status in names.lost:
        for call in (names.allocate, names.launch, names.read, names.write, names.fill, names.wait):
            faulty.fail(call, status)
        check_lost(faulty, x)
        faulty.reset()
    x.copy_(X)
    assert_same_bits((x + x).cpu(), X + X)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", [SHORT, LOST], ids=["no memory", "lost"])
def test_every_call_of_a_training_step_fails(
    faulty: StatusDevice, kind: type[Exception], compiled: bool
) -> None:
    """A compiled one has changed nothing where memory was short."""
    names = faulty.names
    short, lost = (names.allocate, names.short[0]), (names.launch, names.lost[0])
    texts = (f": {faulty.kind}: ", f": memory: {faulty.device} has no more")
    unchanged = compiled and kind is SHORT
    check_training_that_fails(
        faulty, compiled, short if kind is SHORT else lost, kind, texts, unchanged
    )


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_memory_is_short_once_in_a_training_step(faulty: StatusDevice, compiled: bool) -> None:
    failure = (faulty.names.allocate, faulty.names.short[0])
    check_training_short_once(faulty, compiled, failure, faulty.names.tries)
