"""`tinyt.cuda.CUDAGraph` and what belongs to it: run by `tests/unit/test_cuda.py` in a process of
its own, with the stand-in for CUDA's driver, which counts calls and has two devices."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor, cuda, nn

STANDIN = ctypes.CDLL(os.environ["TINYT_CUDA_LIBRARY"])
STANDIN.faulty_calls.restype = STANDIN.standin_graphs.restype = ctypes.c_long
STANDIN.faulty_fail.argtypes = [ctypes.c_char_p, *[ctypes.c_long] * 2, ctypes.c_int]
DEVICE = tinyt.device("cuda:0")
OUT_OF_MEMORY, NOT_SUPPORTED = 2, 801
NOT_PERMITTED = "operation not permitted when stream is capturing"
FAILED_BEFORE = "failed due to a previous error during capture"


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    yield
    STANDIN.faulty_reset()
    STANDIN.standin_reset()
    assert not cuda.is_current_stream_capturing()


def calls(name: str) -> int:
    return STANDIN.faulty_calls(name.encode())


def work() -> int:
    return sum(map(calls, ("cuLaunchKernel", "cuMemcpyDtoDAsync", "cuMemsetD8Async")))


def fails(name: str, status: int, nth: int = 1, times: int = -1) -> None:
    STANDIN.faulty_fail(name.encode(), nth, times, status)


def on_device(*sizes: int) -> Tensor:
    return tinyt.randn(*sizes).to(DEVICE)


def chain(x: Tensor) -> Tensor:
    return ((x @ x).softmax(-1) @ x).sum(0)


def captured(function: Callable[[], Tensor], **options: object) -> tuple[cuda.CUDAGraph, Tensor]:
    """After a warm-up on a side stream, as PyTorch's manual has it."""
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        function()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, **options):
        y = function()
    return graph, y


# ---- what a capture does, and a replay


def test_a_replay_is_one_launch_on_what_is_there() -> None:
    x = on_device(8, 8)
    before = work()
    chain(x)
    asked = work() - before
    assert asked > 2
    graph, y = captured(lambda: chain(x))
    for _ in range(5):
        new = tinyt.randn(8, 8)
        x.copy_(new)
        before, launches = work(), calls("cuGraphLaunch")
        graph.replay()
        assert (work() - before, calls("cuGraphLaunch") - launches) == (0, 1)
        assert_same_bits(y.cpu(), chain(new.to(DEVICE)).cpu())


def test_a_capture_does_nothing() -> None:
    x, y = on_device(4, 4), on_device(4, 4)
    chain(x)
    graph, known = cuda.CUDAGraph(), y.cpu()
    before = work()
    with cuda.graph(graph):
        assert cuda.is_current_stream_capturing()
        y.mul_(2)
        y.add_(x)
        y[0].fill_(3)
        chain(x)
    assert work() == before
    assert_same_bits(y.cpu(), known)
    graph.replay()
    want = known.to(DEVICE) * 2 + x
    want[0] = 3.0
    assert_same_bits(y.cpu(), want.cpu())


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam", "AdamW", "amsgrad"])
def test_a_training_step(kind: str) -> None:
    """Forward, backward and optimiser, with static inputs; losses and parameters are those of
    steps without a graph."""

    def make() -> tuple[nn.Module, tinyt.optim.Optimizer]:
        tinyt.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to(DEVICE)
        parameters = model.parameters()
        if kind in ("SGD", "Momentum"):
            momentum = 0.9 if kind == "Momentum" else 0.0
            return model, tinyt.optim.SGD(parameters, lr=0.1, momentum=momentum)
        if kind == "AdamW":
            return model, tinyt.optim.AdamW(parameters, lr=0.01, capturable=True)
        amsgrad = kind == "amsgrad"
        return model, tinyt.optim.Adam(parameters, lr=0.01, capturable=True, amsgrad=amsgrad)

    def step(model: nn.Module, optimizer: tinyt.optim.Optimizer, x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    data = [(tinyt.randn(8, 6), tinyt.randint(0, 3, (8,))) for _ in range(6)]
    static_x, static_y = data[0][0].to(DEVICE), data[0][1].to(DEVICE)
    model, optimizer = make()
    graph, loss = captured(lambda: step(model, optimizer, static_x, static_y))
    other, plain = make()
    step(other, plain, static_x, static_y)  # the warm-up
    for x, y in data:
        static_x.copy_(x)
        static_y.copy_(y)
        launches = calls("cuGraphLaunch")
        graph.replay()
        assert calls("cuGraphLaunch") - launches == 1
        assert_same_bits(loss.cpu(), step(other, plain, x.to(DEVICE), y.to(DEVICE)).cpu())
    for got, want in zip(model.parameters(), other.parameters(), strict=True):
        assert_same_bits(got.detach().cpu(), want.detach().cpu())


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "NAdam", "ASGD", "Adagrad"])
def test_optimisers_whose_counters_are_on_the_host(name: str) -> None:
    p = nn.Parameter(on_device(3))
    optimizer = getattr(tinyt.optim, name)([p])
    p.grad = on_device(3)
    optimizer.step()
    graph, words = cuda.CUDAGraph(), f"capture of step\\(\\) for an instance of {name}"
    with pytest.raises(RuntimeError, match=words), cuda.graph(graph):  # noqa: PT012
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
    optimizer.step()


def test_compiled_programs_in_a_capture() -> None:
    x = on_device(8, 8)
    program = tinyt.compile(chain)
    graph, y = captured(lambda: program(x) * 2)
    x.copy_(tinyt.randn(8, 8))
    graph.replay()
    assert_same_bits(y.cpu(), (chain(x) * 2).cpu())


def test_a_second_device_is_not_captured() -> None:
    other, x = tinyt.ones(3, device="cuda:1"), on_device(3)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        doubled = other * 2
        y = x * 2
        with cuda.device(1):
            assert not cuda.is_current_stream_capturing()
    assert doubled.tolist() == [2.0] * 3
    graph.replay()
    assert_same_bits(y.cpu(), x.cpu() * 2)


# ---- random numbers


def test_each_replay_draws_anew() -> None:
    x = tinyt.ones(64, device=DEVICE)
    graph, y = captured(lambda: nn.functional.dropout(x, 0.5) + tinyt.randn(64, device=DEVICE))
    for seed in (5, -7, 2**63 + 11):
        tinyt.manual_seed(seed)
        got = []
        for _ in range(3):
            graph.replay()
            got.append(y.cpu())
        tinyt.manual_seed(seed)
        for one in got:
            want = nn.functional.dropout(x, 0.5) + tinyt.randn(64, device=DEVICE)
            assert_same_bits(one, want.cpu())


def test_generators_of_their_own() -> None:
    first, second = (tinyt.Generator("cuda").manual_seed(seed) for seed in (1, 2))

    def draw() -> Tensor:
        parts = [tinyt.rand(9, device=DEVICE, generator=g) for g in (first, second, first)]
        return tinyt.cat([*parts, tinyt.randint(0, 1000, (5,), device=DEVICE, generator=second)])

    graph, y = captured(draw)
    for _ in range(2):
        states = [g.get_state() for g in (first, second)]
        graph.replay()
        got, after = y.cpu(), [g.get_state() for g in (first, second)]
        for g, state in zip((first, second), states, strict=True):
            g.set_state(state)
        assert_same_bits(got, draw().cpu())
        assert [g.get_state().tolist() for g in (first, second)] == [s.tolist() for s in after]


def test_draws_in_programs() -> None:
    x = tinyt.ones(64, device=DEVICE)
    program = tinyt.compile(lambda x: nn.functional.dropout(x, 0.5).cumsum(0) @ x)
    graph, y = captured(lambda: program(x))
    tinyt.manual_seed(9)
    graph.replay()
    got = y.cpu()
    tinyt.manual_seed(9)
    assert_same_bits(got, program(x).cpu())


def test_draws_of_the_host_are_refused() -> None:
    x = on_device(3)
    state = tinyt.get_rng_state()
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="draw on the device"), cuda.graph(graph):  # noqa: PT012
        x * 2
        tinyt.rand(4)
    assert tinyt.get_rng_state().tolist() == state.tolist()


# ---- what a capture refuses


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: tinyt.tensor([1.0]).to(DEVICE),
        lambda x: x.copy_(tinyt.ones(4, 4)),
        lambda x: x.copy_(tinyt.ones(4, 4).pin_memory(), non_blocking=True),
        lambda x: cuda.synchronize(),
        lambda x: cuda.current_stream().synchronize(),
        lambda x: cuda.current_stream().cuda_stream,
        lambda x: x.to("cuda:1"),
        lambda x: bool((x > 0).any()),
    ],
)
def test_what_waits_or_reads(ask: Callable[[Tensor], object]) -> None:
    """RuntimeError, and again at the end; then all goes on as before."""
    x = on_device(4, 4)
    known, graph = x.cpu(), cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=FAILED_BEFORE), cuda.graph(graph):  # noqa: PT012
        y = x * 2
        with pytest.raises(RuntimeError, match=NOT_PERMITTED):
            ask(x)
        with pytest.raises(RuntimeError, match=FAILED_BEFORE):
            x * 2
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert_same_bits(x.cpu(), known)
    with cuda.graph(graph):  # it may be used again
        y = x * 2
    graph.replay()
    assert_same_bits(y.cpu(), known * 2)


def test_an_exception_in_the_block() -> None:
    """It comes through, and the capture ends."""
    x, graph = on_device(4), cuda.CUDAGraph()
    with pytest.raises(ZeroDivisionError), cuda.graph(graph):  # noqa: PT012
        x.mul_(2)
        1 / 0  # noqa: B018
    assert not cuda.is_current_stream_capturing()
    known = x.cpu()
    graph.replay()
    assert_same_bits(x.cpu(), known * 2)


def test_indices_out_of_range() -> None:
    """Found by who looks behind a replay."""
    x, at = on_device(5), tinyt.tensor([1, 2]).to(DEVICE)
    graph, y = captured(lambda: x[at])
    graph.replay()
    cuda.synchronize()
    at.copy_(tinyt.tensor([1, 7]))
    for _ in range(2):
        graph.replay()
        with pytest.raises(IndexError, match="index 7 is out of range"):
            cuda.synchronize()
    at.copy_(tinyt.tensor([0, 4]))
    graph.replay()
    assert_same_bits(y.cpu(), x[at].cpu())


# ---- memory


def test_nobody_else_gets_memory_of_a_graph() -> None:
    x = on_device(64, 64)
    graph, y = captured(lambda: chain(x * 1.5))
    want = chain(x * 1.5).cpu()
    held = [on_device(64, 64) for _ in range(8)] + [on_device(64) for _ in range(8)]
    known = [t.cpu() for t in held]
    cuda.empty_cache()
    graph.replay()
    assert_same_bits(y.cpu(), want)
    for got, one in zip(held, known, strict=True):
        assert_same_bits(got.cpu(), one)
    place = y.data_ptr()
    del y
    others = [tinyt.empty(64, device=DEVICE) for _ in range(8)]
    assert place not in [t.data_ptr() for t in others]
    graph.replay()


def test_memory_goes_back() -> None:
    x = on_device(64, 64)
    chain(x)
    gc.collect()
    cuda.empty_cache()
    reserved, graphs = cuda.memory_reserved(), STANDIN.standin_graphs()
    graph, y = captured(lambda: chain(x))
    assert cuda.memory_reserved() > reserved
    cuda.empty_cache()
    assert cuda.memory_reserved() > reserved
    graph.reset()
    cuda.empty_cache()
    assert STANDIN.standin_graphs() == graphs
    del y
    cuda.empty_cache()
    assert cuda.memory_reserved() == reserved
    assert cuda.memory_allocated() == x.nbytes
    graph, y = captured(lambda: chain(x))
    del graph, y
    gc.collect()
    cuda.empty_cache()
    assert (cuda.memory_reserved(), STANDIN.standin_graphs()) == (reserved, graphs)


def test_graphs_that_share_a_pool() -> None:
    pool = cuda.graph_pool_handle()
    x = on_device(64, 64)
    first, y = captured(lambda: chain(x), pool=pool)
    assert first.pool() == pool
    reserved = cuda.memory_reserved()
    second, z = captured(lambda: chain(x) * 2, pool=first.pool())
    cuda.empty_cache()
    assert cuda.memory_reserved() <= reserved + 4096  # the blocks that the first one had freed
    first.replay()
    second.replay()
    assert_same_bits(y.cpu(), chain(x).cpu())
    assert_same_bits(z.cpu(), (chain(x) * 2).cpu())
    del first, y
    second.replay()
    assert_same_bits(z.cpu(), (chain(x) * 2).cpu())


def test_no_memory_in_a_capture() -> None:
    x = on_device(4, 4)
    chain(x)
    graph = cuda.CUDAGraph()
    with pytest.raises(tinyt.OutOfMemoryError), cuda.graph(graph):  # noqa: PT012
        y = x * 2
        fails("cuMemAlloc", OUT_OF_MEMORY)
        tinyt.empty(1 << 20, device=DEVICE)
    STANDIN.faulty_reset()
    graph.replay()
    assert_same_bits(y.cpu(), x.cpu() * 2)
    graph.reset()
    with cuda.graph(graph):
        y = chain(x)
    graph.replay()
    assert_same_bits(y.cpu(), chain(x).cpu())


@pytest.mark.parametrize("name", ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate"])
def test_a_graph_that_the_driver_refuses(name: str) -> None:
    x = on_device(4, 4)
    chain(x)
    graphs = STANDIN.standin_graphs()
    fails(name, NOT_SUPPORTED)
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match=name), cuda.graph(graph):
        chain(x)
    STANDIN.faulty_reset()
    assert STANDIN.standin_graphs() == graphs
    with cuda.graph(graph):
        y = chain(x)
    fails("cuGraphLaunch", OUT_OF_MEMORY, 1, 1)
    graph.replay()
    assert_same_bits(y.cpu(), chain(x).cpu())


# ---- threads and forks


def test_other_threads_are_not_captured() -> None:
    x = on_device(4, 4)
    want, found, graph = chain(x).cpu(), [], cuda.CUDAGraph()

    def other() -> None:
        assert not cuda.is_current_stream_capturing()
        found.append(chain(x).cpu())
        with pytest.raises(RuntimeError, match="another graph of this device"):
            cuda.CUDAGraph().capture_begin()
        with pytest.raises(RuntimeError, match="in the thread in which it began"):
            graph.capture_end()

    graph.capture_begin()
    y = chain(x)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert_same_bits(found[0], want)
    graph = None  # the other thread has given it up
    with cuda.graph(cuda.CUDAGraph()):
        y = chain(x)
    del y


def test_a_child_of_a_fork() -> None:
    """It has no capture, and cannot use the device; the parent's goes on."""
    x = on_device(4, 4)
    chain(x)
    graph, done = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(done):
        chain(x)
    with cuda.graph(graph):
        y = chain(x)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert not cuda.is_current_stream_capturing()
                for ask in (lambda: x * 2, graph.capture_end, done.replay):
                    with pytest.raises(tinyt.DeviceError, match="forked"):
                        ask()
                tinyt.manual_seed(1)
                first = tinyt.rand(3).tolist()
                tinyt.manual_seed(1)
                assert tinyt.rand(3).tolist() == first
                graph.reset()
                done.reset()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        z = y * 2
    graph.replay()
    assert_same_bits(z.cpu(), (chain(x) * 2).cpu())


# ---- the rest of the interface


def test_an_empty_graph() -> None:
    graph = cuda.CUDAGraph()
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"), cuda.graph(graph):
        pass
    graph.replay()


def test_arguments(tmp_path: Path) -> None:
    x, graph = on_device(4), cuda.CUDAGraph()
    for call, kind, words in (
        (graph.capture_end, RuntimeError, "comes before"),
        (graph.replay, RuntimeError, "without a preceding successful capture"),
        (graph.pool, RuntimeError, "without a preceding successful capture"),
        (graph.instantiate, RuntimeError, "must have been called before"),
        (graph.raw_cuda_graph, RuntimeError, "keep_graph=true"),
        (graph.raw_cuda_graph_exec, RuntimeError, "until instantiate"),
        (graph.get_graph_data, NotImplementedError, "debug_dump"),
        (lambda: graph.capture_begin(capture_error_mode="x"), RuntimeError, "Unknown capture"),
        (lambda: graph.capture_begin(pool=3), TypeError, "pool must be a handle"),
        (lambda: graph.capture_begin(pool=(0, 0)), ValueError, "no pool"),
        (lambda: graph.capture_begin(check_input_liveness=True), NotImplementedError, "alive"),
        (lambda: cuda.graph(5), TypeError, "expected a CUDAGraph"),
    ):
        with pytest.raises(kind, match=words):
            call()
    with cuda.graph(graph):
        x * 2
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="only when keep_graph=true"):
        graph.instantiate()
    assert graph.raw_cuda_graph_exec() != 0
    file = tmp_path / "graph.dot"
    with pytest.warns(UserWarning, match="debug not enabled"):
        graph.debug_dump(str(file))
    graph.enable_debug_mode()
    graph.debug_dump(str(file))
    assert "kernel, " in file.read_text()
    graph.reset()
    graph.reset()


def test_a_kept_graph() -> None:
    x, graph = on_device(4), cuda.CUDAGraph(keep_graph=True)
    instantiated = calls("cuGraphInstantiate")
    with cuda.graph(graph):
        y = x * 2
    assert calls("cuGraphInstantiate") == instantiated
    graph.instantiate()
    graph.instantiate()
    assert calls("cuGraphInstantiate") == instantiated + 2
    assert graph.raw_cuda_graph() != 0
    graph.replay()
    assert_same_bits(y.cpu(), (x * 2).cpu())


def test_events_in_a_capture() -> None:
    x, graph, event = on_device(4), cuda.CUDAGraph(), cuda.Event()
    side = cuda.Stream()
    with cuda.graph(graph):
        event.record()
        side.wait_event(event)
        with cuda.stream(side):
            y = x * 2
        cuda.current_stream().wait_stream(side)
    with pytest.raises(RuntimeError, match="recorded in a capture"):
        event.synchronize()
    graph.replay()
    event.record()
    event.synchronize()
    assert_same_bits(y.cpu(), (x * 2).cpu())


# ---- functions and modules by graphs


def make_layers() -> nn.Module:
    tinyt.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).to(DEVICE)


def grads(model: nn.Module) -> list[Tensor]:
    return [p.grad.cpu() for p in model.parameters()]


def test_a_graphed_module() -> None:
    """Outputs, gradients of parameters, which add up, and of inputs are those without graphs."""
    x = on_device(4, 6).requires_grad_()
    plain, layers = make_layers(), make_layers()
    assert cuda.make_graphed_callables(layers, (x,)) is layers
    for k in range(4):
        if k % 2 == 0:
            for model in (plain, layers):
                model.zero_grad()
        value = tinyt.randn(4, 6)
        found = []
        for model in (plain, layers):
            given = value.to(DEVICE).requires_grad_()
            launches = calls("cuGraphLaunch")
            y = model(given)
            (y * y).sum().backward()
            assert calls("cuGraphLaunch") - launches == (0 if model is plain else 2)
            found.append([y.detach().cpu(), given.grad.cpu(), *grads(model)])
        for want, got in zip(*found, strict=True):
            assert_same_bits(got, want)
    layers.eval()
    launches = calls("cuGraphLaunch")
    layers(x)
    assert calls("cuGraphLaunch") == launches


def test_graphed_callables_with_an_optimiser() -> None:
    """A part of a training loop, which reads values in between."""
    x = on_device(4, 6)
    plain, layers = make_layers(), make_layers()
    parts = cuda.make_graphed_callables(
        (layers[0], tinyt.tanh, layers[2]),
        ((x,), (on_device(4, 16).requires_grad_(),), (on_device(4, 16).requires_grad_(),)),
    )
    steps = [tinyt.optim.Adam(model.parameters()) for model in (plain, layers)]
    for _ in range(3):
        value = on_device(4, 6)
        losses = []
        for optimizer, forward in zip(
            steps, (plain, lambda v: parts[2](parts[1](parts[0](v)))), strict=True
        ):
            optimizer.zero_grad()
            loss = (forward(value) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == losses[1]
    for got, want in zip(layers.parameters(), plain.parameters(), strict=True):
        assert_same_bits(got.detach().cpu(), want.detach().cpu())


def test_graphed_functions_of_containers() -> None:
    def function(pair: list[Tensor], z: Tensor) -> dict[str, Tensor]:
        return {"sum": pair[0] + pair[1] * z, "constant": z.detach() * 2}

    given = [on_device(3).requires_grad_(), on_device(3)]
    graphed = cuda.make_graphed_callables(function, (given, on_device(3)))
    x, y, z = on_device(3).requires_grad_(), on_device(3), on_device(3)
    found = graphed([x, y], z)
    assert not found["constant"].requires_grad
    assert_same_bits(found["constant"].cpu(), z.cpu() * 2)
    assert_same_bits(found["sum"].detach().cpu(), (x + y * z).detach().cpu())
    found["sum"].sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_what_cannot_be_graphed() -> None:
    x, layer = on_device(4, 6), nn.Linear(6, 2).to(DEVICE)
    unused = on_device(4, 6).requires_grad_()
    for function, given, kind, words in (
        (chain, (3,), AssertionError, "only Tensors"),
        (chain, x, TypeError, "sample_args must be a tuple"),
        ((chain, chain), ((x,),), ValueError, "2 callables"),
        (lambda x: (x * 2).sum().item(), (x,), RuntimeError, "previous error during capture"),
        (lambda x: (x, 3), (x,), TypeError, "must return tensors"),
        (lambda x, y: layer(x), (x, unused), RuntimeError, "allow_unused"),
    ):
        with pytest.raises(kind, match=words):
            cuda.make_graphed_callables(function, given, num_warmup_iters=0)
        assert not cuda.is_current_stream_capturing()
    layer.register_forward_hook(lambda *_: None)
    with pytest.raises(AssertionError, match="must not have hooks"):
        cuda.make_graphed_callables(layer, (x,))
    graphed = cuda.make_graphed_callables(chain, (on_device(4, 4),))
    with pytest.raises(ValueError, match=r"expected \(4, 4\)"):
        graphed(on_device(3, 3))
