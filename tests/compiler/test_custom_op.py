"""tinyt.library.custom_op: functions of NumPy and C as operations; differentiated, compiled."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor
from tinyt.compiler.api import compile
from tinyt.library import CustomOpDef, EffectType, custom_op


@pytest.fixture
def sine() -> CustomOpDef:
    """sin(x) times a number, in NumPy."""

    @custom_op("tests::sine", mutates_args=())
    def sine(x: Tensor, factor: float = 1.0) -> Tensor:
        return tinyt.from_numpy(np.sin(x.numpy(force=True)) * np.float32(factor)).to(x.device)

    @sine.register_fake
    def _(x: Tensor, factor: float = 1.0) -> Tensor:
        return tinyt.empty_like(x)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.factor = inputs
        ctx.save_for_backward(x)

    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.factor, None

    sine.register_autograd(backward, setup_context=setup)
    assert isinstance(sine, CustomOpDef)
    return sine


def test_eager(sine: CustomOpDef) -> None:
    x = tinyt.linspace(-1, 1, 7)
    want = np.sin(x.numpy(force=True)) * np.float32(2)
    for got in (sine(x, 2.0), sine(x, factor=2.0), sine(factor=2.0, x=x)):
        np.testing.assert_array_equal(got.numpy(force=True), want)
    assert repr(sine) == "<CustomOpDef(tests::sine)>"


@pytest.mark.host
def test_gradients(sine: CustomOpDef) -> None:
    x = tinyt.linspace(-1, 1, 7).requires_grad_()
    sine(x, 2.0).sum().backward()
    np.testing.assert_allclose(
        x.grad.numpy(force=True), 2 * np.cos(x.detach().numpy(force=True)), rtol=1e-6
    )


def test_compiled(sine: CustomOpDef) -> None:
    def step(x: Tensor) -> Tensor:
        return sine(x * 2.0, 3.0) + 1.0

    compiled = compile(step, verify=True)
    for n in range(4):
        x = tinyt.linspace(0, n, 9)
        assert compiled(x).tolist() == step(x).tolist()
    assert len(compiled.entries) == 1
    assert ("tests::sine",) in compiled.entries[0].program_object.steps()


@pytest.mark.host
def test_compiled_training_step(sine: CustomOpDef) -> None:
    results = []
    for wrap in (lambda f: f, compile):
        tinyt.manual_seed(0)
        weight = tinyt.randn(4, 3).requires_grad_()
        optimizer = tinyt.optim.SGD([weight], lr=0.1)

        def step(x: Tensor, weight: Tensor = weight, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = sine(x @ weight, 0.5).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        call = wrap(step)
        losses = [call(tinyt.ones(2, 4)).item() for _ in range(5)]
        results.append((losses, weight.tolist()))
    assert results[0] == results[1]


@pytest.mark.host
def test_gradients_through_a_compiled_forward(sine: CustomOpDef) -> None:
    compiled = compile(lambda x: sine(x, 2.0) * 3.0, verify=True)
    for _ in range(3):
        x = tinyt.linspace(0, 1, 5).requires_grad_()
        compiled(x).sum().backward()
        y = x.detach().requires_grad_()
        (sine(y, 2.0) * 3.0).sum().backward()
        assert x.grad.tolist() == y.grad.tolist()


def test_a_float_that_changes(sine: CustomOpDef) -> None:
    """A kernel may do anything with it: every value has a program of its own."""
    compiled = compile(lambda x, a: sine(x, a))
    x = tinyt.ones(3)
    for a in (1.0, 1.0, 2.0, 2.0, 3.0):
        assert compiled(x, a).tolist() == sine(x, a).tolist()


def mutating() -> CustomOpDef:
    @custom_op("tests::add_one_", mutates_args=("x",))
    def add_one_(x: Tensor, other: Tensor) -> None:
        x.numpy(force=True)[...] += other.numpy(force=True)

    @add_one_.register_fake
    def _(x: Tensor, other: Tensor) -> None:
        return None

    return add_one_


@pytest.mark.host
def test_mutated_arguments() -> None:
    op = mutating()
    x, y = tinyt.zeros(2, 3), tinyt.ones(2, 3)
    version = x._version
    assert op(x, y) is None
    assert x.tolist() == y.tolist()
    assert x._version > version

    def step(x: Tensor) -> Tensor:
        z = x * 2.0
        op(z[:, 1:], tinyt.ones(2, 2))
        return z

    state = tinyt.zeros(3)

    def keep(x: Tensor) -> Tensor:
        op(state, x)
        return state * 1.0

    compiled, keeping = compile(step, verify=True), compile(keep, verify=True)
    for n in range(1, 4):
        assert compiled(x).tolist() == step(x).tolist() == [[2.0, 3.0, 3.0]] * 2
        assert keeping(tinyt.ones(3)).tolist() == [n] * 3
    assert state.tolist() == [3.0] * 3


def test_mutation_refuses_what_requires_grad() -> None:
    op = mutating()
    with pytest.raises(RuntimeError, match=r"tests::add_one_.*'x' requires grad"):
        op(tinyt.ones(2).requires_grad_(), tinyt.ones(2))
    with pytest.raises(RuntimeError, match="non-functional operator tests::add_one_"):
        op.register_autograd(lambda ctx, g: g)


@pytest.mark.host
def test_lists_and_several_results() -> None:
    @custom_op("tests::totals", mutates_args=())
    def totals(xs: Sequence[Tensor], y: Tensor, scale: int = 2) -> tuple[Tensor, Tensor]:
        total = sum(x.numpy(force=True) for x in xs) * scale
        return tinyt.from_numpy(total), y.clone()

    @totals.register_fake
    def _(xs: Sequence[Tensor], y: Tensor, scale: int = 2) -> Any:
        return tinyt.empty_like(xs[0]), tinyt.empty_like(y)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.count, ctx.scale = len(inputs[0]), inputs[2]

    def backward(ctx: Any, g: Tensor, h: Tensor) -> Any:
        return [g * ctx.scale] * ctx.count, h, None

    totals.register_autograd(backward, setup_context=setup)

    def step(a: Tensor, b: Tensor) -> Any:
        total, same = totals([a * 1.0, b * 1.0], b * 2.0, 3)
        return total + same

    compiled = compile(step, verify=True)
    for _ in range(3):
        a, b = (tinyt.tensor([1.0, 2.0]).requires_grad_() for _ in range(2))
        out = compiled(a, b)
        out.sum().backward()
        assert out.tolist() == [8.0, 16.0]
        assert (a.grad.tolist(), b.grad.tolist()) == ([3.0, 3.0], [5.0, 5.0])


def test_no_formula() -> None:
    @custom_op("tests::double", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    y = double(tinyt.ones(2).requires_grad_())
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="Trying to backward through tests::double but no"):
        y.sum().backward()


def test_no_fake() -> None:
    @custom_op("tests::triple", mutates_args=())
    def triple(x: Tensor) -> Tensor:
        return x * 3

    with pytest.raises(tinyt.CaptureError, match=r"tests::triple.*register_fake"):
        compile(lambda x: triple(x))(tinyt.ones(2))


def test_errors_inside_a_program() -> None:
    """They are the kernel's; nothing was written."""

    @custom_op("tests::picky", mutates_args=())
    def picky(x: Tensor) -> Tensor:
        if x.sum().item() > 5:
            raise LookupError("too much")
        return x.clone()

    picky.register_fake(lambda x: tinyt.empty_like(x))
    state = tinyt.zeros(2)

    def step(x: Tensor) -> Tensor:
        state.add_(1.0)
        return picky(x)

    compiled = compile(step)
    for _ in range(3):
        compiled(tinyt.ones(2))
    with pytest.raises(LookupError, match="too much"):
        compiled(tinyt.ones(2) * 3)
    assert state.tolist() == [3.0, 3.0]


def test_a_fake_that_is_wrong() -> None:
    @custom_op("tests::longer", mutates_args=())
    def longer(x: Tensor) -> Tensor:
        return tinyt.cat([x, x])

    longer.register_fake(lambda x: tinyt.empty_like(x))
    compiled = compile(lambda x: longer(x))
    compiled(tinyt.ones(2))
    with pytest.raises(RuntimeError, match=r"tests::longer: returned float32 \(4,\).*\(2,\)"):
        compiled(tinyt.ones(2))


def test_results_must_be_new() -> None:
    @custom_op("tests::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(tinyt.ones(2))

    @custom_op("tests::sly", mutates_args=())
    def sly(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(RuntimeError, match=r"tests::sly.*not in mutates_args"):
        sly(tinyt.ones(2))


# ---- C


class Array(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    )


SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(Array),
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_double),
    ctypes.c_int64,
)


def scaled(arrays: Any, count: int, numbers: Any, number_count: int) -> int:
    """out = x * numbers[0], as a function of C has it."""
    out, x = arrays[0], arrays[1]
    if count != 2 or number_count != 1 or x.dtype != tinyt.float32.number:
        return 7
    size = int(np.prod([x.shape[d] for d in range(x.rank)]))
    views = [
        np.ctypeslib.as_array(ctypes.cast(a.data, ctypes.POINTER(ctypes.c_float)), (size,))
        for a in (out, x)
    ]
    views[0][:] = views[1] * np.float32(numbers[0])
    return 0


@pytest.mark.host
@pytest.mark.parametrize("as_address", [False, True])
def test_a_function_of_c(as_address: bool) -> None:
    function = SIGNATURE(scaled)
    given = ctypes.cast(function, ctypes.c_void_p).value if as_address else function
    op = custom_op(
        "tests::scaled", given, mutates_args=(), schema="(Tensor x, float a=2.0) -> Tensor"
    )
    op.register_fake(lambda x, a: tinyt.empty_like(x))
    x = tinyt.arange(6, dtype=tinyt.float32).reshape(2, 3)
    assert op(x.T, 3.0).tolist() == (x.T * 3.0).tolist()
    assert op(x).tolist() == (x * 2.0).tolist()
    compiled = compile(lambda x: op(x + 1.0, 0.5).T * 1.0, verify=True)
    for _ in range(3):
        assert compiled(x).tolist() == ((x + 1.0) * 0.5).T.tolist()
    with pytest.raises(RuntimeError, match="tests::scaled: the C function returned 7"):
        op(x.double(), 1.0)


def test_another_kernel(sine: CustomOpDef) -> None:
    @sine.register_kernel("cpu")
    def _(x: Tensor, factor: float) -> Tensor:
        return tinyt.sin(x) * factor + 1

    assert sine(tinyt.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="cuda"):
        sine.register_kernel("cuda")


# ---- wrong definitions


def untyped(x):  # type: ignore[no-untyped-def]
    return x


def half_typed(x: Tensor):  # type: ignore[no-untyped-def]
    return x


def varied(*xs: Tensor) -> Tensor:
    return xs[0]


def good(x: Tensor) -> Tensor:
    return x.clone()


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("namespace::name", lambda: custom_op("sine", good, mutates_args=())),
        ("namespace::name", lambda: custom_op("a::b.c", good, mutates_args=())),
        ("Parameter x must have a type", lambda: custom_op("a::b", untyped, mutates_args=())),
        ("No return type annotation", lambda: custom_op("a::b", half_typed, mutates_args=())),
        ("varargs", lambda: custom_op("a::b", varied, mutates_args=())),
        ("'y', which is no argument", lambda: custom_op("a::b", good, mutates_args=("y",))),
        ("mutates_args must either", lambda: custom_op("a::b", good, mutates_args="x")),
        ("cuda", lambda: custom_op("a::b", good, mutates_args=(), device_types="cuda")),
        ("needs a schema", lambda: custom_op("a::b", 1234, mutates_args=())),
        ("expected a schema", lambda: custom_op("a::b", good, mutates_args=(), schema="x")),
        ("has no type", lambda: custom_op("a::b", good, mutates_args=(), schema="(x) -> Tensor")),
    ],
)
def test_wrong_definitions(message: str, make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_calls(sine: CustomOpDef) -> None:
    for args, kwargs in [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})]:
        with pytest.raises(TypeError, match="tests::sine"):
            sine(*args, **kwargs)


def test_a_kernel_that_calls_its_own_program() -> None:
    called: list[Any] = []

    @custom_op("tests::again", mutates_args=())
    def again(x: Tensor) -> Tensor:
        return called[0](x) if called else x + 1

    again.register_fake(tinyt.empty_like)
    compiled = compile(lambda x: again(x) * 2)
    x = tinyt.ones(3)
    for _ in range(3):
        assert compiled(x).tolist() == [4.0] * 3
    called.append(compiled)
    with pytest.raises(RuntimeError, match="runs a function that calls the program"):
        compiled(x)
    called.clear()
    assert compiled(x).tolist() == [4.0] * 3


def test_nothing_is_kept(sine: CustomOpDef) -> None:
    compiled = compile(lambda x: sine(x))
    for _ in range(3):
        compiled(tinyt.ones(3))
    before = tinyt.memory.live_tensors()
    compiled(tinyt.ones(3))
    assert tinyt.memory.live_tensors() == before
    del compiled
    gc.collect()


@pytest.mark.parametrize("what", ["call", "numbers"])
def test_what_waits_for_a_backward_that_runs_python(what: str) -> None:
    """Another thread's backward pass has the numbers of the program, and needs the interpreter's
    lock, under which a program of few elements runs, but does not wait. Who waits hears of the end,
    from whichever of the extension modules."""
    inside, go_on = threading.Event(), threading.Event()

    @custom_op("tests::slow", mutates_args=())
    def slow(x: Tensor) -> Tensor:
        inside.set()
        assert go_on.wait(60)
        return x + 1.0

    @slow.register_fake
    def _(x: Tensor) -> Tensor:
        return tinyt.empty_like(x)

    class Slowly(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return slow(grad)

    go_on.set()
    compiled = compile(Slowly.apply)
    x = tinyt.ones(3).requires_grad_()
    for _ in range(3):
        compiled(x).sum().backward()
    y = compiled(x).sum()
    inside.clear()
    go_on.clear()
    other = threading.Thread(target=y.backward)
    other.start()
    assert inside.wait(60)
    timer = threading.Timer(0.2, go_on.set)
    timer.start()
    if what == "call":
        assert compiled(x).tolist() == [2.0] * 3
    else:
        assert compiled.entries[0].capture.core.scalars() == []
    other.join()
    timer.join()
    assert x.grad.tolist() == [8.0] * 3


# ---- effects


@pytest.fixture
def noted() -> tuple[CustomOpDef, list[tuple[str, float]]]:
    """An operation that keeps what it was called with, and what it kept."""
    log: list[tuple[str, float]] = []

    @custom_op("tests::note", mutates_args=())
    def note(x: Tensor, name: str) -> Tensor:
        log.append((name, round(float(x.sum()), 3)))
        return x + 1

    @note.register_fake
    def _(x: Tensor, name: str) -> Tensor:
        return tinyt.empty_like(x)

    return note, log


@pytest.mark.parametrize("seed", range(20))
def test_ordered_calls_keep_their_order(seed: int, noted: Any) -> None:
    """Equal ones, unused ones, between regions that could run before or after them."""
    note, log = noted

    def step(x: Tensor) -> Tensor:
        rng = np.random.default_rng(seed)
        values = [x, x * 2, x.exp()]
        for i in range(25):
            a, b = (values[rng.integers(len(values))] for _ in range(2))
            kind = rng.integers(6)
            if kind < 2:
                made = note(a, f"note {i % 3}")
                if kind:
                    values.append(made)
            else:
                values.append((a + b, a.sum(-1, keepdim=True) + b, (a * b).tanh(), a @ b)[kind - 2])
        return sum(values[-3:])

    x = tinyt.linspace(0, 0.3, 16).reshape(4, 4)
    compiled = compile(step)
    compiled(x)
    log.clear()
    want = step(x)
    expected, _ = list(log), log.clear()
    np.testing.assert_allclose(compiled(x), want, rtol=1e-5)
    assert log == expected


def test_an_ordered_call_waits_for_the_one_before_it(noted: Any) -> None:
    """A region that the first call waits for, through a sum, could take in what the second gives:
    then that would have to run first."""
    note, log = noted

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        values = x.cumsum(0).cumsum(0).exp()
        first = note(values.sum(0), "first")
        return values + note(x, "second"), first

    compiled = compile(step)
    x = tinyt.rand(4, 4)
    compiled(x)
    log.clear()
    for got, want in zip(compiled(x), step(x), strict=True):
        np.testing.assert_array_equal(got, want)
    assert [name for name, _ in log] == ["first", "second"] * 2


def test_ordered_calls_in_control_flow(noted: Any) -> None:
    note, log = noted

    def step(x: Tensor) -> Tensor:
        note(x, "before")

        def body(c: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            note(row, "row")
            return c + row, c

        tinyt.scan(body, x[0] * 0, x)
        note(x, "after")
        return tinyt.cond(x.sum() > 0, lambda x: note(x, "more"), lambda x: x - 1, (x,))

    x = tinyt.ones(3, 2)
    compiled = compile(step)
    for _ in range(3):
        log.clear()
        compiled(x)
        assert [name for name, _ in log] == ["before", "row", "row", "row", "after", "more"]


def test_an_operation_without_effect_may_go(noted: Any) -> None:
    note, log = noted
    note.register_effect(None)

    def step(x: Tensor) -> Tensor:
        note(x, "unused")
        return note(x, "used") * 2

    compiled = compile(step)
    compiled(tinyt.ones(2))
    log.clear()
    assert compiled(tinyt.ones(2)).tolist() == [4.0, 4.0]
    assert log == [("used", 2.0)]
    tinyt.library._register_effectful_op("tests::note", EffectType.ORDERED)
    again = compile(lambda x: step(x))
    again(tinyt.ones(2))
    log.clear()
    again(tinyt.ones(2))
    assert [name for name, _ in log] == ["unused", "used"]
    with pytest.raises(TypeError, match="expected an EffectType or None, got str"):
        note.register_effect("ordered")


def test_an_operation_that_returns_nothing() -> None:
    log: list[Any] = []

    @custom_op("tests::show", mutates_args=())
    def show(x: Tensor, name: str) -> None:
        log.append((name, x.tolist()))

    @show.register_fake
    def _(x: Tensor, name: str) -> None:
        return None

    def step(x: Tensor) -> Tensor:
        show(x, "first")
        y = x * 2
        show(y, "second")
        return y

    compiled = compile(step)
    for n in (1.0, 2.0, 3.0):
        log.clear()
        compiled(tinyt.full((2,), n))
        assert log == [("first", [n, n]), ("second", [2 * n, 2 * n])]
    show.register_effect(None)
    with pytest.raises(tinyt.CaptureError, match="neither returns nor mutates"):
        compile(lambda x: step(x))(tinyt.ones(2))


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"max_memory": 1 << 20}])
def test_an_operation_that_fails_is_called_once(options: dict[str, Any]) -> None:
    """At a size that is new, too, for which a program is made first."""
    log: list[float] = []

    @custom_op("tests::checked", mutates_args=())
    def checked(x: Tensor) -> None:
        log.append(x.sum().item())
        if x.sum() > 3.5:
            raise ValueError("too much")

    checked.register_fake(lambda x: None)

    def step(x: Tensor) -> Tensor:
        checked(x)
        return x * 2

    compiled = compile(step, **options)
    compiled(tinyt.ones(3))
    log.clear()
    for size in (4, 4, 5):
        with pytest.raises(ValueError, match="too much"):
            compiled(tinyt.ones(size))
        assert log == [size]
        log.clear()
    assert compiled(tinyt.ones(2)).tolist() == [2.0, 2.0]
