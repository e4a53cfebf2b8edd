"""What a row of the op table is: how an operation is called, on what, against which reference,
how closely, and which wrong calls it must refuse. One file per family holds the rows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from sampling import Array, S, Sample, draw, map_arrays, plain

Rng = np.random.Generator


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Without NumPy's floating-point warnings: NaN and infinity are wanted results here."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return wrapped


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """For integers and bools too; NumPy would take a bool to float16."""
    return lambda x, **kwargs: function(np.asarray(x, np.float64), **kwargs)


Samples = Callable[[Rng, str], list[Sample]]

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int64")
ALL = (*NUMBERS, "bool")
COMPLEX = ("complex64", "complex128")


@dataclass(frozen=True)
class Bad:
    """A wrong call: the exception class that a PyTorch user catches, and what the message says:
    the operation, and the values that do not fit."""

    exception: type[Exception]
    message: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def bad(exception: type[Exception], message: str, *args: Any, **kwargs: Any) -> Bad:
    return Bad(exception, message, args, kwargs)


@dataclass(frozen=True)
class Op:
    """`ulp` and `scale`: see sampling.assert_within; `scale="abs"` puts the reference of the
    absolute values, the natural size of rounding errors in a sum. `result`: dtype of the output:
    "same", "float" (integers become float32), "sum" (they become int64), "real" (complex becomes
    the dtype of its parts), "angle" (both), "complex" (floats become complex), "reference" (that of
    the reference), or its name. `method`: also a Tensor method; `inplace`: also method `name_`.
    `complex_ulp`: the bound for complex dtypes."""

    name: str
    samples: Samples
    reference: Callable[..., Any]
    call: str | Callable[..., Any] = ""
    dtypes: tuple[str, ...] = NUMBERS
    result: str = "same"
    ulp: float = 0
    complex_ulp: float = 2
    scale: Any = 0.0
    grad: bool = True
    grad2: bool = True
    method: bool = True
    inplace: bool = False
    out: bool = False
    view: bool = False
    strided: bool = True  # the same bits for every layout of the inputs
    errors: tuple[Bad, ...] = ()

    def function(self, tt: ModuleType) -> Callable[..., Any]:
        """The operation in the library `tt`, called as the samples are laid out."""
        if callable(self.call):
            return lambda *args, **kwargs: self.call(tt, *args, **kwargs)
        return operator.attrgetter(self.call or self.name)(tt)

    def error_scale(self, sample: Sample) -> Any:
        """The `scale` of one sample as numbers."""
        if callable(self.scale):
            return self.scale(*plain(sample.args), **plain(sample.kwargs))
        if self.scale != "abs":
            return self.scale
        sizes = map_arrays(
            plain(sample.args), lambda a, _: np.abs(a) if a.dtype != bool else a, lambda name: name
        )
        return np.asarray(self.reference(*sizes, **plain(sample.kwargs)), np.float64)


def f(*shape: int) -> Array:
    """A float32 tensor for a wrong call; i and b: int64 and bool."""
    return (np.arange(np.prod(shape), dtype=np.float32) + 1).reshape(shape)


def i(*shape: int) -> Array:
    return np.zeros(shape, np.int64)


def b(*shape: int) -> Array:
    return np.zeros(shape, bool)


def method(name: str) -> Callable[..., Any]:
    return lambda tt, x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def dim_errors(name: str) -> tuple[Bad, ...]:
    return (
        bad(IndexError, rf"{name}.*2\b", f(2, 3), 2),
        bad(IndexError, rf"{name}.*-3\b", f(2, 3), -3),
    )


def floats_only(name: str) -> Bad:
    return bad(RuntimeError, rf"{name}.*int64", i(3))


def cases(*rows: Any) -> Samples:
    """Rows of (shape, argument...) with one tensor of that shape in front."""
    return lambda rng, dt: [S(draw(rng, r[0], dt), *r[1:]) for r in rows]


def at(rng: Rng, shape: tuple[int, ...], size: int) -> Array:
    return rng.integers(0, size, shape)
