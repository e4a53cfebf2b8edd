"""What a case is: inputs, the call written once for both libraries, and the least work it takes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Call = Callable[[], Any]
Setup = Callable[..., Call]
"""(lib, *tensors) -> the call to time. ``lib`` is tinyt or torch; what it builds is not timed."""
Make = Callable[[Any], Callable[..., Any]]
"""lib -> a function of the inputs."""

SIZES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "bool": 1,
}

SMALL = 1e8
"""Floating-point operations plus bytes of a small case."""


@dataclass(frozen=True)
class Input:
    """A tensor to be: equal values in both libraries, in memory of each one's own."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    grad: bool = False
    high: int = 2
    """Integers are drawn below it."""
    view: Callable[[Any], Any] | None = None
    """Applied to the tensor, for strides: ``lambda x: x.t()``."""

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * SIZES[self.dtype]

    def array(self, rng: np.random.Generator) -> np.ndarray:
        """Standard normal, or integers in [0, high)."""
        if self.dtype in ("int64", "int32", "int8", "bool"):
            return rng.integers(0, self.high, self.shape).astype(self.dtype)
        if self.dtype == "float64":
            return rng.standard_normal(self.shape)
        return rng.standard_normal(self.shape, np.float32)

    def tensor(self, lib: Any, array: np.ndarray) -> Any:
        # A library's own memory has the alignment and the pages its kernels are made for.
        tensor = lib.from_numpy(array).to(getattr(lib, self.dtype)).clone()
        if self.grad:
            tensor.requires_grad_()
        return tensor if self.view is None else self.view(tensor)


def normal(*shape: int, dtype: str = "float32", **options: Any) -> Input:
    """A tensor of normally distributed values; options as in `Input`."""
    return Input(shape, dtype, **options)


def integers(high: int, *shape: int, dtype: str = "int64") -> Input:
    """A tensor of integers in [0, high)."""
    return Input(shape, dtype, high=high)


@dataclass(frozen=True)
class Work:
    """What no implementation can avoid: arithmetic, and each input and output moved once."""

    flops: float = 0.0
    reads: int = 0
    writes: int = 0
    peak: str = "float32"
    """The unit that does the arithmetic: a key of `limits.KINDS`."""


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    inputs: tuple[Input, ...]
    setup: Setup
    work: Work = Work()
    demand: str = ""
    """The share of the limit it must reach: a key of `floors.SHARES`."""
    memory: bool = False
    """Peak memory is compared too."""
    eager: Setup | None = None
    """For a compiled one, the same without the compiler: tinyt is compared with itself too."""
    jax: Callable[[list[np.ndarray]], Call] | None = None
    """The same in JAX, compiled, from the values of the inputs."""
    part: str = ""
    """A part of the group with a floor of its own: a key of `floors.FLOORS`."""
    group: str = ""

    @property
    def id(self) -> str:
        return f"{self.group}/{self.name}"

    @property
    def is_small(self) -> bool:
        """Whether quick runs and the tests include it."""
        return self.work.flops + self.work.reads + self.work.writes <= SMALL

    def arrays(self, seed: int) -> list[np.ndarray]:
        """The values of the inputs: from the seed and the name alone."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        return [i.array(rng) for i in self.inputs]

    def call(self, lib: Any, arrays: list[np.ndarray]) -> Call:
        """Sets the case up in one library."""
        tensors = [i.tensor(lib, a) for i, a in zip(self.inputs, arrays, strict=True)]
        return self.setup(lib, *tensors)

    def uncompiled(self) -> Case:
        """The same case without the compiler."""
        return self if self.eager is None else replace(self, setup=self.eager, eager=None)

    def within(self, group: str) -> Case:
        return replace(self, group=group)


def moving(inputs: tuple[Input, ...], writes: int) -> Work:
    """Every input is read once, ``writes`` bytes are written."""
    return Work(reads=sum(i.nbytes for i in inputs), writes=writes)


def calling(make: Make) -> Setup:
    """Times the function that ``make`` gives, called with the inputs."""

    def setup(lib: Any, *tensors: Any) -> Call:
        function = make(lib)
        return lambda: function(*tensors)

    return setup


def with_backward(function: Callable[..., Any]) -> Setup:
    """Times ``function(lib, *tensors)`` and the gradients of all inputs that require them.

    The output's gradient is random: a constant one makes some gradients zero.
    """

    def setup(lib: Any, *tensors: Any) -> Call:
        leaves = [t for t in tensors if t.requires_grad]
        like = function(lib, *tensors)
        values = np.random.default_rng(0).standard_normal(tuple(like.shape), np.float32)
        output = lib.from_numpy(np.asarray(values)).to(like.dtype)

        def call() -> Any:
            return lib.autograd.grad(function(lib, *tensors), leaves, output)

        return call

    return setup
