"""Random tensors and dropout, drawn from a :class:`tinyt.Generator`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinyt._tensor import dtype as DType
from tinyt.dtypes import ALL, get_default_dtype
from tinyt.ops.common import sizes_of, to_dtype
from tinyt.random import Generator, default_generator
from tinyt.tensor import Tensor, method, prim


def _draw(
    primitive: Callable[..., Tensor],
    size: tuple[int, ...],
    dtype: DType,
    generator: Generator | None,
    then: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Draws and finishes with ``then``; a failure anywhere leaves the stream where it was."""
    if any(n < 0 for n in size):
        raise RuntimeError(f"random: sizes must not be negative, got {size}")

    def make(seed: int, offset: int) -> Tensor:
        out = primitive(size, dtype, seed, offset)
        return out if then is None else then(out)

    return (generator or default_generator).draw(math.prod(size), make)


def _bits(size: tuple[int, ...], dtype: DType, seed: int, offset: int) -> Tensor:
    """64 random bits an element, as int64."""
    return prim.random_bits(size, seed, offset)


def draw_uniform(
    size: tuple[int, ...],
    dtype: DType,
    low: float,
    high: float,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform values in [low, high): what rounds up to ``high`` becomes ``low``."""

    def stretch(u: Tensor) -> Tensor:
        out = u * (high - low) + low
        return prim.where(prim.lt(out, high), out, low)

    return _draw(prim.uniform, size, dtype, generator, stretch)


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform values in [0, 1)."""
    out = _draw(prim.uniform, sizes_of(size), dtype or get_default_dtype(), generator)
    return out.requires_grad_(requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Values of the standard normal distribution."""
    out = _draw(prim.normal, sizes_of(size), dtype or get_default_dtype(), generator)
    return out.requires_grad_(requires_grad)


def rand_like(input: Tensor, *, dtype: DType | None = None, requires_grad: bool = False) -> Tensor:
    """Uniform values in the shape and dtype of ``input``."""
    return rand(tuple(input.shape), dtype=dtype or input.dtype, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: DType | None = None, requires_grad: bool = False) -> Tensor:
    """Normal values in the shape and dtype of ``input``."""
    return randn(tuple(input.shape), dtype=dtype or input.dtype, requires_grad=requires_grad)


def _integers(size: tuple[int, ...], low: int, high: int, generator: Generator | None) -> Tensor:
    if low >= high:
        raise RuntimeError(f"randint: expects low < high, got [{low}, {high})")
    if high - low >= 2**63:
        raise RuntimeError(f"randint: the range [{low}, {high}) is too wide")
    return _draw(
        _bits, size, ALL[5], generator, lambda b: prim.add(prim.remainder(b, high - low), low)
    )


def randint(
    *args: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``randint([low=0,] high, size)``: integers in [low, high), int64 by default."""
    if len(args) == 2:
        low, high, size = 0, *args
    elif len(args) == 3:
        low, high, size = args
    else:
        raise TypeError(f"randint: expected ([low,] high, size), got {len(args)} arguments")
    out = _integers(sizes_of((size,)), int(low), int(high), generator)
    return to_dtype(out, dtype).requires_grad_(requires_grad)


def randint_like(input: Tensor, low: int, high: int | None = None) -> Tensor:
    """Integers in the shape and dtype of ``input``; ``randint_like(x, high)`` starts at 0."""
    first, last = (0, low) if high is None else (low, high)
    return to_dtype(_integers(tuple(input.shape), first, last, None), input.dtype)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
) -> Tensor:
    """A random order of 0 .. n-1: the ranks of n random 64-bit keys."""
    if n < 0:
        raise RuntimeError(f"randperm: n must not be negative, got {n}")
    return _draw(
        _bits, (n,), ALL[5], generator, lambda k: to_dtype(prim.sort(k, 0)[1], dtype or ALL[5])
    )


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Normal values with a mean and standard deviation, tensors or numbers."""
    if size is None:
        like = prim.add(mean, std)
        size = tuple(like.shape)
    return prim.add(prim.mul(randn(size, generator=generator), std), mean)


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Ones with the probabilities in ``input``, else zeros."""
    return _draw(
        prim.uniform,
        tuple(input.shape),
        input.dtype,
        generator,
        lambda u: to_dtype(prim.lt(u, input.detach()), input.dtype),
    )


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Indices drawn by the weights of each row [..., n]; int64 [..., num_samples]."""
    if input.dim() not in (1, 2):
        raise RuntimeError(f"multinomial: weights must be 1-d or 2-d, got {tuple(input.shape)}")
    categories = input.shape[-1]
    if num_samples < 1 or (not replacement and num_samples > categories):
        raise RuntimeError(
            f"multinomial: cannot draw {num_samples} of {categories} categories "
            f"{'with' if replacement else 'without'} replacement"
        )
    weights = prim.cast(input.detach(), ALL[9])
    total = prim.sum(weights, (-1,), True)
    if not bool(prim.logical_and(prim.ge(weights, 0.0), prim.isfinite(weights)).all().item()) or (
        not bool(prim.gt(total, 0.0).all().item())
    ):
        raise RuntimeError("multinomial: weights must be finite, not negative and not all zero")
    if replacement:
        edges = prim.cumsum(weights, -1) / total
        shape = (*input.shape[:-1], num_samples)

        def find(u: Tensor) -> Tensor:
            below = prim.le(edges.unsqueeze(-2), u.unsqueeze(-1))
            return prim.minimum(prim.sum(below, (-1,), False), categories - 1)

        return _draw(prim.uniform, shape, ALL[9], generator, find)

    def first(u: Tensor) -> Tensor:
        # The smallest of exponential clocks with the weights as rates.
        order = prim.sort(-prim.log1p(-u) / weights, -1)[1]
        return prim.slice(order, -1, 0, num_samples)

    return _draw(prim.uniform, tuple(input.shape), ALL[9], generator, first)


@method
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fills with uniform values in [from, to)."""
    if from_ > to:
        raise RuntimeError(f"uniform_: expects from <= to, got {from_} > {to}")
    return _draw(
        prim.uniform,
        tuple(self.shape),
        self.dtype,
        generator,
        lambda u: self._assign(u * (to - from_) + from_),
    )


@method
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fills with normal values."""
    if std < 0:
        raise RuntimeError(f"normal_: std must not be negative, got {std}")
    return _draw(
        prim.normal,
        tuple(self.shape),
        self.dtype,
        generator,
        lambda z: self._assign(z * std + mean),
    )


@method
def random_(
    self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fills with integers in [from, to); without ``to``: below ``from``, or 2**24."""
    if to is None:
        from_, to = 0, from_ or 2**24
    return self._assign(_integers(tuple(self.shape), from_, to, generator))


@method
def bernoulli_(
    self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None
) -> Tensor:
    """Fills with ones of probability ``p``, else zeros."""
    return _draw(
        prim.uniform,
        tuple(self.shape),
        ALL[8],
        generator,
        lambda u: self._assign(prim.lt(u, p)),
    )


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros elements with probability ``p`` and scales the rest by 1 / (1 - p), when training."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: probability must be between 0 and 1, got {p}")
    if not training or p == 0.0:
        return input
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0

    def drop(u: Tensor) -> Tensor:
        out = prim.where(prim.ge(u, p), prim.mul(input, scale), 0.0)
        return input._assign(out) if inplace else out

    return _draw(prim.uniform, tuple(input.shape), get_default_dtype(), None, drop)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        rand, randn, rand_like, randn_like, randint, randint_like, randperm, normal, bernoulli,
        multinomial, dropout,
    )
}  # fmt: skip
