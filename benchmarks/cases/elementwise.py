"""Elementwise operations of 1K to 64M elements: casts, broadcasts and strides too."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.case import SIZES, Case, Input, moving, normal, with_backward

K, M = 1 << 10, 1 << 20
LARGE = 4 * M
"""From here on memory is the limit."""


def count(n: int) -> str:
    return f"{n / M:.3g}M" if n >= M else f"{n / K:.3g}K" if n >= K else str(n)


def case(name: str, setup: Any, *inputs: Input, writes: int | None = None) -> Case:
    """``writes`` defaults to a result like the largest input."""
    written = max(i.nbytes for i in inputs) if writes is None else writes
    work = moving(inputs, written)
    large = max(i.numel for i in inputs) >= LARGE
    return Case(name, inputs, setup, work, "stream" if large else "")


def unary(op: str, *shape: int, dtype: str = "float32", of: str = "") -> Case:
    x = normal(*shape, dtype=dtype)
    name = f"{op} {count(x.numel)} {dtype}" + (f" ({of})" if of else "")
    return case(name, lambda lib, x: (lambda f: lambda: f(x))(function(lib, op)), x)


def function(lib: Any, op: str) -> Any:
    """An operation of the library itself, or of its nn.functional."""
    return getattr(lib, op, None) or getattr(lib.nn.functional, op)


def cast(n: int, source: str, target: str) -> Case:
    return case(
        f"{source} to {target} {count(n)}",
        lambda lib, x: lambda: x.to(getattr(lib, target)),
        normal(n, dtype=source) if "int" not in source else Input((n,), source, high=100),
        writes=n * SIZES[target],
    )


def binary(name: str, setup: Any, a: Input, b: Input, **options: Any) -> Case:
    return case(name, setup, a, b, **options)


def plus(lib: Any, a: Any, b: Any) -> Any:
    return lambda: a + b


def plus_into(lib: Any, a: Any, b: Any) -> Any:
    out = lib.empty_like(a)
    return lambda: lib.add(a, b, out=out)


FIXED = (
    *(binary(f"x + y {count(n)}", plus, normal(n), normal(n)) for n in (K, 32 * K, M, 16 * M)),
    binary("x + y 64M", plus, normal(64 * M), normal(64 * M)),
    binary("x + y 16M into an output", plus_into, normal(16 * M), normal(16 * M)),
    binary("x + y 1M float64", plus, normal(M, dtype="float64"), normal(M, dtype="float64")),
    binary("x + y 4M bfloat16", plus, *[normal(4 * M, dtype="bfloat16")] * 2),
    binary("x + y 4M int64", plus, *[Input((4 * M,), "int64", high=99)] * 2),
    *(unary(op, 100 * K) for op in ("exp", "log1p", "sin", "erf", "rsqrt", "tan", "abs")),
    *(unary(op, 16 * M) for op in ("exp", "tanh", "neg")),
    unary("relu", 32, 64, 112, 112, of="ResNet-50 stem"),
    unary("relu", 32, 256, 14, 14, of="ResNet-50 stage 3"),
    unary("hardswish", 32, 96, 56, 56, of="MobileNetV3"),
    unary("silu", 16, 144, 56, 56, of="EfficientNet-B0"),
    unary("gelu", 8, 512, 3072, of="BERT base"),
    unary("gelu", 1, 1024, 3072, of="GPT-2, one sequence"),
    unary("silu", 512, 11008, of="Llama 7B"),
    unary("silu", 512, 11008, dtype="bfloat16", of="Llama 7B"),
    unary("sigmoid", 256, 1, of="DLRM"),
    unary("gelu", 197 * 3072, dtype="float16", of="ViT-B/16"),
    cast(M, "float32", "bfloat16"),
    cast(M, "bfloat16", "float32"),
    cast(16 * M, "float32", "float16"),
    cast(M, "float32", "float64"),
    cast(M, "int64", "float32"),
    cast(4 * M, "float32", "bool"),
    binary("bias over rows 8x512x768 (BERT base)", plus, normal(8, 512, 768), normal(768)),
    binary("scale of channels 32x256x56x56 (ResNet-50)", lambda lib, x, w: lambda: x * w,
           normal(32, 256, 56, 56), normal(256, 1, 1)),
    binary("outer sum 2048 + 2048x1", plus, normal(2048), normal(2048, 1), writes=4 * 2048**2),
    binary("float32 + int64 1M", plus, normal(M), Input((M,), "int64", high=9), writes=4 * M),
    binary("bfloat16 * float32 1M", lambda lib, x, y: lambda: x * y, normal(M, dtype="bfloat16"),
           normal(M)),
    binary("x.t() + y 2048x2048", plus, normal(2048, 2048, view=lambda x: x.t()),
           normal(2048, 2048)),
    case("x[:, ::2] * 2 2048x2048", lambda lib, x: lambda: x * 2,
         normal(2048, 2048, view=lambda x: x[:, ::2]), writes=8 * M),
    case("channels last relu 16x64x56x56", lambda lib, x: lambda: lib.relu(x),
         normal(16, 56, 56, 64, view=lambda x: x.permute(0, 3, 1, 2))),
    binary("x < y 1M", lambda lib, x, y: lambda: x < y, normal(M), normal(M), writes=M),
    case("where 1M", lambda lib, m, x, y: lambda: lib.where(m, x, y), Input((M,), "bool"),
         normal(M), normal(M)),
    case("clamp 1M", lambda lib, x: lambda: x.clamp(-1, 1), normal(M)),
    case("x ** 2.5 1M", lambda lib, x: lambda: x**2.5, normal(M, view=lambda x: x.abs())),
    case("addcmul 1M", lambda lib, x, y, z: lambda: lib.addcmul(x, y, z, value=0.5),
         *[normal(M)] * 3),
    case("lerp 1M (moving average)", lambda lib, x, y: lambda: lib.lerp(x, y, 0.1),
         normal(M), normal(M)),
    case("x.add_(y) 4M", lambda lib, x, y: lambda: x.add_(y, alpha=0.0), *[normal(4 * M)] * 2),
    case("silu(x) * y 512x11008 (Llama 7B gate)",
         lambda lib, x, y: lambda: lib.nn.functional.silu(x) * y, *[normal(512, 11008)] * 2),
    Case("gelu 8x512x3072 forward, backward (BERT base)", (normal(8, 512, 3072, grad=True),),
         with_backward(lambda lib, x: lib.nn.functional.gelu(x)),
         moving((normal(8, 512, 3072),) * 3, 8 * 8 * 512 * 3072)),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """Any size, any of these operations; a broadcast of odd shapes."""
    ops = ("exp", "sqrt", "sigmoid", "cos", "floor", "log", "tanh", "softplus", "expm1", "square")
    for op in draw.sample(ops, 4):
        yield unary(op, int(2 ** draw.uniform(10, 24)), of="drawn")
    for _ in range(2):
        rows, columns = draw.randint(2, 3000), draw.randint(2, 3000)
        a, b = normal(rows, columns), normal(*draw.choice([(columns,), (rows, 1)]))
        yield binary(f"x + y {a.shape} and {b.shape} (drawn)", plus, a, b)
