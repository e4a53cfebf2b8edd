"""`tinyt.multiprocessing`: tensors in memory that processes share, spawned functions, errors."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest

import processes
import tinyt
from tinyt import multiprocessing as mp
from tinyt import nn

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no shared memory on Windows"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
METHODS = ["fork", "spawn"]


def segments() -> int:
    """Segments of shared memory that this process has a descriptor of."""
    found = 0
    for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd") else ():
        with contextlib.suppress(OSError):
            found += "memfd:tinyt" in os.readlink(f"/proc/self/fd/{name}")
    return found


@pytest.fixture(autouse=True)
def _no_segments_are_left() -> Iterator[None]:
    before = segments()
    yield
    gc.collect()
    # The thread that hands descriptors on closes its own a moment after the reader has one.
    end = time.monotonic() + 60
    while segments() != before and time.monotonic() < end:
        time.sleep(0.001)
    assert segments() == before


# Memory ------------------------------------------------------------------------------------------


def test_memory_moves_with_all_its_views() -> None:
    x = tinyt.arange(12.0).reshape(3, 4)
    view, version = x[1:, ::2], x._version
    assert not x.is_shared()
    assert view.share_memory_() is view
    assert x.is_shared()
    assert view.is_shared()
    assert x.flatten().tolist() == [float(i) for i in range(12)]
    x[1, 0] = 50.0
    assert view[0, 0] == 50.0
    assert x._version == version + 1
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address
    assert x.clone().is_shared() is False


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 7)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float64", "complex64"])
def test_any_tensor_is_shared(shape: tuple[int, ...], dtype: str) -> None:
    x = (tinyt.arange(max(1, int(np.prod(shape))))[: int(np.prod(shape))].reshape(shape) % 2).to(
        getattr(tinyt, dtype)
    )
    want = x.tolist()
    assert x.share_memory_().tolist() == want
    assert x.is_shared()
    assert (x + x if dtype != "bool" else x | x).shape == shape


def test_memory_of_others() -> None:
    array = np.zeros(3, np.float32)
    x = tinyt.from_numpy(array)
    x.share_memory_()
    array[0] = 5.0  # as in PyTorch, the tensor has left the array
    assert x.tolist() == [0.0, 0.0, 0.0]
    y = tinyt.ones(3)
    held = y.numpy()
    with pytest.raises(RuntimeError, match="an array or buffer uses the memory"):
        y.share_memory_()
    assert held.tolist() == [1.0, 1.0, 1.0]
    del held
    y.share_memory_()
    number = tinyt.tensor(2.0)
    assert number.share_memory_().item() == 2.0


def test_shared_memory_and_the_tape() -> None:
    weight = nn.Parameter(tinyt.ones(2))
    weight.share_memory_()
    (weight * 3).sum().backward()
    assert weight.grad.tolist() == [3.0, 3.0]
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = model.state_dict()
    assert model.share_memory() is model
    assert all(x.is_shared() for x in (*model.parameters(), *model.buffers(), *state.values()))
    saved = tinyt.ones(3, requires_grad=True)
    out = saved.exp()
    saved.detach().share_memory_()  # what backward has saved moves along
    out.sum().backward()
    assert saved.grad.tolist() == out.tolist()


def test_programs_follow_memory_that_moves() -> None:
    weight = tinyt.rand(4)
    run = tinyt.compile(lambda x: x * weight + 1)
    x = tinyt.rand(4)
    for _ in range(3):
        run(x)
    weight.share_memory_()
    weight.fill_(3.0)
    x.share_memory_()
    for _ in range(3):
        assert tinyt.equal(run(x), x * weight + 1)
    with tinyt.lazy():
        y = tinyt.ones(2) + 1
        y.share_memory_()
    assert y.tolist() == [2.0, 2.0]
    refused = tinyt.compile(lambda x: x.share_memory_() + 1)
    with pytest.raises(tinyt.CaptureError, match="share_memory_"):
        refused(tinyt.ones(2))


# Sending -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "forkserver"])
def test_a_process_writes_where_the_parent_reads(method: str) -> None:
    x = tinyt.zeros(2, 3).share_memory_()
    process = mp.get_context(method).Process(target=processes.fill, args=(x, 4.0))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert x.tolist() == [[4.0] * 3] * 2


def sent() -> dict[str, tinyt.Tensor]:
    base = tinyt.arange(24.0).reshape(4, 6)
    return {
        "plain": tinyt.rand(3),
        "strided": base[1:, ::2].t(),
        "expanded": tinyt.tensor([1.0, 2.0]).expand(3, 2),
        "number": tinyt.tensor(3),
        "empty": tinyt.zeros(0, 2),
        "half": tinyt.rand(3).half(),
        "parameter": nn.Parameter(tinyt.rand(2, 2)),
        "buffer": nn.Buffer(tinyt.ones(2)),
        "leaf": tinyt.ones(2, requires_grad=True),
    }


@pytest.mark.parametrize("method", METHODS)
def test_queues_share_memory(method: str) -> None:
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=processes.answer, args=(inbox, outbox))
    process.start()
    for name, x in sent().items():
        if name == "expanded":  # it cannot be written
            continue
        want = x.detach().clone()
        inbox.put(x)
        facts, found, was_shared = outbox.get(timeout=120)
        kind = type(x).__name__
        shape = tuple(x.shape)
        assert facts == (kind, x.dtype.name, shape, x.stride(), x.requires_grad), name
        assert was_shared
        assert x.is_shared()
        assert tinyt.equal(found, want)
    inbox.put(None)
    inbox.put(None)
    process.join()
    assert not x.detach().any()  # what the process wrote at last
    for queue in (inbox, outbox):
        queue.close()
        queue.join_thread()


def test_one_memory_arrives_once() -> None:
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=processes.same_twice, args=(inbox, outbox))
    process.start()
    x = tinyt.zeros(2)
    inbox.put(x)
    inbox.put(x)
    assert outbox.get(timeout=120) == (True, [7.0, 7.0])
    process.join()
    assert x.tolist() == [7.0, 7.0]


def test_a_tensor_that_comes_back_is_the_same_memory() -> None:
    x = tinyt.ones(2, 2)
    again = pickle.loads(ForkingPickler.dumps(x[1]))
    again.fill_(5.0)
    assert x.tolist() == [[1.0, 1.0], [5.0, 5.0]]
    assert again.data_ptr() == x[1].data_ptr()
    assert again._version == x._version  # one storage
    plain = pickle.loads(pickle.dumps(x))  # pickle itself copies
    plain.zero_()
    assert x[0].tolist() == [1.0, 1.0]


def test_what_cannot_be_sent() -> None:
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        ForkingPickler.dumps(tinyt.ones(2, requires_grad=True) * 2)
    x = tinyt.ones(3)
    held = x.numpy()
    copy = pickle.loads(ForkingPickler.dumps(x))
    assert copy.tolist() == held.tolist()
    assert not x.is_shared()


@pytest.mark.parametrize("method", METHODS)
def test_pool(method: str) -> None:
    with mp.get_context(method).Pool(2) as pool:
        results = pool.map(processes.double, [tinyt.full((2,), float(i)) for i in range(4)])
        assert [r.tolist() for r in results] == [[2.0 * i] * 2 for i in range(4)]
        pool.close()
        pool.join()


def test_a_process_that_is_killed_leaves_nothing() -> None:
    context = mp.get_context("spawn")
    inbox, ready = context.SimpleQueue(), context.Event()
    process = context.Process(target=processes.take_and_die, args=(inbox, ready))
    process.start()
    x = tinyt.zeros(1000)
    inbox.put(x)
    assert ready.wait(120)
    process.kill()
    process.join()
    assert x.sum() == 1000.0
    shared = [name for name in os.listdir("/dev/shm") if "tinyt" in name]
    assert shared == []
    inbox.close()


# Spawning ----------------------------------------------------------------------------------------


def test_spawn() -> None:
    x = tinyt.zeros(3, 2).share_memory_()
    assert mp.spawn(processes.fill_row, (x,), nprocs=3) is None
    assert x.tolist() == [[1.0] * 2, [2.0] * 2, [3.0] * 2]


def test_steps_of_several_processes_on_one_model() -> None:
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    model.share_memory()
    for _ in range(2):
        mp.start_processes(processes.train, (model,), nprocs=1, start_method="fork")
    change = before - model.weight.detach()
    assert tinyt.allclose(change, tinyt.full((1, 2), 0.2))
    assert model.weight.grad is None


def test_errors_of_spawned_functions() -> None:
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)Process 1 .*process 1 cannot go on"):
        mp.start_processes(processes.fail, (1,), nprocs=3, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3"):
        mp.start_processes(processes.leave, (3,), start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="signal SIGKILL"):
        mp.start_processes(processes.die, start_method="fork")
    error = mp.ProcessExitedException("text", 1, 2, 3, "SIGX")
    again = pickle.loads(pickle.dumps(error))
    assert (again.msg, again.error_index, again.pid, again.exit_code) == ("text", 1, 2, 3)
    raised = pickle.loads(pickle.dumps(mp.ProcessRaisedException("text", 1, 2)))
    assert isinstance(raised, mp.ProcessException)
    assert raised.pid == 2


def test_processes_that_are_not_waited_for() -> None:
    context = mp.start_processes(
        processes.wait_for_ever, nprocs=2, join=False, daemon=True, start_method="fork"
    )
    assert context is not None
    assert len(context.pids()) == 2
    assert not context.join(timeout=0.01)
    os.kill(context.pids()[0], signal.SIGTERM)
    with pytest.raises(mp.ProcessExitedException, match="signal SIGTERM"):
        context.join()
    assert not any(p.is_alive() for p in context.processes)


def test_spawn_warns_of_other_methods() -> None:
    with pytest.warns(FutureWarning, match="start_processes"):
        mp.spawn(processes.leave, (0,), start_method="fork")


# Names -------------------------------------------------------------------------------------------


def test_names_of_python() -> None:
    import multiprocessing

    for name in multiprocessing.__all__:
        assert getattr(mp, name) is getattr(multiprocessing, name)
    assert mp.pool.ThreadPool is multiprocessing.pool.ThreadPool
    assert mp.connection is multiprocessing.connection
    assert mp.get_context("spawn").get_start_method() == "spawn"
    with pytest.raises(AttributeError, match="nonsense"):
        _ = mp.nonsense


def test_strategies() -> None:
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    try:
        assert mp.get_sharing_strategy() == "file_system"
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft == hard
    finally:
        mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(ValueError, match="'pigeon'"):
        mp.set_sharing_strategy("pigeon")


def test_plain_workers_are_python(monkeypatch: pytest.MonkeyPatch) -> None:
    value: Any = mp.Value("i", 3)
    assert value.value == 3
    assert mp.cpu_count() >= 1
