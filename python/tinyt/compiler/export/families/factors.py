"""Factors of matrices, and systems of equations with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.export.calls import emits
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.values import Value, broadcast

if TYPE_CHECKING:
    from tinyt.compiler.export.calls import Call


@emits("cholesky")
def _cholesky(call: Call) -> None:
    x, (factor, info) = call.dense(call.x[0]), call.y
    if info.numel == 0:
        return
    n = x.shape[-1]
    work = call.scratch((n, n), x.dtype)
    call.run("factors", "tt_cholesky_T", x, factor, info, info.numel, n, work, T=c_type(x.dtype))


@emits("solve_triangular")
def _solve_triangular(call: Call) -> None:
    (a, b), x, t = call.x, call.y[0], call.compute
    if x.numel == 0:
        return
    n, columns = x.shape[-2:]
    whole = (*x.shape[:-2], n, n)
    a = call.dense(Value(whole, broadcast(a, whole), a.dtype, a.at), t)
    call.copy(b, x)
    how = int(call.attrs["upper"]), int(call.attrs["unit"])
    batch = x.numel // (n * columns)
    call.run("factors", "tt_substitute_T", a, x, batch, n, columns, *how, T=c_type(t))
