"""What tests of graphs share: drawn functions of two tensors, for hypothesis; recordings as they
are; equality to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor
from tinyt.compiler import record
from tinyt.compiler.capture.recording import Recording


def same(x: Tensor, y: Tensor) -> None:
    """Of any dtype, those without an equal in NumPy included."""
    assert x.dtype is y.dtype
    if x.dtype is tinyt.bfloat16:
        x, y = x.float(), y.float()
    assert_same_bits(x, y, "bits")


def recorded(function: Callable[..., Any], *args: Tensor) -> Recording:
    """As no pass has seen it."""
    return record(function, *args, simplified=False)


UNARY: Sequence[Callable[[Tensor], Tensor]] = (
    lambda x: -x,
    lambda x: x.neg().neg(),
    lambda x: x.abs(),
    lambda x: x.relu().relu(),
    lambda x: x * 1,
    lambda x: x + 0,
    lambda x: x - 0,
    lambda x: x + (-0.0),
    lambda x: x.clone(),
    lambda x: x.to(tinyt.float64).to(x.dtype),
    lambda x: x.to(tinyt.bfloat16),
    lambda x: x.to(tinyt.int32),
    lambda x: x * 0.5,
    lambda x: x.sum(0, keepdim=True).expand_as(x) if x.dim() else x,
    lambda x: x.amax(-1, keepdim=True) if x.dim() else x,
    lambda x: tinyt.where(x > 0, x, x),
    lambda x: tinyt.where(tinyt.full((), True), x, -x),
    lambda x: x + (tinyt.full((), 2) * 3).to(x.dtype),
)
VIEW: Sequence[Callable[[Tensor], Tensor]] = (
    lambda x: x.flatten(),
    lambda x: x.reshape(-1, 2) if x.numel() % 2 == 0 and x.numel() else x,
    lambda x: x.permute(tuple(reversed(range(x.dim())))),
    lambda x: x.transpose(0, -1) if x.dim() else x,
    lambda x: x.unsqueeze(0),
    lambda x: x[0] if x.dim() and x.shape[0] else x,
    lambda x: x[1:] if x.dim() else x,
    lambda x: x[:-1] if x.dim() else x,
    lambda x: x[::2] if x.dim() else x,
    lambda x: x[..., 1:2] if x.dim() else x,
    lambda x: x.unsqueeze(-1).expand(*x.shape, 2),
    lambda x: x.squeeze(),
    lambda x: x.narrow(-1, 0, x.shape[-1] // 2) if x.dim() else x,
)
JOIN: Sequence[Callable[[Tensor], Tensor]] = (
    lambda x: tinyt.cat([x, x]) if x.dim() else x,
    lambda x: tinyt.cat(list(x.chunk(3, -1)), -1) if x.dim() else x,
    lambda x: tinyt.cat(list(x.chunk(2))[::-1]) if x.dim() and x.shape[0] else x,
    lambda x: tinyt.nn.functional.pad(x, (1, 2)) if x.dim() else x,
    lambda x: tinyt.nn.functional.pad(x, (0, 1))[..., 1:] if x.dim() else x,
    lambda x: tinyt.cat([x.exp(), tinyt.zeros_like(x)], -1).to(x.dtype) if x.dim() else x,
)


def fill_parts(x: Tensor) -> Tensor:
    """Writes all parts of a padded value, and one of them twice."""
    if not x.dim():
        return x
    y = tinyt.nn.functional.pad(x, (x.shape[-1], x.shape[-1]))
    n = x.shape[-1]
    y[..., :n] += x
    y[..., 2 * n :] = 1
    y[..., 2 * n :] = x
    return y


def write_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y.transpose(0, -1)[:1].mul_(2) if y.dim() else y.add_(1)
    return y


def write_all(x: Tensor) -> Tensor:
    y = tinyt.zeros_like(x)
    y.copy_(x)
    y[:] = y if y.dim() == 0 else y[:1]
    return y


WRITE: Sequence[Callable[[Tensor], Tensor]] = (fill_parts, write_a_view, write_all)
BINARY: Sequence[Callable[[Tensor, Tensor], Tensor]] = (
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: tinyt.maximum(x, x) - y,
    lambda x, y: tinyt.where(x > 0, x, y),
    lambda x, y: tinyt.cat([x.flatten(), y.flatten().to(x.dtype)]),
)
STARTS: Sequence[Callable[[], Tensor]] = (
    lambda: tinyt.rand(2, 3),
    lambda: tinyt.full((2, 2), -0.0),
    lambda: tinyt.arange(6).reshape(2, 3),
)


@st.composite
def functions(draw: st.DrawFn) -> Callable[..., tuple[Tensor, ...]]:
    """Of two tensors; some write to them. Results are views of arguments, too."""
    kinds = st.sampled_from(
        [*["unary"] * 4, *["view"] * 4, "join", "write", "binary", "start", "assign"]
    )
    steps: list[tuple[str, Any, int, int]] = []
    for _ in range(draw(st.integers(3, 16))):
        kind = draw(kinds)
        table: Sequence[Any] = {
            "unary": UNARY, "view": VIEW, "join": JOIN, "write": WRITE, "binary": BINARY,
            "start": STARTS, "assign": (0,),
        }[kind]  # fmt: skip
        places = draw(st.integers(0, 5)), draw(st.integers(0, 5))
        steps.append((kind, draw(st.sampled_from(table)), *places))
    returned = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))

    def function(*args: Tensor) -> tuple[Tensor, ...]:
        pool = list(args)
        for kind, step, i, j in steps:
            x, y = pool[-1 - i % len(pool)], pool[-1 - j % len(pool)]
            if x.numel() > 400:
                x = x.flatten()[:7]
            try:
                if kind == "assign":
                    if y.numel() == 1 and x.numel():
                        args[i % 2].mul_(2)
                else:
                    inputs = (x, y)[: {"start": 0, "binary": 2}.get(kind, 1)]
                    pool.append(step(*inputs))
            except tinyt.CaptureError:
                raise
            except (RuntimeError, ValueError, IndexError):  # shapes that do not go together
                continue
        return tuple(pool[-1 - i % len(pool)] for i in returned)

    return function
