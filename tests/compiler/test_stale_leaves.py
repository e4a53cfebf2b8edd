"""Leaves among the arguments are known by their facts: new ones need no capture, get their
gradients, and a program stands for none that it was not made for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from sampling import assert_same_bits, flat
from tinyt import Tensor, autograd, nn, optim
from tinyt.compiler.api import compile
from unseen import drawn

LABELS = tinyt.tensor([0, 1, 2, 0])


def net(frozen: bool = False) -> nn.Module:
    tinyt.manual_seed(0)
    made = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    for p in made.parameters():
        p.requires_grad_(not frozen)
    return made


def leaf(seed: int, *shape: int) -> Tensor:
    generator = tinyt.Generator().manual_seed(seed)
    return tinyt.randn(*(shape or (4, 6)), generator=generator).requires_grad_()


NET, FROZEN = net(), net(frozen=True)


def saliency(x: Tensor) -> Any:
    NET(x).amax(1).sum().backward()
    return x.grad.abs()  # type: ignore[union-attr]


def saliency_of_frozen(x: Tensor) -> Any:
    scores = FROZEN(x)
    scores.amax(1).sum().backward()
    return x.grad, scores.detach()


def fgsm(x: Tensor) -> Any:
    F.cross_entropy(FROZEN(x), LABELS).backward()
    return (x + 0.1 * x.grad.sign()).detach()  # type: ignore[union-attr]


def fgsm_by_grad(x: Tensor) -> Any:
    (grad,) = autograd.grad(F.cross_entropy(FROZEN(x), LABELS), x)
    return (x + 0.1 * grad.sign()).detach()


def pgd(x: Tensor) -> Any:
    for _ in range(3):
        (grad,) = autograd.grad(F.cross_entropy(FROZEN(x), LABELS), x)
        x = (x + 0.1 * grad.sign()).clamp(-1, 1).detach().requires_grad_()
    return x.detach()


def pgd_in_place(x: Tensor) -> Any:
    for _ in range(2):
        loss = F.cross_entropy(FROZEN(x), LABELS)
        loss.backward()
        with tinyt.no_grad():
            x += 0.1 * x.grad.sign()  # type: ignore[union-attr]
        x.grad = None
    return loss.detach()


def pgd_by_data(x: Tensor) -> Any:
    loss = F.cross_entropy(FROZEN(x), LABELS)
    loss.backward()
    x.data.add_(0.1 * x.grad.sign()).clamp_(-1, 1)  # type: ignore[union-attr]
    x.grad.zero_()  # type: ignore[union-attr]
    return loss.detach()


def penalty(x: Tensor) -> Any:
    (grad,) = autograd.grad(NET(x).sum(), x, create_graph=True)
    loss = (grad.norm(2, 1) - 1).square().mean()
    loss.backward()
    return loss.detach()


def forward(x: Tensor) -> Any:
    return NET(x).square().sum()


def forward_of_several(x: Tensor) -> Any:
    y = FROZEN(x)
    return y.sum(), [(y * y).sum(), x, x.t()]


def under_no_grad(x: Tensor) -> Any:
    with tinyt.no_grad():
        with tinyt.enable_grad():
            FROZEN(x).sum().backward()
        return x * x.grad  # type: ignore[operator]


def branching(x: Tensor) -> Any:
    y = tinyt.cond(x.sum() > 0, lambda v: FROZEN(v).sum(), lambda v: (v * v).sum(), (x,))
    y.backward()
    return y.detach()


def learning(x: Tensor) -> Any:
    """One step on fast weights, as meta-learning takes it."""
    loss = (x * x).sin().sum()
    (grad,) = autograd.grad(loss, x)
    return (x - 0.1 * grad).detach().requires_grad_(False)


def facts(x: Tensor) -> Any:
    return x * 2 if x.requires_grad and x.is_leaf and x.grad_fn is None else x


FUNCTIONS = [
    saliency, saliency_of_frozen, fgsm, fgsm_by_grad, pgd, pgd_in_place, pgd_by_data, penalty,
    forward, forward_of_several, under_no_grad, branching, learning, facts,
]  # fmt: skip


class Sides:
    """A function and its compiled form, called on leaves of equal values."""

    def __init__(self, function: Callable[..., Any], backward: bool = True, **options: Any) -> None:
        self.function, self.compiled = function, compile(function, **options)
        self.backward = backward

    def _outcome(self, call: Callable[..., Any], x: Tensor, others: tuple[Any, ...]) -> list[Any]:
        for p in NET.parameters():
            p.grad = None
        results = list(flat(call(x, *others)))
        for y in results if self.backward else ():
            if isinstance(y, Tensor) and y.requires_grad and y.grad_fn and y.dim() == 0:
                y.backward(retain_graph=True)
        grads = [p.grad for p in (x, *NET.parameters())]
        for y in results:
            assert not isinstance(y, Tensor) or not y._is_recorded
        out = [x.detach(), *results, *grads, x.requires_grad, x.is_leaf]
        out += [y.requires_grad for y in results if isinstance(y, Tensor)]
        out += [next((i for i, y in enumerate(results) if y is x.grad), None)]
        for p in NET.parameters():
            p.grad = None
        return out

    def call(self, make: Callable[[], Tensor], *others: Any) -> Tensor:
        """Requires the same of both; the leaf of the compiled call."""
        x, want = make(), self._outcome(self.function, make(), others)
        got = self._outcome(self.compiled, x, others)
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            if isinstance(other, Tensor):
                assert_same_bits(one, other)
            else:
                assert one == other
        return x

    def captures(self) -> int:
        return len(self.compiled.explain().splitlines())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_new_leaves_need_no_capture(function: Callable[..., Any]) -> None:
    sides = Sides(function)
    for seed in range(3):
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    known, live = sides.captures(), tinyt.memory.live_tensors()
    for seed in range(3, 9):
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    assert sides.captures() == known <= 2  # with a gradient left by the first call, and without
    assert tinyt.memory.live_tensors() == live


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_verified(function: Callable[..., Any]) -> None:
    sides = Sides(function, verify=True)
    for seed in range(4):
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    assert sides.compiled.verifications()


def with_grad(seed: int, other: Tensor | None = None) -> Tensor:
    x = leaf(seed)
    x.grad = leaf(seed + 50).detach() if other is None else other
    return x


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_that_are_there(function: Callable[..., Any]) -> None:
    """Are added to, in their memory, or replaced, as in eager mode."""
    sides = Sides(function)
    for seed in (0, 1, 2, 3):
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
        sides.call(lambda seed=seed: with_grad(seed))  # type: ignore[misc]
    assert sides.captures() <= 3  # the first call leaves gradients to the network, too
    for seed in range(4):  # another layout is another program, or read as it is
        for other in (leaf(60, 6, 4).detach().t(), tinyt.zeros(1).expand(4, 6).clone()):
            sides.call(lambda seed=seed, g=other: with_grad(seed, g.clone()))  # type: ignore[misc]


def test_a_gradient_is_added_to_where_it_lies() -> None:
    compiled = compile(saliency_of_frozen)
    for seed in range(4):
        x = with_grad(seed)
        before = x.grad
        result, _ = compiled(x)
        assert x.grad is before
        assert_same_bits(result, before)


def test_what_is_returned_is_the_gradient() -> None:
    """Of an argument and of a weight: new ones, and those that are added to."""
    weight = leaf(30)

    def step(x: Tensor) -> Any:
        (x * weight).sum().backward()
        return x.grad, [weight.grad]

    compiled = compile(step)
    for seed, clear in enumerate([True, True, False, False, True, False]):
        x = leaf(seed) if clear else with_grad(seed)
        if clear:
            weight.grad = None
        before, of_weight = x.grad, weight.grad
        of_x, (other,) = compiled(x)
        assert of_x is x.grad
        assert other is weight.grad
        assert clear or (of_x is before and other is of_weight)
    assert compiled.cache_info().misses == 2


def test_gradients_that_are_set() -> None:
    """To an argument, to a captured tensor, to None; not to the gradient of another one."""
    table = tinyt.ones(4, 6)

    def to_argument(x: Tensor, y: Tensor) -> None:
        x.grad = y

    def to_table(x: Tensor, y: Tensor) -> None:
        x.grad = table

    def to_none(x: Tensor, y: Tensor) -> None:
        x.grad = None

    def to_weight(x: Tensor, y: Tensor) -> None:
        W.grad = y

    def to_gradient(x: Tensor, y: Tensor) -> None:
        x.grad = W.grad

    for function in (to_argument, to_table, to_none, to_weight):
        compiled = compile(function)
        for seed in range(6):
            x = leaf(seed) if seed % 2 else with_grad(seed)
            y = leaf(seed).detach()
            before = x.grad
            W.grad = None
            compiled(x, y)
            want = {to_argument: y, to_table: table, to_none: None, to_weight: before}[function]
            assert x.grad is want
            assert W.grad is (y if function is to_weight else None)
    W.grad = leaf(1).detach()
    with pytest.raises(tinyt.CaptureError, match=r"is set to that of another one.*to a clone"):
        compile(to_gradient)(leaf(1), leaf(2).detach())
    W.grad = None


def test_a_gradient_in_memory_of_another_argument() -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        (x * x).sum().backward()
        return y + 1

    compiled = compile(step)
    for seed in range(3):
        compiled(with_grad(seed), leaf(9).detach())
    x = leaf(1)
    y = leaf(9).detach()
    x.grad = y
    with pytest.raises(tinyt.CaptureError, match="shares memory with another tensor"):
        compiled(x, y)


OTHERS: dict[str, Callable[[], Tensor]] = {
    "shape": lambda: leaf(5, 3, 6),
    "strides": lambda: leaf(5, 6, 4).detach().t().requires_grad_(),
    "view": lambda: leaf(5, 8, 6).detach()[2:6].requires_grad_(),
    "no gradient": lambda: leaf(5).detach(),
    "parameter": lambda: nn.Parameter(leaf(5).detach()),
    "dtype": lambda: leaf(5).detach().double().requires_grad_(),
    "expanded": lambda: leaf(5, 1, 6).detach().expand(4, 6).requires_grad_(),
}


def kind(x: Tensor) -> Any:
    y = (x * x).sum()
    if x.requires_grad:
        y.backward()
        y = y.detach() + x.grad  # type: ignore[operator]
    return y * 2 if isinstance(x, nn.Parameter) else y, x.numel(), x.dtype is tinyt.float64


@pytest.mark.parametrize("first", [None, *OTHERS])
def test_other_facts_are_other_programs(first: str | None) -> None:
    sides = Sides(kind, backward=False)
    makers = [lambda: leaf(3), *OTHERS.values()]
    start = makers[0] if first is None else OTHERS[first]
    for make in (start, start, start, *makers, *makers):
        sides.call(make)


def test_hooks_and_attributes() -> None:
    """A leaf that has some is not like one that has none."""
    seen: list[float] = []

    def step(x: Tensor) -> Tensor:
        (x * x).sum().backward()
        return x.grad * getattr(x, "scale", 1.0)  # type: ignore[operator]

    def hooked(seed: int) -> Tensor:
        x = leaf(seed)
        x.register_hook(lambda g: g * 3)
        return x

    def followed(seed: int) -> Tensor:
        x = leaf(seed)
        x.register_post_accumulate_grad_hook(lambda x: seen.append(0.0))
        return x

    def scaled(seed: int) -> Tensor:
        x = leaf(seed)
        x.scale = float(seed)  # type: ignore[attr-defined]
        return x

    sides = Sides(step)
    for seed in range(1, 4):
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    for seed in range(1, 3):
        sides.call(lambda seed=seed: hooked(seed))  # type: ignore[misc]
        sides.call(lambda seed=seed: scaled(seed))  # type: ignore[misc]
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    x = followed(3)
    with pytest.raises(tinyt.CaptureError):
        sides.compiled(x)
    assert len(seen) <= 2


def test_hooks_that_the_function_registers() -> None:
    def step(x: Tensor) -> Tensor:
        handle = x.register_hook(lambda g: g * 3)
        (x * x).sum().backward()
        handle.remove()
        return x.grad.clone()  # type: ignore[union-attr]

    sides = Sides(step)
    for seed in range(4):
        sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]


W, V = leaf(31), leaf(32)


def reads_another(x: Tensor) -> Any:
    (x * W).sum().backward()
    return x.grad, W.grad


def asks_whether(x: Tensor) -> Any:
    return x * 2 if x is W else x * 3


def asks_a_list(x: Tensor) -> Any:
    return x * (1 + sum(x is y for y in [W, V]))


HOLDER = SimpleNamespace(all=(W, {"v": V}))


def asks_a_holder(x: Tensor) -> Any:
    return x * 2 if x is HOLDER.all[1]["v"] else x * 3


def clears_others(x: Tensor) -> Any:
    for y in (W, V):
        y.grad = None
    (x * x).sum().backward()
    return x.grad


ASKING = [reads_another, asks_whether, asks_a_list, asks_a_holder, clears_others]


@pytest.mark.parametrize("function", ASKING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("first", [0, 1, 2])
def test_leaves_that_are_reached_otherwise(function: Callable[..., Any], first: int) -> None:
    """An argument that is also a global is no new leaf, whoever came first."""
    compiled = compile(function)

    def outcome(call: Callable[..., Any], x: Tensor) -> list[Any]:
        for y in (W, V):
            y.grad = tinyt.ones_like(y)
        results = list(flat(call(x)))
        return [y if y is None else y.detach().clone() for y in (*results, x.grad, W.grad, V.grad)]

    makers = [lambda: leaf(7), lambda: W, lambda: V]
    for make in (makers[first], makers[first], *makers, *makers, *makers):
        want = outcome(function, make())
        got = outcome(compiled, make())
        for one, other in zip(got, want, strict=True):
            assert (one is None) == (other is None)
            if other is not None:
                assert_same_bits(one, other)
    W.grad = V.grad = None


def test_the_parameter_of_an_optimizer() -> None:
    """A step passes its weight in: the optimiser's own, by another name."""
    weights = [leaf(8), leaf(8)]
    steps = []
    for w, wrap in zip(weights, (compile, lambda f: f), strict=True):
        sgd = optim.SGD([w], 0.1, momentum=0.9)

        def step(v: Tensor, x: Tensor, sgd: Any = sgd) -> Tensor:
            sgd.zero_grad()
            loss = (v * x).sin().sum()
            loss.backward()
            sgd.step()
            return loss.detach()

        steps.append(wrap(step))
    for i in range(5):
        x = leaf(20 + i).detach()
        got, want = (step(w, x) for step, w in zip(steps, weights, strict=True))
        assert_same_bits(got, want)
        assert_same_bits(*(w.detach() for w in weights))
        other = leaf(40 + i)  # not the optimiser's: gets a gradient that no step uses
        got, want = (step(y, x) for step, y in zip(steps, (other, leaf(40 + i)), strict=True))
        assert_same_bits(got, want)
        assert other.grad is not None
        assert_same_bits(*(w.detach() for w in weights))


def test_values_that_are_looked_at() -> None:
    """The leaf itself is captured then, and read anew at each call."""
    scale = tinyt.tensor(2.0, requires_grad=True)
    compiled = compile(lambda x, scale: (x * scale).sum() + scale.item())
    for value in (2.0, 2.0, 3.0, 4.0):
        scale.data.fill_(value)
        loss = compiled(tinyt.ones(3), scale)
        assert loss.item() == 4 * value
        loss.backward()
    assert scale.grad is not None
    assert scale.grad.item() == 12.0
    assert compiled.cache_info().misses == 1
    other = tinyt.tensor(5.0, requires_grad=True)
    assert compiled(tinyt.ones(3), other).item() == 20.0


def test_a_leaf_that_is_kept() -> None:
    held = SimpleNamespace(last=None)

    def step(x: Tensor) -> Tensor:
        held.last = x
        return x * 2

    compiled = compile(step)
    for seed in range(4):
        x = leaf(seed)
        assert_same_bits(compiled(x).detach(), (x * 2).detach())
        assert held.last is x
    held.last = None


def test_the_same_leaf_twice_and_leaves_that_share_memory() -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        (x * y * y).sum().backward()
        return (x.grad + y.grad).detach()  # type: ignore[operator]

    compiled = compile(step)
    memory = leaf(1, 8, 6).detach()
    for seed in range(4):
        x, y = leaf(seed), leaf(seed + 9)
        a, b = (memory[i : i + 4].requires_grad_() for i in (0, 2))
        for pair in ((x, y), (x, x), (y, x), (a, b), (b, a), (a, a), (x, y)):
            for one in (*pair, x, y):
                one.grad = None
            want = step(*pair).clone()
            grads = [z.grad.clone() for z in pair if z.grad is not None]
            for one in pair:
                one.grad = None
            assert_same_bits(compiled(*pair), want)
            for z, grad in zip(pair, grads, strict=True):
                assert z.grad is not None
                assert_same_bits(z.grad, grad)


def test_an_error_within_the_program() -> None:
    rows = [tinyt.tensor([0, 1]), tinyt.tensor([0, 9])]

    def step(x: Tensor, i: Tensor) -> Tensor:
        x.grad = None
        x.index_select(0, i).sum().backward()
        return x.grad.sum()  # type: ignore[union-attr]

    compiled = compile(step)
    for seed in range(3):
        compiled(leaf(seed), rows[0])
    x = with_grad(1)
    with pytest.raises(IndexError):
        compiled(x, rows[1])
    assert x.grad is None
    assert compiled(leaf(2), rows[0]).item() == 12.0


def test_modes() -> None:
    sides = Sides(facts)
    for seed in range(6):
        with tinyt.set_grad_enabled(seed % 2 == 0):
            sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    sides = Sides(fgsm)
    for seed in range(6):
        with tinyt.autocast("cpu", dtype=tinyt.bfloat16, enabled=seed % 2 == 0):
            sides.call(lambda seed=seed: leaf(seed))  # type: ignore[misc]
    assert sides.captures() <= 4


def test_backward_outside() -> None:
    """Through each call's own leaf."""
    compiled = compile(forward)
    for p in NET.parameters():
        p.grad = None
    leaves = [leaf(seed) for seed in range(4)]
    losses = [compiled(x) for x in leaves]
    for x, loss in zip(leaves, losses, strict=True):
        loss.backward()
        y = x.detach().clone().requires_grad_()
        (want,) = autograd.grad(forward(y), y)
        assert x.grad is not None
        assert_same_bits(x.grad, want)
    assert compiled.cache_info().currsize == 1
    for p in NET.parameters():
        p.grad = None


@pytest.mark.parametrize(
    "function", [facts, learning, fgsm_by_grad, saliency_of_frozen, forward],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_other_sizes(function: Callable[..., Any]) -> None:
    sides = Sides(function, dynamic=True)
    sizes = (4, 4, 4, 5, 5, 7, 9, 4, 5, 1)
    for seed, n in enumerate(sizes if function is not fgsm_by_grad else [4] * 4):
        sides.call(lambda seed=seed, n=n: leaf(seed, n, 6))  # type: ignore[misc]
        sides.call(  # with a gradient of the size
            lambda seed=seed, n=n: with_grad(seed) if n == 4 else leaf(seed, n, 6)  # type: ignore[misc]
        )


def test_what_depends_on_no_leaf_differs() -> None:
    """Of a second call that is not as the first, the error is the one it was."""
    call = drawn(range(100))
    compiled = compile(lambda x: x * call())
    compiled(leaf(1))
    with pytest.raises(tinyt.CaptureError, match="the second call is not as the first"):
        compiled(leaf(2))


def test_a_layer_that_is_trained_with_its_input() -> None:
    """An adversarial patch: one call steps the network, another the input's own optimiser."""
    module, patch = net(), leaf(3, 1, 6)
    adam = optim.Adam([patch], 0.1)

    @compile
    def gradient(x: Tensor, patch: Tensor) -> Tensor:
        loss = F.cross_entropy(module(x + patch), LABELS)
        loss.backward()
        return loss.detach()

    def eager(x: Tensor, patch: Tensor) -> Tensor:
        loss = F.cross_entropy(module(x + patch), LABELS)
        loss.backward()
        return loss.detach()

    other = patch.detach().clone().requires_grad_()
    of_other = optim.Adam([other], 0.1)
    for seed in range(5):
        x = leaf(seed).detach()
        adam.zero_grad(), of_other.zero_grad()
        module.zero_grad()
        got = gradient(x, patch)
        module.zero_grad()
        assert_same_bits(got, eager(x, other))
        assert patch.grad is not None
        assert other.grad is not None
        assert_same_bits(patch.grad, other.grad)
        adam.step(), of_other.step()
        assert_same_bits(patch.detach(), other.detach())
