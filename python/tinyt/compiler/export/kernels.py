"""Fused kernels, whose C the core prints, called on operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

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


def run_kernel(
    out: Source,
    kernel: _core.FusedKernel,
    loads: Sequence[Value],
    stores: Sequence[Value],
    dense: Callable[[Value], Value] | None = None,
) -> None:
    """Calls a kernel on values that broadcast to its space; its stores are dense. ``dense`` makes a
    dense copy of a load whose reduced dimensions are no single one."""
    shape, reduced = kernel.shape, kernel.reduced
    rows = len(shape) - reduced
    if 0 in shape[:rows] or (0 in shape and not reduced):
        return
    strides = [broadcast(x, shape) for x in loads]
    row_shape, row_steps = merged(shape[:rows], [s[:rows] for s in strides])
    if row_shape == [1]:
        row_shape, row_steps = [], [[] for _ in loads]
    columns: list[int] = []
    column_steps: list[list[int]] = [[] for _ in loads]
    if reduced:
        columns, column_steps = merged(shape[rows:], [s[rows:] for s in strides])
        if len(columns) > 1 and dense is not None:
            copies = [
                x if len(merged(shape[rows:], [s[rows:]])[0]) == 1 else dense(_expanded(x, shape))
                for x, s in zip(loads, strides, strict=True)
            ]
            return run_kernel(out, kernel, copies, stores)
    steps = [[*a, *b] for a, b in zip(row_steps, column_steps, strict=True)]
    inner = [_inner(s) for s in steps]
    name = out.kernel(kernel.over([*row_shape, *columns], len(columns)), inner)
    arguments: list[object] = [sizes([*row_shape, *columns])]
    for x, s in zip(loads, steps, strict=True):
        arguments += [x, sizes(s)]
    out.call(name, *arguments, *stores)


def _expanded(x: Value, shape: Sequence[int]) -> Value:
    return Value(shape, broadcast(x, shape), x.dtype, x.at)


def _inner(steps: Sequence[int]) -> int:
    if not steps:
        return _REPEATED
    return {1: _DENSE, 0: _REPEATED}.get(steps[-1], _STRIDED)
