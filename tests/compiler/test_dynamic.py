"""Marked sizes: a call with another one is not captured, and has eager's bits whatever the function
does with sizes."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import drawn
import tinyt
import tinyt.nn.functional as F
from tinyt import Tensor, _core, nn, optim
from tinyt.compiler import mark_dynamic
from tinyt.compiler.compiled import Compiled


def same(x: Any, y: Any) -> None:
    if isinstance(y, Tensor):
        drawn.same(x, y)
    elif isinstance(y, (list, tuple)):
        assert type(x) is type(y)
        assert len(x) == len(y)
        for one, other in zip(x, y, strict=True):
            same(one, other)
    else:
        assert type(x) is type(y)
        assert x == y


class Counted(Compiled):
    """Counts what runs the function's Python."""

    captures = 0

    def _capture_once(self, *args: Any, **kwargs: Any) -> Any:
        self.captures += 1
        return super()._capture_once(*args, **kwargs)


def derived(compiled: Any) -> list[bool]:
    """Of each program whether it was made without the function."""
    return ["; derived" in line for line in compiled.explain().splitlines()]


# ---- training steps

Step = tuple[Callable[..., Any], Callable[[int], tuple[Tensor, ...]], Sequence[Any]]


def trained(model: nn.Module, loss_of: Callable[..., Tensor], optimizer: Any) -> Any:
    def step(*args: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *args)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def mlp() -> Step:
    model = nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 5)
    )
    step = trained(
        model, lambda m, x, y: F.cross_entropy(m(x), y), optim.AdamW(model.parameters(), lr=0.01)
    )
    return step, lambda n: (tinyt.randn(n, 6), tinyt.arange(n) % 5), list(model.parameters())


def cnn() -> Step:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = trained(model, lambda m, x, y: F.cross_entropy(m(x), y), optimizer)
    state = list(model.state_dict().values())
    return step, lambda n: (tinyt.randn(n, 1, 8, 8), tinyt.arange(n) % 3), state


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(16, 8), nn.Parameter(tinyt.randn(64, 8))
        self.query, self.rest = nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        batch, length = x.shape
        h = self.tokens(x) + self.places[:length]
        q, k, v = (
            self.query(self.norm(h)).reshape(batch, length, 2, 12).transpose(1, 2).chunk(3, -1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.shape[-1])
        mask = tinyt.ones(length, length).tril().bool()
        weights = F.dropout(scores.masked_fill(~mask, -math.inf).softmax(-1), 0.1)
        h = h + self.rest((weights @ v).transpose(1, 2).reshape(batch, length, -1))
        return self.head(h)


def language() -> Step:
    model = Language()
    step = trained(
        model,
        lambda m, x, y: F.cross_entropy(m(x).reshape(-1, 16), y.reshape(-1)) / x.shape[1],
        optim.Adam(model.parameters(), lr=0.01),
    )

    def args(n: int) -> tuple[Tensor, ...]:
        return tinyt.randint(0, 16, (n, n + 1)), tinyt.randint(0, 16, (n, n + 1))

    return step, args, list(model.parameters())


def encoder() -> Step:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    optimizer = optim.RMSprop(layer.parameters(), lr=0.01)
    step = trained(layer, lambda m, x: m(x).square().mean(), optimizer)
    return step, lambda n: (tinyt.randn(n, n + 2, 8),), list(layer.parameters())


@pytest.mark.parametrize("make", [mlp, cnn, language, encoder])
@pytest.mark.parametrize("threads", [1, 2])
def test_training_steps_of_any_size(make: Callable[[], Step], threads: int) -> None:
    """With eager's bits in losses, weights, states and the generator, and no capture after the
    first size, whether another is one, one of a kind or larger than the first."""
    sizes = [7, 9, 4, 12, 1, 3, 9, 2, 30]
    found: list[Any] = []
    with tinyt.num_threads(threads):
        for wrap in (lambda f: f, lambda f: Counted(f, dynamic=True)):
            tinyt.manual_seed(0)
            step, args, state = make()
            call = wrap(step)
            losses = []
            for i, n in enumerate(sizes):
                losses.append(call(*args(n)))
                if i == 0 and isinstance(call, Counted):
                    captures = call.captures
            found.append([*losses, *(x.detach().clone() for x in state), tinyt.rand(1)])
    same(found[1], found[0])
    assert call.captures == captures
    assert derived(call) == [False, True, True, True, True, True, True, True]


# ---- what a function does with a size

SCALE = 3
WEIGHT = tinyt.randn(12, 3)
KNOWN = {4: 2.0, 7: 3.0}


class Counter:
    n = 0


def closed_over(x: Tensor) -> Tensor:
    n = x.shape[0]

    def inner(y: Tensor) -> Tensor:
        return y * n

    return inner(x)


def tried(x: Tensor) -> Tensor:
    try:
        return x.reshape(4, -1) * 2
    except RuntimeError:
        return x * 3


def of_type(x: Tensor) -> Tensor:
    return x * 2 if type(x.shape[0]) is int and x.shape[0] > 4 else x * 3


def asserted(x: Tensor) -> Tensor:
    assert x.shape[0] == x.size(0) <= 30
    return x + 1


def counted(x: Tensor) -> Tensor:
    Counter.n = x.shape[0]
    return x + 1


def matched(x: Tensor) -> Tensor:
    match x.shape:
        case (4, _):
            return x * 2
        case (int(n), _):
            return x * n
    raise AssertionError


# name: (function, whether a size that decides nothing else is derived)
USES: dict[str, tuple[Callable[[Tensor], Any], bool]] = {
    "elementwise": (lambda x: x * 2 + 1, True),
    "range": (lambda x: sum((x * i for i in range(x.shape[0])), x), False),
    "greater": (lambda x: x * 2 if x.shape[0] > 4 else x * 3, False),
    "halves": (lambda x: x * (x.shape[0] // 2), True),
    "remainder": (lambda x: x * (x.shape[0] % 3), True),
    "odd": (lambda x: x * 2 if x.shape[0] % 2 else x * 3, False),
    "reciprocal": (lambda x: x * (1 / x.shape[0]), True),
    "quotient": (lambda x: x.sum(0) / x.shape[0], True),
    "float arithmetic": (lambda x: x * (0.5 * x.shape[0] - 1 / x.shape[1] + 2), True),
    "sqrt": (lambda x: x / math.sqrt(x.shape[0]), False),
    "power": (lambda x: x * x.shape[0] ** 2, False),
    "f-string": (lambda x: x * float(f"{x.shape[0]}"), False),
    "a list": (lambda x: tinyt.tensor([1.0] * x.shape[0]) * x[:, 0], False),
    "len": (lambda x: x * len(x), False),
    "numel": (lambda x: x.sum() / x.numel(), True),
    "reshape -1": (lambda x: (x * 2).reshape(-1).reshape(x.shape), True),
    "view": (lambda x: x.view(x.shape[0] * x.shape[1]) + 1, True),
    "flatten": (lambda x: x.flatten().unsqueeze(0).squeeze(0) + 1, True),
    "split": (lambda x: x.split(max(x.shape[0] // 2, 1))[0] * 2, False),
    "chunk": (lambda x: x.chunk(3, 1)[1] + 1, True),
    "arange": (lambda x: x[:, 0] * tinyt.arange(x.shape[0]), True),
    "zeros": (lambda x: tinyt.zeros(x.shape[0], 2) + x[:, :2], True),
    "full": (lambda x: tinyt.full((x.shape[0], 3), 2.0) * x, True),
    "empty": (lambda x: tinyt.empty(x.shape).fill_(3.0) * x, True),
    "zeros_like": (lambda x: tinyt.zeros_like(x) + x, True),
    "rand": (lambda x: x + tinyt.rand(x.shape) + tinyt.rand_like(x), True),
    "randperm": (lambda x: x[tinyt.randperm(x.shape[0])], True),
    "numpy": (lambda x: x * float(np.sqrt(np.array([x.shape[0]]))[0]), False),
    "numpy ones": (
        lambda x: x[:, 0] + tinyt.from_numpy(np.ones(x.shape[0], "f")).to(x.device),
        False,
    ),
    "isinstance": (lambda x: x * 2 if isinstance(x.shape[0], int) else x * 3, True),
    "type": (of_type, False),
    "a dict": (lambda x: x * KNOWN.get(x.shape[0], 5.0), False),
    "assert": (asserted, True),
    "closure": (closed_over, True),
    "default": (lambda x, s=SCALE: x * (s * x.shape[0]), True),
    "returned": (lambda x: (x + 1, x.shape[0]), False),
    "shape returned": (lambda x: (x + 1, x.shape), False),
    "an error": (tried, False),
    "equal sizes": (lambda x: x * 2 if x.shape[0] == x.shape[1] else x * 3, True),
    "max": (lambda x: x * max(x.shape), False),
    "sorted": (lambda x: x * sorted(x.shape)[0], False),
    "in": (lambda x: x * 2 if x.shape[0] in (4, 9) else x * 3, False),
    "stride": (lambda x: x.as_strided((x.shape[0],), (x.stride(0),)) + 1, True),
    "contiguous": (lambda x: x.t().contiguous() + 1 if x.is_contiguous() else x, True),
    "slice": (lambda x: x[: x.shape[0] - 1] * 2, True),
    "last row": (lambda x: x[-1] * 2, True),
    "iterate": (lambda x: sum(row * 2 for row in x), False),
    "expand": (lambda x: (x[:1].expand(x.shape) * x).sum(0), True),
    "index": (lambda x: x[tinyt.arange(x.shape[0]) // 2], True),
    "set": (lambda x: x.clone().index_fill(0, tinyt.tensor([0]), 2.0), True),
    "write": (lambda x: x.clone().copy_(x[0]) + x, True),
    "cat": (lambda x: tinyt.cat([x, x[:1]]), True),
    "cumsum": (lambda x: x.cumsum(0) * tinyt.arange(1, x.shape[0] + 1).unsqueeze(1), True),
    "pad": (lambda x: F.pad(x, (1, 1, 0, 12 - x.shape[0])), True),
    "matmul": (lambda x: x @ x.t(), True),
    "einsum": (lambda x: tinyt.einsum("ij,kj->ik", x, x), True),
    "mean": (lambda x: x.mean(), True),
    "mean of rows": (lambda x: x.mean(0) + x.mean(1).sum(), True),
    "var": (lambda x: x.var(0), True),
    "softmax": (lambda x: x.softmax(0), True),
    "sort": (lambda x: x.sort(0)[0], True),
    "topk": (lambda x: x.topk(1, 0)[0], True),
    "attribute": (counted, False),
    "match": (matched, False),
    "bool": (lambda x: x if not x.shape[0] else x + 1, True),
    "rows of a weight": (lambda x: x + WEIGHT[: x.shape[0]], True),
    "a view of a weight": (lambda x: x * WEIGHT[: x.shape[0]].shape[0], True),
    "an item of a weight": (lambda x: x * WEIGHT[x.shape[0] - 1, 0].item(), False),
    "numbers of a weight": (lambda x: x * sum(WEIGHT[: x.shape[0], 0].tolist()), False),
    "a weight returned": (lambda x: (x + 1, WEIGHT[: x.shape[0]]), False),
    "bits": (lambda x: x * (x.shape[0] << 1) + x.shape[0].bit_length(), False),
    "divmod": (lambda x: x * sum(divmod(x.shape[0], 3)), True),
    "full of sizes": (lambda x: tinyt.full((2,), x.shape[1]) * x.shape[0], True),
    "tensors of sizes": (lambda x: x * tinyt.tensor(x.shape[1]) + tinyt.tensor(x.shape[1:]), True),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[1:]) * F.layer_norm(x, (x.size(1),)), True),
    "interpolate": (lambda x: F.interpolate(x.reshape(1, *x.shape), x.shape[1] * 2), True),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_what_a_function_does_with_a_size(name: str) -> None:
    """Each call has eager's value; sizes whose uses are formulas are not captured."""
    function, is_followed = USES[name]
    sizes = (4, 4, 6, 8, 5, 1, 3, 2, 9, 10)
    args = [tinyt.randn(n, 3) for n in sizes]
    compiled = Counted(function, dynamic=True)
    for x in args:
        tinyt.manual_seed(3)
        want = function(x)
        state = Counter.n
        tinyt.manual_seed(3)
        same(compiled(x), want)
        assert type(Counter.n) is int
        same(tinyt.rand(1), (tinyt.manual_seed(3), function(x), tinyt.rand(1))[2])
        Counter.n = state
    if is_followed:
        assert derived(compiled)[1], compiled.explain()


@given(drawn.functions(), st.lists(st.integers(0, 9), min_size=3, max_size=6))
def test_drawn_functions(function: Callable[..., Any], rows: list[int]) -> None:
    """Of leaves with gradients, at one size after another."""

    def of(w: Tensor, x: Tensor) -> Any:
        leaf = (w * 1.5).detach().requires_grad_()
        results = function(leaf * 1.0, x * 1.0)
        loss = sum((y.float().sum() for y in results if y.is_floating_point()), leaf.sum() * 0)
        (grad,) = tinyt.autograd.grad(loss, [leaf])
        return loss.detach(), grad, *(y.detach() for y in results)

    def run(f: Callable[..., Any]) -> list[Any]:
        found: list[Any] = []
        for n in (5, 5, *rows):
            tinyt.manual_seed(n)
            args = (tinyt.arange(3 * n).reshape(n, 3) - 4.0, tinyt.full((n, 3), 0.5))
            try:
                found.append([*f(*args), *args, tinyt.rand(1)])
            except tinyt.CaptureError:
                return ["refused"]
            except RuntimeError as error:
                found.append(str(error)[:30])
        return found

    got = run(tinyt.compile(of, dynamic=True))
    if got != ["refused"]:
        same(got, run(of))


# ---- which sizes are free


def test_marked_dimensions() -> None:
    compiled = Counted(lambda x: (x * 2).sum(1))
    for n in (4, 4):
        x = tinyt.randn(n, 3)
        mark_dynamic(x, 0, min=2, max=8)
        compiled(x)
    captures = compiled.captures
    for n in (2, 8, 5):
        x = tinyt.randn(n, 3)
        same(compiled(x), (x * 2).sum(1))
    assert compiled.captures == captures
    for shape in ((9, 3), (1, 3), (4, 5)):
        x = tinyt.randn(*shape)
        same(compiled(x), (x * 2).sum(1))
    assert derived(compiled) == [False, True, True, True, False, False, False]
    assert "dimension 0 of argument 0 is not marked for 9" in compiled.explain()


def test_marks_are_checked() -> None:
    x = tinyt.ones(2, 3)
    mark_dynamic(x, [0, -1])
    with pytest.raises(IndexError, match="dim 2 is out of range for 2 dimensions"):
        mark_dynamic(x, 2)
    with pytest.raises(ValueError, match="min 3 is more than max 2"):
        mark_dynamic(x, 0, min=3, max=2)
    with pytest.raises(ValueError, match="min must be at least 0, got -1"):
        mark_dynamic(x, 0, min=-1)
    with pytest.raises(ValueError, match=r"max must be less than 2\*\*63, got 1000"):
        mark_dynamic(x, 0, max=10**30)
    y = tinyt.ones(2, 3)
    mark_dynamic(y, np.int64(1), min=np.int64(2))
    mark_dynamic(y, (0,))
    wrong: Any
    for wrong in (True, 1.0, "0", None, [1, 0.5]):
        with pytest.raises(TypeError, match=r"mark_dynamic: index must be an int or several"):
            mark_dynamic(y, wrong)
    for wrong in (1.5, "1", True):
        with pytest.raises(TypeError, match="mark_dynamic: max must be an int or None, got"):
            mark_dynamic(y, 0, max=wrong)
    for wrong in (np.ones(3), 3, [y]):
        with pytest.raises(TypeError, match="mark_dynamic: expected a Tensor, got"):
            mark_dynamic(wrong, 0)


def test_marks_inside_a_compiled_function_are_refused() -> None:
    def function(x: Tensor) -> Tensor:
        mark_dynamic(x, 0)
        return x * 2

    with pytest.raises(tinyt.CaptureError, match=r"mark_dynamic.* outside"):
        tinyt.compile(function)(tinyt.ones(3))


@pytest.mark.parametrize("dynamic", [1, 0, "auto", "False"])
def test_dynamic_is_a_bool_or_none(dynamic: Any) -> None:
    with pytest.raises(TypeError, match="compile: dynamic must be a bool or None, got"):
        tinyt.compile(lambda x: x, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [None, False])
def test_nothing_is_derived_unasked(dynamic: bool | None) -> None:
    compiled = tinyt.compile(lambda x: x * 2, dynamic=dynamic)
    for n in (3, 3, 4, 5):
        x = tinyt.ones(n)
        if dynamic is False:
            mark_dynamic(x, 0)
        compiled(x)
    assert not any(derived(compiled))


def test_explain_says_what_holds_a_size() -> None:
    def function(x: Tensor) -> Tensor:
        return x / math.sqrt(x.shape[0])  # held

    compiled = tinyt.compile(function, dynamic=True)
    for n in (3, 3, 4, 4):
        compiled(tinyt.ones(n))
    line = function.__code__.co_firstlineno + 1
    assert compiled.explain().splitlines()[1] == (
        "2: argument 0: shape (4,), not (3,); captured anew: 3 == 3 before, now 4 > 3 "
        f"({__file__}:{line}); simplified as before, with other sizes"
    )


def test_guards_are_looked_at() -> None:
    """What the function reads of Python's objects, and numbers that C code takes."""
    scale = [2.0]
    compiled = Counted(lambda x, p: x * scale[0] + math.exp(p), dynamic=True)

    def check(n: int, p: float) -> None:
        x = tinyt.randn(n)
        same(compiled(x, p), x * scale[0] + math.exp(p))

    for n, p in ((3, 0.5), (3, 0.5), (4, 0.5), (5, 0.7), (4, 0.9)):
        check(n, p)
    scale[0] = 3.0
    for n, p in ((3, 0.5), (6, 0.5), (6, 0.9), (7, 0.9)):
        check(n, p)
    scale.append(1.0)
    check(8, 0.5)


def test_another_module_mode_is_captured() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    compiled = tinyt.compile(lambda x: model(x).detach(), dynamic=True)
    for mode in (True, False, True):
        model.train(mode)
        for n in (2, 2, 3, 5):
            x = tinyt.randn(n, 3)
            tinyt.manual_seed(n)
            got = compiled(x)
            tinyt.manual_seed(n)
            same(got, model(x).detach())


def test_a_compiled_model_whose_result_has_a_tape() -> None:
    """Is captured at each size."""
    model = nn.Linear(3, 2)
    compiled = tinyt.compile(model, dynamic=True)
    for n in (2, 2, 4, 5):
        x = tinyt.randn(n, 3)
        found = []
        for f in (model, compiled):
            model.zero_grad()
            loss = f(x).square().mean()
            loss.backward()
            assert model.weight.grad is not None
            found.append([loss.detach(), model.weight.grad.clone()])
        same(*found)
    assert not any(derived(compiled.compiled))


def test_control_flow_is_captured() -> None:
    def function(x: Tensor) -> Tensor:
        return tinyt.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))

    compiled = tinyt.compile(function, dynamic=True)
    for n in (2, 2, 3, 5):
        x = tinyt.randn(n)
        same(compiled(x), function(x))
    assert "control flow is captured for each size" in compiled.explain()


def test_arguments_of_any_strides() -> None:
    compiled = Counted(lambda x: (x * 2).reshape(-1), dynamic=True)
    for x in (X := tinyt.randn(8, 6))[:4], X[:4], X[1:4], X[::2], X.t(), X.t()[:, 2:], X[:1]:
        same(compiled(x), (x * 2).reshape(-1))


def test_arguments_that_share_memory() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return y + 1

    compiled = tinyt.compile(function, dynamic=True)
    for n in (2, 2, 3, 4):
        x = tinyt.randn(n, 3)
        other = x.clone()
        same(compiled(x, x[1:]), function(other, other[1:]))


def test_verified() -> None:
    compiled = tinyt.compile(lambda x: (x * 2).exp().sum(0), dynamic=True, verify=True)
    for n in (3, 3, 4, 5):
        compiled(tinyt.randn(n, 2))
    assert any(derived(compiled))
    assert len(compiled.verifications()) >= len(derived(compiled))


def test_a_wrong_derivation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = tinyt.compile(lambda x: (x * 2).exp(), dynamic=True, verify=True)
    for n in (3, 3):
        compiled(tinyt.randn(n))
    other = tinyt.compile(lambda x: (x * 2).sin(), dynamic=True)
    for n in (3, 3):
        other(tinyt.randn(n))
    (entry,), (wrong,) = compiled.entries, other.entries
    monkeypatch.setattr(entry.capture, "dynamic", wrong.capture.dynamic)
    with pytest.raises(tinyt.VerificationError):
        compiled(tinyt.randn(5))


def test_no_tensor_is_kept_alive() -> None:
    step, args, _ = mlp()
    step(*args(3))
    gc.collect()
    before = _core.live_tensors()
    compiled = tinyt.compile(step, dynamic=True)
    gc.disable()
    try:
        for n in (3, 3, 4, 5):
            compiled(*args(n))
        assert derived(compiled)[1]
        compiled.cache_clear()
        assert _core.live_tensors() == before
    finally:
        gc.enable()


def test_numbers_that_are_kept_are_plain_numbers_later() -> None:
    known = lru_cache(lambda n: n)
    compiled = tinyt.compile(lambda x: x * known(x.shape[0]), dynamic=True)
    for n in (3, 3, 4):
        compiled(tinyt.ones(n))
    for n in (known(3), known(4)):
        assert isinstance(n, int)
        assert tinyt.zeros(n).shape == (n,)
        same(tinyt.ones(2) * n, tinyt.ones(2) * int(n))
        assert (n + 1, n // 2, -n, n / 2, n**2, hash(n), f"{n}") == (
            int(n) + 1, int(n) // 2, -int(n), int(n) / 2, int(n) ** 2, hash(int(n)), str(int(n)),
        )  # fmt: skip
