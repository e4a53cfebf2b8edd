"""``tinyt.compile`` beside eager PyTorch and eager tinyt: training steps, chains of elementwise
operations, and what people write from primitives although there is a fused function for it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from random import Random
from typing import Any

import numpy as np

from benchmarks import networks
from benchmarks.case import Call, Case, Input, Make, Setup, Work, calling, integers, moving, normal
from benchmarks.cases import training
from benchmarks.cases.elementwise import K, M, count
from benchmarks.networks import Model


def compiling(make: Make) -> Setup:
    """As `calling`, but tinyt compiles the function."""

    def compiled(lib: Any) -> Callable[..., Any]:
        function = make(lib)
        return lib.compile(function) if lib.__name__ == "tinyt" else function

    return calling(compiled)


def case(part: str, name: str, make: Make, inputs: tuple[Input, ...], writes: int) -> Case:
    """Reads every input once and writes ``writes`` bytes."""
    work = moving(inputs, writes)
    return Case(name, inputs, compiling(make), work, eager=calling(make), part=part)


# ---- training steps


def jax(function: str, *args: Any) -> Callable[[list[np.ndarray]], Call]:
    """A function of `jax_calls`; JAX is imported by who asks for it."""
    return lambda arrays: getattr(import_module("benchmarks.jax_calls"), function)(*args, arrays)


def step(
    part: str, of: str, model: Model, x: Input, classes: int, *targets: int,
    bf16: bool = False, **options: Any,
) -> Case:  # fmt: skip
    """A step as in the group `training`, with the faster of PyTorch's two AdamW."""
    compiled, eager = (
        training.step(of, model, x, classes, *targets, bf16=bf16, fused=True, by=by, **options)
        for by in (compiling, calling)
    )
    other = jax("training", model, classes, bf16)
    return replace(compiled, eager=eager.setup, jax=other, part=part)


# ---- chains

OPERATIONS = (
    "lib.tanh(x)", "x + y", "x * 0.75", "lib.maximum(x, y)", "lib.sin(x)", "abs(x)", "y - x",
    "lib.clamp(x, -2.0, 2.0)", "lib.sigmoid(x)", "lib.minimum(x, y)", "lib.relu(x)", "x + 0.5",
    "lib.erf(x)", "-x", "lib.cos(x)",
)  # fmt: skip
"""None moves two values much further apart than they are: what the libraries' results differ by
does not grow along a chain."""


def chain(operations: Iterable[str], x: Input, y: Input, of: str = "") -> Case:
    """One operation after another on x, some with y, in straight code as people write it."""
    lines = [f"    x = {operation}\n" for operation in operations]
    source = f"def function(x, y):\n{''.join(lines)}    return x\n"

    def make(lib: Any) -> Any:
        names = {"lib": lib}
        exec(source, names)
        return names["function"]

    name = f"{len(lines)} operations {count(x.numel)} {x.dtype}" + (f" ({of})" if of else "")
    found = case("compile chains", name, make, (x, y), x.nbytes)
    return replace(found, jax=jax("chain", make, x.dtype))


def first(n: int) -> Iterator[str]:
    """That many operations, in the table's order."""
    return itertools.islice(itertools.cycle(OPERATIONS), n)


def chain_of(length: int, n: int, **options: Any) -> Case:
    return chain(first(length), normal(n, **options), normal(n, **options))


def lazily(length: int, n: int, *, beside_eager: bool) -> Case:
    """The same in `tinyt.lazy`: recorded anew and looked up in every call. Where recording takes
    longer than the operations, eager mode is no measure."""
    plain = chain_of(length, n)
    assert plain.eager is not None
    eager = plain.eager

    def setup(lib: Any, *tensors: Any) -> Callable[..., Any]:
        call = eager(lib, *tensors)
        return lib.lazy()(call) if lib.__name__ == "tinyt" else call

    name = f"lazily {plain.name}"
    return replace(
        plain,
        name=name,
        setup=setup,
        eager=eager if beside_eager else None,
        jax=None,
        part="compile lazy",
    )


# ---- by hand

Function = Callable[..., Any]
"""(lib, *tensors) -> a tensor."""


def by_hand(name: str, function: Function, *inputs: Input, loss: bool = False) -> Case:
    """Forward, and backward from a random gradient like the first input; a loss needs none."""
    result = normal(*inputs[0].shape)

    def make(lib: Any) -> Callable[..., Any]:
        def call(*tensors: Any) -> Any:
            given = tensors if loss else tensors[:-1]
            y = function(lib, *given)
            leaves = [t for t in given if t.requires_grad]
            return y.detach(), *lib.autograd.grad(y, leaves, None if loss else tensors[-1])

        return call

    writes = sum(i.nbytes for i in inputs if i.grad) + (0 if loss else result.nbytes)
    every = inputs if loss else (*inputs, result)
    name = f"{name} {'x'.join(map(str, inputs[0].shape))}"
    return case("compile by hand", name, make, every, writes)


def softmax(lib: Any, x: Any) -> Any:
    e = lib.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def log_softmax(lib: Any, x: Any) -> Any:
    x = x - x.amax(-1, keepdim=True)
    return x - lib.log(lib.exp(x).sum(-1, keepdim=True))


def layer_norm(lib: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred * lib.rsqrt(variance + 1e-5) * weight + bias


def rms_norm_silu(lib: Any, x: Any, weight: Any) -> Any:
    y = x * lib.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight
    return y * lib.sigmoid(y)


def gelu(lib: Any, x: Any) -> Any:
    return 0.5 * x * (1.0 + lib.erf(x * math.sqrt(0.5)))


def rotary(lib: Any, x: Any, angles: Any) -> Any:
    """Su et al. 2021: turns the pairs (x[i], x[i + half]) by the angles of their position."""
    cos, sin = lib.cos(angles), lib.sin(angles)
    a, b = x.chunk(2, -1)
    return lib.cat((a * cos - b * sin, b * cos + a * sin), -1)


def cross_entropy(lib: Any, x: Any, y: Any) -> Any:
    return -log_softmax(lib, x).gather(-1, y.unsqueeze(-1)).mean()


def smooth_l1(lib: Any, x: Any, y: Any) -> Any:
    d = (x - y).abs()
    return lib.where(d < 1.0, 0.5 * d * d, d - 0.5).mean()


def binary_cross_entropy(lib: Any, x: Any, y: Any) -> Any:
    """Of logits, with targets of one where y is positive."""
    target = (y > 0).to(x.dtype)
    return (x.clamp(min=0.0) - x * target + lib.log1p(lib.exp(-x.abs()))).mean()


def kl_divergence(lib: Any, x: Any, y: Any) -> Any:
    """Of the distributions with the logits x from those with the logits y."""
    target = log_softmax(lib, y)
    return (lib.exp(target) * (target - log_softmax(lib, x))).sum(-1).mean()


def norm(name: str, function: Function, parameters: int, *shape: int) -> Case:
    weights = [normal(shape[-1], grad=True)] * parameters
    return by_hand(name, function, normal(*shape, grad=True), *weights)


def turned(*shape: int) -> Case:
    """``shape``: batch, heads, positions, width."""
    angles = normal(shape[-2], shape[-1] // 2)
    return by_hand("rotary embedding", rotary, normal(*shape, grad=True), angles)


def loss(name: str, function: Function, *shape: int) -> Case:
    return by_hand(name, function, normal(*shape, grad=True), normal(*shape), loss=True)


def classes(rows: int, number: int) -> Case:
    inputs = normal(rows, number, grad=True), integers(number, rows)
    return by_hand("cross-entropy", cross_entropy, *inputs, loss=True)


# ---- movements between kernels


def dots(batch: int, rows: int, width: int, movements: int) -> Case:
    """dot, sum, dot: the sum's operand, and then the second product's, moved before."""

    def make(lib: Any) -> Callable[..., Any]:
        def call(x: Any, first: Any, second: Any) -> Any:
            y = x @ first
            if movements > 0:  # rows and width change places
                y = y.transpose(1, 2).contiguous()
            y = y.sum(1)
            if movements > 1:
                y = y.t().contiguous().t()
            return y @ second

        return call

    inner = rows if movements else width
    inputs = normal(batch, rows, width), normal(width, width), normal(inner, width)
    work = Work(flops=2.0 * batch * width * (rows * width + inner))
    name = f"dot, sum, dot {batch}x{rows}x{width}, {movements} movements"
    return Case(name, inputs, compiling(make), work, eager=calling(make), part="compile movements")


def turning(name: str, dims: tuple[int, ...], *shape: int) -> Case:
    """A chain of elementwise operations whose result is copied with its dimensions in another
    order."""

    def make(lib: Any) -> Callable[..., Any]:
        return lambda x: (lib.tanh(x) * 0.5 + 1.0).permute(dims).contiguous() - 1.0

    x = normal(*shape)
    return case("compile movements", f"{name} {'x'.join(map(str, shape))}", make, (x,), x.nbytes)


# ---- products, and what follows


def product(name: str, function: Function, flops: float, *inputs: Input) -> Case:
    def make(lib: Any) -> Callable[..., Any]:
        return lambda *args: function(lib, *args)

    work = Work(flops=flops)
    return Case(name, inputs, compiling(make), work, eager=calling(make), part="compile products")


def layer(rows: int, width: int, out: int) -> Case:
    def function(lib: Any, x: Any, weight: Any, bias: Any) -> Any:
        return lib.nn.functional.gelu(lib.nn.functional.linear(x, weight, bias))

    inputs = normal(rows, width), normal(out, width), normal(out)
    return product(f"linear, GELU, {rows}x{width} to {out}", function, 2.0 * rows * width * out,
                   *inputs)  # fmt: skip


def masked(rows: int, width: int, out: int) -> Case:
    def function(lib: Any, gradient: Any, weight: Any, x: Any) -> Any:
        return (gradient @ weight) * (x > 0)

    inputs = normal(rows, width), normal(width, out), normal(rows, out)
    return product(f"product, mask, {rows}x{width} to {out}", function, 2.0 * rows * width * out,
                   *inputs)  # fmt: skip


def filtered(images: int, channels: int, out: int, size: int, kernel: int) -> Case:
    def function(lib: Any, x: Any, weight: Any, bias: Any) -> Any:
        return lib.relu(lib.nn.functional.conv2d(x, weight, bias, padding=kernel // 2))

    inputs = normal(images, channels, size, size), normal(out, channels, kernel, kernel)
    name = f"conv {kernel}x{kernel}, ReLU, {images}x{channels}x{size}x{size} to {out}"
    work = 2.0 * images * size * size * channels * out * kernel**2
    return product(name, function, work, *inputs, normal(out))


def summed(rows: int, width: int) -> Case:
    def function(lib: Any, x: Any, y: Any, z: Any) -> Any:
        return (x @ y).sum(1, keepdim=True) * (x @ z)

    square = normal(width, width)
    return product(f"product, sum, product, {rows}x{width}", function, 4.0 * rows * width**2,
                   normal(rows, width), square, square)  # fmt: skip


# ---- calls, where the way into the program counts


def small_call(name: str, function: Function, *inputs: Input) -> Case:
    def make(lib: Any) -> Callable[..., Any]:
        return lambda *args: function(lib, *args)

    return case("compile calls", name, make, inputs, inputs[0].nbytes)


# ---- loops


def recurrent(batch: int, width: int, hidden: int, steps: int = 256) -> Case:
    """Long short-term memory by hand, forward and backward: a loop in PyTorch, a scan in tinyt."""

    def make(lib: Any) -> Callable[..., Any]:
        def call(xs: Any, inward: Any, across: Any, bias: Any) -> Any:
            weights = inward * width**-0.5, across * hidden**-0.5

            def cell(state: Any, x: Any) -> Any:
                h, c = state
                i, f, g, o = (x @ weights[0] + h @ weights[1] + bias).chunk(4, -1)
                c = lib.sigmoid(f) * c + lib.sigmoid(i) * lib.tanh(g)
                h = lib.sigmoid(o) * lib.tanh(c)
                return (h, c), h

            state = lib.zeros(batch, hidden), lib.zeros(batch, hidden)
            if lib.__name__ == "tinyt":
                _, ys = lib.scan(cell, state, xs)
            else:
                rows = []
                for x in xs:
                    state, y = cell(state, x)
                    rows.append(y)
                ys = lib.stack(rows)
            loss = (ys * ys).mean()
            return ys.detach(), *lib.autograd.grad(loss, [xs, inward, across, bias])

        return call

    shapes = (steps, batch, width), (width, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,)
    inputs = tuple(normal(*shape, grad=True) for shape in shapes)
    name = f"LSTM, {steps} steps of {batch}x{width} to {hidden}"
    work = Work(flops=6.0 * steps * batch * (width + hidden) * 4 * hidden)
    return Case(
        name, inputs, compiling(make), work, eager=calling(make),
        jax=jax("recurrent", hidden), part="compile loops",
    )  # fmt: skip


# Three products a weight and sample: 6 FLOPs each.
GPT = 6 * 8 * 256 * (6 * 12 * 384**2 + 384 * 256) + 6 * 8 * 6 * 2 * 256**2 * 384
TRANSFORMER = ("transformer, 6 layers of 384, 8x256", networks.gpt(256, 384, 6, 6, 256),
               integers(256, 8, 256), 256, 8, 256)  # fmt: skip
FIXED = (
    step("compile MLP", "MLP 64-128-128-10, batch 64", networks.mlp(64, 128, 128, 10),
         normal(64, 64), 10, 64, flops=6 * 64 * (64 * 128 + 128 * 128 + 128 * 10)),
    step("compile CNN", "CNN for MNIST, batch 64", networks.mnist_cnn, normal(64, 1, 28, 28), 10,
         64, flops=6 * 64 * (784 * 9 * 32 + 784 * 9 * 32 * 64 + 12544 * 128 + 1280)),
    step("compile transformer", *TRANSFORMER, flops=GPT),
    step("compile bfloat16", *TRANSFORMER, flops=GPT, bf16=True),
    step("", "CNN of digits, batch 64", networks.digits, normal(64, 1, 8, 8), 10, 64,
         flops=6 * 64 * (64 * 9 * 32 + 64 * 9 * 32 * 64 + 10240)),
    step("", "transformer, 2 layers of 64, 16x32", networks.gpt(64, 64, 2, 2, 32),
         integers(64, 16, 32), 64, 16, 32, bf16=True,
         flops=6 * 16 * 32 * (2 * 12 * 64**2 + 64 * 64) + 6 * 16 * 2 * 2 * 32**2 * 64),
    chain_of(5, K),
    chain_of(30, K),
    chain_of(10, 64 * K),
    chain_of(20, M),
    chain_of(10, M, dtype="bfloat16"),
    chain_of(5, 16 * M),
    chain_of(30, 16 * M),
    lazily(10, K, beside_eager=False),
    lazily(10, M, beside_eager=True),
    chain(first(15), normal(512, 2048), normal(2048), "a row with each"),
    norm("softmax", softmax, 0, 64, 10),
    norm("softmax", softmax, 0, 12, 512, 512),
    norm("layer norm", layer_norm, 2, 64, 128),
    norm("layer norm", layer_norm, 2, 8, 512, 768),
    norm("RMS norm, SiLU", rms_norm_silu, 1, 64, 128),
    norm("RMS norm, SiLU", rms_norm_silu, 1, 512, 4096),
    norm("GELU", gelu, 0, 64, 128),
    norm("GELU", gelu, 0, 8, 512, 3072),
    turned(2, 4, 32, 32),
    turned(1, 32, 512, 128),
    classes(64, 10),
    classes(2048, 1000),
    loss("smooth L1", smooth_l1, 256, 4),
    loss("smooth L1", smooth_l1, 64, 3, 64, 64),
    loss("binary cross-entropy", binary_cross_entropy, 64, 1),
    loss("binary cross-entropy", binary_cross_entropy, 16, 256, 256),
    loss("KL divergence", kl_divergence, 64, 10),
    loss("KL divergence", kl_divergence, 2048, 1000),
    layer(64, 64, 128),
    layer(4096, 256, 1024),
    masked(2048, 384, 1536),
    filtered(8, 64, 64, 32, 1),
    filtered(8, 32, 64, 32, 3),
    summed(512, 512),
    small_call("x * y of 64", lambda lib, x, y: x * y, normal(64), normal(64)),
    small_call("relu(x * 2) of 64", lambda lib, x: lib.relu(x * 2.0), normal(64)),
    small_call("relu(x @ y) of 1x64", lambda lib, x, y: lib.relu(x @ y),
               normal(1, 64), normal(64, 64)),
    recurrent(16, 64, 128),
    *(dots(16, 128, 256, movements) for movements in range(3)),
    turning("transposed", (1, 0), 700, 600),
    turning("transposed", (1, 0), 2048, 2048),
    turning("heads and positions", (0, 2, 1, 3), 8, 256, 6, 64),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """Any chain, any shapes by hand, a multi-layer perceptron of any sizes."""
    batch, sizes = draw.randint(8, 200), [draw.randint(16, 700) for _ in range(4)]
    work = 6.0 * batch * sum(a * b for a, b in itertools.pairwise(sizes))
    yield step("", f"MLP {sizes}, batch {batch} (drawn)", networks.mlp(*sizes),
               normal(batch, sizes[0]), sizes[-1], batch, flops=work)  # fmt: skip
    for _ in range(3):
        x = normal(int(2 ** draw.uniform(10, 24)))
        yield chain(draw.choices(OPERATIONS, k=draw.randint(5, 30)), x, x, "drawn")
    shape = draw.randint(2, 3000), draw.randint(2, 3000)
    for found in (norm("layer norm", layer_norm, 2, *shape), classes(*shape)):
        yield replace(found, name=f"{found.name} (drawn)")
