"""Programs as graphs of CUDA's driver: run by `tests/unit/test_cuda.py` in a process of its own,
with the stand-in for it, which counts calls and has two devices."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor, nn

STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
STANDIN.faulty_calls.restype = STANDIN.standin_graphs.restype = ctypes.c_long
STANDIN.faulty_fail.argtypes = [ctypes.c_char_p, *[ctypes.c_long] * 2, ctypes.c_int]
DEVICE = tinyt.device("cuda:0")
OUT_OF_MEMORY, INVALID_VALUE, NOT_SUPPORTED, LAUNCH_FAILED = 2, 1, 801, 719
LAUNCHED = ("cuLaunchKernel", "cuMemcpyDtoDAsync", "cuMemsetD8Async")
UPDATED = tuple(f"cuGraphExec{kind}NodeSetParams" for kind in ("Kernel", "Memcpy", "Memset"))


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    STANDIN.faulty_reset()
    STANDIN.standin_reset()


class Counts:
    """Calls of the driver since it was made."""

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        for name in ("cuGraphInstantiate", "cuGraphLaunch", *LAUNCHED, *UPDATED):
            self._before[name] = STANDIN.faulty_calls(name.encode())

    def __getitem__(self, name: str) -> int:
        return STANDIN.faulty_calls(name.encode()) - self._before[name]

    @property
    def graphs(self) -> tuple[int, int]:
        """Instantiated, launched."""
        return self["cuGraphInstantiate"], self["cuGraphLaunch"]

    @property
    def plain(self) -> int:
        return sum(self[name] for name in LAUNCHED)

    @property
    def updates(self) -> int:
        return sum(self[name] for name in UPDATED)


@contextmanager
def failing(name: str, status: int, nth: int = 1, times: int = -1) -> Iterator[None]:
    STANDIN.faulty_fail(name.encode(), nth, times, status)
    try:
        yield
    finally:
        STANDIN.faulty_reset()


def chain(x: Tensor) -> Tensor:
    """Several kernels."""
    return ((x @ x).softmax(-1) @ x).sum(0)


class Training:
    """An MLP with dropout, Adam and a schedule."""

    def __init__(self, compiled: bool, dropout: float = 0.0) -> None:
        tinyt.manual_seed(3)
        self.model = model = nn.Sequential(
            nn.Linear(6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3)
        ).to(DEVICE)
        self.optimizer = optimizer = tinyt.optim.Adam(model.parameters(), lr=0.01)
        self.schedule = tinyt.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
        tinyt.manual_seed(4)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        self.call = tinyt.compile(step) if compiled else step

    def values(self) -> list[Tensor]:
        return [p.detach().cpu() for p in self.model.parameters()]


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    generator = tinyt.Generator().manual_seed(1)
    return [
        (
            tinyt.randn(8, 6, generator=generator).to(DEVICE),
            tinyt.randint(0, 3, (8,), generator=generator).to(DEVICE),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_training_step_is_one_launch(dropout: float) -> None:
    """A hundred steps, with new batches, learning rates, step counts and random numbers: nothing is
    instantiated again, and the bits are those of steps that are not compiled."""
    given = batches(104)
    compiled, losses = Training(True, dropout), []
    counts = Counts()
    for k, (x, y) in enumerate(given):
        if k == 4:
            assert counts["cuGraphInstantiate"] == 1
            counts = Counts()
        losses.append(compiled.call(x, y))
        compiled.schedule.step()
    assert counts.graphs == (0, 100)
    assert counts.plain == 0
    assert 0 < counts.updates < 100 * 25
    plain = Training(False, dropout)
    for (x, y), loss in zip(given, losses, strict=True):
        assert_same_bits(loss.cpu(), plain.call(x, y).cpu())
        plain.schedule.step()
    for got, want in zip(compiled.values(), plain.values(), strict=True):
        assert_same_bits(got, want)


def warm(call: Callable[..., object], *arguments: object) -> None:
    """As often as it takes until a graph is there."""
    for _ in range(4):
        call(*arguments)


def test_arguments_lie_anywhere_and_results_stay() -> None:
    program = tinyt.compile(chain)
    given = [tinyt.randn(8, 8).to(DEVICE) for _ in range(6)]
    want = [chain(x).cpu() for x in given]
    warm(program, given[0])
    counts = Counts()
    results = [program(x) for x in given]
    assert counts.graphs == (0, 6)
    assert counts.plain == 0
    for got, known in zip(results, want, strict=True):
        assert_same_bits(got.cpu(), known)


def test_only_nodes_that_differ_are_updated() -> None:
    program = tinyt.compile(chain)
    x = tinyt.randn(8, 8).to(DEVICE)
    for _ in range(6):
        y = program(x)
    del y
    counts = Counts()
    for _ in range(5):
        program(x)
    assert counts.graphs == (0, 5)
    assert counts.updates == 0


def test_shapes_that_alternate() -> None:
    program = tinyt.compile(chain)
    given = [tinyt.randn(n, n).to(DEVICE) for n in (4, 8, 12)]
    want = [chain(x).cpu() for x in given]
    for _ in range(5):
        for x in given:
            program(x)
    counts = Counts()
    for _ in range(4):
        for x, known in zip(given, want, strict=True):
            assert_same_bits(program(x).cpu(), known)
    assert counts.graphs == (0, 12)


def test_fills_and_copies_are_nodes() -> None:
    def step(x: Tensor, table: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        out = tinyt.zeros(64, 8, device=x.device).index_add(0, places, x)
        table.copy_(out)
        return out.sum(1), tinyt.cat([x, x @ x.t() @ x])

    program = tinyt.compile(step)
    places = tinyt.tensor([3, 5, 60, 3]).to(DEVICE)
    given = [tinyt.randn(4, 8).to(DEVICE) for _ in range(8)]
    tables = [tinyt.ones(64, 8).to(DEVICE) for _ in given]
    warm(program, given[0], tables[0], places)
    counts = Counts()
    results = [program(x, t, places) for x, t in zip(given, tables, strict=True)]
    assert counts.graphs == (0, 8)
    assert counts.plain == 0
    for got, x, table in zip(results, given, tables, strict=True):
        other = tinyt.empty(64, 8, device=DEVICE)
        for one, known in zip(got, step(x, other, places), strict=True):
            assert_same_bits(one.cpu(), known.cpu())
        assert_same_bits(table.cpu(), other.cpu())


def test_items_and_other_work_between() -> None:
    first, second = tinyt.compile(chain), tinyt.compile(lambda x, f: chain(x * f) + f)
    x = tinyt.randn(8, 8).to(DEVICE)
    for k in range(8):
        counts = Counts()
        y = first(x)
        z = y + k
        factor = z.sum().item() / 100
        assert_same_bits(second(x, factor).cpu(), (chain(x * factor) + factor).cpu())
        assert_same_bits(y.cpu(), chain(x).cpu())
    assert counts.graphs == (0, 2)


def test_what_is_read_in_a_run() -> None:
    """It is sent before that, in order, and the rest afterwards."""

    def step(x: Tensor) -> Tensor:
        y = (x @ x).softmax(-1) @ x
        z = (y * 2).cpu() + 1
        return chain(z.to(DEVICE) + y) * x

    program = tinyt.compile(step)
    for _ in range(8):
        x = tinyt.randn(8, 8).to(DEVICE)
        counts = Counts()
        got = program(x)
        launches = counts.graphs
        assert_same_bits(got.cpu(), step(x).cpu())
    assert launches == (0, 2)


def loops(x: Tensor, n: Tensor) -> Tensor:
    def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, (y @ y).softmax(-1) + x

    return tinyt.while_loop(lambda i, _: i < n, body, (n * 0, x))[1]


def branches(x: Tensor, n: Tensor) -> Tensor:
    return tinyt.cond(
        n > 2, lambda y: (y @ y).softmax(-1) @ y, lambda y: (y + y).softmax(0) @ y, (x,)
    )


def scanned(x: Tensor, n: Tensor) -> Tensor:
    def body(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        carry = (carry @ x).softmax(-1) + row
        return carry, carry * n

    return tinyt.scan(body, x[0], x)[1]


@pytest.mark.parametrize("function", [loops, branches, scanned])
def test_control_flow(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """The host reads conditions in between; steps of a scan belong to its program's run."""
    x = tinyt.randn(5, 5).to(DEVICE)
    program = tinyt.compile(function)
    for n in (1, 3, 0, 3, 3, 2, 3, 3):
        counts, there = Counts(), tinyt.tensor(n).to(DEVICE)
        got = program(x, there)
        launches = counts.graphs
        assert_same_bits(got.cpu(), function(x, there).cpu())
    assert launches[0] == 0
    assert launches[1] >= 1


@pytest.mark.parametrize("same", [True, False], ids=["one program", "two programs"])
def test_threads(same: bool) -> None:
    """Two at once on one device: work of both is done in the order in which it was asked for."""
    programs = [tinyt.compile(chain)] * 2 if same else [tinyt.compile(chain) for _ in range(2)]
    given = [tinyt.randn(16, 16).to(DEVICE) for _ in range(2)]
    want = [chain(x).cpu() for x in given]
    wrong: list[int] = []

    def work(k: int) -> None:
        for i in range(150):
            y = programs[k](given[k])
            z = (y + 1) if i % 2 else y
            if not tinyt.equal(z.cpu(), want[k] + 1 if i % 2 else want[k]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_goes_back_while_another_thread_runs() -> None:
    """What a run keeps and has not sent works on memory that is nobody's by then."""
    program = tinyt.compile(chain)
    x = tinyt.randn(16, 16).to(DEVICE)
    want, wrong, done = chain(x).cpu(), [], threading.Event()

    def work() -> None:
        for _ in range(200):
            y = program(x)
            if not tinyt.equal(y.cpu(), want):
                wrong.append(y)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        tinyt.memory.empty_cache(DEVICE)
        tinyt.accelerator.synchronize(DEVICE)
    thread.join()
    assert not wrong


def test_two_devices() -> None:
    other = tinyt.device("cuda:1")

    def step(x: Tensor) -> Tensor:
        y = chain(x).to(other)
        z = (y * y).cumsum(0).softmax(0)
        return chain(x + z.to(DEVICE))

    program = tinyt.compile(step)
    for _ in range(8):
        x = tinyt.randn(8, 8)
        there = x.to(DEVICE)
        assert_same_bits(program(there).cpu(), step(there).cpu())


def test_a_lazy_recording_is_one_launch() -> None:
    x = tinyt.randn(8, 8).to(DEVICE)
    want = chain(x).cpu()

    def run() -> Tensor:
        with tinyt.lazy():
            y = chain(x)
        return y.cpu()

    warm(run)
    counts = Counts()
    for _ in range(3):
        assert_same_bits(run(), want)
    assert counts.graphs == (0, 3)


def test_an_index_out_of_range_is_found() -> None:
    program = tinyt.compile(lambda x, places: (x @ x)[places].softmax(-1) @ x)
    x, places = tinyt.randn(4, 4).to(DEVICE), tinyt.tensor([0, 3]).to(DEVICE)
    warm(program, x, places)
    good = program(x, places).cpu()
    wrong = program(x, tinyt.tensor([0, 4]).to(DEVICE))
    with pytest.raises(IndexError, match="index 4 is out of range for dimension 0 of size 4"):
        wrong.cpu()
    assert_same_bits(program(x, places).cpu(), good)


def test_graphs_go_with_their_program() -> None:
    gc.collect()
    before = STANDIN.standin_graphs()
    program = tinyt.compile(chain)
    warm(program, tinyt.randn(8, 8).to(DEVICE))
    assert STANDIN.standin_graphs() == before + 2
    del program
    gc.collect()
    assert STANDIN.standin_graphs() == before


def test_memory_goes_back_while_a_graph_runs() -> None:
    """And what a later program has is other memory."""
    program = tinyt.compile(chain)
    x = tinyt.randn(64, 64).to(DEVICE)
    want = chain(x).cpu()
    for _ in range(6):
        y = program(x)
        tinyt.memory.empty_cache(DEVICE)
        assert_same_bits(y.cpu(), want)


BUILDING = ("cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate")
STATUSES = (OUT_OF_MEMORY, INVALID_VALUE, NOT_SUPPORTED)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("call", [*BUILDING, UPDATED[0], "cuGraphLaunch"])
def test_a_graph_that_the_driver_refuses(call: str, status: int) -> None:
    """Then everything is launched by itself, and nothing of the graph stays."""
    gc.collect()
    before = STANDIN.standin_graphs()
    program = tinyt.compile(chain)
    given = [tinyt.randn(8, 8).to(DEVICE) for _ in range(6)]
    want = [chain(x).cpu() for x in given]
    if call not in BUILDING:
        warm(program, given[0])
    with failing(call, status):
        for _ in range(2):
            for x, known in zip(given, want, strict=True):
                assert_same_bits(program(x).cpu(), known)
        assert STANDIN.standin_graphs() == before
    assert_same_bits(program(given[0]).cpu(), want[0])


@pytest.mark.parametrize("call", [*BUILDING, UPDATED[0], "cuGraphLaunch"])
def test_a_device_that_is_lost(call: str) -> None:
    program = tinyt.compile(chain)
    given = [tinyt.randn(8, 8).to(DEVICE) for _ in range(2)]
    program(given[0])
    if call not in BUILDING:
        warm(program, given[0])

    def train() -> None:
        for _ in range(4):
            program(given[0])
            program(given[1])

    text = f"compiled program: cuda: {call} failed with 719"
    with failing(call, LAUNCH_FAILED), pytest.raises(tinyt.DeviceError, match=text):
        train()
    assert_same_bits(program(given[0]).cpu(), chain(given[0]).cpu())


def test_a_kernel_of_a_graph_that_fails() -> None:
    program = tinyt.compile(chain)
    x = tinyt.randn(8, 8).to(DEVICE)
    warm(program, x)
    tinyt.accelerator.synchronize(DEVICE)
    STANDIN.standin_fail_async(LAUNCH_FAILED)
    with pytest.raises(tinyt.DeviceError, match="719"):
        program(x).cpu()
