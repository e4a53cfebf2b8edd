"""The networks of the training steps, written once for both libraries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Model = Callable[[Any], Any]
"""The library -> a module."""


def fill(lib: Any, module: Any) -> Any:
    """The module, with parameters that are equal in both libraries: their own draws differ."""
    rng = np.random.default_rng(0)
    with lib.no_grad():
        for name, parameter in module.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                scale = 1 / math.sqrt(math.prod(shape[1:]))
                values = rng.standard_normal(shape, np.float32) * np.float32(scale)
                parameter.copy_(lib.from_numpy(values))
            else:  # scales of norms start at one, biases at zero
                parameter.fill_(0.0 if "bias" in name else 1.0)
    return module


def mlp(*sizes: int) -> Model:
    def make(lib: Any) -> Any:
        layers: list[Any] = []
        for inputs, outputs in itertools.pairwise(sizes):
            layers += [lib.nn.Linear(inputs, outputs), lib.nn.ReLU()]
        return lib.nn.Sequential(*layers[:-1])

    return make


def digits(lib: Any) -> Any:
    """The CNN of ``tinyt train digits``, for 8x8 images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip


def lenet(lib: Any) -> Any:
    """LeNet-5 with ReLU and max-pooling, for 28x28 images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def cifar(lib: Any) -> Any:
    """Three convolutions with pooling, for 32x32 images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def mnist_cnn(lib: Any) -> Any:
    """Two convolutions and two linear layers, for 28x28 images."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(12544, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def resnet20(lib: Any) -> Any:
    """He et al. 2016, section 4.2: three stages of three blocks."""
    nn = lib.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.skip = nn.Identity()
            if stride != 1:
                self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            y = lib.relu(self.bn1(self.conv1(x)))
            return lib.relu(self.bn2(self.conv2(y)) + self.skip(x))

    sizes = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
    blocks = [Block(a, b, b // a) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def gpt(vocabulary: int, width: int, heads: int, depth: int, length: int) -> Model:
    """A decoder of pre-norm blocks with learned positions, as GPT-2."""

    def make(lib: Any) -> Any:
        nn = lib.nn

        class Block(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.heads = heads
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv = nn.Linear(width, 3 * width)
                self.out = nn.Linear(width, width)
                self.mlp = nn.Sequential(
                    nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
                )

            def forward(self, x: Any) -> Any:
                batch, tokens, _ = x.shape
                qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, heads, width // heads)
                q, k, v = qkv.permute(2, 0, 3, 1, 4)
                y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
                return x + self.mlp(self.norm2(x))

        class Decoder(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.tokens = nn.Embedding(vocabulary, width)
                self.positions = nn.Embedding(length, width)
                self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
                self.norm = nn.LayerNorm(width)
                self.head = nn.Linear(width, vocabulary, bias=False)

            def forward(self, x: Any) -> Any:
                h = self.tokens(x) + self.positions(lib.arange(x.shape[1]))
                return self.head(self.norm(self.blocks(h)))

        return Decoder()

    return make


def lstm(vocabulary: int, width: int) -> Model:
    """A character model of one layer."""

    def make(lib: Any) -> Any:
        nn = lib.nn

        class Recurrent(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.tokens = nn.Embedding(vocabulary, width)
                self.cell = nn.LSTM(width, width, batch_first=True)
                self.head = nn.Linear(width, vocabulary)

            def forward(self, x: Any) -> Any:
                return self.head(self.cell(self.tokens(x))[0])

        return Recurrent()

    return make
