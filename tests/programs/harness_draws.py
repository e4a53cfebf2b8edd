"""Random draws of both libraries from one NumPy stream, so that a program's losses can be compared.

The functions and methods by which programs draw, and by which layers, distributions and loaders do
inside of either library, are replaced: the same call then gives the same numbers, whatever the
library. A draw that is not replaced moves the library's own generator: `Stream.check` finds that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

SEED_BITS = 62  # a whole number of so many bits is a seed that a loader draws, not data


def sizes_of(size: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """The sizes in `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))`."""
    if named is not None:
        size = (named,)
    if len(size) == 1 and not isinstance(size[0], int):
        size = tuple(size[0])
    return tuple(int(n) for n in size)


class Stream:
    """The stream, and the replacements that draw from it.

    Args:
        lib: the library's module, `torch` or `tinyt`.
        name: the package whose modules hold the functions that are replaced.
    """

    def __init__(self, lib: Any, name: str) -> None:
        self.lib, self.name = lib, name
        self.manual_seed(0)
        self.seeds = np.random.default_rng(1)
        self.before = lib.get_rng_state().tolist()

    def check(self) -> None:
        """Raises where the library has drawn from a generator of its own."""
        if self.lib.get_rng_state().tolist() != self.before:
            raise RuntimeError(f"{self.name} drew numbers that do not come from the stream")

    def install(self) -> None:
        """Replaces the draws, wherever a module of the library holds one by name."""
        functions = {
            name: plain(getattr(self, name))
            for name in (
                "rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm",
                "normal", "bernoulli", "multinomial", "manual_seed",
            )
        }  # fmt: skip
        for name, function in functions.items():
            self.replace(self.lib, name, function)
        for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
            self.replace(self.lib.nn.functional, name, self.dropping(channels=name[-1] == "d"))
        for name in ("trunc_normal_", "orthogonal_"):
            self.replace(self.lib.nn.init, name, plain(getattr(self, name)))
        for name, fill in {
            "uniform_": self.uniform_,
            "normal_": self.normal_,
            "exponential_": self.exponential_,
            "bernoulli_": self.bernoulli_,
            "random_": self.random_,
            "geometric_": self.geometric_,
        }.items():
            setattr(self.lib.Tensor, name, self.filling(fill))
        for name in ("bernoulli", "multinomial"):
            setattr(self.lib.Tensor, name, functions[name])
        self.lib.utils.data.RandomSampler.__iter__ = plain(self.order)

    def replace(self, owner: Any, name: str, new: Callable[..., Any]) -> None:
        """`owner.name` becomes `new`, and so does every global of the library that is the same."""
        old = getattr(owner, name)
        for key, module in list(sys.modules.items()):
            if module is not None and key.split(".")[0] == self.name:
                for at in [n for n, value in vars(module).items() if value is old]:
                    setattr(module, at, new)
        setattr(owner, name, new)

    # ---- from arrays to tensors

    def made(
        self, values: Any, dtype: Any = None, requires_grad: bool = False, out: Any = None, **_: Any
    ) -> Any:
        """A tensor of an array's values; further arguments (device, layout, ...) change nothing."""
        found = self.lib.tensor(np.asarray(values)).to(dtype or self.lib.get_default_dtype())
        if out is not None:
            return out.copy_(found)
        return found.requires_grad_() if requires_grad else found

    def filling(self, fill: Callable[..., Any]) -> Callable[..., Any]:
        """A method that fills a tensor in place with `fill(its shape, ...)`."""

        def method(tensor: Any, *args: Any, generator: Any = None, **named: Any) -> Any:
            values = np.asarray(fill(tuple(tensor.shape), *args, **named))
            with self.lib.no_grad():
                return tensor.copy_(self.lib.tensor(values).to(tensor.dtype))

        return method

    # ---- functions

    def manual_seed(self, seed: int) -> None:
        self.draws = np.random.default_rng(seed)

    def rand(self, *size: Any, generator: Any = None, **place: Any) -> Any:
        shape = sizes_of(size, place.pop("size", None))
        return self.made(self.draws.random(shape), **place)

    def randn(self, *size: Any, generator: Any = None, **place: Any) -> Any:
        shape = sizes_of(size, place.pop("size", None))
        return self.made(self.draws.standard_normal(shape), **place)

    def rand_like(self, input: Any, **place: Any) -> Any:
        return self.rand(size=tuple(input.shape), **{"dtype": input.dtype, **place})

    def randn_like(self, input: Any, **place: Any) -> Any:
        return self.randn(size=tuple(input.shape), **{"dtype": input.dtype, **place})

    def randint(self, *args: Any, generator: Any = None, **named: Any) -> Any:
        given = list(args)
        size = named.pop("size", None)
        size = given.pop() if size is None else size
        high = named.pop("high", None)
        high = given.pop() if high is None else high
        low = given.pop() if given else named.pop("low", 0)
        values = self.whole(sizes_of((size,)), int(low), int(high))
        return self.made(values, **{"dtype": self.lib.int64, **named})

    def randint_like(self, input: Any, low: int, high: int | None = None, **place: Any) -> Any:
        first, last = (0, low) if high is None else (low, high)
        size = tuple(input.shape)
        return self.randint(first, last, size, **{"dtype": input.dtype, **place})

    def randperm(self, n: int, generator: Any = None, **place: Any) -> Any:
        return self.made(self.draws.permutation(n), **{"dtype": self.lib.int64, **place})

    def normal(
        self, mean: Any = 0.0, std: Any = 1.0, size: Any = None, generator: Any = None, **place: Any
    ) -> Any:
        """A mean and a deviation, numbers or tensors, plus times normal values."""
        given = [x.detach() for x in (mean, std) if isinstance(x, self.lib.Tensor)]
        shape = tuple((given[0] + given[-1]).shape) if given else sizes_of((size,))
        place = {"dtype": given[0].dtype, **place} if given else place
        mean, std = (x.detach() if isinstance(x, self.lib.Tensor) else x for x in (mean, std))
        return self.made(self.draws.standard_normal(shape), **place) * std + mean

    def bernoulli(self, input: Any, p: float | None = None, generator: Any = None) -> Any:
        chance = input.detach().numpy() if p is None else p
        return self.made(self.draws.random(tuple(input.shape)) < chance, dtype=input.dtype)

    def multinomial(
        self, input: Any, num_samples: int, replacement: bool = False, generator: Any = None
    ) -> Any:
        """Indices by the rows' weights: by intervals, or by the first of exponential clocks."""
        weights = np.atleast_2d(input.detach().numpy().astype(np.float64))
        if replacement:
            edges = weights.cumsum(1)
            u = self.draws.random((len(weights), num_samples)) * edges[:, -1:]
            found = (u[:, :, None] >= edges[:, None, :]).sum(-1)
        else:
            with np.errstate(divide="ignore"):
                clocks = -np.log1p(-self.draws.random(weights.shape)) / weights
            found = clocks.argsort(1)[:, :num_samples]
        shape = (*input.shape[:-1], num_samples)
        return self.made(found.reshape(tuple(shape)), dtype=self.lib.int64)

    def dropping(self, channels: bool) -> Callable[..., Any]:
        """`dropout`, of elements or of whole channels."""

        def dropout(
            input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
        ) -> Any:
            if not training or p == 0:
                return input
            shape = tuple(input.shape)
            if channels:
                shape = shape[:2] + (1,) * (len(shape) - 2)
            noise = self.made((self.draws.random(shape) >= p) / (1 - p), dtype=input.dtype)
            return input.mul_(noise) if inplace else input * noise

        return dropout

    def order(self, sampler: Any) -> Iterator[int]:
        """The order of a shuffling loader (PyTorch's own draws a second one at the end)."""
        if sampler.replacement or sampler.num_samples != len(sampler.data_source):
            raise NotImplementedError("the stream serves samplers of all elements, once")
        yield from self.draws.permutation(sampler.num_samples).tolist()

    # ---- initial weights

    def trunc_normal_(
        self, tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
        generator: Any = None,
    ) -> Any:  # fmt: skip
        bell = NormalDist(mean, std)
        u = self.draws.uniform(bell.cdf(a), bell.cdf(b), tuple(tensor.shape))
        return self.filling(lambda shape: np.vectorize(bell.inv_cdf)(u))(tensor)

    def orthogonal_(self, tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
        rows, columns = len(tensor), tensor.numel() // len(tensor)
        drawn = self.draws.standard_normal((max(rows, columns), min(rows, columns)))
        q = np.linalg.qr(drawn)[0]
        q = (q if rows >= columns else q.T) * gain
        return self.filling(lambda shape: q.reshape(shape))(tensor)

    # ---- in place: values by shape

    def whole(self, shape: tuple[int, ...], low: int, high: int) -> Any:
        source = self.seeds if high - low >= 2**SEED_BITS else self.draws
        return source.integers(low, high, shape)

    def uniform_(self, shape: tuple[int, ...], a: float = 0.0, b: float = 1.0) -> Any:
        return self.draws.random(shape) * (b - a) + a

    def normal_(self, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0) -> Any:
        return self.draws.standard_normal(shape) * std + mean

    def exponential_(self, shape: tuple[int, ...], lambd: float = 1.0) -> Any:
        return -np.log1p(-self.draws.random(shape)) / lambd

    def bernoulli_(self, shape: tuple[int, ...], p: Any = 0.5) -> Any:
        return self.draws.random(shape) < (p.numpy() if isinstance(p, self.lib.Tensor) else p)

    def geometric_(self, shape: tuple[int, ...], p: float) -> Any:
        return self.draws.geometric(p, shape)

    def random_(self, shape: tuple[int, ...], low: int = 0, high: int | None = None) -> Any:
        if high is None:
            low, high = 0, low or 2**63 - 1
        return self.whole(shape, low, high)


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A bound method as a function, which libraries set attributes of and classes bind."""
    return lambda *args, **named: function(*args, **named)
