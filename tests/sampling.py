"""Building blocks of the op table: samples, awkward layouts, comparison with a stated bound.

A sample holds NumPy arrays and plain Python values. It knows nothing about the library under
test: `build` turns every array into a tensor of the library, in the memory layout asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]

# 0-d, empty, size-1, shorter and longer than a vector register, and empty in the middle.
SHAPES: tuple[Shape, ...] = ((), (0,), (1,), (1, 1), (3,), (67,), (4, 5), (2, 0, 3), (2, 3, 4))
# Crosses the chunks that threads share.
BIG: Shape = (70_001,)
BROADCASTS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((3,), (3,)),
    ((0,), (1,)),
    ((67,), ()),
    ((), (2, 3)),
    ((4, 1), (1, 5)),
    ((2, 3, 4), (3, 1)),
    ((2, 1, 4), (1, 3, 1)),
    ((2, 0, 3), (1, 3)),
    ((5, 33), (33,)),
)


class DTypeName(str):
    """The name of a dtype inside a sample; becomes the library's dtype object."""


@dataclass(frozen=True)
class Const:
    """A tensor argument that is not differentiated."""

    array: Array


@dataclass(frozen=True)
class Sample:
    """Arguments of one call. `grad`: small and smooth enough for finite differences."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    grad: bool = True


def S(*args: Any, grad: bool = True, **kwargs: Any) -> Sample:
    """Short form of Sample for the table."""
    return Sample(args, kwargs, grad)


def draw(
    rng: np.random.Generator,
    shape: Shape,
    dtype: str,
    domain: tuple[float, float] = (-4.0, 4.0),
) -> Array:
    """Values of `dtype` spread over `domain`: floats are pairwise distinct, so that no maximum,
    order or comparison is decided by a tie and finite differences never cross a kink. Complex ones
    have their real parts there."""
    n = int(np.prod(shape))
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.startswith("complex"):
        part = "float32" if dtype == "complex64" else "float64"
        parts = draw(rng, shape, part, domain), draw(rng, shape, part, (-2.0, 2.0))
        return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
    low, high = domain
    if dtype.startswith(("int", "uint")):
        return np.asarray(rng.integers(int(np.ceil(low)), int(high) + 1, shape)).astype(dtype)
    grid = (rng.permutation(n) + 0.5 + rng.uniform(-0.2, 0.2, n)) / max(n, 1)
    return (low + (high - low) * grid).reshape(shape).astype(dtype)


def special_values(dtype: str) -> Array:
    """NaN, infinities, both zeros, the extremes and a subnormal of a float dtype."""
    info = np.finfo(dtype)
    return np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5]
        + [info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal],
        dtype,
    )


# ------------------------------------------------------------------ layouts


@dataclass(frozen=True)
class Layout:
    """`values` is what the tensor made by `build` will hold."""

    name: str
    build: Callable[[ModuleType, Array], Any]
    values: Callable[[Array], Array] = lambda array: array


def _transposed(tt: ModuleType, array: Array) -> Any:
    base = tt.tensor(array.T.copy())
    return base.permute(*reversed(range(array.ndim))) if array.ndim > 1 else base


def _stepped(tt: ModuleType, array: Array) -> Any:
    """Every second element of the last dimension of something twice as wide."""
    if array.ndim == 0:
        return tt.tensor(array)
    base = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), 77).astype(array.dtype)
    base[..., 1::2] = array
    return tt.tensor(base)[..., 1::2]


def _shifted(tt: ModuleType, array: Array) -> Any:
    """Contiguous, but starting one element into its storage, an unaligned pointer; more follow."""
    base = np.concatenate([np.ones(1, array.dtype), array.reshape(-1), np.ones(7, array.dtype)])
    return tt.tensor(base)[1 : 1 + array.size].view(array.shape)


def _expanded(tt: ModuleType, array: Array) -> Any:
    if array.ndim == 0 or array.shape[0] == 0:
        return tt.tensor(array)
    return tt.tensor(array[:1].copy()).expand(*array.shape)


CONTIGUOUS = Layout("contiguous", lambda tt, array: tt.tensor(array))
EXPANDED = Layout(
    "expanded",
    _expanded,
    lambda a: np.broadcast_to(a[:1], a.shape).copy() if a.ndim and len(a) else a,
)
STRIDED = (
    Layout("transposed", _transposed),
    Layout("stepped", _stepped),
    Layout("shifted", _shifted),
    EXPANDED,
)
LAYOUTS = {layout.name: layout for layout in (CONTIGUOUS, *STRIDED)}


# ------------------------------------------------------------------ walking over arguments


def map_arrays(value: Any, array: Callable[[Array, bool], Any], dtype: Callable[[str], Any]) -> Any:
    """`value` with array(a, differentiable) put for every array, inside containers too."""
    if isinstance(value, Const):
        return array(value.array, False)
    if isinstance(value, Array):
        return array(value, value.dtype.kind == "f")
    if isinstance(value, DTypeName):
        return dtype(value)
    if isinstance(value, (tuple, list)):
        return type(value)(map_arrays(v, array, dtype) for v in value)
    if isinstance(value, dict):
        return {key: map_arrays(v, array, dtype) for key, v in value.items()}
    return value


# Where operands are, as a block, while other tensors are made elsewhere: what an operation makes
# itself must follow its operands. Set by `--device`.
PLACE: AbstractContextManager[Any] = nullcontext()


def placed(make: Callable[..., Any], *args: Any) -> Any:
    """What a function makes, where operands are."""
    with PLACE:
        return make(*args)


def build(tt: ModuleType, value: Any, layout: Layout = CONTIGUOUS) -> Any:
    """Arrays become tensors of `tt` in this layout."""
    return map_arrays(
        value,
        lambda a, _: placed(layout.build, tt, layout.values(a)),
        lambda name: getattr(tt, name),
    )


def plain(value: Any, layout: Layout = CONTIGUOUS) -> Any:
    """Arguments for the reference: floats as float64, complex as complex128, no constants."""

    def convert(array: Array, _: bool) -> Array:
        array = layout.values(array)
        wide = {"f": np.float64, "c": np.complex128}
        return array.astype(wide.get(array.dtype.kind, array.dtype))

    return map_arrays(value, convert, str)


def arrays_in(value: Any) -> list[tuple[Array, bool]]:
    """Every (array, differentiable) in order."""
    found: list[tuple[Array, bool]] = []
    map_arrays(value, lambda a, d: found.append((a, d)), str)
    return found


def flat(result: Any) -> Iterator[Any]:
    """The tensors or arrays of a result that may be a tuple or list of them."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from flat(item)
    else:
        yield result


def dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def to_numpy(tensor: Any) -> Array:
    """A copy of the values of a tensor."""
    return np.array(tensor.numpy(force=True)).reshape(tuple(tensor.shape))


# ------------------------------------------------------------------ comparison


def assert_same_bits(got: Any, want: Any, what: str = "") -> None:
    """Equal dtype, shape and bytes; NaN payloads aside."""
    got, want = to_numpy(got), to_numpy(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    if got.dtype.kind == "c":
        got, want = (np.stack([z.real, z.imag]) for z in (got, want))
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(
            np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want), what
        )
    np.testing.assert_array_equal(got, want, what)


def assert_within_complex(
    got: Array, want: Array, ulp: float, scale: Array | float, what: str
) -> None:
    """The same with the distance in the complex plane; 2 ULP where a real result would be exact.
    Where a part is infinite or NaN, both must be beyond the finite numbers."""
    info = np.finfo(got.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        odd = ~np.isfinite(want.astype(got.dtype))
        error = np.abs(got.astype(np.complex128) - want)
        bound = max(ulp, 2) * (info.eps * (np.abs(want) + scale) + info.smallest_subnormal)
        good = np.where(odd, ~np.isfinite(got), error <= bound)
    assert np.all(good), f"{what}: got {got[~good][:3]}, expected {want[~good][:3]}"


def assert_within(
    got: Array, want: Array, ulp: float, scale: Array | float = 0.0, what: str = ""
) -> None:
    """|got - want| <= ulp * eps * (|want| + scale) for every element; ulp == 0 asks for the
    correctly rounded value. `want` is float64; infinities and NaN must agree after rounding to
    the dtype of `got`. The sign of zero must agree where ulp == 0."""
    want = np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if got.dtype.kind == "c":
        return assert_within_complex(got, want, ulp, scale, what)
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
        return
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = want.astype(got.dtype)
        if ulp == 0:
            np.testing.assert_array_equal(got, rounded, what)
            same_sign = np.signbit(got) == np.signbit(rounded)
            assert np.all(same_sign | np.isnan(got)), f"{what}: sign of zero"
            return
        info = np.finfo(got.dtype)
        bound = ulp * (info.eps * (np.abs(want) + scale) + info.smallest_subnormal)
        odd = ~np.isfinite(rounded)
        error = np.abs(got.astype(np.float64) - want)
        good = np.where(odd, (got == rounded) | (np.isnan(got) & np.isnan(rounded)), error <= bound)
    if not np.all(good):
        worst = np.argwhere(~good)[0]
        at = tuple(int(i) for i in worst)
        raise AssertionError(
            f"{what}: at {at} got {got[at]!r}, expected {want[at]!r}; "
            f"{int((~good).sum())} of {good.size} elements are off by more than {ulp} ULP"
        )
