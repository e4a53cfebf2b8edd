"""What people's scripts do with a compiled function: eager's results and effects, or an error that
says what to do."""

from __future__ import annotations

import collections
import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt import Tensor, autograd, nn, optim

Make = Callable[[Any], Any]  # `tinyt.compile`, or what leaves a function as it is


def leaf() -> Tensor:
    return tinyt.ones(3, requires_grad=True)


def error_of(call: Callable[[], Any]) -> str:
    """The message, or ''; a traceback would keep tensors alive."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def one_tensor_twice(make: Make) -> Any:
    w, f = leaf(), make(lambda a, b: a * b)
    for _ in range(3):
        h = w * 2
        (f(h, h).sum() + h.sum()).backward()
    return w.grad


def chunks_of_one(make: Make) -> Any:
    w, f = leaf(), make(lambda a, b: a * b)
    for _ in range(3):
        f(*(tinyt.cat([w, w]) * 2).chunk(2)).sum().backward()
    return w.grad


def views_of_a_result(make: Make) -> Any:
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        h = x * w
        return h, h[1:]

    w = leaf()
    f = make(both)
    for _ in range(3):
        a, b = f(tinyt.ones(3))
        b.mul_(3)
        a.sum().backward()
    return w.grad


def chunks_as_results(make: Make) -> Any:
    w = tinyt.arange(6.0, requires_grad=True)
    f = make(lambda x: (x * w).chunk(3))
    for _ in range(3):
        q, k, v = f(tinyt.ones(6))
        (q * k + v.exp()).sum().backward()
    return w.grad


def view_of_an_argument(make: Make) -> Any:
    w, f = leaf(), make(lambda x: x.view(3, 1).expand(3, 2))
    for _ in range(3):
        h = w * 2
        v = f(h)
        v.sum().backward()
    return w.grad, v.shape, v.stride()


def loss_after_backward(make: Make) -> Any:
    net = nn.Linear(3, 3)
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    @make
    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        decay = sum(p.pow(2).sum() for p in net.parameters())
        loss = nn.CrossEntropyLoss()(net(x), y) + 0.1 * decay
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(tinyt.ones(2, 3), tinyt.tensor([0, 1])) for _ in range(3)]
    second = error_of(losses[-1].backward)
    return [x.item() for x in losses], losses[-1].requires_grad, "second time" in second


def saved_tensor_overwritten(make: Make) -> Any:
    def scaled(x: Tensor) -> Tensor:
        y = w * buffer * x
        buffer.add_(1)
        return y

    w, buffer = leaf(), tinyt.ones(3)
    f = make(scaled)
    y = [f(tinyt.ones(3)) for _ in range(3)][-1]
    return y.tolist(), "modified by an inplace" in error_of(y.sum().backward)


def first_result(make: Make) -> Any:
    w = leaf()
    optimizer = optim.SGD([w], 0.1)

    @make
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return (w * w).sum()

    for _ in range(3):
        step(tinyt.ones(3)).backward()
    return w.grad


def probability_of_one(make: Make) -> Any:
    f = make(lambda x, p: F.dropout(x, p))
    return [f(tinyt.ones(3), 1.0).tolist() for _ in range(3)]


def float_as_a_key(make: Make) -> Any:
    f = make(lambda x, p: x * {0.5: 1, 1.0: 2}[p])
    return [f(tinyt.ones(3), p).tolist() for p in (1.0, 1.0, 1.0, 0.5)]


def floats_of_all_uses(make: Make) -> Any:
    f = make(
        lambda x, v: (x.masked_fill(x > 1, v) * tinyt.tensor([v, 1.0]) * math.cos(v), f"{v:g}")
    )
    calls = [f(tinyt.full((2,), 2.0), v) for v in (1.0, 2.0, 3.0, 2.0, 3.0)]
    return [(x.tolist(), text) for x, text in calls]


def floats_rounded_in_c(make: Make) -> Any:
    f = make(lambda x, v: (x, format(v, ".0f"), divmod(v, 2)[0], v.is_integer()))
    return [f(tinyt.ones(1), v)[1:] for v in (2.0, 2.0, 4.0, 5.5)]


def autocast_around(make: Make) -> Any:
    net, found = nn.Linear(4, 3), []
    f = make(net)
    for _ in range(3):
        with tinyt.autocast("cpu", dtype=tinyt.bfloat16):
            y = f(tinyt.ones(2, 4))
        y.sum().backward()
        found.append(y.tolist())
    return found, net.weight.grad


def autocast_around_a_step(make: Make) -> Any:
    net = nn.Linear(4, 3)
    optimizer = optim.SGD(net.parameters(), 0.1)

    @make
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).float().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    with tinyt.autocast("cpu", dtype=tinyt.bfloat16):
        return [step(tinyt.ones(2, 4)).item() for _ in range(3)]


def inner_function(make: Make) -> Any:
    def outer(x: Tensor) -> Tensor:
        found: list[Tensor] = []

        def inner() -> Tensor:
            found.append(x)
            return x * 2

        return inner() + found[0]

    f = make(outer)
    return [f(tinyt.ones(3)).tolist() for _ in range(3)]


def closure_of_a_step(make: Make) -> Any:
    p = leaf()
    optimizer = optim.SGD([p], 0.1)

    @make
    def step(x: Tensor) -> Any:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = (p * x).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    return [step(tinyt.ones(3)).item() for _ in range(3)]


def modes_in_turn(make: Make) -> Any:
    net = nn.Dropout(0.5)
    train = make(lambda x: net.train()(x))
    evaluate = make(lambda x: net.eval()(x))
    x = tinyt.ones(3)
    return [(train(x).tolist(), evaluate(x).tolist()) for _ in range(4)]


def views_of_parameters(make: Make) -> Any:
    w = leaf()
    f = make(lambda x: (x * 1, w.detach(), w[1:]))
    return [[y.tolist() for y in f(tinyt.ones(3))] for _ in range(3)]


def module_hooks(make: Make) -> Any:
    first, second = nn.Linear(3, 3), nn.Linear(3, 2)
    second.register_full_backward_hook(lambda module, into, out: None)
    f = make(lambda x: second(first(x)))
    for _ in range(3):
        f(tinyt.ones(1, 3)).sum().backward()
    return first.weight.grad


def compiled_module(make: Make) -> Any:
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    f = make(net)
    for _ in range(3):
        f(tinyt.ones(1, 3))
    other = copy.deepcopy(f)
    f.eval()
    is_training = net.training, f.training, other.training
    f.scale = 5.0
    f.register_forward_hook(lambda module, args, out: out * 2)
    assert f[0] is net[0]
    assert len(f) == 2
    names = sorted(name.removeprefix("_orig_mod.") for name in other.state_dict())
    return is_training, net.scale, names, other.eval()(tinyt.ones(1, 3)).tolist()


def identity_of_arguments(make: Make) -> Any:
    f = make(lambda x, y: x * 5 if x is y else x * 2)
    a = tinyt.ones(3)
    return [f(a, a).tolist() for _ in range(3)], f(a, a.view(3)).tolist()


def overlap(make: Make) -> Any:
    flat = tinyt.arange(6.0)
    f = make(lambda x: flat.mul_(x).sum())
    f(tinyt.ones(6))
    return "overlaps" in error_of(lambda: f(flat[:1])), flat


def defaultdict_as_result(make: Make) -> Any:
    f = make(lambda x: collections.defaultdict(list, a=x * 2))
    return [f(tinyt.ones(2))["a"].tolist() for _ in range(3)], f(tinyt.ones(2))["b"]


def slices_as_arguments(make: Make) -> Any:
    f = make(lambda x, part: x[part])
    return [f(tinyt.arange(6.0), slice(1, n)).tolist() for n in (3, 3, 5, 3)]


def object_made_inside(make: Make) -> Any:
    class Pair:
        def __init__(self, x: Tensor) -> None:
            self.x = x

    f = make(lambda x: Pair(x * 2).x + Pair(x).x)
    return [f(tinyt.ones(2)).tolist() for _ in range(3)]


def module_made_inside(make: Make) -> Any:
    f = make(lambda x, y: nn.CrossEntropyLoss(label_smoothing=0.1)(nn.Flatten()(x), y))
    return [f(tinyt.ones(2, 2, 2), tinyt.tensor([0, 1])).item() for _ in range(3)]


SCRIPTS = [
    one_tensor_twice, chunks_of_one, views_of_a_result, chunks_as_results, view_of_an_argument,
    loss_after_backward, saved_tensor_overwritten, first_result, probability_of_one,
    float_as_a_key, floats_of_all_uses, floats_rounded_in_c, autocast_around,
    autocast_around_a_step, inner_function, closure_of_a_step, modes_in_turn, views_of_parameters,
    module_hooks, compiled_module, identity_of_arguments, overlap, defaultdict_as_result,
    slices_as_arguments, object_made_inside, module_made_inside,
]  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_scripts(script: Callable[[Make], Any]) -> None:
    found = []
    for make in (lambda f: f, tinyt.compile):
        tinyt.manual_seed(0)
        found.append(repr(script(make)))
    assert found[0] == found[1]


def data_assigned(w: Tensor, x: Tensor) -> Any:
    w.data = w.data * 0.5
    return x


def tape_on_an_argument(w: Tensor, x: Tensor) -> Any:
    return (x.requires_grad_() * 2).sum()


def tape_on_captured_memory(w: Tensor, x: Tensor) -> Any:
    HELD["t"].copy_(x * w)


def seeded(w: Tensor, x: Tensor) -> Any:
    tinyt.manual_seed(0)
    return x + tinyt.rand(3)


def leaf_as_result(w: Tensor, x: Tensor) -> Any:
    return (x * 2).requires_grad_()


def kept_in_an_object(w: Tensor, x: Tensor) -> Any:
    class Result:
        pass

    result: Any = Result()
    result.y = x * 2
    return result


HELD: dict[str, Tensor] = {}
REFUSED = {
    data_assigned: r"x\.data\.copy_",
    tape_on_an_argument: "requires_grad_.. outside",
    tape_on_captured_memory: "detach it, or return it",
    seeded: "call it outside",
    leaf_as_result: "make it outside",
    kept_in_an_object: "list, tuple or dict",
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_refused(function: Callable[[Tensor, Tensor], Any]) -> None:
    w = leaf()
    HELD["t"] = tinyt.zeros(3)
    compiled = tinyt.compile(lambda x: function(w, x))

    def call_twice() -> None:
        for _ in range(2):
            compiled(tinyt.ones(3))

    with pytest.raises(tinyt.CaptureError, match=REFUSED[function]):
        call_twice()
    HELD.clear()
    assert not tinyt._core.is_recording()


def test_an_error_says_that_the_call_has_run() -> None:
    counter = tinyt.zeros(1)
    compiled = tinyt.compile(lambda x: counter.add_(1).item())
    with pytest.raises(tinyt.CaptureError, match=r"item: .*; the call has run"):
        compiled(tinyt.ones(3))
    assert counter.item() == 1


def test_gradients_of_gradients_are_refused() -> None:
    w, x = leaf(), leaf()
    f = tinyt.compile(lambda x: x * x * w)
    f(x)
    y = f(x).sum()
    with pytest.raises(RuntimeError, match="create_graph=True does not reach through"):
        autograd.grad(y, x, create_graph=True)


def test_copies_capture_anew() -> None:
    net = tinyt.compile(nn.Linear(2, 2))
    net(tinyt.ones(1, 2))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other(tinyt.ones(1, 2)).tolist() == net(tinyt.ones(1, 2)).tolist()


def test_options() -> None:
    assert tinyt.compile(abs, disable=True) is abs
    assert tinyt.compile(fullgraph=True, mode="max-autotune")(lambda x: x * 2)(3) == 6
    with pytest.raises(NotImplementedError, match="mark_dynamic"):
        tinyt.compile(abs, shapes_spec={})
    with pytest.raises(ValueError, match="at least 1, got 0"):
        tinyt.compile(abs, recompile_limit=0)
    with pytest.raises(TypeError, match="function or module, got int"):
        tinyt.compile(3)


def test_names_that_pytorch_does_not_know() -> None:
    """They would be taken for a choice that is not there."""
    for mode in ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs"):
        assert tinyt.compile(lambda x: x * 2, mode=mode)(3) == 6
    for backend in ("inductor", "eager", "aot_eager", "cudagraphs"):
        assert tinyt.compile(lambda x: x * 2, backend=backend, options={})(3) == 6
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (RuntimeError, "mode must be one of default, .*, got 'fast'", {"mode": "fast"}),
        (RuntimeError, "mode must be .*, got 3", {"mode": 3}),
        (RuntimeError, "backend must be one of inductor, .*, got 'gpu'", {"backend": "gpu"}),
        (RuntimeError, r"backend must be .*, got \[\]", {"backend": []}),
        (NotImplementedError, "backend must be a name, got a function", {"backend": print}),
        (TypeError, "options must be a dict or None, got list", {"options": []}),
        (RuntimeError, "cannot both be given", {"mode": "default", "options": {}}),
    ]
    for error, match, given in wrong:
        with pytest.raises(error, match=match):
            tinyt.compile(lambda x: x, **given)
        with pytest.raises(error, match=match):
            tinyt.compile(disable=True, **given)


def test_cache() -> None:
    f = tinyt.compile(lambda x: x * 2, recompile_limit=2, name="double")
    for n in (1, 1, 2, 2, 1, 1):
        assert f(tinyt.ones(n)).tolist() == [2.0] * n
    with pytest.warns(UserWarning, match="double has been captured 3 times.*shape"):
        f(tinyt.ones(3))
    assert f(tinyt.ones(3)).tolist() == [2.0] * 3
    assert f.cache_info() == (5, 3, 2, 2)
    first, second, third = f.explain().splitlines()
    assert first == "1: the first call"
    alike = "; simplified as before, with other sizes"
    assert second == f"2: argument 0: shape (2,), not (1,){alike}"
    assert third == f"3: argument 0: shape (3,), not (1,){alike}"
    f.cache_clear()
    assert f.cache_info() == (0, 0, 2, 0)
    assert f.explain() == ""
