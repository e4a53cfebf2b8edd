"""Fused kernels, whose C the core prints, called on operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tinyt import _core
from tinyt.compiler.export.source import sizes
from tinyt.compiler.export.values import Value, broadcast, merged

if TYPE_CHECKING:
    from tinyt._tensor import dtype
    from tinyt.compiler.export.source import Source

_STRIDED, _DENSE, _REPEATED = 0, 1, 2  # how a load lies along the last dimension


def copy_kernel(shape: Sequence[int], x: dtype, y: dtype) -> _core.FusedKernel:
    """A kernel that converts elements."""
    op = "copy" if x is y else "cast"
    return _core.FusedKernel(list(shape), 0, [x], [(op, x, y, False, [(0, False)])], [1])


class Layout(NamedTuple):
    """A kernel over as few dimensions as its loads allow: its sizes, the strides of each load, and
    how each lies along the last dimension."""

    kernel: _core.FusedKernel
    sizes: list[int]
    steps: list[list[int]]
    inner: list[int]


def laid_out(kernel: _core.FusedKernel, loads: Sequence[Value]) -> Layout:
    """The kernel with neighbouring dimensions as one."""
    shape = kernel.shape
    rows = len(shape) - kernel.reduced
    strides = [broadcast(x, shape) for x in loads]
    sizes, steps = merged(shape[:rows], [s[:rows] for s in strides])
    if sizes == [1]:
        sizes, steps = [], [[] for _ in loads]
    reduced = 0
    if kernel.reduced:
        columns, more = merged(shape[rows:], [s[rows:] for s in strides])
        sizes, reduced = [*sizes, *columns], len(columns)
        steps = [[*a, *b] for a, b in zip(steps, more, strict=True)]
    return Layout(kernel.over(sizes, reduced), sizes, steps, [_inner(s) for s in steps])


def run_kernel(
    out: Source,
    kernel: _core.FusedKernel,
    loads: Sequence[Value],
    stores: Sequence[Value],
    dense: Callable[[Value], Value] | None = None,
) -> None:
    """Calls a kernel on values that broadcast to its space; its stores are dense. ``dense`` makes a
    dense copy of a load whose reduced dimensions are no single one."""
    shape = kernel.shape
    rows = len(shape) - kernel.reduced
    if 0 in shape[:rows] or (0 in shape and not kernel.reduced):
        return
    found = laid_out(kernel, loads)
    if found.kernel.reduced > 1 and dense is not None:
        strides = [broadcast(x, shape)[rows:] for x in loads]
        copies = [
            x if len(merged(shape[rows:], [s])[0]) == 1 else dense(_expanded(x, shape))
            for x, s in zip(loads, strides, strict=True)
        ]
        return run_kernel(out, kernel, copies, stores)
    arguments: list[object] = [sizes(found.sizes)]
    for x, s in zip(loads, found.steps, strict=True):
        arguments += [x, sizes(s)]
    out.call(out.kernel(found.kernel, found.inner), *arguments, *stores)


def _expanded(x: Value, shape: Sequence[int]) -> Value:
    return Value(shape, broadcast(x, shape), x.dtype, x.at)


def _inner(steps: Sequence[int]) -> int:
    if not steps:
        return _REPEATED
    return {1: _DENSE, 0: _REPEATED}.get(steps[-1], _STRIDED)
