"""What the gradient rules share: registering one, and forms of gradients.

``rule(name, ...)`` takes for each input a pair: a function ``f(g, n)`` of the output gradient and
the tape node, and the positions it unpacks: ``0, 1, ...`` inputs, ``OUT`` the first result,
``SECOND`` and ``THIRD`` the next ones. Rules are written with recorded operations, so they can be
differentiated again. A result may have the broadcast shape or the promoted dtype: the tape reduces
and converts it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from tinyt._autograd import Node, Vjp, compiled_vjp, register_rule
from tinyt.decompositions.common import widen, zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor

OUT = -1
SECOND = -2
THIRD = -3
SAME: Vjp = compiled_vjp("same")
NEGATIVE: Vjp = compiled_vjp("negative")


def rule(name: str, *inputs: tuple[Any, ...] | None) -> None:
    """Registers one ``(function, positions...)`` per input; None: no gradient."""
    functions = tuple(None if i is None else i[0] for i in inputs)
    needs = tuple(() if i is None else tuple(i[1:]) for i in inputs)
    register_rule(name, functions, needs if any(needs) else None)


def blank(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros to start from: one element, expanded, which the operation itself spreads out."""
    return prim.expand(zeros((), like), shape)


class _WideNode:
    """A tape node whose saved halves are read as float32."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def input(self, i: int) -> Tensor:
        return widen(self._node.input(i))

    def output(self) -> Tensor:
        return widen(self._node.output())


def in_float32(function: Callable[[Tensor, Node], Tensor]) -> Callable[[Tensor, Node], Tensor]:
    """A gradient of several operations, which of halves are computed in float32."""

    def gradient(g: Tensor, n: Node) -> Tensor:
        if g.dtype.itemsize != 2:
            return function(g, n)
        return function(widen(g), cast("Node", _WideNode(n)))

    return gradient


def wide_rule(name: str, *inputs: tuple[Any, ...] | None) -> None:
    """:func:`rule` with every Python function :func:`in_float32`."""
    rule(
        name,
        *(
            (in_float32(i[0]), *i[1:]) if i is not None and isinstance(i[0], FunctionType) else i
            for i in inputs
        ),
    )


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def keep_dims(x: Tensor, n: Node) -> Tensor:
    """A reduction's output (or its gradient) with the reduced dimensions as size 1."""
    dims, keepdim = n.attrs[:2]
    if keepdim:
        return x
    shape = tuple(1 if d in dims else s for d, s in enumerate(n.shape(0)))
    return prim.reshape(x, shape)


def scatter_back(g: Tensor, n: Node, index: Tensor, dim: int) -> Tensor:
    """Adds gradients into zeros of the input's shape."""
    return prim.scatter_add(blank(n.shape(0), g), index, g, dim)


def as_column(x: Tensor) -> Tensor:
    """x with a size-1 dimension at the end."""
    return prim.reshape(x, (*x.shape, 1))


def as_row(x: Tensor) -> Tensor:
    """x with a size-1 dimension before the last."""
    return prim.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
