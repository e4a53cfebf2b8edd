"""Windows over the last dimensions, as lists of where they begin and end along each dimension.

That is the form which the primitives take: ``max_pool``, and (as rows of a matrix) ``resample``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinyt._core import ShapeError
from tinyt._tensor import dtype as DType
from tinyt.dtypes import float32, float64
from tinyt.ops.common import need_tensor, remembered, tuple_of
from tinyt.tensor import Tensor, prim

Sizes = int | Sequence[int]
OutputSizes = int | None | Sequence[int | None]
# Windows along one dimension: their table is made before any memory for the result is asked for.
LARGEST = 1 << 24


MAX_POSITIONS = 1 << 24  # of the output along one dimension: they are listed one by one


class Windows(NamedTuple):
    """The windows along every dimension, one dimension after another."""

    size: tuple[int, ...]  # windows along each dimension
    begin: tuple[int, ...]
    end: tuple[int, ...]
    divisors: tuple[tuple[int, ...], ...]  # of an average, by dimension: elements with the padding


@remembered
def _even_steps(
    op: str,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> Windows:
    """Windows of one size at regular steps; parts outside the input are cut off."""
    _check(op, kernel, stride, padding, dilation)
    count, begin, end, divisors = [], [], [], []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        free = n + 2 * p - d * (k - 1) - 1
        m = -(-free // s) + 1 if ceil_mode else free // s + 1
        if ceil_mode and (m - 1) * s >= n + p:  # starts beyond the input
            m -= 1
        if m <= 0:
            raise ShapeError(f"{op}: windows {kernel} are larger than the padded input {sizes}")
        check_positions(op, (m,))
        starts = [i * s - p for i in range(m)]
        count.append(m)
        begin += [a if a >= 0 else a + -(a // d) * d for a in starts]
        end += [min(a + d * (k - 1) + 1, n) for a in starts]
        divisors.append(tuple(min(a + k, n + p) - a for a in starts))
    return Windows(tuple(count), tuple(begin), tuple(end), tuple(divisors))


def _check(
    op: str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> None:
    if min(kernel) <= 0 or min(stride) <= 0 or min(dilation) <= 0:
        raise ShapeError(
            f"{op}: kernel_size, stride and dilation must be positive, got {kernel}, {stride}, "
            f"{dilation}"
        )
    half = tuple((d * (k - 1) + 1) // 2 for k, d in zip(kernel, dilation, strict=True))
    if any(not 0 <= p <= h for p, h in zip(padding, half, strict=True)):
        raise ShapeError(
            f"{op}: padding must be at most half the window and not negative, got {padding} for "
            f"{kernel}"
        )


@remembered
def _even_cover(sizes: tuple[int, ...], count: tuple[int, ...]) -> Windows:
    """``count`` windows that cover the input evenly: from floor(i n / m) to ceil((i + 1) n / m)."""
    begin, end, lengths = [], [], []
    for n, m in zip(sizes, count, strict=True):
        first = [i * n // m for i in range(m)]
        last = [-(-(i + 1) * n // m) for i in range(m)]
        begin += first
        end += last
        lengths.append(tuple(b - a for a, b in zip(first, last, strict=True)))
    return Windows(count, tuple(begin), tuple(end), tuple(lengths))


@remembered
def as_matrix(windows: Windows) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The windows as rows of a sparse matrix: how many elements each has, and which."""
    pairs = list(zip(windows.begin, windows.end, strict=True))
    return tuple(b - a for a, b in pairs), tuple(i for a, b in pairs for i in range(a, b))


def weight_dtype(x: Tensor) -> DType:
    """That of the matrix's elements for such an input: some devices have no float64."""
    return float64 if x.dtype is float64 else float32


def check_positions(op: str, sizes: Sequence[int]) -> None:
    """ShapeError for an output whose positions are too many to list."""
    if max(sizes) > MAX_POSITIONS:
        raise ShapeError(f"{op}: at most {MAX_POSITIONS} elements a dimension, got {tuple(sizes)}")


def with_batch(op: str, spatial: int, input: Tensor) -> Tensor:
    """The input with a batch dimension; ShapeError for another rank or empty planes."""
    rank = need_tensor(op, input).dim()
    if rank not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{op}: expects input of rank {spatial + 1} or {spatial + 2}, got {tuple(input.shape)}"
        )
    x = input if rank == spatial + 2 else prim.reshape(input, (1, *input.shape))
    if 0 in x.shape[1:]:
        raise ShapeError(f"{op}: only the batch may be empty, got {tuple(input.shape)}")
    return x


def like_input(input: Tensor, out: Tensor) -> Tensor:
    """``out`` without its batch dimension where the input has none."""
    return out if out.dim() == input.dim() else prim.reshape(out, tuple(out.shape[1:]))


def regular(
    op: str,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Windows:
    """The windows of a pool with these arguments; no stride: as large as the window."""
    n = x.dim() - 2
    kernel = tuple_of(op, "kernel_size", kernel_size, n)
    empty = stride is None or (not isinstance(stride, int) and len(stride) == 0)
    steps = kernel if empty else tuple_of(op, "stride", stride, n)  # type: ignore[arg-type]
    return _even_steps(
        op,
        tuple(x.shape[2:]),
        kernel,
        steps,
        tuple_of(op, "padding", padding, n),
        tuple_of(op, "dilation", dilation, n),
        bool(ceil_mode),
    )


def evenly(op: str, x: Tensor, output_size: OutputSizes) -> Windows:
    """The windows of an adaptive pool; None keeps a dimension's size."""
    n = x.dim() - 2
    if output_size is None or isinstance(output_size, int):
        output_size = (output_size,) * n
    if len(output_size) != n:
        raise ShapeError(f"{op}: output_size needs {n} entries, got {tuple(output_size)}")
    count = tuple(
        size if m is None else m for m, size in zip(output_size, x.shape[2:], strict=True)
    )
    if min(count) < 0:
        raise ShapeError(f"{op}: output_size must not be negative, got {count}")
    check_positions(op, count)
    if max(count) > LARGEST:
        raise ShapeError(f"{op}: output_size must be at most {LARGEST}, got {count}")
    return _even_cover(tuple(x.shape[2:]), count)
