"""What processes of tests/unit/test_multiprocessing.py run: spawned ones import it by name."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import tinyt


def fill(x: tinyt.Tensor, value: float) -> None:
    x.fill_(value)


def fill_row(i: int, x: tinyt.Tensor) -> None:
    x[i].fill_(i + 1.0)


def answer(inbox: Any, outbox: Any) -> None:
    """Writes into each tensor that comes, and sends back what it was, until None comes."""
    while (x := inbox.get()) is not None:
        facts = (type(x).__name__, x.dtype.name, tuple(x.shape), x.stride(), x.requires_grad)
        with tinyt.no_grad():
            outbox.put((facts, x.clone(), x.is_shared()))
            x.zero_()
        del x
    inbox.get()  # until the parent has what was sent


def same_twice(inbox: Any, outbox: Any) -> None:
    a, b = inbox.get(), inbox.get()
    a.fill_(7.0)
    outbox.put((a.data_ptr() == b.data_ptr(), b.tolist()))


def double(x: tinyt.Tensor) -> tinyt.Tensor:
    return x * 2


def train(i: int, model: Any) -> None:
    """One asynchronous step, as of Hogwild."""
    optimizer = tinyt.optim.SGD(model.parameters(), lr=0.1)
    model(tinyt.ones(1, 2)).sum().backward()
    optimizer.step()


def fail(i: int, which: int) -> None:
    if i == which:
        raise ValueError(f"process {i} cannot go on")
    signal.pause()


def leave(i: int, code: int) -> None:
    sys.exit(code)


def die(i: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_for_ever(i: int) -> None:
    signal.pause()


def take_and_die(inbox: Any, ready: Any) -> None:
    x = inbox.get()
    x.add_(1.0)
    ready.set()
    signal.pause()
