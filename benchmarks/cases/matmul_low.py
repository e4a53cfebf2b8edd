"""Matrix products in bfloat16, float16 and int8."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from benchmarks.case import Case, Input, Work
from benchmarks.cases import matmul

# float16 is summed in float32, by float32's units.
PEAKS = {"bfloat16": "bfloat16", "float16": "float32"}


def half(case: Case, large: bool = False) -> Case:
    """A case of `matmul` with another dtype's peak; ``large`` ones owe a share of it."""
    work = replace(case.work, peak=PEAKS[case.inputs[0].dtype])
    return replace(case, work=work, demand="large bfloat16" if large else "")


def mm(m: int, k: int, n: int, dtype: str = "bfloat16", of: str = "", layout: str = "nn") -> Case:
    large = dtype == "bfloat16" and min(m, k, n) >= 1500
    return half(matmul.mm(m, k, n, of, dtype, layout), large)


def layer(rows: int, width: int, out: int, of: str, dtype: str = "bfloat16") -> Case:
    return half(matmul.layer(rows, width, out, of, dtype))


def bytes_mm(m: int, k: int, n: int, of: str) -> Case:
    """int8 operands, int8 result, which wraps."""
    a, b = (Input(shape, "int8", high=4) for shape in ((m, k), (k, n)))
    work = Work(2 * m * n * k, a.nbytes + b.nbytes, m * n, "int8")
    return Case(f"{m}x{k} @ {k}x{n} int8 ({of})", (a, b), matmul.product, work)


FIXED = (
    *(mm(n, n, n) for n in (32, 64, 256, 512, 1024, 1500, 2048)),
    mm(1024, 1024, 1024, layout="nt"),
    mm(1024, 1024, 1024, layout="tn"),
    *(mm(n, n, n, "float16") for n in (64, 512, 1024)),
    layer(4096, 768, 3072, "BERT base, 8x512"),
    layer(4096, 3072, 768, "BERT base, 8x512"),
    layer(2048, 384, 1536, "small transformer, 8x256"),
    layer(512, 4096, 4096, "Llama 7B, 512 tokens"),
    layer(1, 4096, 11008, "Llama 7B, one token"),
    layer(8, 4096, 4096, "Llama 7B, eight tokens"),
    layer(3152, 768, 768, "ViT-B/16, 16 images"),
    layer(3152, 768, 768, "ViT-B/16, 16 images", "float16"),
    layer(1, 4096, 4096, "Llama 7B, one token", "float16"),
    bytes_mm(64, 64, 64, "small"),
    bytes_mm(512, 768, 768, "BERT base"),
)


def drawn(draw: Random) -> Iterator[Case]:
    """Any three sizes."""
    for dtype in ("bfloat16", "bfloat16", "float16"):
        m, k, n = (draw.randint(2, 1200) for _ in range(3))
        yield mm(m, k, n, dtype, "drawn", draw.choice("nt") + draw.choice("nt"))
