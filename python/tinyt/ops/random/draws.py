"""Random tensors, drawn from a :class:`tinyt.Generator`.

Every draw of n elements consumes ceil(n / 4) counters of the stream, whatever the distribution;
a call that fails consumes none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinyt import _tensor
from tinyt._autograd import zero_gradient
from tinyt._core import DTypeError, is_recording
from tinyt._tensor import device as Device
from tinyt._tensor import dtype as DType
from tinyt.dtypes import finfo, float32, float64, get_default_dtype, iinfo, int64
from tinyt.ops.common import Placement, Sizes, placed, sizes_of, to_dtype, write_out
from tinyt.random import Generator, default_generator
from tinyt.tensor import Tensor, method, prim

if TYPE_CHECKING:
    from typing_extensions import Unpack

Draw = Callable[..., Tensor]


def draw(
    primitive: Draw,
    size: tuple[int, ...],
    dtype: DType,
    generator: Generator | None,
    then: Callable[[Tensor], Tensor] | None = None,
    device: Device | None = None,
) -> Tensor:
    """Draws and finishes with ``then``; a failure anywhere leaves the stream where it was.
    ``device``: by default where this thread makes tensors."""
    if any(n < 0 for n in size):
        raise RuntimeError(f"random: sizes must not be negative, got {size}")

    if dtype.is_complex:
        # Independent parts; a normal number of variance 1 has half of it in each.
        part = float32 if dtype.name == "complex64" else float64
        pairs = draw(primitive, (*size, 2), part, generator, device=device)
        pairs = pairs * math.sqrt(0.5) if primitive is prim.normal else pairs
        return prim.view_as_complex(pairs) if then is None else then(prim.view_as_complex(pairs))

    def make(seed: int, offset: int) -> Tensor:
        out = primitive(size, dtype, device, seed, offset)
        return out if then is None else then(out)

    # A draw that has no elements takes none of the stream, as in PyTorch.
    count = 0 if _tensor.is_meta(device) else math.prod(size)
    return (generator or default_generator).draw(count, make)


def _bits(
    size: tuple[int, ...], dtype: DType, device: Device | None, seed: int, offset: int
) -> Tensor:
    """64 random bits an element, as int64."""
    return prim.random_bits(size, device, seed, offset)


def need_floats(op: str, x: Tensor) -> None:
    """DTypeError for a dtype other than floats."""
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: not defined for dtype {x.dtype.name}")


def working_dtype(dtype: DType) -> DType:
    """The float dtype in which values of a dtype are drawn."""
    return float32 if dtype.is_floating_point and dtype is not float64 else float64


def draw_into(
    x: Tensor,
    primitive: Draw,
    generator: Generator | None,
    then: Callable[[Tensor], Tensor],
    dtype: DType | None = None,
) -> Tensor:
    """Draws in the shape of ``x`` and writes ``then`` of it there."""
    return draw(
        primitive,
        tuple(x.shape),
        dtype or working_dtype(x.dtype),
        generator,
        lambda u: x._assign(then(u)),
        x.device,
    )


# ---- uniform and normal


def _fresh(
    op: str,
    primitive: Draw,
    size: tuple[int, ...],
    generator: Generator | None,
    out: Tensor | None,
    dtype: DType | None,
    place: Placement,
) -> Tensor:
    """A new tensor of a float dtype, or ``out``, filled by a primitive."""
    target = dtype or (get_default_dtype() if out is None else out.dtype)
    return placed(op, write_out(out, draw(primitive, size, target, generator)), place)


def rand(
    size: Sizes,
    *more: int,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Uniform values in [0, 1)."""
    return _fresh("rand", prim.uniform, sizes_of(size, more), generator, out, dtype, place)


def randn(
    size: Sizes,
    *more: int,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Values of the standard normal distribution."""
    return _fresh("randn", prim.normal, sizes_of(size, more), generator, out, dtype, place)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    memory_format: Any = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Uniform values in the shape and dtype of ``input``."""
    return rand(tuple(input.shape), generator=generator, dtype=dtype or input.dtype, **place)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    memory_format: Any = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Normal values in the shape and dtype of ``input``."""
    return randn(tuple(input.shape), generator=generator, dtype=dtype or input.dtype, **place)


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

    return draw(prim.uniform, size, dtype, generator, stretch)


@method
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fills with uniform values in [from, to)."""
    need_floats("uniform_", self)
    if not 0 <= to - from_ <= finfo(self.dtype).max:
        raise RuntimeError(
            f"uniform_: expects from <= to, at most the largest {self.dtype.name} apart, got "
            f"{from_} and {to}"
        )
    return self._assign(
        draw_uniform(tuple(self.shape), self.dtype, float(from_), float(to), generator)
    )


@method
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fills with normal values."""
    need_floats("normal_", self)
    if not std >= 0:
        raise RuntimeError(f"normal_: std must not be negative, got {std}")
    return draw_into(self, prim.normal, generator, lambda z: z * std + mean)


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Sequence[int] | int | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Normal values with a mean and standard deviation: tensors that broadcast, or numbers.

    With numbers alone ``size`` is needed.
    """
    given = [x.detach() for x in (mean, std) if isinstance(x, Tensor)]
    device = None
    if given:
        both = prim.add(given[0], given[-1])
        shape, device = tuple(both.shape), both.device
        target = given[0].dtype
        need_floats("normal", given[0])
    elif size is None:
        raise TypeError("normal: size is needed where mean and std are numbers")
    else:
        shape = (size,) if isinstance(size, int) else tuple(size)
        target = dtype or (get_default_dtype() if out is None else out.dtype)
    if isinstance(std, Tensor):
        lowest = 0.0 if is_recording() or not std.numel() else std.detach().amin().item()
    else:
        lowest = std
    if lowest < 0:
        raise RuntimeError(f"normal: std must not be negative, got {lowest}")
    centre, width = (x.detach() if isinstance(x, Tensor) else x for x in (mean, std))
    values = draw(
        prim.normal,
        shape,
        target,
        generator,
        lambda z: prim.add(prim.mul(z, width), centre),
        device,
    )
    for x in (mean, std):
        if isinstance(x, Tensor):
            values = zero_gradient(values, x)
    return placed("normal", write_out(out, values), place)


# ---- integers


def _integers(size: tuple[int, ...], low: int, high: int, generator: Generator | None) -> Tensor:
    if low >= high:
        raise RuntimeError(f"randint: expects low < high, got [{low}, {high})")
    if low < -(2**63) or high > 2**63:
        raise RuntimeError(f"randint: [{low}, {high}) is out of bounds for int64")
    return draw(_bits, size, int64, generator, lambda b: _within(b, low, high))


def _within(bits: Tensor, low: int, high: int) -> Tensor:
    """``low`` plus what 64 bits without a sign leave when divided by the range's width."""
    half, width = 2**63, high - low
    if width < half:
        return prim.add(prim.remainder(bits, width), low)
    if width == half:
        return prim.add(prim.bitwise_and(bits, half - 1), low)
    if width == 2 * half:
        return bits
    # Less 2**63, bits are signed numbers in their order; the width is taken off once at most.
    signed = prim.bitwise_xor(bits, -half)
    fits = prim.lt(signed, width - half)
    inside = prim.sub(signed, prim.where(fits, 0, width - half))
    return prim.add(inside, prim.where(fits, low + half, low))


def _fits(op: str, dtype: DType, low: int, high: int) -> None:
    """RuntimeError where a dtype cannot hold all of [low, high)."""
    if dtype.is_floating_point or dtype.is_complex:
        return
    first, last = _range_of(dtype)
    if low < first or high - 1 > last:
        raise RuntimeError(f"{op}: [{low}, {high}) is out of bounds for {dtype.name}")


def _range_of(dtype: DType) -> tuple[int, int]:
    """The least and the largest integer of a dtype."""
    if dtype.name == "bool":
        return 0, 1
    info = iinfo(dtype)
    return info.min, info.max


def randint(
    *args: Any,
    low: int = 0,
    high: int | None = None,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``randint([low=0,] high, size)``: integers in [low, high), int64 by default."""
    given = list(args)
    if given and size is None and not isinstance(given[-1], int):
        size = given.pop()
    if given and high is None:
        high = given.pop()
    if given:
        low = given.pop()
    if given or high is None or size is None:
        raise TypeError(f"randint: expected ([low,] high, size), got {len(args)} arguments")
    first, last, target = int(low), int(high), dtype or (int64 if out is None else out.dtype)
    _fits("randint", target, first, last)
    values = to_dtype(_integers(sizes_of(size), first, last, generator), target)
    return placed("randint", write_out(out, values), place)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    memory_format: Any = None,
    **place: Unpack[Placement],
) -> Tensor:
    """Integers in the shape and dtype of ``input``; ``randint_like(x, high)`` starts at 0."""
    first, last = (0, low) if high is None else (low, high)
    target = dtype or input.dtype
    return randint(first, last, tuple(input.shape), generator=generator, dtype=target, **place)


@method
def random_(
    self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Fills with integers in [from, to); ``random_(to)`` starts at 0.

    Without limits: all non-negative integers of the dtype, or all that a float dtype holds
    exactly, 2 to the number of its fraction bits included.
    """
    if to is not None or from_:
        low, high = (0, from_) if to is None else (from_, to)
        _fits("random_", self.dtype, low, high)
        return self._assign(_integers(tuple(self.shape), low, high, generator))
    is_float = self.dtype.is_floating_point
    high = (int(2 / finfo(self.dtype).eps) if is_float else _range_of(self.dtype)[1]) + 1
    if high == 2**63:
        return draw_into(self, _bits, generator, lambda b: prim.bitwise_and(b, high - 1), int64)
    return self._assign(_integers(tuple(self.shape), 0, high, generator))


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """A random order of 0 .. n-1: the ranks of n random 64-bit keys."""
    if n < 0:
        raise RuntimeError(f"randperm: n must not be negative, got {n}")
    target = dtype or (int64 if out is None else out.dtype)
    order = draw(_bits, (n,), int64, generator, lambda k: to_dtype(prim.sort(k, 0)[1], target))
    return placed("randperm", write_out(out, order), place)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        rand, randn, rand_like, randn_like, randint, randint_like, randperm, normal,
    )
}  # fmt: skip
