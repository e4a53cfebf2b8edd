"""Matrix products in float32 and float64."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.case import SIZES, Case, Input, Work, normal, with_backward


def product(lib: Any, a: Any, b: Any) -> Any:
    return lambda: a @ b


def linear(lib: Any, x: Any, w: Any, b: Any) -> Any:
    function = lib.nn.functional.linear
    return lambda: function(x, w, b)


def work(a: Input, b: Input, batch: int, m: int, n: int, k: int) -> Work:
    return Work(
        flops=2 * batch * m * n * k,
        reads=a.nbytes + b.nbytes,
        writes=batch * m * n * SIZES[a.dtype],
        peak=a.dtype,
    )


def demand(m: int, n: int, k: int, dtype: str) -> str:
    """Which share of the peak float32 is held to."""
    if dtype == "float32" and min(m, n, k) >= 1000:
        return "large matmul"
    if dtype == "float32" and m >= 2000 and min(n, k) >= 384:
        return "transformer matmul"
    return ""


def mm(m: int, k: int, n: int, of: str = "", dtype: str = "float32", layout: str = "nn") -> Case:
    """(m, k) @ (k, n); a t in ``layout`` says which operand is a transposed view."""
    shapes = [(m, k), (k, n)]
    a, b = (
        normal(*shape[::-1], dtype=dtype, view=lambda x: x.t())
        if letter == "t"
        else normal(*shape, dtype=dtype)
        for letter, shape in zip(layout, shapes, strict=True)
    )
    name = f"{m}x{k} @ {k}x{n}" + ("" if dtype == "float32" else f" {dtype}")
    name += ("" if layout == "nn" else f" {layout}") + (f" ({of})" if of else "")
    return Case(name, (a, b), product, work(a, b, 1, m, n, k), demand(m, n, k, dtype))


def bmm(batch: tuple[int, ...], m: int, k: int, n: int, of: str = "", turned: bool = False) -> Case:
    """``turned``: the second operand is a view of (n, k), as keys are in attention."""
    a = normal(*batch, m, k)
    b = normal(*batch, n, k, view=lambda x: x.mT) if turned else normal(*batch, k, n)
    count = a.numel // (m * k)
    name = f"{count} times {m}x{k} @ {k}x{n}" + (f" ({of})" if of else "")
    return Case(name, (a, b), product, work(a, b, count, m, n, k))


def layer(rows: int, width: int, out: int, of: str, dtype: str = "float32") -> Case:
    """Linear with bias, its weight stored (out, width)."""
    x, w, b = (normal(*s, dtype=dtype) for s in ((rows, width), (out, width), (out,)))
    name = f"linear {rows}x{width} to {out}" + ("" if dtype == "float32" else f" {dtype}")
    least = work(x, w, 1, rows, out, width)
    return Case(f"{name} ({of})", (x, w, b), linear, least, demand(rows, out, width, dtype))


def trained(rows: int, width: int, out: int, of: str) -> Case:
    """Linear forward and backward: three products."""
    inputs = tuple(normal(*s, grad=True) for s in ((rows, width), (out, width), (out,)))
    return Case(
        f"linear {rows}x{width} to {out} forward, backward ({of})",
        inputs,
        with_backward(lambda lib, x, w, b: lib.nn.functional.linear(x, w, b)),
        Work(flops=6 * rows * width * out),
    )


FIXED = (
    *(mm(n, n, n) for n in (16, 32, 64, 128, 256, 512, 1024, 1500, 2048)),
    *(mm(n, n, n, dtype="float64") for n in (64, 512, 1024)),
    mm(1000, 1000, 1000, layout="nt"),
    mm(1000, 1000, 1000, layout="tn"),
    mm(1000, 1000, 1000, layout="tt"),
    mm(777, 333, 555, "odd"),
    layer(4096, 768, 768, "BERT base, 8x512, projection"),
    layer(4096, 768, 3072, "BERT base, 8x512, first of the MLP"),
    layer(4096, 3072, 768, "BERT base, 8x512, second of the MLP"),
    layer(2048, 384, 1536, "small transformer, 8x256"),
    layer(2048, 1536, 384, "small transformer, 8x256"),
    layer(3152, 768, 2304, "ViT-B/16, 16 images, queries, keys, values"),
    layer(128, 768, 50257, "GPT-2, logits"),
    layer(64, 784, 128, "MLP for MNIST"),
    layer(2048, 13, 512, "DLRM, dense features"),
    layer(32, 2048, 1000, "ResNet-50 classifier"),
    layer(65536, 63, 256, "NeRF, positions"),
    layer(1, 4096, 4096, "Llama 7B, one token"),
    layer(1, 4096, 11008, "Llama 7B, one token"),
    layer(8, 4096, 4096, "Llama 7B, eight tokens"),
    layer(16, 768, 3072, "BERT base, 16 rows"),
    layer(2048, 384, 1536, "small transformer, 8x256", dtype="float64"),
    trained(2048, 384, 1536, "small transformer, 8x256"),
    trained(64, 784, 128, "MLP for MNIST"),
    bmm((96,), 512, 64, 512, "BERT base, scores", turned=True),
    bmm((96,), 512, 512, 64, "BERT base, values"),
    bmm((512,), 49, 32, 49, "Swin-T, windows", turned=True),
    bmm((4096,), 4, 4, 4, "poses"),
    bmm((256,), 16, 16, 16),
    bmm((8, 32), 27, 16, 27, "DLRM, interactions"),
    mm(4096, 4096, 1, "matrix times vector"),
    mm(1, 4096, 4096, "vector times matrix"),
    mm(4096, 16, 4096, "LoRA, rank 16"),
    mm(16, 100_000, 16, "inner dimension of 100K"),
    mm(100_000, 16, 16, "100K rows of 16"),
    Case("einsum bhid,bhjd->bhij 8x12x256x64", (normal(8, 12, 256, 64),) * 2,
         lambda lib, a, b: lambda: lib.einsum("bhid,bhjd->bhij", a, b),
         Work(flops=2 * 96 * 256 * 256 * 64)),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """Any three sizes, any transposition."""
    for limit in (64, 300, 1000, 2000):
        m, k, n = (draw.randint(2, limit) for _ in range(3))
        yield mm(m, k, n, "drawn", layout=draw.choice("nt") + draw.choice("nt"))
    m, k, n = draw.randint(2000, 3000), draw.randint(384, 1600), draw.randint(384, 1600)
    yield mm(m, k, n, "drawn")
    batch, m, k, n = draw.randint(2, 200), *(draw.randint(4, 128) for _ in range(3))
    yield bmm((batch,), m, k, n, "drawn")
