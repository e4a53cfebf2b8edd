"""Children forked while other threads are in the middle of something: each must be able to do the
same work, and none may wait for a lock whose holder it has not got."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tinyt
from tinyt import nn, optim
from tinyt.compiler.capture.recording import collection_paused
from tinyt.data import DataLoader, TensorDataset

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
PATIENCE = 20  # seconds that a child has before it counts as hung


def start_child(work: Callable[[], object]) -> int:
    """Forks; the child ends with 0 where the work raised nothing and gave no false result."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        code = 0 if work() is not False else 3
    except BaseException as error:
        os.write(2, f"child: {error!r}\n".encode())
        code = 2
    finally:
        os._exit(code)


def end_child(child: int, what: str) -> None:
    status = os.waitpid(child, 0)[1]
    hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    assert not hung, f"{what}: a child of a fork hangs"
    assert status == 0, f"{what}: a child of a fork failed with {os.waitstatus_to_exitcode(status)}"


def in_child(work: Callable[[], object], what: str = "") -> None:
    end_child(start_child(work), what)


def eager() -> Callable[[], object]:
    x = tinyt.randn(300, 40)
    want = (x @ x.t()).sum()
    return lambda: bool((x @ x.t()).sum() == want)


def compiled() -> Callable[[], object]:
    x = tinyt.randn(300, 40)

    def function(a: Any) -> Any:
        return ((a @ a.t()).relu() * 2).sum(0)

    program, want = tinyt.compile(function), function(x)
    return lambda: tinyt.equal(program(x), want)


def compiling() -> Callable[[], object]:
    x = tinyt.ones(5)

    def work() -> bool:
        return tinyt.compile(lambda a: (a * 3 + 1).exp().sum())(x).item() > 0

    def twice() -> bool:
        return work() and work()

    return twice


def lazy() -> Callable[[], object]:
    x = tinyt.randn(300, 40)
    want = (x * 2 + 1).relu().sum()

    def work() -> bool:
        with tinyt.lazy():
            y = (x * 2 + 1).relu().sum()
        return bool(y == want)

    return work


def loader() -> Callable[[], object]:
    data = TensorDataset(tinyt.arange(12))
    batches = DataLoader(data, 4, num_workers=2)
    return lambda: [b.tolist() for (b,) in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def autograd() -> Callable[[], object]:
    x, generator = tinyt.randn(50, 20), tinyt.Generator()

    def work() -> bool:
        w = tinyt.randn(20, 1, generator=generator, requires_grad=True)
        step = optim.SGD([w], lr=0.1)
        (x @ w).square().sum().backward()
        step.step()
        return w.grad is not None

    return work


KINDS = (eager, compiled, compiling, lazy, loader, autograd)


@contextmanager
def busy(works: list[Callable[[], object]]) -> Iterator[None]:
    """Other threads do the work again and again."""
    done = threading.Event()
    failed: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                assert work() is not False
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not failed, failed


@pytest.mark.skipif(
    "address" in tinyt._core.build_info()["sanitizers"],
    reason="AddressSanitizer of GCC 12 leaves its allocator's locks held in a child",
)
def test_200_forks_beside_busy_threads() -> None:
    tinyt.set_num_threads(2)
    works = [kind() for kind in KINDS]
    for work in works:
        assert work() is not False

    with busy(works):
        for number in range(20):
            children = []
            for k in range(10):
                # One kind each, so that 200 forks take seconds.
                time.sleep(0.0003 * ((7 * number + k) % 5))
                children.append((k % len(KINDS), start_child(works[k % len(KINDS)])))
            for k, child in children:
                end_child(child, KINDS[k].__name__)


class Slow:
    """A function of the user's in a program: it tells that it runs, and waits to be let go on."""

    def __init__(self) -> None:
        self.runs, self.go_on = threading.Event(), threading.Event()


@contextmanager
def in_the_middle(work: Callable[[], object], slow: Slow) -> Iterator[None]:
    """Another thread is where `slow` is called."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert slow.runs.wait(PATIENCE)
        yield
    finally:
        slow.go_on.set()
        thread.join()


def test_fork_in_the_middle_of_a_program() -> None:
    """The child runs a program that another thread is running: its lock is free, its memory new."""
    slow = Slow()
    parent = os.getpid()

    @tinyt.library.custom_op("forks::wait", mutates_args=())
    def wait(x: tinyt.Tensor) -> tinyt.Tensor:
        if os.getpid() == parent and slow.armed:
            slow.runs.set()
            slow.go_on.wait(PATIENCE)
        return x * 2

    @wait.register_fake
    def _(x: tinyt.Tensor) -> tinyt.Tensor:
        return tinyt.empty_like(x)

    slow.armed = False
    x = tinyt.arange(100_000.0)
    program = tinyt.compile(lambda a: wait(a.exp().log() + 1).sum())
    want = [program(x) for _ in range(3)][-1]
    slow.armed = True
    with in_the_middle(lambda: program(x), slow):
        in_child(lambda: tinyt.equal(program(x), want) and tinyt.equal(program(x), want))
    assert tinyt.equal(program(x), want)


def test_fork_in_the_middle_of_a_capture() -> None:
    """What a capture has put in place of the user's values is put back in the child."""
    slow = Slow()
    state = {"scale": 2.0}
    parent = os.getpid()

    def function(x: Any) -> Any:
        y = x * state["scale"]
        if os.getpid() == parent and type(state["scale"]) is not float:
            slow.runs.set()
            slow.go_on.wait(PATIENCE)
        return y

    x = tinyt.ones(3)
    program = tinyt.compile(function)

    def work() -> None:
        for scale in (2.0, 2.0, 3.0, 3.0, 4.0):
            state["scale"] = scale
            program(x)

    def check() -> bool:
        own = tinyt.compile(lambda a: a + 1)
        return type(state["scale"]) is float and own(x).tolist() == own(x).tolist() == [2.0] * 3

    with in_the_middle(work, slow):
        in_child(check)


def test_fork_in_the_middle_of_an_attribute_made_when_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`functools.cached_property` has one lock for all instances before Python 3.12."""
    slow, parent = Slow(), os.getpid()

    def waiting(*args: Any) -> Any:
        if os.getpid() == parent:
            slow.runs.set()
            slow.go_on.wait(PATIENCE)
        return defaultdict(*args)

    here, there = (optim.SGD([tinyt.ones(1)], lr=0.1) for _ in range(2))
    monkeypatch.setattr("tinyt.optim.optimizer.defaultdict", waiting)
    with in_the_middle(there.step, slow):
        in_child(here.step)
    monkeypatch.undo()
    here.step()


def test_lazy_values_of_another_thread() -> None:
    """A recording that another thread has open is whole in the child, which runs it itself."""
    slow, made = Slow(), []
    x = tinyt.arange(4.0)

    def work() -> None:
        with tinyt.lazy():
            made.append(x * 3)
            slow.runs.set()
            slow.go_on.wait(PATIENCE)

    with in_the_middle(work, slow):
        in_child(lambda: made[0].tolist() == [0.0, 3.0, 6.0, 9.0])
    assert made[0].tolist() == [0.0, 3.0, 6.0, 9.0]


def test_a_fork_inside_a_program() -> None:
    """The child goes on in the middle of the run that it was forked from."""
    results = []

    @tinyt.library.custom_op("forks::fork", mutates_args=())
    def fork(x: tinyt.Tensor) -> tinyt.Tensor:
        results.append(os.fork())
        return x * 2

    @fork.register_fake
    def _(x: tinyt.Tensor) -> tinyt.Tensor:
        return tinyt.empty_like(x)

    parent = os.getpid()
    try:
        program = tinyt.compile(lambda a: fork(a) + 1)
        found = [program(tinyt.ones(3)).tolist() for _ in range(3)]
    finally:
        if os.getpid() != parent:
            os._exit(0 if found == [[3.0] * 3] * 3 else 1)
    assert found == [[3.0] * 3] * 3
    for child in results:
        end_child(child, "the run goes on")


@pytest.mark.parametrize("persistent", [False, True])
def test_loader_after_fork(persistent: bool) -> None:
    data = TensorDataset(tinyt.arange(6))
    loader = DataLoader(data, 2, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    next(batches)

    def child() -> None:
        with pytest.raises(RuntimeError, match=r"start a new pass here: iter\(loader\)"):
            next(batches)
        assert [b.tolist() for (b,) in loader] == [[0, 1], [2, 3], [4, 5]]

    in_child(child)
    assert [b.tolist() for (b,) in batches] == [[2, 3], [4, 5]]
    if persistent:
        loader._workers.close()


def test_collector_of_garbage_goes_on() -> None:
    """A thread that compiles pauses it; its child has it as before."""
    slow = Slow()

    def work() -> None:
        with collection_paused():
            slow.runs.set()
            slow.go_on.wait(PATIENCE)

    was_enabled = gc.isenabled()
    gc.enable()
    try:
        with in_the_middle(work, slow):
            assert not gc.isenabled()
            in_child(gc.isenabled)
        assert gc.isenabled()
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_networks_in_children() -> None:
    model = nn.Linear(30, 30)
    x = tinyt.randn(200, 30)
    want = model(x).detach()
    children = [start_child(lambda: tinyt.equal(model(x).detach(), want)) for _ in range(4)]
    for child in children:
        end_child(child, "linear")
