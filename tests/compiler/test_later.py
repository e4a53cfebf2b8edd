"""What follows the recorded call: results, and backward passes outside, of some of them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import Tensor, autograd, nn, optim
from tinyt.compiler.api import compile
from tinyt.utils.checkpoint import checkpoint


class Both(autograd.Function):
    """Two results of one node: a gradient of either goes to both inputs, as zeros to one."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return a * 2.0, b * 3.0

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return g * 2.0, h * 3.0


class Constant(autograd.Function):
    """Its gradient is not computed from that of its result."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a * 2.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return tinyt.ones(2)


def in_place(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    rows = tinyt.zeros(2, 2)
    rows[0] = a
    y = b * 1.0
    y.mul_(2.0)
    return rows.sum(), y


def old_view(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    y = b * 1.0
    part = y[:1]
    y.mul_(a)
    return part, b * 2.0


def branch(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    yes = tinyt.tensor(True)
    return tinyt.cond(yes, lambda z: z * 2.0, lambda z: z, (a,)), b * 2.0


HEADS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, ...]]] = {
    "apart": lambda a, b: ((a * 2.0).sum(), (b * 3.0).sum()),
    "shared": lambda a, b: ((a * 2.0).sum(), (a * b).sum()),
    "three": lambda a, b: (a * 2.0, a * b, b.exp()),
    "one of the other": lambda a, b: (a * 2.0, (a * 2.0) * b),
    "view": lambda a, b: (a.exp()[:1], b.exp().reshape(2, 1)),
    "function": Both.apply,
    "constant": lambda a, b: (Constant.apply(a), b * 2.0),
    "checkpoint": lambda a, b: (checkpoint(lambda z: z.exp() * 2.0, a), b * 2.0),
    "in place": in_place,
    "old view": old_view,
    "branch": branch,
}


def gradients(
    name: str, which: tuple[int, ...], is_compiled: bool, as_arguments: bool
) -> list[Any]:
    """What some of the results give to two leaves, and how often their hooks run."""
    made: list[Any] = []
    hooks = [0, 0]
    a, b = (tinyt.tensor(x, requires_grad=True) for x in ([0.5, 2.0], [3.0, -1.0]))
    for i, leaf in enumerate((a, b)):
        leaf.register_hook(lambda g, i=i: hooks.__setitem__(i, hooks[i] + 1))
    function: Any = HEADS[name] if as_arguments else lambda: HEADS[name](a, b)
    call = compile(function) if is_compiled else function
    for _ in range(3):
        a.grad = b.grad = None
        results = call(a, b) if as_arguments else call()
        autograd.backward([results[k].sum() for k in which])
        made += [None if x.grad is None else x.grad.tolist() for x in (a, b)] + hooks
        results = call(a, b) if as_arguments else call()
        for leaf in (a, b):
            root = [results[k].sum() for k in which]
            found = autograd.grad(root, leaf, retain_graph=True, allow_unused=True)[0]
            made.append(None if found is None else found.tolist())
    return made


@pytest.mark.parametrize("as_arguments", [False, True])
@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("name", HEADS)
def test_what_no_result_reaches_has_no_gradient(
    name: str, which: tuple[int, ...], as_arguments: bool
) -> None:
    eager = gradients(name, which, False, as_arguments)
    assert gradients(name, which, True, as_arguments) == eager


def test_a_step_leaves_the_other_head_alone() -> None:
    found = []
    for is_compiled in (False, True):
        tinyt.manual_seed(0)
        body, *heads = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 2)
        net = nn.ModuleList([body, *heads])
        optimiser = optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)

        def function(x: Tensor, net: Any = net) -> tuple[Tensor, ...]:
            hidden = net[0](x).tanh()
            return tuple(head(hidden).square().mean() for head in net[1:])

        call = compile(function) if is_compiled else function
        for which in (0, 0, 0, 1, 0):
            optimiser.zero_grad()
            call(tinyt.ones(4, 3))[which].backward()
            optimiser.step()
            found.append([p.tolist() for p in net.parameters()])
    assert found[:5] == found[5:]


class Held:
    """Floats that change between calls, in an attribute and in a dict, which gradients read."""

    def __init__(self) -> None:
        self.k = 2.0
        self.table = {"k": 2.0}
        held = self

        class Read(autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.k = held.table["k"]
                return x * ctx.k

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return g * ctx.k * held.table["k"]

        self.read = Read

    def set(self, value: float) -> None:
        self.k = self.table["k"] = value

    def function(self, x: Tensor) -> Tensor:
        y: Tensor = self.read.apply(x)
        return y

    def hook(self, x: Tensor) -> Tensor:
        y = x * self.table["k"]
        y.register_hook(lambda g: g * self.table["k"])
        return y

    def hook_of_an_attribute(self, x: Tensor) -> Tensor:
        y = x * self.k
        y.register_hook(lambda g: g * self.k)
        return y

    def hook_alone(self, x: Tensor) -> Tensor:
        y = x * 2.0
        y.register_hook(lambda g: g * self.table["k"] + self.k)
        return y

    def branch(self, x: Tensor) -> Tensor:
        y = x * self.table["k"]
        y.register_hook(lambda g: g * 7.0 if self.table["k"] > 4.0 else g * self.table["k"])
        return y

    def checkpoint(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(lambda z: (z * self.table["k"]).exp() * self.table["k"], x)
        return y


FLOAT_READERS = [
    "function",
    "hook",
    "hook_of_an_attribute",
    "hook_alone",
    "branch",
    "checkpoint",
]


@pytest.mark.parametrize("values", [(2, 2, 3, 3, 4, 4, 5), (2, 2, 3, 4, 5, 2), (2, 3, 5, 6, 7, 2)])
@pytest.mark.parametrize("name", FLOAT_READERS)
def test_floats_that_a_gradient_reads(name: str, values: tuple[int, ...]) -> None:
    found: list[Any] = []
    for is_compiled in (False, True):
        held, w = Held(), tinyt.tensor([0.5, 0.25], requires_grad=True)
        function = getattr(held, name)
        call = compile(function) if is_compiled else function
        for value in values:
            held.set(float(value))
            w.grad = None
            y = call(w * 1.0)
            y.sum().backward()
            found.append((y.tolist(), w.grad.tolist() if w.grad is not None else None))
    assert found[: len(values)] == found[len(values) :]


@pytest.mark.parametrize("name", FLOAT_READERS)
def test_a_gradient_reads_the_floats_of_its_call(name: str) -> None:
    held, w = Held(), tinyt.tensor([0.5, 0.25], requires_grad=True)
    function, call = getattr(held, name), compile(getattr(held, name))
    for value in (2.0, 2.0, 3.0, 3.0, 4.0, 4.0):  # until it is read anew at each call
        held.set(value)
        call(w).sum().backward()
    waiting = []
    for value in (3.0, 5.0, 6.0):
        held.set(value)
        expected = autograd.grad(function(w).sum(), w)[0].tolist()
        waiting.append((call(w).sum(), expected))
    for result, expected in waiting:
        assert autograd.grad(result, w)[0].tolist() == expected


@pytest.mark.parametrize("kind", [dict, list])
def test_a_container_of_a_float_that_is_returned(kind: type) -> None:
    holder: Any = {0: 2.0} if kind is dict else [2.0]

    def function(x: Tensor) -> Any:
        return x * holder[0], holder

    call = compile(function)
    for value in (2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0):
        holder[0] = value
        y, returned = call(tinyt.ones(1))
        assert (y.item(), returned) == (value, holder)


def test_a_hook_that_sets_a_float_is_refused() -> None:
    held, w = Held(), tinyt.tensor([0.5, 0.25], requires_grad=True)

    def function(x: Tensor) -> Tensor:
        y = x * held.table["k"]

        def hook(g: Tensor) -> None:
            if held.table["k"] > 3.5:
                held.table["k"] = 1.0

        y.register_hook(hook)
        return y

    call = compile(function)
    for value in (2.0, 3.0, 3.25):
        held.set(value)
        call(w).sum().backward()
    held.set(4.0)
    with pytest.raises(tinyt.CaptureError):
        call(w)
    assert held.table["k"] == 4.0
