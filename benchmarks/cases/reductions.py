"""Reductions, norms, softmax, cross-entropy, scans, sort, top-k."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.case import Case, Input, integers, moving, normal, with_backward

M = 1 << 20
ROWS = (12288, 256)  # 3M elements
HEADS = (12, 1024, 1024)  # attention scores of GPT-2
LARGE = 4 * M


def case(name: str, setup: Any, *inputs: Input, writes: int = 0, passes: int = 1) -> Case:
    """``passes``: 3 for forward and backward, which reads once more and writes a gradient."""
    work = moving(inputs * (1 if passes == 1 else 2), writes)
    large = passes == 1 and inputs[0].numel >= LARGE
    return Case(name, inputs, setup, work, "stream" if large else "")


def reduction(op: str, *shape: int, dim: Any = None, dtype: str = "float32", of: str = "") -> Case:
    x = normal(*shape, dtype=dtype)
    text = "x".join(map(str, shape))
    name = f"{op} {text}" + ("" if dim is None else f" over {dim}")
    name += "" if dtype == "float32" else f" {dtype}"
    arguments = () if dim is None else (dim,)
    return case(
        name + (f" ({of})" if of else ""), lambda lib, x: lambda: getattr(x, op)(*arguments), x
    )


def rowwise(name: str, function: Any, *shape: int, backward: bool = False) -> Case:
    """A result like its input."""
    x = normal(*shape, grad=backward)
    if backward:
        return case(name, with_backward(function), x, writes=2 * x.nbytes, passes=3)
    return case(name, lambda lib, x: lambda: function(lib, x), x, writes=x.nbytes)


def layer_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
    return lib.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


def batch_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
    return lib.nn.functional.batch_norm(x, None, None, w, b, training=True)


def group_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
    return lib.nn.functional.group_norm(x, 32, w, b)


def norm(name: str, function: Any, shape: tuple[int, ...], n: int, backward: bool) -> Case:
    inputs = normal(*shape, grad=backward), normal(n, grad=backward), normal(n, grad=backward)
    size = inputs[0].nbytes
    if backward:
        return case(f"{name} forward, backward", with_backward(function), *inputs,
                    writes=2 * size, passes=3)  # fmt: skip
    return case(name, lambda lib, *t: lambda: function(lib, *t), *inputs, writes=size)


def cross_entropy(name: str, rows: int, classes: int) -> Case:
    return case(
        f"cross_entropy {rows}x{classes} forward, backward ({name})",
        with_backward(lambda lib, x, y: lib.nn.functional.cross_entropy(x, y)),
        normal(rows, classes, grad=True), integers(classes, rows),
        writes=4 * rows * classes, passes=3,
    )  # fmt: skip


def first(lib: Any, x: Any, k: int) -> Any:
    return lib.topk(x, k)[0]


FIXED = (
    reduction("sum", M),
    reduction("sum", 64 * M),
    reduction("sum", *ROWS, dim=1),
    reduction("sum", *ROWS, dim=0),
    reduction("sum", 8, 512, 768, dim=(0, 1), of="BERT base, gradient of a bias"),
    reduction("sum", M, dtype="float64"),
    reduction("sum", 4 * M, dtype="bfloat16"),
    reduction("mean", 32, 2048, 7, 7, dim=(2, 3), of="ResNet-50 pooling"),
    reduction("mean", 8, 512, 768, dim=-1),
    reduction("var", *ROWS, dim=1),
    reduction("var", *ROWS, dim=0),
    reduction("std", M),
    reduction("amax", *ROWS, dim=1),
    reduction("max", M),
    reduction("argmax", *ROWS, dim=1),
    reduction("argmax", *ROWS, dim=0),
    reduction("argmin", M),
    reduction("prod", *ROWS, dim=1),
    reduction("norm", 4 * M),
    reduction("logsumexp", *ROWS, dim=1),
    case("any 4M", lambda lib, x: lambda: x.any(), Input((4 * M,), "bool", high=1)),
    case("count_nonzero 1M", lambda lib, x: lambda: lib.count_nonzero(x), integers(2, M)),
    rowwise("softmax 12x1024x1024 (GPT-2)", lambda lib, x: x.softmax(-1), *HEADS),
    rowwise("softmax 32x1000 (ImageNet)", lambda lib, x: x.softmax(-1), 32, 1000),
    rowwise("softmax over channels 4x21x256x256 (DeepLab)", lambda lib, x: x.softmax(1),
            4, 21, 256, 256),
    rowwise("softmax 12x1024x1024 forward, backward (GPT-2)", lambda lib, x: x.softmax(-1), *HEADS,
            backward=True),
    rowwise("log_softmax 128x50257 (GPT-2)", lambda lib, x: x.log_softmax(-1), 128, 50257),
    norm("layer_norm 8x512x768 (BERT base)", layer_norm, (8, 512, 768), 768, False),
    norm("layer_norm 8x512x768 (BERT base)", layer_norm, (8, 512, 768), 768, True),
    norm("layer_norm 16x3136x96 (Swin-T)", layer_norm, (16, 3136, 96), 96, False),
    rowwise("rms_norm 512x4096 (Llama 7B)",
            lambda lib, x: lib.nn.functional.rms_norm(x, (4096,)), 512, 4096),
    rowwise("rms_norm 512x4096 forward, backward (Llama 7B)",
            lambda lib, x: lib.nn.functional.rms_norm(x, (4096,)), 512, 4096, backward=True),
    norm("group_norm 2x320x64x64 (Stable Diffusion)", group_norm, (2, 320, 64, 64), 320, False),
    norm("group_norm 2x320x64x64 (Stable Diffusion)", group_norm, (2, 320, 64, 64), 320, True),
    norm("batch_norm 32x64x56x56 (ResNet-50)", batch_norm, (32, 64, 56, 56), 64, False),
    norm("batch_norm 32x64x56x56 (ResNet-50)", batch_norm, (32, 64, 56, 56), 64, True),
    norm("batch_norm 256x512 (DCGAN, MLP)", batch_norm, (256, 512), 512, True),
    cross_entropy("ImageNet", 256, 1000),
    cross_entropy("GPT-2", 256, 50257),
    cross_entropy("digits", 64, 10),
    rowwise("cumsum 12288x256", lambda lib, x: x.cumsum(1), *ROWS),
    rowwise("cumsum 12288x256 over 0", lambda lib, x: x.cumsum(0), *ROWS),
    rowwise("cumsum 1M", lambda lib, x: x.cumsum(0), M),
    rowwise("cumprod 1024x1024", lambda lib, x: x.cumprod(1), 1024, 1024),
    rowwise("cummax 1024x1024", lambda lib, x: x.cummax(1)[0], 1024, 1024),
    rowwise("sort 1200x1000", lambda lib, x: x.sort(-1)[0], 1200, 1000),
    rowwise("sort 1M", lambda lib, x: x.sort()[0], M),
    case("sort 1M int64", lambda lib, x: lambda: x.sort()[0], integers(1 << 40, M), writes=16 * M),
    rowwise("argsort 1200x1000", lambda lib, x: x.argsort(dim=-1, stable=True), 1200, 1000),
    case("topk 50 of 8x50257 (GPT-2 sampling)", lambda lib, x: lambda: first(lib, x, 50),
         normal(8, 50257)),
    case("topk 5 of 256x1000 (ImageNet)", lambda lib, x: lambda: first(lib, x, 5),
         normal(256, 1000)),
    case("topk 1000 of 1x159882 (Faster R-CNN)", lambda lib, x: lambda: first(lib, x, 1000),
         normal(1, 159882)),
    case("median 1M", lambda lib, x: lambda: x.median(), normal(M)),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """Any two or three dimensions, over any of them."""
    for op in draw.sample(("sum", "mean", "var", "amax", "argmax", "logsumexp", "prod", "std"), 4):
        sizes = [int(2 ** draw.uniform(1, 9)) for _ in range(draw.randint(2, 3))]
        yield reduction(op, *sizes, dim=draw.randrange(len(sizes)), of="drawn")
    rows, columns = draw.randint(1, 600), int(2 ** draw.uniform(3, 13))
    text = f"{rows}x{columns} (drawn)"
    yield rowwise(f"softmax {text}", lambda lib, x: x.softmax(-1), rows, columns)
    yield rowwise(f"sort {text}", lambda lib, x: x.sort(-1)[0], rows, columns)
    k = draw.randint(1, math.ceil(columns / 2))
    yield case(f"topk {k} of {text}", lambda lib, x: lambda: first(lib, x, k),
               normal(rows, columns))  # fmt: skip
