"""Elements put elsewhere: reversed, rotated, on diagonals, in triangles, written into a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyt._core import ShapeError
from tinyt.ops.common import Sizes, as_tuple, sizes_of, wrap_dim, write_out
from tinyt.ops.shape.join import cat
from tinyt.ops.shape.reshape import flatten, movedim, transpose
from tinyt.ops.shape.split import select
from tinyt.ops.shape.strides import as_strided, diagonal
from tinyt.tensor import Tensor, method, prim

# ---- reversing and rotating


@method
def flip(input: Tensor, dims: Sizes, *more: int) -> Tensor:
    """A copy in reverse order along ``dims``."""
    return prim.flip(input, sizes_of(dims, more))


@method
def __reversed__(self: Tensor) -> Tensor:
    """A copy with the first dimension reversed; of a tensor without dimensions, itself."""
    return prim.flip(self, (0,)) if self.dim() else self


@method
def fliplr(input: Tensor) -> Tensor:
    """A copy with the second dimension reversed."""
    if input.dim() < 2:
        raise RuntimeError(f"fliplr: needs at least 2 dimensions, got shape {tuple(input.shape)}")
    return prim.flip(input, (1,))


@method
def flipud(input: Tensor) -> Tensor:
    """A copy with the first dimension reversed."""
    if input.dim() < 1:
        raise RuntimeError("flipud: needs at least 1 dimension, got a 0-d tensor")
    return prim.flip(input, (0,))


@method
def roll(
    input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None
) -> Tensor:
    """Elements moved along ``dims``, those that leave coming in at the other end.

    Without ``dims`` over the flattened tensor.
    """
    moves, where = as_tuple(shifts), () if dims is None else as_tuple(dims)
    if len(moves) == 1 and not where:
        return prim.reshape(_rolled(flatten(input), moves[0], 0), tuple(input.shape))
    if len(moves) != len(where) or not moves:
        raise RuntimeError(f"roll: got {len(moves)} shifts and {len(where)} dims")
    out = input
    for shift, dim in zip(moves, where, strict=True):
        d = wrap_dim("roll", dim, out.dim())
        out = _rolled(out, shift, d) if out.dim() else out
    return prim.copy(out) if out is input else out


def _rolled(x: Tensor, shift: int, dim: int) -> Tensor:
    n = x.shape[dim]
    cut = (n - shift) % n if n else 0
    return cat((prim.slice(x, dim, cut, n), prim.slice(x, dim, 0, cut)), dim)


@method
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned by ``k`` times 90 degrees in the plane of two dimensions."""
    if len(dims) != 2 or input.dim() < 2:
        raise RuntimeError(
            f"rot90: needs 2 dims of at least 2 dimensions, got dims {tuple(dims)} and shape "
            f"{tuple(input.shape)}"
        )
    a, b = (wrap_dim("rot90", d, input.dim()) for d in dims)
    if a == b:
        raise RuntimeError(f"rot90: the dims must differ, got {tuple(dims)}")
    turns = k % 4
    if turns == 1:
        return transpose(prim.flip(input, (b,)), a, b)
    if turns == 2:
        return prim.flip(input, (a, b))
    if turns == 3:
        return transpose(prim.flip(input, (a,)), a, b)
    return prim.copy(input)


# ---- diagonals


@method
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices (in dimensions ``dim1`` and ``dim2``) of zeros with the last dimension of
    ``input`` on a diagonal."""
    rank = input.dim() + 1
    a, b = wrap_dim("diag_embed", dim1, rank), wrap_dim("diag_embed", dim2, rank)
    if a == b:
        raise RuntimeError(f"diag_embed: the dimensions must differ, got {dim1} and {dim2}")
    lead, n = tuple(input.shape[:-1]), input.shape[-1]
    side = n + abs(offset)
    column = prim.reshape(prim.iota(side, 5, 0.0, 0.0, 0, 1), (1, side))
    row = prim.reshape(prim.iota(side, 5, 0.0, 0.0, offset, 1), (side, 1))
    pads = [0] * (2 * input.dim())
    pads[-2:] = max(offset, 0), max(-offset, 0)
    wide = prim.reshape(prim.pad(input, pads, 0.0), (*lead, 1, side))
    out = prim.where(prim.eq(row, column), wide, _zero(input))
    return movedim(out, (-2, -1), (a, b))


def _zero(like: Tensor) -> bool | int:
    return False if like.dtype.name == "bool" else 0


@method
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as a matrix with that diagonal; a matrix's diagonal as a vector."""
    if input.dim() not in (1, 2):
        raise RuntimeError(f"diag: supports 1-d or 2-d tensors, got shape {tuple(input.shape)}")
    if input.dim() == 1:
        return write_out(out, diag_embed(input, diagonal))
    return write_out(out, prim.copy(_diagonal(input, diagonal)))


_diagonal = diagonal


@method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix of zeros with all elements of ``input`` on a diagonal."""
    return diag_embed(flatten(input), offset)


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError(
            f"{'tril' if lower else 'triu'}: needs at least 2 dimensions, got "
            f"shape {tuple(input.shape)}"
        )
    rows, columns = input.shape[-2:]
    # No matrix is so large, and places counted from here fit in 64 bits.
    diagonal = min(max(diagonal, -(2**62)), 2**62)
    row = prim.reshape(prim.iota(rows, 5, 0.0, 0.0, diagonal, 1), (rows, 1))
    column = prim.iota(columns, 5, 0.0, 0.0, 0, 1)
    keep = prim.le(column, row) if lower else prim.ge(column, row)
    return prim.where(keep, input, _zero(input))


@method
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The elements on and below a diagonal of the last two dimensions; zeros elsewhere."""
    return write_out(out, _triangle(input, diagonal, True))


@method
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The elements on and above a diagonal of the last two dimensions; zeros elsewhere."""
    return write_out(out, _triangle(input, diagonal, False))


@method
def tril_(self: Tensor, diagonal: int = 0) -> Tensor:
    """:func:`tril` in place."""
    return self._assign(_triangle(self, diagonal, True))


@method
def triu_(self: Tensor, diagonal: int = 0) -> Tensor:
    """:func:`triu` in place."""
    return self._assign(_triangle(self, diagonal, False))


# ---- a copy with one view of it replaced


def _written(op: str, input: Tensor, src: Tensor, view: Callable[[Tensor], Tensor]) -> Tensor:
    out = prim.copy(input)
    target = view(out)
    if tuple(target.shape) != tuple(src.shape):
        raise ShapeError(
            f"{op}: the source has shape {tuple(src.shape)}, the view {tuple(target.shape)}"
        )
    target._assign(src)
    return out


@method
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy with ``src`` written to what :func:`diagonal` shows."""
    return _written("diagonal_scatter", input, src, lambda x: _diagonal(x, offset, dim1, dim2))


@method
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with ``src`` written to what :func:`select` shows."""
    return _written("select_scatter", input, src, lambda x: select(x, dim, index))


@method
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``src`` written to ``[start:end:step]`` of a dimension."""
    d = wrap_dim("slice_scatter", dim, input.dim())
    stop = input.shape[d] if end is None else end
    written = _written(
        "slice_scatter", input, src, lambda x: prim.slice(x, d, start or 0, stop, step)
    )
    return write_out(out, written)


@method
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy with ``src`` written to what :func:`as_strided` shows of the contiguous copy."""
    return _written(
        "as_strided_scatter", input, src, lambda x: as_strided(x, size, stride, storage_offset)
    )


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        flip, fliplr, flipud, roll, rot90, diag, diag_embed, diagflat, tril, triu,
        diagonal_scatter, select_scatter, slice_scatter, as_strided_scatter,
    )
}  # fmt: skip
