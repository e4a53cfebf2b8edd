"""What moves elements, and what makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt.compiler.float64.form import Array, Row, Sized
from tinyt.dtypes import ALL


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Array:
    """Where the elements of a view lie in a dense value."""
    import numpy as np

    places = np.full(tuple(size), offset, np.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape(-1, *(1,) * (len(size) - 1 - d))
    return places


def _update(x: Array, y: Array, size: Any, stride: Any, offset: int) -> Array:
    flat = x.reshape(-1).copy()
    flat[_places(size, stride, offset)] = y
    return flat.reshape(x.shape)


def _counted(
    n: int, number: int, start: float, step: float, istart: int, istep: int, device: int
) -> Any:
    import numpy as np

    dtype = ALL[number]
    if dtype.is_floating_point:
        size = np.arange(n) * abs(step) + abs(start)
        return Sized(start + np.arange(n) * step, size)
    return (istart + np.arange(n) * istep).astype(dtype.name)


def rows() -> dict[str, Row]:
    """Their rows."""
    import numpy as np

    def sliced(x: Array, dim: int, start: int, end: int, step: int = 1) -> Array:
        return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]

    def padded(x: Array, pad: Sequence[int], value: float) -> Array:
        keep, widths = [], []
        for d in range(x.ndim):
            before, after = pad[2 * d], pad[2 * d + 1]
            keep.append(slice(max(-before, 0), x.shape[d] - max(-after, 0)))
            widths.append((max(before, 0), max(after, 0)))
        return np.pad(x[tuple(keep)], widths, constant_values=x.dtype.type(value))

    def bordered(x: Array, pad: Sequence[int], mode: int) -> Array:
        for d in range(x.ndim):
            n, last = x.shape[d], x.shape[d] - 1
            at = np.arange(-pad[2 * d], n + pad[2 * d + 1])
            if mode == 0 and last > 0:
                at = last - abs(last - at % (2 * last))
            elif mode == 0:
                at = np.zeros_like(at)
            else:
                at = np.clip(at, 0, last) if mode == 1 else at % max(n, 1)
            x = np.take(x, at, d)
        return x

    def filled(
        size: Any, number: int, value: float, integer: int, imag: float, device: int
    ) -> Array:
        dtype = ALL[number]
        if dtype.is_complex:
            return np.full(tuple(size), complex(value, imag))
        wide = np.float64 if dtype.is_floating_point else dtype.name
        chosen = value if dtype.is_floating_point else integer
        return np.full(tuple(size), np.asarray(chosen).astype(wide))

    return {
        "as_strided": Row(lambda x, *g: x.reshape(-1)[_places(*g)], 0),
        "update": Row(_update, 0),
        "reshape": Row(lambda x, shape: x.reshape(tuple(shape)), 0),
        "permute": Row(lambda x, dims: np.transpose(x, tuple(dims)), 0),
        "expand": Row(lambda x, size: np.broadcast_to(x, _expanded(x.shape, size)), 0),
        "view_as_real": Row(lambda x: np.stack([x.real, x.imag], -1), 0),
        "view_as_complex": Row(lambda x: x[..., 0] + 1j * x[..., 1], 0),
        "slice": Row(sliced, 0),
        "pad": Row(padded, 0),
        "pad_border": Row(bordered, 0),
        "flip": Row(lambda x, dims: np.flip(x, tuple(dims)), 0),
        "cat": Row(lambda *parts: np.concatenate(parts[:-1], parts[-1]), 0),
        "fill": Row(filled, 0),
        "iota": Row(_counted, 2),
    }


def _expanded(shape: Sequence[int], size: Sequence[int]) -> tuple[int, ...]:
    missing = len(size) - len(shape)
    own = (*(1,) * missing, *shape)
    return tuple(have if n == -1 else n for n, have in zip(size, own, strict=True))
