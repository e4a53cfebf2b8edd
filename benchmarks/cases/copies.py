"""Copies, permutes, cat, pad, gather, embedding, boolean indexing."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.case import Case, Input, Work, integers, normal, with_backward

M = 1 << 20
LARGE = 4 * M
HEADS = (8, 512, 12, 64)  # batch, tokens, heads, width of BERT base


def case(name: str, setup: Any, *inputs: Input, writes: int | None = None) -> Case:
    """Every input is read once; ``writes`` defaults to as much."""
    read = sum(i.nbytes for i in inputs)
    written = read if writes is None else writes
    demand = "stream" if writes is None and read >= 4 * LARGE else ""
    return Case(name, inputs, setup, Work(reads=read, writes=written), demand)


def rearranged(
    name: str, view: Any, *shape: int, dtype: str = "float32", writes: int | None = None
) -> Case:
    """A view copied into a contiguous tensor, as large as the input or of ``writes`` bytes."""
    x = normal(*shape, dtype=dtype, view=view)
    return case(name, lambda lib, x: lambda: x.contiguous(), x, writes=writes)


def taken(name: str, setup: Any, x: Input, index: Input, numel: int) -> Case:
    """Reads as much of ``x`` as it writes."""
    work = Work(reads=4 * numel + index.nbytes, writes=4 * numel)
    return Case(name, (x, index), setup, work)


def masked(lib: Any, x: Any, *_: Any) -> Any:
    mask = x > 0
    return lambda: x[mask]


def filled(lib: Any, x: Any) -> Any:
    mask = lib.ones(x.shape[-2:], dtype=lib.bool).tril()
    return lambda: x.masked_fill(mask, float("-inf"))


def rows_set(lib: Any, x: Any, index: Any, y: Any) -> Any:
    index = lib.unique(index)
    y = y[: len(index)]
    return lambda: x.index_put((index,), y)


def patches(lib: Any, x: Any) -> Any:
    return lambda: x.view(8, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(8, 196, 768)


def windows(lib: Any, x: Any) -> Any:
    return lambda: x.roll((-3, -3), (1, 2)).view(8, 8, 7, 8, 7, 96).transpose(2, 3).contiguous()


def split_heads(lib: Any, x: Any) -> Any:
    return lambda: [t.contiguous() for t in x.view(8, 512, 3, 12, 64).permute(2, 0, 3, 1, 4)]


def gathered(lib: Any, x: Any, index: Any) -> Any:
    return lambda: x.gather(1, index)


def selected(lib: Any, x: Any, index: Any) -> Any:
    return lambda: x.index_select(0, index)


def embedding(lib: Any, index: Any, table: Any) -> Any:
    return lib.nn.functional.embedding(index, table)


FIXED = (
    case("clone 16M", lambda lib, x: lambda: x.clone(), normal(16 * M)),
    case("clone 32K", lambda lib, x: lambda: x.clone(), normal(32 << 10)),
    case("copy_ 16M", lambda lib, x, y: lambda: x.copy_(y), normal(16 * M), normal(16 * M),
         writes=0),
    case("zeros 16M", lambda lib: lambda: lib.zeros(16 * M), writes=64 * M),
    rearranged("transpose 4096x4096", lambda x: x.t(), 4096, 4096),
    rearranged("transpose 1000x1000", lambda x: x.t(), 1000, 1000),
    rearranged("transpose 4096x4096 bfloat16", lambda x: x.t(), 4096, 4096, dtype="bfloat16"),
    rearranged("transpose 2048x2048 float64", lambda x: x.t(), 2048, 2048, dtype="float64"),
    rearranged("NCHW to NHWC 32x64x56x56 (ResNet-50)", lambda x: x.permute(0, 2, 3, 1),
               32, 64, 56, 56),
    rearranged("NHWC to NCHW 32x224x224x3 (images)", lambda x: x.permute(0, 3, 1, 2),
               32, 224, 224, 3),
    rearranged("heads forward 8x512x12x64 (BERT base)", lambda x: x.transpose(1, 2), *HEADS),
    rearranged("reverse all dimensions 64x64x64x16", lambda x: x.permute(3, 2, 1, 0),
               64, 64, 64, 16),
    rearranged("x[:, ::2] 2048x2048", lambda x: x[:, ::2], 2048, 2048, writes=8 * M),
    Case("x[:, 64:192] 8192x256", (normal(8192, 256, view=lambda x: x[:, 64:192]),),
         lambda lib, x: lambda: x.contiguous(), Work(reads=4 * M, writes=4 * M)),
    rearranged("expand 1x1024 to 4096x1024", lambda x: x.expand(4096, 1024), 1, 1024,
               writes=16 * M),
    case("split of heads 8x512x2304 (GPT-2)", split_heads, normal(8, 512, 2304)),
    case("patches 8x3x224x224 (ViT-B/16)", patches, normal(8, 3, 224, 224)),
    case("roll and windows 8x56x56x96 (Swin-T)", windows, normal(8, 56, 56, 96)),
    case("pixel_shuffle 4x64x128x128 (ESPCN)",
         lambda lib, x: lambda: lib.nn.functional.pixel_shuffle(x, 2), normal(4, 64, 128, 128)),
    case("cat of channels 8x64x128x128 (U-Net)", lambda lib, a, b: lambda: lib.cat((a, b), 1),
         *[normal(8, 64, 128, 128)] * 2),
    case("cat 32x256x28x28 and 32x32 (DenseNet-121)", lambda lib, a, b: lambda: lib.cat((a, b), 1),
         normal(32, 256, 28, 28), normal(32, 32, 28, 28)),
    case("cat of 4x12x1023x64 and 1 (GPT-2 cache)",
         lambda lib, a, b: lambda: lib.cat((a, b), 2), normal(4, 12, 1023, 64),
         normal(4, 12, 1, 64)),
    case("stack of 64 images 3x64x64", lambda lib, *x: lambda: lib.stack(x),
         *[normal(3, 64, 64)] * 64),
    case("pad 32x64x56x56 by 1 (ResNet-50)",
         lambda lib, x: lambda: lib.nn.functional.pad(x, (1, 1, 1, 1)), normal(32, 64, 56, 56)),
    case("reflection pad 4x64x128x128 (CycleGAN)",
         lambda lib, x: lambda: lib.nn.functional.pad(x, (3, 3, 3, 3), "reflect"),
         normal(4, 64, 128, 128)),
    case("flip 32x3x224x224 (augmentation)", lambda lib, x: lambda: x.flip(-1),
         normal(32, 3, 224, 224)),
    case("tril 2048x2048", lambda lib, x: lambda: x.tril(), normal(2048, 2048)),
    case("repeat 512x256 by 4, 2", lambda lib, x: lambda: x.repeat(4, 2), normal(512, 256),
         writes=4 * M),
    case("repeat_interleave 8x8x512x128 (Llama GQA)",
         lambda lib, x: lambda: x.repeat_interleave(4, 1), normal(1, 8, 512, 128), writes=8 * M),
    case("masked_fill 12x1024x1024 (GPT-2)", filled, normal(12, 1024, 1024)),
    case("x[mask] 1M", masked, normal(M), writes=2 * M),
    case("x[mask] of rows 4096x256", lambda lib, x, m: lambda: x[m], normal(4096, 256),
         Input((4096,), "bool"), writes=2 * M),
    case("nonzero 1M", lambda lib, x: lambda: x.nonzero(), Input((M,), "bool"), writes=4 * M),
    taken("embedding 8x512 of 30522x768 (BERT base)",
          lambda lib, t, i: lambda: embedding(lib, i, t), normal(30522, 768),
          integers(30522, 8, 512), 8 * 512 * 768),
    Case("embedding forward, backward 8x256 of 5000x384",
         (normal(5000, 384, grad=True), integers(5000, 8, 256)),
         with_backward(lambda lib, t, i: embedding(lib, i, t)),
         Work(reads=8 * 8 * 256 * 384, writes=8 * 5000 * 384)),
    taken("index_select 64K rows of 100Kx32 (graph)", selected, normal(100_000, 32),
          integers(100_000, 1 << 16), 32 << 16),
    taken("x[i] 1M single elements", lambda lib, x, i: lambda: x[i], normal(M), integers(M, M), M),
    taken("gather 4096x256 of 4096x1024", gathered, normal(4096, 1024), integers(1024, 4096, 256),
          M),
    taken("take_along_dim of columns 1024x1024",
          lambda lib, x, i: lambda: lib.take_along_dim(x, i, 0), normal(1024, 1024),
          integers(1024, 1024, 1024), M),
    case("scatter_add 64K rows of 32 into 10K (graph)",
         lambda lib, x, i: (lambda z: lambda: z.scatter_add(0, i.unsqueeze(1).expand(-1, 32), x))(
             lib.zeros(10_000, 32)), normal(1 << 16, 32), integers(10_000, 1 << 16),
         writes=4 * 320_000),
    case("index_add 64K rows of 32 into 10K (graph)",
         lambda lib, x, i: (lambda z: lambda: z.index_add(0, i, x))(lib.zeros(10_000, 32)),
         normal(1 << 16, 32), integers(10_000, 1 << 16), writes=4 * 320_000),
    case("index_put 4096 rows of 10Kx128", rows_set, normal(10_000, 128), integers(10_000, 4096),
         normal(4096, 128)),
    case("one_hot 4096 of 1000", lambda lib, i: lambda: lib.nn.functional.one_hot(i, 1000),
         integers(1000, 4096), writes=8 * 4096 * 1000),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """Permutations, joins and selections of any sizes."""
    for _ in range(3):
        sizes = [int(2 ** draw.uniform(1, 6)) for _ in range(4)]
        order = draw.sample(range(4), 4)
        yield rearranged(f"permute {sizes} by {order} (drawn)",
                         lambda x, order=order: x.permute(*order), *sizes)  # fmt: skip
    rows, columns, dim = draw.randint(10, 3000), draw.randint(10, 500), draw.randrange(2)
    yield case(f"cat of three {rows}x{columns} along {dim} (drawn)",
               lambda lib, *x: lambda: lib.cat(x, dim), *[normal(rows, columns)] * 3)  # fmt: skip
    n = draw.randint(10, 5000)
    yield taken(f"index_select {n} of {rows}x{columns} (drawn)", selected, normal(rows, columns),
                integers(rows, n), n * columns)  # fmt: skip
    yield case(f"x[mask] {rows}x{columns} (drawn)", masked, normal(rows, columns))
