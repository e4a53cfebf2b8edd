"""Values of graph texts: their geometries, constants, and the errors of the core about them."""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from tinyt import _core
from tinyt._autograd import GradMode
from tinyt._capture import Recorder
from tinyt.compiler.graph.literals import tensor_of
from tinyt.compiler.graph.text import CPU, device_text
from tinyt.compiler.graph.tokens import GraphSyntaxError
from tinyt.tensor import prim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tinyt._tensor import dtype
    from tinyt.compiler.graph.expand import Input
    from tinyt.compiler.graph.statements import Type
    from tinyt.compiler.graph.tokens import Token
    from tinyt.tensor import Tensor

# What the core raises for operands, attributes and sizes that do not go together.
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, OverflowError, NotImplementedError)


class Kind(NamedTuple):
    """The geometry of a value."""

    shape: tuple[int, ...]
    dtype: dtype
    device: int

    def __str__(self) -> str:
        where = "" if self.device == CPU else f" {device_text(self.device)}"
        return f"{self.dtype.name}{list(self.shape)}{where}"


@contextmanager
def recording() -> Iterator[_core.Graph]:
    """Records the operations of the block."""
    core, recorder = _core.Graph(), Recorder()
    try:
        with GradMode(False):
            core.begin(recorder)
            yield core
    finally:
        core.end()
        recorder.forgive()


class Refusals:
    """Makes errors of the core those of a text, at a place. The first ones are dropped: their
    frames would hold the operands."""

    def __init__(self, at: Token, message: str = "") -> None:
        self.at, self.message = at, message

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, REFUSALS) and not isinstance(error, GraphSyntaxError):
            made = self.at.error(self.message or str(error))
            try:
                raise made
            finally:
                made.__context__ = None
                del made  # this frame is in its traceback


def constant(x: Input) -> Tensor:
    """The tensor of a constant or number."""
    shape, t, device = x.type.shape, x.type.dtype, x.type.device
    values = list(x.payload[0]) if x.op == "constant" else [x.payload[0]]
    if x.op == "number" and (shape or device != CPU):
        raise x.type.at.error("a number has no dimensions and lies on the CPU")
    if len(values) != numel_of(x.type):
        raise x.at.error(f"{len(values)} elements, but {t.name}{list(shape)} has {prod(shape)}")
    if any([isinstance(v, tuple) != t.is_complex for v in values]):
        raise x.at.error(f"the elements of {t.name} are {'pairs' if t.is_complex else 'no pairs'}")
    with Refusals(x.at, f"{t.name} cannot hold these elements"):
        made = tensor_of(values, shape, t, device)
    return made if x.op == "constant" else _weak(x, made)


def _weak(x: Input, value: Tensor) -> Tensor:
    """The tensor that stands for a number of Python's, which counts for less in promotion."""
    number = value.item()
    with recording() as core:
        prim.add(prim.fill((), value.dtype.number, 0.0, 0, 0.0, CPU), number)
        made = core.inputs()[-1][1]
    assert made is not None
    if made.dtype is not value.dtype:
        raise x.type.at.error(f"a number is no {value.dtype.name}, but {made.dtype.name}")
    return made


def numel_of(said: Type) -> int:
    """The number of elements; an error where the core could not count their bytes."""
    count = prod(said.shape)
    if count * said.dtype.itemsize >= 2**63:
        raise said.at.error("the bytes of a tensor must fit in 64 bits")
    return count


def compare(found: Kind, said: Type, op: str) -> None:
    """An error where a text says another type than is inferred."""
    wanted = Kind(said.shape, said.dtype, said.device)
    if found != wanted:
        raise said.at.error(f"{op} makes {found}, not {wanted}", str(found))
