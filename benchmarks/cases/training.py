"""One eager training step: forward, loss, backward, optimiser; float32 and bfloat16 autocast."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from random import Random
from typing import Any

from benchmarks import networks
from benchmarks.case import Case, Input, Make, Setup, Work, calling, integers, normal
from benchmarks.networks import Model, fill


def training(
    model: Model, classes: int, optimizer: str = "AdamW", bf16: bool = False, **options: Any
) -> Make:
    """The step as a function of a batch and its labels; cross-entropy over ``classes``."""

    def make(lib: Any) -> Callable[..., Any]:
        net = fill(lib, model(lib))
        update = getattr(lib.optim, optimizer)(net.parameters(), lr=1e-3, **options)
        autocast = lib.autocast("cpu", dtype=lib.bfloat16) if bf16 else nullcontext()

        def step(x: Any, y: Any) -> Any:
            update.zero_grad()
            with autocast:
                logits = net(x)
                loss = lib.nn.functional.cross_entropy(logits.view(-1, classes), y.view(-1))
            loss.backward()
            update.step()
            return loss.detach()

        return step

    return make


def step(
    of: str, model: Model, x: Input, classes: int, *targets: int, optimizer: str = "AdamW",
    bf16: bool = False, flops: float = 0.0, by: Callable[[Make], Setup] = calling, **options: Any,
) -> Case:  # fmt: skip
    """``targets`` is the shape of the labels."""
    setup = by(training(model, classes, optimizer, bf16, **options))
    name = f"{of}, {'bfloat16 autocast' if bf16 else 'float32'}, {optimizer}"
    peak = "bfloat16" if bf16 else "float32"
    return Case(name, (x, integers(classes, *targets)), setup, Work(flops, peak=peak), memory=True)


def both(*args: Any, **options: Any) -> tuple[Case, Case]:
    """In float32 and with bfloat16 autocast."""
    return step(*args, **options), step(*args, **options, bf16=True)


# Three products a weight and sample: 6 FLOPs each.
SMALL_GPT = 6 * 8 * 256 * (6 * 12 * 384**2 + 384 * 96) + 6 * 8 * 6 * 2 * 256**2 * 384
FIXED = (
    *both("MLP for MNIST, batch 64", networks.mlp(784, 256, 10), normal(64, 784), 10, 64,
          flops=6 * 64 * (784 * 256 + 256 * 10)),
    step("MLP of digits, batch 64", networks.mlp(64, 128, 10), normal(64, 64), 10, 64,
         flops=6 * 64 * (64 * 128 + 128 * 10)),
    step("deep MLP, batch 256", networks.mlp(512, 1024, 1024, 1024, 10), normal(256, 512), 10, 256,
         optimizer="SGD", momentum=0.9, flops=6 * 256 * (512 * 1024 + 2 * 1024**2 + 10240)),
    *both("CNN of digits, batch 64", networks.digits, normal(64, 1, 8, 8), 10, 64,
          flops=6 * 64 * (64 * 9 * 32 + 64 * 9 * 32 * 64 + 10240)),
    step("LeNet-5, batch 64", networks.lenet, normal(64, 1, 28, 28), 10, 64, optimizer="SGD",
         momentum=0.9, flops=6 * 64 * (784 * 150 + 100 * 2400 + 59_000)),
    *both("CNN for CIFAR, batch 64", networks.cifar, normal(64, 3, 32, 32), 10, 64,
          flops=6 * 64 * (1024 * 27 * 64 + 256 * 576 * 128 + 64 * 1152 * 256)),
    *both("ResNet-20 for CIFAR, batch 32", networks.resnet20, normal(32, 3, 32, 32), 10, 32,
          optimizer="SGD", momentum=0.9, weight_decay=1e-4, flops=6 * 32 * 40.8e6),
    *both("transformer, 6 layers of 384, 8x256", networks.gpt(96, 384, 6, 6, 256),
          integers(96, 8, 256), 96, 8, 256, flops=SMALL_GPT),
    step("transformer, 2 layers of 64, 16x32", networks.gpt(64, 64, 2, 2, 32),
         integers(64, 16, 32), 64, 16, 32,
         flops=6 * 16 * 32 * (2 * 12 * 64**2 + 64 * 64) + 6 * 16 * 2 * 2 * 32**2 * 64),
    step("LSTM, 128 wide, 16x32", networks.lstm(64, 128), integers(64, 16, 32), 64, 16, 32,
         flops=6 * 16 * 32 * (8 * 128**2 + 128 * 64)),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """A multi-layer perceptron of any sizes."""
    batch, sizes = draw.randint(8, 200), [draw.randint(16, 700) for _ in range(4)]
    work = 6.0 * batch * sum(a * b for a, b in itertools.pairwise(sizes))
    yield step(f"MLP {sizes}, batch {batch} (drawn)", networks.mlp(*sizes),
               normal(batch, sizes[0]), sizes[-1], batch, flops=work)  # fmt: skip
