"""Peak memory of compiled functions: never more than eager's, to the byte, on one thread; known
before they run; and within a limit where one is given."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from benchmarks import networks
from benchmarks.case import Case, integers
from benchmarks.cases import compile as cases
from benchmarks.compiled import footprint
from hypothesis import given

import tinyt
import tinyt.nn.functional as F
from tinyt import Tensor, nn
from tinyt.compiler.api import compile
from tinyt.compiler.compiled import Compiled

pytestmark = pytest.mark.tiles


def used_by(call: Callable[[], Any]) -> int:
    """The most bytes that it holds, by the memory statistics."""
    gc.collect()
    before = tinyt.memory.statistics()["current_bytes"]
    tinyt.memory.reset_peak()
    call()
    return tinyt.memory.statistics()["peak_bytes"] - before


def is_small(case: Case) -> bool:
    small = sum(x.nbytes for x in case.inputs) <= 1 << 24 and "6 layers" not in case.name
    return small and case.part != "compile lazy"


def deep(bf16: bool) -> Case:
    """The benchmarks' transformer with a smaller batch."""
    name = "transformer, 6 layers of 384, 2x32" + " bfloat16" * bf16
    model, tokens = networks.gpt(256, 384, 6, 6, 32), integers(256, 2, 32)
    return cases.step("", name, model, tokens, 256, 2, 32, flops=0, bf16=bf16)


BENCHMARKS = [*filter(is_small, cases.FIXED), deep(False), deep(True)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", BENCHMARKS, ids=lambda case: case.name)
def test_no_benchmark_takes_more_than_eager(case: Case, threads: int) -> None:
    arrays = case.arrays(0)
    with tinyt.num_threads(threads):
        compiled = footprint(case, arrays)
        eager = footprint(replace(case, setup=case.uncompiled().setup), arrays)
    assert compiled.peak <= eager.peak
    assert compiled.system_allocations == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", BENCHMARKS, ids=lambda case: case.name)
def test_the_plan_of_a_benchmark_is_what_it_takes(
    case: Case, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Compiled] = []

    def keep(function: Callable[..., Any]) -> Compiled:
        made.append(compile(function))
        return made[-1]

    monkeypatch.setattr(tinyt, "compile", keep)
    with tinyt.num_threads(threads):
        call = case.call(tinyt, case.arrays(0))
        for _ in range(3):
            call()
        (compiled,) = made
        for leaf, *_ in compiled.entries[0].capture.set_grads:
            leaf.grad = None  # as it is when the program starts
        assert used_by(call) == compiled.peak_bytes


UNARY: Sequence[Callable[[Tensor], Tensor]] = (
    tinyt.exp,
    tinyt.tanh,
    lambda x: x * 0.5,
    lambda x: x.sum(-1, keepdim=True).expand_as(x),
    lambda x: x.sum(0, keepdim=True) + x,
    lambda x: x.t(),
    lambda x: x.double().to(x.dtype),
    lambda x: x.bfloat16().to(x.dtype),
    lambda x: x - x.amax(-1, keepdim=True),
    lambda x: tinyt.cat([x[:1], x[1:]]),
    lambda x: x.softmax(-1),
    lambda x: x.contiguous().flatten().reshape(x.shape),
    lambda x: tinyt.nn.functional.dropout(x, 0.4),
)
BINARY: Sequence[Callable[[Tensor, Tensor], Tensor]] = (
    tinyt.add,
    tinyt.mul,
    tinyt.sub,
    tinyt.matmul,
    lambda x, y: tinyt.where(x > y, x, y),
)
Drawn = tuple[Callable[[Tensor, Tensor], Any], tuple[Tensor, Tensor]]


@st.composite
def programs(draw: st.DrawFn, least: int = 3, most: int = 20, dtype: str = "float32") -> Drawn:
    """Straight code over a few square matrices that lets go of what it does not need, as eager
    mode sees it; half of them with a backward pass."""
    n, slots = draw(st.sampled_from([3, 8, 33, 70])), draw(st.integers(2, 5))
    slot, pick = st.integers(0, slots - 1), st.integers(0, 99)
    step = st.tuples(slot, slot, slot, st.booleans(), pick)
    plan = draw(st.lists(step, min_size=least, max_size=most))
    returned = draw(st.lists(slot, min_size=1, max_size=3))
    with_gradients = draw(st.booleans())
    weight, *args = (tinyt.randn(n, n).to(getattr(tinyt, dtype)) for _ in range(3))
    weight.requires_grad_(with_gradients)

    def body(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        held = [a, b] + [a] * (slots - 2)
        for to, i, j, is_unary, k in plan:
            if is_unary:
                held[to] = UNARY[k % len(UNARY)](held[i])
            else:
                held[to] = BINARY[k % len(BINARY)](held[i], held[j])
        return tuple(held[i] * 1.0 for i in returned)

    def step_of(a: Tensor, b: Tensor) -> Any:
        if not with_gradients:
            return body(a, b)
        weight.grad = None
        loss = sum((y.mean() for y in body(a * weight, b)), (weight * 0.1).sum())
        loss.backward()
        return loss.detach()

    return step_of, tuple(args)


def peak_of(function: Callable[..., Any], args: Sequence[Tensor]) -> int:
    """Of a call after the first ones, by the memory statistics."""
    for _ in range(2):
        function(*args)
    return used_by(lambda: function(*args))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@given(st.data())
def test_no_drawn_program_takes_more_than_eager(dtype: str, data: st.DataObject) -> None:
    function, args = data.draw(programs(dtype=dtype))
    with tinyt.num_threads(1):
        assert peak_of(tinyt.compile(function), args) <= peak_of(function, args)


def softmax_of_small(a: Tensor, w: Tensor) -> Tensor:
    """Its gradient comes as one number for all elements."""
    return ((a * w + a).softmax(-1) * 1.0).mean() + (w * 0.1).sum()


def products_of_small(a: Tensor, w: Tensor) -> Tensor:
    """Their gradients do, too."""
    y = a * w @ a
    return (a @ y * 1.0).mean() + (w * 0.1).sum()


def dropout_of_small(a: Tensor, w: Tensor) -> Tensor:
    """The bits that it draws are there before a region that begins with the product."""
    return F.dropout(a @ w, 0.4).mean()


def gelu_of_small(a: Tensor, w: Tensor) -> Tensor:
    """Products take memory for themselves, beside what a region with them keeps."""
    return F.gelu(F.linear(a, w)).sum()


def softmax_by_hand(a: Tensor, w: Tensor) -> Tensor:
    """Tiles of all of its values have more bytes than halves."""
    e = tinyt.exp(w - w.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).sum() + a.sum()


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.bfloat16], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 16, 60, 70])
@pytest.mark.parametrize(
    ("loss", "rows"),
    [
        (softmax_of_small, None),
        (products_of_small, None),
        (dropout_of_small, None),
        (gelu_of_small, None),
        (gelu_of_small, 10),
        (softmax_by_hand, None),
        (softmax_by_hand, 1000),
    ],
)
def test_small_programs_take_no_more_than_eager(
    loss: Any, rows: int | None, n: int, dtype: tinyt.dtype
) -> None:
    w = tinyt.randn(rows or n, n).to(dtype).requires_grad_()

    def step(a: Tensor) -> Tensor:
        w.grad = None
        value: Tensor = loss(a, w)
        value.backward()
        return value.detach()

    args = (tinyt.randn(rows or n, n).to(dtype),)
    with tinyt.num_threads(1):
        assert peak_of(tinyt.compile(step), args) <= peak_of(step, args)


def test_the_report_says_where_a_region_would_take_more_memory() -> None:
    compiled = tinyt.compile(lambda a, w: F.dropout(a @ w, 0.4))
    args = [tinyt.randn(8, 8).bfloat16() for _ in range(2)]
    for _ in range(2):
        compiled(*args)
    assert compiled.report().rows[0].reason == "a region would take more memory"


# ---- scratch memory of kernels, known before they run


def test_the_plan_follows_the_number_of_threads() -> None:
    compiled = tinyt.compile(lambda x: tinyt.sort(x)[0])
    x = tinyt.randn(64, 3000)
    for _ in range(2):
        compiled(x)
    peaks = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            peaks.append(compiled.peak_bytes)
            compiled.measure(x)
            assert compiled.entries[0].profile.call.peak_bytes == peaks[-1]
    assert peaks[0] < peaks[1]


def test_asking_changes_nothing() -> None:
    """No memory is written or taken for it."""
    weight = tinyt.randn(40, 40)
    optimizer = tinyt.optim.AdamW([weight.requires_grad_()], lr=0.1)

    @tinyt.compile
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (x @ weight).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(2):
        step(tinyt.ones(40, 40))
    before, statistics = weight.detach().clone(), dict(tinyt.memory.statistics())
    assert step.peak_bytes > 0
    after = dict(tinyt.memory.statistics())
    del statistics["cached_bytes"], after["cached_bytes"]
    assert after == statistics
    assert (weight.detach() == before).all()


def test_large_tiles_are_known_too() -> None:
    """Regions over long rows, whose tiles are too large for the stack."""
    compiled = tinyt.compile(lambda x: (x - x.mean(-1, keepdim=True)).exp() * x.amax(-1, True))
    x = tinyt.randn(64, 16000)
    for threads in (1, 2):
        with tinyt.num_threads(threads):
            for _ in range(2):
                compiled(x)
            planned = compiled.peak_bytes
            compiled.measure(x)
            assert compiled.entries[0].profile.call.peak_bytes == planned


# ---- max_memory


def bits(x: Any) -> Any:
    """Of float32 tensors; all NaNs are one."""
    if not isinstance(x, Tensor):
        return [bits(part) for part in x]
    values = x.detach().contiguous().numpy(force=True)
    return np.where(np.isnan(values), np.float32("nan"), values).tobytes()


@given(programs(5, 30), st.sampled_from([0.95, 0.8, 0.6, 0.4]))
def test_drawn_programs_keep_within_their_limit(program: Drawn, share: float) -> None:
    function, args = program
    tinyt.manual_seed(1)
    plain = tinyt.compile(function)
    want = [bits(plain(*args)) for _ in range(4)]
    limit = int(plain.peak_bytes * share)
    tinyt.manual_seed(1)
    limited = tinyt.compile(function, max_memory=limit)
    try:
        got = [bits(limited(*args)) for _ in range(3)]
    except tinyt.MemoryLimitError:
        return
    limited.measure(*args)
    assert limited.entries[0].profile.call.peak_bytes == limited.peak_bytes <= limit
    assert got == want[:3]


def saved_activations(max_memory: int | str | None = None) -> tuple[Any, tuple[Tensor, ...]]:
    """A step whose forward pass keeps what is cheap to compute again."""
    tinyt.manual_seed(3)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6)])
    optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Tensor) -> tuple[Tensor, ...]:
        optimizer.zero_grad()
        loss = F.dropout(model(x), 0.2).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), *(p.detach() for p in model.parameters())

    return tinyt.compile(step, max_memory=max_memory), (tinyt.randn(512, 64),)


def test_a_training_step_computes_activations_again() -> None:
    plain, args = saved_activations()
    want = [bits(plain(*args)) for _ in range(5)]
    limit = int(plain.peak_bytes * 0.72)
    limited, args = saved_activations(limit)
    assert [bits(limited(*args)) for _ in range(5)] == want
    assert limited.peak_bytes <= limit
    report = limited.report(*args)
    assert {value.op for value in report.recomputed} == {"gelu"}
    assert "computed again:\n  gelu float32[512, 64], 128 KiB" in str(report)
    assert report.totals[0].measured_peak_bytes == limited.peak_bytes
    assert plain.report().recomputed == ()
    assert "computed again" not in str(plain.report())


def test_what_fits_is_left_as_it_is() -> None:
    plain, args = saved_activations()
    plain(*args)
    limited, _ = saved_activations(plain.peak_bytes)
    limited(*args)
    assert limited.report().recomputed == ()
    assert limited.peak_bytes == plain.peak_bytes


def test_what_cannot_fit_is_an_error_with_the_largest_tensors() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        a = x @ y
        b = y @ x
        return a @ b

    limited = tinyt.compile(function, max_memory="16 KiB", name="products")
    x, y = tinyt.randn(64, 64), tinyt.randn(64, 64)
    first = function.__code__.co_firstlineno
    for _ in range(3):
        with pytest.raises(tinyt.MemoryLimitError) as caught:
            limited(x, y)
    lines = str(caught.value).splitlines()
    assert "products needs 49152 bytes at its peak, max_memory is 16384" in lines[0]
    assert "Step 2 (matmul) holds:" in lines[0]
    found = [line.split(maxsplit=2) for line in lines[1:]]
    assert [row[0] for row in found if "float32[64, 64] of matmul" in row[2]] == ["16384"] * 3
    for i in (1, 2, 3):
        assert any(f"{__file__}:{first + i}" in row[2] for row in found)
    assert isinstance(caught.value, tinyt.OutOfMemoryError)
    del caught  # and the frames that it holds


def test_draws_are_not_repeated() -> None:
    """The values that come of them are kept."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        noise = tinyt.rand(100, 100)
        z = x @ y
        return (z @ z) @ (noise * 2.0)

    x, y = tinyt.randn(100, 100), tinyt.randn(100, 100)
    plain = tinyt.compile(function)
    plain(x, y)
    with pytest.raises(tinyt.MemoryLimitError, match="uniform"):
        tinyt.compile(function, max_memory=plain.peak_bytes - 1)(x, y)


def test_a_forward_and_a_backward_program_keep_within_it() -> None:
    tinyt.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(3)])
    x = tinyt.randn(256, 64)
    plain = tinyt.compile(model)
    plain(x).sum().backward()
    capture = plain.compiled.entries[0].capture
    most = max(plain.compiled.peak_bytes, capture.backward.program.peak_bytes)
    tinyt.compile(model, max_memory=most)(x)
    with pytest.raises(tinyt.MemoryLimitError, match=r"\((forward|backward)\) needs"):
        tinyt.compile(model, max_memory=1000)(x)


def test_sizes_with_units() -> None:
    def function(x: Tensor) -> Tensor:
        return x * 2

    for size in (4000, "4000", "4 kB", "3.91KiB", " 0.1 MiB"):
        tinyt.compile(function, max_memory=size)(tinyt.zeros(1000))
    for small in (3999, "3.9 KiB", 0):
        with pytest.raises(tinyt.MemoryLimitError):
            tinyt.compile(function, max_memory=small)(tinyt.zeros(1000))
    for wrong in ("many", "1 XB", "", -1, "inf GiB"):
        with pytest.raises(ValueError, match="max_memory must be"):
            tinyt.compile(function, max_memory=wrong)
    for kind in (1.5, True, [1]):
        with pytest.raises(TypeError, match="max_memory must be an int or str"):
            tinyt.compile(function, max_memory=kind)


def test_copies_keep_the_limit() -> None:
    limited = tinyt.compile(lambda x: x * 2, max_memory=10)
    with pytest.raises(tinyt.MemoryLimitError):
        copy.deepcopy(limited)(tinyt.zeros(1000))
    module = copy.deepcopy(tinyt.compile(nn.Linear(8, 8), max_memory=10))
    with pytest.raises(tinyt.MemoryLimitError):
        module(tinyt.zeros(3, 8))
