"""Lookup in tables: embedding, embedding_bag, one_hot."""

from __future__ import annotations

import math
from typing import Any

from tinyt._autograd import GradMode
from tinyt._core import CaptureError, DTypeError, OutOfRangeError, ShapeError
from tinyt.autograd.rules.common import blank
from tinyt.dtypes import int64
from tinyt.ops.common import to_dtype
from tinyt.ops.index.scatter import combined
from tinyt.ops.linalg.matrix import p_norm
from tinyt.printing import abbreviated
from tinyt.tensor import Tensor, prim

_INDICES = ("int32", "int64")


def _flat_index(op: str, input: Tensor, weight: Tensor) -> Tensor:
    """All indices in one row, as int64."""
    if input.dtype.name not in _INDICES:
        raise DTypeError(f"{op}: indices must be int32 or int64, got {input.dtype.name}")
    if weight.dim() != 2:
        raise ShapeError(f"{op}: weight must be 2-d, got shape {tuple(weight.shape)}")
    return prim.reshape(to_dtype(input, int64), (input.numel(),))


def _rows_at(table: Tensor, index: Tensor) -> Tensor:
    """The rows at a 1-d index."""
    count, width = index.numel(), table.shape[1]
    return prim.gather(table, prim.expand(prim.reshape(index, (count, 1)), (count, width)), 0)


def _padding_row(op: str, padding_idx: int, rows: int) -> int:
    if not -rows <= padding_idx < rows:
        raise AssertionError(
            f"{op}: padding_idx must be within [{-rows}, {rows}), got {padding_idx}"
        )
    return padding_idx % rows


def _limit_norms(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows that are looked up down to ``max_norm``, in place."""
    with GradMode(False):
        rows = _rows_at(weight, index)
        size = p_norm(rows, float(norm_type), (1,), True)
        limited = prim.where(prim.gt(size, max_norm), rows * (max_norm / (size + 1e-7)), rows)
        places = prim.expand(prim.reshape(index, (index.numel(), 1)), tuple(rows.shape))
        prim.scatter(weight, places, limited, 0, out=weight)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows of a table [n, d] at ``indices`` to a norm of at most ``max_norm``, in place.

    Not differentiated. IndexError for an index outside [0, n).
    """
    _limit_norms(input, _flat_index("embedding_renorm_", indices, input), max_norm, norm_type)
    return input


def _counts(index: Tensor, size: int) -> Tensor:
    """How often each of [0, size) occurs."""
    ones = prim.fill((index.numel(),), int64, 1.0, 1)
    return prim.scatter_add(prim.fill((size,), int64, 0.0, 0), index, ones, 0)


def _look_up(
    op: str,
    weight: Tensor,
    index: Tensor,
    padding_idx: int | None,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
) -> Tensor:
    """Rows of the table at a 1-d index, with everything that changes their gradient."""
    if max_norm is not None:
        _limit_norms(weight, index, max_norm, norm_type)
    rows = _rows_at(weight, index)
    if padding_idx is not None:
        pad = _padding_row(op, padding_idx, weight.shape[0])
        unused = prim.reshape(prim.eq(index, pad), (index.numel(), 1))
        rows = prim.where(unused, rows.detach(), rows)
    if scale_grad_by_freq:
        often = prim.gather(_counts(index, weight.shape[0]), index, 0)
        scale = prim.reshape(1.0 / to_dtype(often, rows.dtype), (index.numel(), 1))
        # The value is that of the rows, the gradient a share of theirs.
        rows = rows.detach() + (rows - rows.detach()) * scale
    return rows


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` [n, d] picked by an integer tensor; [*input.shape, d].

    Row ``padding_idx`` gets no gradient. ``max_norm`` first scales the rows that are looked up, in
    place, so that their norm of order ``norm_type`` is no larger. ``scale_grad_by_freq`` divides
    gradients by how often a row was looked up. Gradients are dense, with ``sparse`` too.
    IndexError for an index outside [0, n).
    """
    index = _flat_index("embedding", input, weight)
    rows = _look_up(
        "embedding", weight, index, padding_idx, max_norm, norm_type, scale_grad_by_freq
    )
    return prim.reshape(rows, (*input.shape, weight.shape[1]))


# ---- bags


def _starts_at(offsets: Tensor, count: int) -> Tensor:
    """How many bags start at each of [0, count].

    The scatter finds fault with offsets that are not in order, so programs do it too.
    """
    bags = offsets.numel()
    starts = to_dtype(offsets, int64)
    first = prim.eq(prim.iota(bags, int64.number, 0.0, 0.0, 0, 1), 0)
    step = prim.sub(starts, prim.slice(prim.pad(starts, [1, 0]), 0, 0, bags))
    wrong = prim.lt(prim.where(first, prim.neg(starts), step), 0)
    none, ones = prim.fill((count + 1,), int64, 0.0, 0), prim.fill((bags,), int64, 1.0, 1)
    try:
        return prim.scatter_add(none, prim.where(wrong, -1, starts), ones, 0)
    except OutOfRangeError as error:
        raise OutOfRangeError(
            f"embedding_bag: offsets must start at 0, not decrease and be at most {count} (the "
            f"number of indices), got {abbreviated(offsets.tolist())}"
        ) from error


def _bags_of(
    input: Tensor, offsets: Tensor | None, include_last_offset: bool
) -> tuple[Tensor, int]:
    """The bag of every index, and the number of bags; one more where offsets hold the last end."""
    count = input.numel()
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: if input is 2-d, offsets has to be None, as input is treated as "
                f"bags of one length, got offsets of shape {tuple(offsets.shape)}"
            )
        bags, length = input.shape
        steps = prim.reshape(prim.iota(bags, int64.number, 0.0, 0.0, 0, 1), (bags, 1))
        return prim.reshape(prim.expand(steps, (bags, length)), (count,)), bags
    if input.dim() != 1:
        raise ValueError(f"embedding_bag: input has to be 1-d or 2-d, got {tuple(input.shape)}")
    if offsets is None:
        raise ValueError("embedding_bag: offsets has to be a 1-d tensor but got None")
    if offsets.dim() != 1:
        raise ValueError(f"embedding_bag: offsets has to be 1-d, got {tuple(offsets.shape)}")
    bags = offsets.numel()
    if include_last_offset and bags == 0:
        raise RuntimeError("embedding_bag: include_last_offset needs at least one offset")
    # Each bag's start adds one to the number of all positions from there on.
    marks = _starts_at(offsets, count)
    return prim.slice(prim.cumsum(marks, 0), 0, 0, count) - 1, bags


def _largest_of_bags(rows: Tensor, bag: Tensor, used: Tensor | None, sizes: Tensor) -> Tensor:
    """The first of the largest values of each bag and column; zero for an empty bag."""
    (count, width), bags = rows.shape, sizes.numel()
    places = prim.expand(prim.reshape(bag, (count, 1)), (count, width))
    if not count:
        return prim.scatter_add(blank((bags, width), rows), places, rows, 0)
    values = rows.detach() if used is None else prim.where(used, rows.detach(), -math.inf)
    lowest = prim.fill((bags, width), rows.dtype, -math.inf, 0)
    largest = combined("embedding_bag", None, (lowest, 0, places, values), "amax", True)
    hit = prim.logical_or(prim.eq(values, prim.gather(largest, places, 0)), prim.ne(values, values))
    if used is not None:
        hit = prim.logical_and(hit, used)
    number = prim.reshape(prim.iota(count, int64.number, 0.0, 0.0, 0, 1), (count, 1))
    last = prim.fill((bags, width), int64, 0.0, count - 1)
    first = combined(
        "embedding_bag", None, (last, 0, places, prim.where(hit, number, count - 1)), "amin", True
    )
    none = prim.reshape(prim.eq(sizes, 0), (bags, 1))
    return prim.where(none, 0.0, prim.gather(rows, first, 0))


def _first_of(x: Tensor, count: int) -> Tensor:
    return x if x.shape[0] == count else prim.slice(x, 0, 0, count)


def _check_bag_options(
    mode: str, input: Tensor, weights: Tensor | None, scale_grad_by_freq: bool
) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag: max mode does not support scaling gradients by frequency")
    if weights is None:
        return
    if mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights needs mode='sum', got mode={mode!r}"
        )
    if tuple(weights.shape) != tuple(input.shape):
        raise ValueError(
            f"embedding_bag: per_sample_weights must have the input's shape {tuple(input.shape)}, "
            f"got {tuple(weights.shape)}"
        )


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or largest values of bags of rows of ``weight`` [n, d]; [bags, d].

    Bags are the rows of a 2-d input, or the parts of a 1-d one that start at ``offsets`` (of which
    the last is the end of the last bag with ``include_last_offset``). An empty bag gives zeros;
    ``padding_idx`` does not count. ``per_sample_weights`` scales the rows of a sum.
    OutOfRangeError, a RuntimeError, for offsets that do not start at 0, that decrease, or that
    leave the input.
    """
    _check_bag_options(mode, input, per_sample_weights, scale_grad_by_freq)
    index = _flat_index("embedding_bag", input, weight)
    bag, bags = _bags_of(input, offsets, include_last_offset)
    rows = _look_up(
        "embedding_bag", weight, index, padding_idx, max_norm, norm_type, scale_grad_by_freq
    )
    count, width = rows.shape
    if not bags:
        return prim.slice(rows, 0, 0, 0)
    # The last of them is what no bag holds.
    found = bags - 1 if offsets is not None and include_last_offset else bags
    if mode == "max" and padding_idx is None and input.dim() == 2 and count:
        rows = prim.reshape(rows, (*input.shape, width))
        first = prim.argmax(rows.detach(), 1, True)
        return prim.reshape(prim.gather(rows, first, 1), (bags, width))
    used = None
    sizes = _counts(bag, bags)
    if padding_idx is not None:
        pad = _padding_row("embedding_bag", padding_idx, weight.shape[0])
        flags = prim.ne(index, pad)
        used = prim.reshape(flags, (count, 1))
        zeros = prim.fill((bags,), int64, 0.0, 0)
        sizes = prim.scatter_add(zeros, bag, to_dtype(flags, int64), 0)
    if mode == "max":
        return _first_of(_largest_of_bags(rows, bag, used, sizes), found)
    if per_sample_weights is not None:
        rows = rows * prim.reshape(per_sample_weights, (count, 1))
    if used is not None:
        rows = prim.where(used, rows, 0.0)
    places = prim.expand(prim.reshape(bag, (count, 1)), (count, width))
    sums = _first_of(prim.scatter_add(blank((bags, width), rows), places, rows, 0), found)
    if mode == "sum":
        return sums
    divisor = prim.reshape(prim.maximum(_first_of(sizes, found), 1), (found, 1))
    return sums / to_dtype(divisor, rows.dtype)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a one at each class index."""
    if input.dtype.name != "int64":
        raise RuntimeError(f"one_hot: needs int64 class indices, got {input.dtype.name}")
    if input.numel() == 0 and num_classes <= 0:
        raise RuntimeError(
            f"one_hot: cannot infer the number of classes of an empty tensor of shape "
            f"{tuple(input.shape)}"
        )
    if num_classes < -1:
        raise RuntimeError(f"one_hot: num_classes must be at least -1, got {num_classes}")
    if num_classes < 0 and input._is_recorded:
        raise CaptureError(
            "one_hot: the number of classes depends on data, which is not known while recording; "
            "give num_classes"
        )
    if num_classes < 0:
        num_classes = int(prim.amax(input, (), False).item()) + 1
    marked = prim.fill((*input.shape, num_classes), int64, 0.0, 0)
    one = (*input.shape, 1)
    places, ones = prim.reshape(input, one), prim.fill(one, int64, 0.0, 1)
    return prim.scatter(marked, places, ones, input.dim(), out=marked)


EXPORTS: dict[str, Any] = {"embedding_renorm_": embedding_renorm_}
FUNCTIONAL: dict[str, Any] = {f.__name__: f for f in (embedding, embedding_bag, one_hot)}
