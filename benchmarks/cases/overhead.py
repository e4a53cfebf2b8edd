"""Call overhead: tensors so small that only the call itself counts."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.case import Call, Case, Input, integers, normal
from benchmarks.networks import fill

ONE = normal(1)
LEAF = normal(1, grad=True)
FOUR = normal(4, 4)
TABLE = normal(100, 64)


def of(name: str, setup: Any, *inputs: Input) -> Case:
    return Case(name, inputs, setup)


def into(lib: Any, a: Any, b: Any) -> Call:
    out = lib.empty(1)
    return lambda: lib.add(a, b, out=out)


def tiny_backward(lib: Any, a: Any, b: Any) -> Call:
    def step() -> Any:
        a.grad = b.grad = None
        loss = ((a * b) + b).sum()
        loss.backward()
        return loss.detach(), a.grad

    return step


def linear(lib: Any, x: Any) -> Call:
    layer = fill(lib, lib.nn.Linear(16, 16))

    def call() -> Any:
        with lib.no_grad():
            return layer(x)

    return call


def recorded_linear(lib: Any, x: Any) -> Call:
    layer = fill(lib, lib.nn.Linear(16, 16))
    return lambda: layer(x)


def perceptron(lib: Any, x: Any, y: Any) -> Call:
    nn = lib.nn
    model = fill(lib, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))

    def step() -> Any:
        model.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss.detach()

    return step


def optimizer(name: str, **options: Any) -> Any:
    def setup(lib: Any, *parameters: Any) -> Call:
        for p in parameters:
            p.grad = lib.ones_like(p)
        step = getattr(lib.optim, name)(list(parameters), lr=1e-3, **options).step
        return lambda: (step(), parameters[0].detach())[1]

    return setup


FIXED = (
    of("a + b, 1 element", lambda lib, a, b: lambda: a + b, ONE, ONE),
    of("a + b, recorded", lambda lib, a, b: lambda: a + b, LEAF, ONE),
    of("a + 1.5", lambda lib, a: lambda: a + 1.5, ONE),
    of("a * b, 4x4", lambda lib, a, b: lambda: a * b, FOUR, FOUR),
    of("a < b", lambda lib, a, b: lambda: a < b, ONE, ONE),
    of("a.mul_(1.0)", lambda lib, a: lambda: a.mul_(1.0), ONE),
    of("add(a, b, out=c)", into, ONE, ONE),
    of("exp", lambda lib, a: lambda: lib.exp(a), ONE),
    of("relu", lambda lib, a: lambda: lib.relu(a), FOUR),
    of("sum of 16", lambda lib, a: lambda: a.sum(), FOUR),
    of("mean of rows, 4x4", lambda lib, a: lambda: a.mean(1), FOUR),
    of("softmax, 4x4", lambda lib, a: lambda: a.softmax(-1), FOUR),
    of("item", lambda lib, a: lambda: a.item(), ONE),
    of("matmul, 4x4", lambda lib, a, b: lambda: a @ b, FOUR, FOUR),
    of("layer_norm, 4x4", lambda lib, a: lambda: lib.nn.functional.layer_norm(a, (4,)), FOUR),
    of("view", lambda lib, a: lambda: a.view(2, 8), FOUR),
    of("reshape", lambda lib, a: lambda: a.reshape(-1), FOUR),
    of("t", lambda lib, a: lambda: a.t(), FOUR),
    of("permute", lambda lib, a: lambda: a.permute(2, 0, 1), normal(2, 3, 4)),
    of("unsqueeze", lambda lib, a: lambda: a.unsqueeze(0), FOUR),
    of("expand", lambda lib, a: lambda: a.expand(4, 4), ONE),
    of("detach", lambda lib, a: lambda: a.detach(), LEAF),
    of("clone", lambda lib, a: lambda: a.clone(), ONE),
    of("to(float64)", lambda lib, a: lambda: a.to(lib.float64), ONE),
    of("zeros(4)", lambda lib: lambda: lib.zeros(4)),
    of("tensor([1.0, 2.0])", lambda lib: lambda: lib.tensor([1.0, 2.0])),
    of("cat of two", lambda lib, a, b: lambda: lib.cat((a, b)), FOUR, FOUR),
    of("x[7]", lambda lib, x: lambda: x[7], TABLE),
    of("x[7, 3]", lambda lib, x: lambda: x[7, 3], TABLE),
    of("x[2:9, None, ::2]", lambda lib, x: lambda: x[2:9, None, ::2], TABLE),
    of("x[index], 4 rows", lambda lib, x, i: lambda: x[i], TABLE, integers(100, 4)),
    of("x[mask], 4x4", lambda lib, x: (lambda m: lambda: x[m])(x > 0), FOUR),
    of("x[0] = 1.0", lambda lib, x: lambda: (x.__setitem__(0, 1.0), x)[1], FOUR),
    of("Linear 16, batch 1", linear, normal(1, 16)),
    of("Linear 16, batch 1, recorded", recorded_linear, normal(1, 16)),
    of("((a*b)+b).sum().backward()", tiny_backward, normal(4, grad=True), normal(4, grad=True)),
    of("MLP 4-8-1 forward, backward", perceptron, normal(1, 4), normal(1, 1)),
    of("SGD step, 4 parameters", optimizer("SGD"), *[normal(8, 8, grad=True)] * 4),
    of("AdamW step, 4 parameters", optimizer("AdamW"), *[normal(8, 8, grad=True)] * 4),
)


def drawn(draw: Random) -> Iterator[Case]:
    """Small broadcasts."""
    for op in draw.sample(("add", "sub", "mul", "div", "maximum", "atan2"), 3):
        shape = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
        other = [size if draw.random() < 0.7 else 1 for size in shape]
        name = f"{op} {shape} and {other} (drawn)"
        yield of(name, lambda lib, a, b, op=op: lambda: getattr(lib, op)(a, b),
                 normal(*shape), normal(*other))  # fmt: skip
