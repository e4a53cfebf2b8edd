"""Faults of a device's driver, whichever that is: a library that fails where it is told to
(`faulty_calls.h`), and checks that a failed call leaves things as they were."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

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
