"""Types of the results of functions that return several tensors, such as `return_types.sort`.

They are tuples whose elements have names: PyTorch's. The type of each function, and the one of
its `out=` form, is made from a table when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from tinyt._tensor import shown_as

if TYPE_CHECKING:
    from typing_extensions import Self

    from tinyt.tensor import Tensor


class StructSequence:
    """A tuple, made from a sequence, whose elements have the names that its class annotates."""

    __slots__ = ()
    n_fields: ClassVar[int]
    n_sequence_fields: ClassVar[int]
    n_unnamed_fields: ClassVar[int] = 0
    _names: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        names = tuple(cls.__annotations__)
        if names:
            cls._names = names
            cls.n_fields = cls.n_sequence_fields = len(names)
        for i, name in enumerate(names):
            setattr(cls, name, property(itemgetter(i)))

    def __new__(cls, values: Iterable[Any]) -> Self:
        made: Any = tuple.__new__(cls, values)  # type: ignore[type-var]
        if len(made) != cls.n_fields:
            raise TypeError(
                f"{_full_name(cls)}() takes a {cls.n_fields}-sequence ({len(made)}-sequence given)"
            )
        return made  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{_full_name(type(self))}(\n" + ",\n".join(fields) + ")"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(getattr(self, name) for name in self._names),)


def _full_name(kind: type) -> str:
    module = kind.__module__
    if module == __name__:
        module = f"{shown_as()}.return_types"
    return f"{module}.{kind.__name__}"


class ValuesIndices(StructSequence, tuple["Tensor", "Tensor"]):
    """Values and where they were found."""

    __slots__ = ()
    values: Tensor
    indices: Tensor


class MinMax(StructSequence, tuple["Tensor", "Tensor"]):
    """The smallest and the largest value."""

    __slots__ = ()
    min: Tensor
    max: Tensor


class Histogram(StructSequence, tuple["Tensor", "Tensor"]):
    """Counts and the edges they are counted between."""

    __slots__ = ()
    hist: Tensor
    bin_edges: Tensor


class HistogramDD(StructSequence, tuple["Tensor", "tuple[Tensor, ...]"]):
    """Counts in several dimensions and the edges along each."""

    __slots__ = ()
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


class MantissaExponent(StructSequence, tuple["Tensor", "Tensor"]):
    """The parts of floating-point numbers."""

    __slots__ = ()
    mantissa: Tensor
    exponent: Tensor


class FactorInfo(StructSequence, tuple["Tensor", "Tensor"]):
    """A Cholesky factor, and how far it came."""

    __slots__ = ()
    L: Tensor
    info: Tensor


FUNCTIONS: dict[type[StructSequence], str] = {
    ValuesIndices: "cummax cummin kthvalue max median min mode nanmedian sort topk",
    MinMax: "aminmax",
    Histogram: "histogram",
    HistogramDD: "histogramdd",
    MantissaExponent: "frexp",
    FactorInfo: "linalg_cholesky_ex",
}
_FIELDS = {name: fields for fields, names in FUNCTIONS.items() for name in names.split()}
__all__ = [f"{name}{form}" for name in sorted(_FIELDS) for form in ("", "_out")]
__all__.remove("histogramdd_out")  # it has no `out=`


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tinyt.return_types' has no attribute '{name}'")
    made = type(name, (_FIELDS[name.removesuffix("_out")],), {"__slots__": ()})
    made.__module__ = __name__
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
