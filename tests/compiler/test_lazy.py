"""`tinyt.lazy`: whatever is recorded, whenever somebody looks, values have eager's bits."""

from __future__ import annotations

import copy
import io
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from fuzz.case import Case, Ref, Step, function_of, inputs_of, mapped, nets_of, run_step
from fuzz.check import difference, outcome
from fuzz.draw import drawn
from fuzz.steps import Net
from sampling import assert_same_bits, flat
from tinyt import Tensor, lazy


@pytest.fixture(autouse=True)
def own_cache() -> Iterator[None]:
    """Programs hold tensors: none are left over."""
    lazy.cache_clear()
    yield
    lazy.cache_clear()


def ramp(*shape: int, **options: Any) -> Tensor:
    """Values that are all different."""
    n = int(np.prod(shape))
    x = ((tinyt.arange(n) * 37 % 64).float() / 16 - 2).reshape(shape)
    return x.requires_grad_() if options.get("grad") else x


def counts() -> tuple[int, int, int]:
    info = lazy.cache_info()
    return info.hits, info.misses, info.currsize


# ---- what waits, and what ends the wait


def test_facts_are_known_and_values_wait() -> None:
    x = ramp(4, 6)
    with lazy():
        y = (x * 2 + 1).t()[1:4]
        assert y._is_pending
        assert y.shape == (3, 4)
        assert y.stride() == (1, 6)
        assert (y.storage_offset(), y.dtype, len(y)) == (1, tinyt.float32, 3)
        assert not y.is_contiguous()
        assert y.device == x.device
        assert y._is_pending
        assert y.compute() is y
        assert not y._is_pending
    assert_same_bits(y, (x * 2 + 1).t()[1:4])


HERE = ("buffer", "dlpack")  # looks at memory of the host alone
LOOKS: dict[str, Callable[[Tensor], object]] = {
    "item": lambda y: y[0, 0].item(),
    "tolist": lambda y: y.tolist(),
    "numpy": lambda y: y.numpy(force=True).tobytes(),
    "repr": repr,
    "format": lambda y: f"{y.sum():.4f}",
    "bool": lambda y: bool((y > -100).all()),
    "float": lambda y: float(y.sum()),
    "index": lambda y: range(10)[y.argmax() % 10],
    "buffer": lambda y: memoryview(y).tobytes(),
    "dlpack": lambda y: np.from_dlpack(y).tobytes(),  # type: ignore[arg-type]
    "data_ptr": lambda y: y.data_ptr() != 0,
    "pickle": lambda y: copy.copy(y).__reduce_ex__(2)[1][1],
    "deepcopy": lambda y: copy.deepcopy(y).tolist(),
    "nonzero": lambda y: tinyt.nonzero(y > 0).tolist(),
    "mask": lambda y: y[y > 0].tolist(),
    "unique": lambda y: tinyt.unique(y).tolist(),
    "iteration": lambda y: [row.tolist() for row in y],
    "contains": lambda y: 1.0 in y,
    "equal": lambda y: tinyt.equal(y, y + 0.0),
}


@pytest.mark.parametrize(
    "look",
    [pytest.param(f, id=n, marks=[pytest.mark.host] * (n in HERE)) for n, f in LOOKS.items()],
)
def test_a_look_ends_the_wait(look: Callable[[Tensor], object]) -> None:
    def function(x: Tensor) -> tuple[object, Tensor]:
        y = (x * 0.5 - 1).tanh()
        found = look(y)
        return found, y * 2 + y

    x = ramp(4, 6)
    with lazy():
        found, later = function(x)
        assert later._is_pending
    want, after = function(x)
    assert found == want
    assert_same_bits(later, after)


def test_saved_files_hold_the_values(tmp_path: Any) -> None:
    x = ramp(3, 5)
    buffer = io.BytesIO()
    with lazy():
        y = x.exp() * 2
        tinyt.save({"y": y}, buffer)
    buffer.seek(0)
    assert_same_bits(tinyt.load(buffer)["y"], x.exp() * 2)


def test_the_end_of_the_block_ends_the_wait() -> None:
    x = ramp(5)
    with lazy():
        y = x * 3 + 1
        assert y._is_pending
    assert not y._is_pending
    assert_same_bits(y, x * 3 + 1)


def test_blocks_inside_belong_to_the_outermost() -> None:
    x = ramp(5)
    with lazy():
        with lazy():
            y = x * 3 + 1
        assert y._is_pending
        z = y.exp()
    assert_same_bits(z, (x * 3 + 1).exp())
    assert counts() == (0, 1, 1)


def test_a_decorated_function_is_a_block() -> None:
    @lazy()
    def function(x: Tensor) -> Tensor:
        y = x * 3 + 1
        assert y._is_pending
        return y

    x = ramp(5)
    assert not function(x)._is_pending
    assert_same_bits(function(x), x * 3 + 1)
    assert counts() == (1, 1, 1)


def test_an_operation_that_is_not_recorded_reads_what_waits() -> None:
    """An optimiser's step, a compiled function, a user's operation."""
    x = ramp(4, 4)
    doubled = tinyt.compile(lambda y: y * 2 + 1)
    for _ in range(3):
        with lazy():
            y = x.exp() - 1
            z = doubled(y)
            assert not z._is_pending
            w = z + y
        assert_same_bits(w, (x.exp() - 1) * 2 + 1 + (x.exp() - 1))


def test_what_a_compiled_function_captured_may_wait() -> None:
    w = ramp(4)
    read = tinyt.compile(lambda x: x * w)
    for _ in range(3):
        read(ramp(4))
    with lazy():
        w.add_(1).mul_(2)
        got = read(ramp(4))
    assert_same_bits(got, ramp(4) * ((ramp(4) + 1) * 2))


# ---- programs


def test_a_loop_plans_once_whatever_its_numbers_and_tensors() -> None:
    x = ramp(8, 6)
    for i in range(20):
        row = x[i % 7]  # elsewhere in the same memory
        with lazy():
            y = (row * (0.1 * i) + i).exp() - i * 2
        assert_same_bits(y, (row * (0.1 * i) + i).exp() - i * 2)
    assert counts() == (19, 1, 1)


def test_numbers_of_every_kind_are_read_anew() -> None:
    x, n = ramp(6), tinyt.arange(6)
    for number in (2, 3, -1, 2**40 + 1, True, False, 0.5, -0.0, float("inf"), float("nan"), 1e300):
        with lazy():
            y, z = x * number + 1, (x.double() + number).sin()
            m = (n + number) * 2
        assert_same_bits(y, x * number + 1)
        assert_same_bits(z, (x.double() + number).sin())
        assert_same_bits(m, (n + number) * 2)
        assert m.dtype is ((n + number) * 2).dtype
    assert counts()[1:] == (3, 3)  # integers, truth values, floats


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.double(),
        lambda x: x[:3],
        lambda x: x.t().contiguous().t(),
        lambda x: x.reshape(2, 12),
    ],
    ids=["dtype", "shape", "strides", "rank"],
)
def test_other_operands_are_other_programs(other: Callable[[Tensor], Tensor]) -> None:
    x = ramp(4, 6)
    for y in (x, other(x), x, other(x)):
        with lazy():
            z = (y * 2).exp() + y
        assert_same_bits(z, (y * 2).exp() + y)
    assert counts() == (2, 2, 2)


def test_shared_memory_is_another_program() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        a.mul_(2)
        return b + a

    for make in (lambda x: (x, x), lambda x: (x, x.clone()), lambda x: (x[:4], x[2:])):
        results = []
        for block in (True, False):
            a, b = make(ramp(6))
            a, b = a[:4], b[:4]
            if block:
                with lazy():
                    y = function(a, b)
            else:
                y = function(a, b)
            results.append((y, a, b))
        for got, want in zip(*results, strict=True):
            assert_same_bits(got, want)
    assert counts() == (0, 3, 3)


def test_the_default_dtype_is_part_of_the_key() -> None:
    n = tinyt.arange(5)
    for dtype in (tinyt.float32, tinyt.float64):
        tinyt.set_default_dtype(dtype)
        try:
            with lazy():
                y = (n / 3) * 2
            assert y.dtype is dtype
            assert_same_bits(y, (n / 3) * 2)
        finally:
            tinyt.set_default_dtype(tinyt.float32)


def test_the_cache_is_bounded_and_can_be_cleared() -> None:
    most = lazy.cache_info().maxsize
    for n in range(1, most + 4):
        with lazy():
            y = tinyt.ones(n) * 2 + 1
        assert y.shape == (n,)
    assert lazy.cache_info().currsize == most
    with lazy():
        tinyt.ones(1) * 2 + 1  # went first
    assert lazy.cache_info().hits == 0
    lazy.cache_clear()
    assert lazy.cache_info() == (0, 0, most, 0)


@pytest.mark.host
def test_regions_fuse() -> None:
    """One step a region: what lies between is never in memory."""
    x = ramp(300, 1000)
    with lazy():
        x.mul(2).sub(x).exp().add(1).log().sum()  # plans
    tinyt.memory.reset_peak()
    before = tinyt.memory.statistics()["current_bytes"]
    with lazy():
        y = x.mul(2).sub(x).exp().add(1).log().sum()
    peak = tinyt.memory.statistics()["peak_bytes"] - before
    assert_same_bits(y, x.mul(2).sub(x).exp().add(1).log().sum())
    assert peak < x.nbytes


def test_dropped_values_take_no_memory() -> None:
    x = ramp(1000)
    with lazy():
        y = x + 1
        z = y * 2
        alive = tinyt.memory.statistics()["current_bytes"]
        del y
        z.compute()
        assert tinyt.memory.statistics()["current_bytes"] - alive <= 2 * x.nbytes
    assert_same_bits(z, (x + 1) * 2)


def test_a_long_block_runs_in_parts() -> None:
    x = ramp(4)
    with lazy():
        y = x
        for _ in range(5000):
            y = y * 0.99 + 0.01
        assert sum(counts()[:2]) >= 2
    want = x
    for _ in range(5000):
        want = want * 0.99 + 0.01
    assert_same_bits(y, want)


def test_a_long_block_of_views_runs_in_parts() -> None:
    """What is never looked at does not grow, whatever it consists of."""
    with lazy():
        x = ramp(4) + 1
        for _ in range(200_000):
            y = x.reshape(2, 2)
        assert not x._is_pending
    assert_same_bits(y, (ramp(4) + 1).reshape(2, 2))


@pytest.mark.parametrize("count", [65535, 65536, 70000])
def test_more_operands_than_a_word_counts(count: int) -> None:
    x = ramp(count)
    parts = list(x.split(1))
    with lazy():
        y = tinyt.cat(parts[::-1]) * 2
        z = tinyt.stack([part + 1 for part in (x * 2).split(1)]) - 1
        tinyt.cat(parts, out=(w := x * 3))
    assert_same_bits(y, x.flip(0) * 2)
    assert_same_bits(z, (x * 2 + 1 - 1).reshape(-1, 1))
    assert_same_bits(w, x)


@pytest.mark.parametrize("rank", [127, 128, 200, 256, 300])
def test_more_dimensions_than_a_word_counts(rank: int) -> None:
    ones = [1] * (rank - 1)

    def run(x: Tensor) -> list[Tensor]:
        y = (x + 1).reshape(*ones, 6)
        wide = tinyt.full((*ones, 6), 0.5)
        wide.add_(y).mul_(2)
        wide[..., :3].copy_(y[..., 3:])
        tinyt.mul(y, 3, out=wide)
        total = (y * 2 + wide).sum(tuple(range(rank - 1)))
        return [total, (y - wide).flip(tuple(range(rank))).reshape(-1), wide.flatten()]

    want = run(ramp(6))
    for _ in range(2):
        with lazy():
            got = run(ramp(6))
        for x, y in zip(got, want, strict=True):
            assert_same_bits(x, y)


# ---- writes


def test_writes_are_seen_by_views_from_outside_and_inside() -> None:
    results = []
    for block in (True, False):
        base = ramp(4, 6)
        row, column = base[1], base.t()[2]
        with lazy() if block else tinyt.enable_grad():
            before = base * 1.5
            row.mul_(3)
            inside = base[:, 2]
            inside += 1
            base[0, 1:3] = 7.0
            after = column + 0.5
            fresh = base.exp()
            fresh[2:].zero_()
            part = fresh[1] * 2
        results.append((before, base, row, column, after, fresh, part))
    for got, want in zip(*results, strict=True):
        assert_same_bits(got, want)


def test_versions_are_those_of_eager() -> None:
    x = ramp(4)
    y = ramp(4)
    with lazy():
        x.add_(1)
        x.mul_(2)
        z = x * 2
        z.add_(y)
        assert (x._version, y._version, z._version) == (2, 0, 1)
    assert (x._version, y._version, z._version) == (2, 0, 1)


def test_a_write_outside_waits_for_what_reads_before_it() -> None:
    x = ramp(5)
    want = (x * 2 + 1).tolist()
    go, done = threading.Event(), threading.Event()

    def write() -> None:
        go.wait()
        x.zero_()  # another thread, outside the block
        done.set()

    other = threading.Thread(target=write)
    other.start()
    with lazy():
        y = x * 2 + 1
        go.set()
        assert done.wait(60)
        assert not y._is_pending
    other.join()
    assert y.tolist() == want


@pytest.mark.host
def test_memory_that_numpy_sees() -> None:
    """It is read when the operation is called, and written at once."""
    array = np.arange(4, dtype=np.float32)
    x = tinyt.from_numpy(array)
    own = ramp(4)
    seen = own.numpy(force=True)
    with lazy():
        alone = x + 1
        waits = ramp(4) * 2
        both = waits + x + own
        array[:] = 100
        seen[:] = 50
        x.mul_(2)
        assert array[0] == 200
        own += waits
        assert seen[0] == 50 + 2 * ramp(4)[0].item()
    assert alone.tolist() == [1, 2, 3, 4]
    assert_same_bits(both, ramp(4) * 2 + tinyt.arange(4).float() + ramp(4))


@pytest.mark.host
def test_an_array_over_memory_that_was_read_before() -> None:
    x = ramp(4)
    with lazy():
        y = x * 2 + 1
        x.numpy(force=True)[:] = 9
        z = x + 1
    assert_same_bits(y, ramp(4) * 2 + 1)
    assert z.tolist() == [10.0] * 4


@pytest.mark.host
def test_memory_is_recorded_again_when_the_array_is_gone() -> None:
    x = ramp(4)
    array = x.numpy(force=True)
    with lazy():
        assert not (x + 1)._is_pending
        del array
        assert (x + 1)._is_pending


# ---- gradients, random numbers, training


@pytest.mark.host
def test_gradients() -> None:
    def function(x: Tensor, w: Tensor) -> list[Any]:
        y = F.layer_norm((x @ w).tanh(), (3,)) * w.sum()
        loss = (y.softmax(1) * y).sum() + x[1:].square().mean() + x[:, 0].exp().sum()
        loss.backward()
        second = (w.detach() * 2).requires_grad_()
        (g,) = tinyt.autograd.grad((second**3).sum(), [second], create_graph=True)
        (h,) = tinyt.autograd.grad(g.sum(), [second])
        return [loss, x.grad, w.grad, g, h]

    for _ in range(2):
        args = [(ramp(4, 5, grad=True), ramp(5, 3, grad=True)) for _ in range(2)]
        with lazy():
            got = function(*args[0])
            assert got[1]._is_pending
        for x, y in zip(got, function(*args[1]), strict=True):
            assert_same_bits(x.detach(), y.detach())
    assert counts() == (1, 1, 1)


def test_backward_after_the_block_and_over_written_values() -> None:
    x = ramp(4, grad=True)
    with lazy():
        y = (x * 2).exp()
        z = y * 3
    z.sum().backward()
    assert x.grad is not None
    u = ramp(4, grad=True)
    ((u * 2).exp() * 3).sum().backward()
    assert u.grad is not None
    assert_same_bits(x.grad, u.grad)
    with lazy():
        y = (x * 2).exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_minus_zero_in_gradients_of_slices() -> None:
    """Gradients are added up where they lie, as in eager mode."""
    grads = []
    for block in (True, False):
        x = tinyt.zeros(6, requires_grad=True)
        with lazy() if block else tinyt.enable_grad():
            parts = [x[i : i + 3] * -0.0 for i in (0, 1, 3)]
            sum((p.sum() for p in parts), tinyt.zeros(())).backward()
        grads.append(x.grad)
    assert_same_bits(*grads)


def test_random_numbers_are_those_of_eager() -> None:
    def function(x: Tensor) -> list[Tensor]:
        a = tinyt.randn(5) * 2 + x
        tinyt.rand(7)  # dead, and drawn
        b = F.dropout(a, 0.5) + tinyt.rand(5)
        return [a, b, a.bernoulli_(0.3), x.clone().normal_() + 1, tinyt.get_rng_state()]

    for seed in (1, 2, 3):
        tinyt.manual_seed(seed)
        with lazy():
            got = function(ramp(5))
        tinyt.manual_seed(seed)
        for x, y in zip(got, function(ramp(5)), strict=True):
            assert_same_bits(x, y)
    assert lazy.cache_info().misses == 1


def test_training() -> None:
    def run(block: bool, threads: int) -> list[Tensor]:
        tinyt.manual_seed(0)
        net = tinyt.nn.Sequential(
            tinyt.nn.Conv2d(1, 4, 3),
            tinyt.nn.BatchNorm2d(4),
            tinyt.nn.ReLU(),
            tinyt.nn.Flatten(),
            tinyt.nn.Dropout(0.2),
            tinyt.nn.Linear(4 * 36, 10),
        )
        optimizer = tinyt.optim.AdamW(net.parameters(), lr=0.01)
        losses = []
        with tinyt.num_threads(threads):
            for i in range(6):
                x, y = tinyt.randn(8, 1, 8, 8), tinyt.randint(0, 10, (8,))
                with lazy() if block else tinyt.enable_grad():
                    optimizer.zero_grad()
                    loss = F.cross_entropy(net(x), y)
                    loss.backward()
                    optimizer.step()
                    optimizer.param_groups[0]["lr"] = 0.01 / (i + 1)
                losses.append(loss.detach())
        return [*losses, *(x.detach() for x in net.state_dict().values())]

    want = run(False, 1)
    for threads in (1, 2):
        lazy.cache_clear()
        for got, x in zip(run(True, threads), want, strict=True):
            assert_same_bits(got, x)
        assert lazy.cache_info().misses <= 3


# ---- errors


def failing(x: Tensor, log: list[Tensor]) -> Tensor:
    log.append(x * 2 + 1)
    x.add_(1)
    picked = log[0][tinyt.tensor([0, 9])]
    log.append(picked + 1)
    x.add_(10)
    return picked


def test_an_error_comes_at_the_look_and_leaves_what_eager_leaves() -> None:
    x, log = ramp(4), list[Tensor]()
    with lazy():
        failing(x, log)
        with pytest.raises(IndexError, match="index: 9 is out of range"):
            log[0].tolist()
        assert_same_bits(log[0], ramp(4) * 2 + 1)
        assert_same_bits(x, ramp(4) + 1)
        with pytest.raises(RuntimeError, match=r"never computed.*9 is out of range"):
            log[1].tolist()
        with pytest.raises(RuntimeError, match="never computed"):
            log[1] + 1
        assert_same_bits(log[0] * 3 - 1, (ramp(4) * 2 + 1) * 3 - 1)


def test_an_error_at_the_end_of_the_block() -> None:
    x, log = ramp(4), list[Tensor]()
    with pytest.raises(IndexError, match="index: 9 is out of range"), lazy():
        failing(x, log)
    assert_same_bits(x, ramp(4) + 1)
    with lazy():  # goes on as before
        y = x * 2 + 1
    assert_same_bits(y, (ramp(4) + 1) * 2 + 1)


def test_an_error_of_shapes_comes_at_once() -> None:
    with lazy():
        y = ramp(4, 5) * 2 + 1
        with pytest.raises(tinyt.ShapeError, match="matmul"):
            y @ y
        assert y._is_pending


def test_an_exception_inside_the_block() -> None:
    x, made = ramp(4), list[Tensor]()

    @lazy()
    def function() -> None:
        made.append(x * 2 + 1)
        x.add_(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        function()
    (y,) = made
    assert not y._is_pending
    assert_same_bits(y, ramp(4) * 2 + 1)
    assert_same_bits(x, ramp(4) + 1)


@pytest.mark.host
def test_memory_that_is_short() -> None:
    x = tinyt.ones(1000)
    with lazy():
        y = x + 1
        z = (y.reshape(-1, 1) * y).reshape(-1, 1) * y
        w = z.sum() + y.sum()
        limit = tinyt.memory.limit()
        tinyt.memory.set_limit(tinyt.memory.statistics()["current_bytes"] + 2**20)
        try:
            with pytest.raises(tinyt.OutOfMemoryError):
                z.compute()
        finally:
            tinyt.memory.set_limit(limit)
        assert_same_bits(y, x + 1)
        with pytest.raises(RuntimeError, match="never computed"):
            w.item()


def test_a_block_ends_where_it_began() -> None:
    block = lazy()
    block.__enter__()
    failed = []

    def end() -> None:
        try:
            block.__exit__(None, None, None)
        except RuntimeError as error:
            failed.append(str(error))

    other = threading.Thread(target=end)
    other.start()
    other.join()
    assert failed == ["lazy: the block ends in another thread than it began in"]
    tinyt._core.end_lazy()


# ---- threads


def test_another_thread_looks() -> None:
    x = ramp(300, 200)
    found = []
    with lazy():
        for i in range(5):
            y = (x * i).exp().sum(1)
            other = threading.Thread(target=lambda y=y: found.append(y.tolist()))
            other.start()
            z = y * 2
            other.join()
            assert found[i] == (x * i).exp().sum(1).tolist()
            assert_same_bits(z, (x * i).exp().sum(1) * 2)


def test_threads_with_blocks_of_their_own() -> None:
    """They share what they read, and one program."""
    shared, errors = ramp(50, 40), []
    want = [(shared * i + 1).tanh().sum(0) for i in range(6)]
    until = time.monotonic() + 60
    ready = threading.Barrier(4)

    def work(own: int) -> None:
        try:
            ready.wait()
            for i in [*range(6)] * 10:
                with lazy():
                    y = (shared * i + 1).tanh()
                    z = y.sum(0)
                    if (i + own) % 3 == 0:
                        y.compute()
                assert_same_bits(z, want[i])
                assert time.monotonic() < until
        except BaseException as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)


def test_values_that_wait_go_from_thread_to_thread() -> None:
    """Each reads what another one's block still has to make."""
    results: list[Any] = [None, None]
    barrier = threading.Barrier(2)

    def work(own: int) -> None:
        with lazy():
            results[own] = ramp(100, 10) * (own + 2) + 1
            barrier.wait(60)
            mine = results[1 - own] * 3 + results[own]
            barrier.wait(60)
        results[own] = mine

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    x = ramp(100, 10)
    for own in range(2):
        assert_same_bits(results[own], (x * (3 - own) + 1) * 3 + (x * (own + 2) + 1))


def test_what_is_recorded_is_let_go() -> None:
    x = ramp(4)
    with lazy():
        y = x * 2 + 1
        gone = weakref.ref(y)
        del y
        assert gone() is None
        z = x + 1
    del x
    assert z.tolist() == (ramp(4) + 1).tolist()


# ---- anything


def numbers_of(step: Step) -> list[int]:
    """The values that a step reads."""
    found: list[int] = []

    def note(ref: Any) -> Any:
        if isinstance(ref, Ref):
            found.append(ref.number)
        return ref

    mapped(step.args, note)
    mapped(dict(step.kwargs), note)
    return found


def lazily(case: Case, nets: list[Net], rng: np.random.Generator) -> Callable[..., Any]:
    """The case's function in a block; looks at values now and then, and drops what it can."""
    last = {i: n for n, step in enumerate(case.steps) for i in numbers_of(step)}
    looks = (Tensor.compute, Tensor.tolist, repr, Tensor.data_ptr)

    def function(*inputs: Tensor) -> Any:
        values: list[Any] = list(inputs)
        with lazy():
            for n, step in enumerate(case.steps):
                values.append(run_step(step, values, nets))
                if rng.random() < 0.1:
                    for x in flat(values[int(rng.integers(len(values)))]):
                        if isinstance(x, Tensor):
                            looks[int(rng.integers(len(looks)))](x)
                for i in numbers_of(step):
                    if last[i] == n and i not in case.outputs:
                        values[i] = None
            return [values[i] for i in case.outputs]

    return function


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_drawn_programs(part: int, request: pytest.FixtureRequest) -> None:
    check(part, 60, request.config.getoption("--seed"))
    assert lazy.cache_info().hits > 50


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(8))
def test_many_drawn_programs(part: int, request: pytest.FixtureRequest) -> None:
    check(part + 100, 500, request.config.getoption("--seed"))


def check(part: int, count: int, seed: int) -> None:
    for number in range(count * part, count * part + count):
        with np.errstate(all="ignore"), tinyt.num_threads(1 + number % 2):
            case = drawn(np.random.default_rng([seed, number]))
            own, eager = nets_of(case), nets_of(case)
            step = lazily(case, own, np.random.default_rng([seed, number, 1]))
            for call in range(3):
                want = outcome(function_of(case, eager), inputs_of(case, call), eager, call)
                got = outcome(step, inputs_of(case, call), own, call)
                wrong = difference(got, want)
                assert not wrong, f"graph {number}, call {call}: {wrong}"
