"""Convolution and pooling, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from random import Random
from typing import Any

from benchmarks.case import Case, Input, Work, moving, normal, with_backward


def conv(
    of: str, shape: tuple[int, ...], out: int, kernel: tuple[int, ...] | int, stride: int = 1,
    padding: int = 0, groups: int = 1, dilation: int = 1, backward: bool = False,
    dtype: str = "float32",
) -> Case:  # fmt: skip
    """``shape``: batch, channels, sizes; the operation is conv1d, conv2d or conv3d."""
    batch, channels, *sizes = shape
    dims = len(sizes)
    kernel = (kernel,) * dims if isinstance(kernel, int) else kernel
    ends = [
        (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(sizes, kernel, strict=True)
    ]
    x = normal(*shape, grad=backward, dtype=dtype)
    w = normal(out, channels // groups, *kernel, grad=backward, dtype=dtype)
    options = {"stride": stride, "padding": padding, "groups": groups, "dilation": dilation}

    def function(lib: Any, x: Any, w: Any) -> Any:
        return getattr(lib.nn.functional, f"conv{dims}d")(x, w, **options)

    name = f"{dims}d {'x'.join(map(str, shape))} to {out}, {'x'.join(map(str, kernel))}"
    name += "".join(
        f" {word}{value}"
        for word, value, usual in (("/", stride, 1), ("g", groups, 1), ("dilated ", dilation, 1))
        if value != usual
    )
    name += (" forward, backward" if backward else "") + ("" if dtype == "float32" else f" {dtype}")
    flops = 2 * batch * out * prod(ends) * channels // groups * prod(kernel)
    size = x.nbytes // x.numel
    held = dtype == "float32" and groups == 1 and min(channels, out) >= 32
    return Case(
        f"{name} ({of})",
        (x, w),
        with_backward(function) if backward else lambda lib, x, w: lambda: function(lib, x, w),
        Work(flops * (3 if backward else 1), x.nbytes + w.nbytes, size * batch * out * prod(ends),
             "bfloat16" if dtype == "bfloat16" else "float32"),
        "convolution" if held else "",
    )  # fmt: skip


def transposed(of: str, shape: tuple[int, ...], out: int, kernel: int, stride: int) -> Case:
    """conv_transpose2d without padding."""
    batch, channels, height, width = shape
    x, w = normal(*shape), normal(channels, out, kernel, kernel)
    return Case(
        f"transposed {'x'.join(map(str, shape))} to {out}, {kernel} /{stride} ({of})",
        (x, w),
        lambda lib, x, w: lambda: lib.nn.functional.conv_transpose2d(x, w, stride=stride),
        Work(2 * batch * channels * out * height * width * kernel**2, x.nbytes + w.nbytes,
             4 * batch * out * ((height - 1) * stride + kernel) * ((width - 1) * stride + kernel)),
    )  # fmt: skip


def pool(name: str, function: Any, shape: tuple[int, ...], shrink: int, backward: bool) -> Case:
    """``shrink``: how many inputs make one output."""
    x: Input = normal(*shape, grad=backward)
    inputs = (x,)
    if backward:
        work = moving(inputs, x.nbytes)
        return Case(f"{name} forward, backward", inputs, with_backward(function), work)
    work = moving(inputs, x.nbytes // shrink)
    return Case(name, inputs, lambda lib, x: lambda: function(lib, x), work)


def max_pool(of: str, shape: tuple[int, ...], k: int, s: int, p: int, backward: bool) -> Case:
    return pool(
        f"max_pool {'x'.join(map(str, shape))}, {k} /{s} ({of})",
        lambda lib, x: lib.nn.functional.max_pool2d(x, k, s, p), shape, s * s, backward,
    )  # fmt: skip


FIXED = (
    conv("ResNet-50 stem", (16, 3, 224, 224), 64, 7, 2, 3),
    conv("ResNet-50 stage 1", (32, 64, 56, 56), 64, 3, 1, 1),
    conv("ResNet-50 stage 2", (32, 128, 28, 28), 128, 3, 1, 1),
    conv("ResNet-50 stage 3", (32, 256, 14, 14), 256, 3, 1, 1),
    conv("ResNet-50 stage 4", (32, 512, 7, 7), 512, 3, 1, 1),
    conv("ResNet-50 stage 2, one image", (1, 128, 28, 28), 128, 3, 1, 1),
    conv("ResNet-50 bottleneck", (32, 256, 56, 56), 64, 1),
    conv("ResNet-50 bottleneck", (32, 512, 28, 28), 1024, 1, 2),
    conv("ResNet-18 downsampling", (32, 64, 56, 56), 128, 3, 2, 1),
    conv("VGG-16", (4, 64, 224, 224), 64, 3, 1, 1),
    conv("wide CNN", (16, 48, 40, 40), 96, 3, 1, 1),
    conv("LeNet-5", (64, 1, 28, 28), 6, 5, 1, 2),
    conv("digits", (64, 1, 8, 8), 32, 3, 1, 1),
    conv("digits", (64, 32, 8, 8), 64, 3, 1, 1),
    conv("MobileNetV2", (16, 144, 56, 56), 144, 3, 1, 1, groups=144),
    conv("MobileNetV2", (16, 144, 56, 56), 144, 3, 2, 1, groups=144),
    conv("EfficientNet-B0", (16, 240, 28, 28), 240, 5, 1, 2, groups=240),
    conv("ConvNeXt-T", (8, 96, 56, 56), 96, 7, 1, 3, groups=96),
    conv("ResNeXt-50", (16, 128, 56, 56), 128, 3, 1, 1, groups=32),
    conv("DeepLabV3", (2, 512, 33, 33), 256, 3, 1, 6, dilation=6),
    conv("ViT-B/16 patches", (8, 3, 224, 224), 768, 16, 16),
    conv("Whisper base", (2, 80, 3000), 512, 3, 1, 1),
    conv("WaveNet", (2, 64, 8000), 64, 2, dilation=64),
    conv("C3D", (1, 64, 8, 56, 56), 128, 3, 1, 1),
    conv("ResNet-50 stage 1", (32, 64, 56, 56), 64, 3, 1, 1, dtype="bfloat16"),
    conv("ResNet-50 stage 1", (16, 64, 56, 56), 64, 3, 1, 1, backward=True),
    conv("ResNet-50 stage 3", (16, 256, 14, 14), 256, 3, 1, 1, backward=True),
    conv("ResNet-50 bottleneck", (16, 256, 28, 28), 128, 1, backward=True),
    conv("wide CNN", (16, 48, 40, 40), 96, 3, 1, 1, backward=True),
    conv("digits", (64, 32, 8, 8), 64, 3, 1, 1, backward=True),
    conv("MobileNetV2", (8, 144, 56, 56), 144, 3, 1, 1, groups=144, backward=True),
    transposed("U-Net", (4, 128, 56, 56), 64, 2, 2),
    transposed("DCGAN", (32, 256, 16, 16), 128, 4, 2),
    max_pool("VGG-16", (16, 64, 56, 56), 2, 2, 0, False),
    max_pool("VGG-16", (16, 64, 56, 56), 2, 2, 0, True),
    max_pool("ResNet-50", (16, 64, 112, 112), 3, 2, 1, False),
    max_pool("digits", (64, 64, 8, 8), 2, 2, 0, True),
    pool("avg_pool 32x256x28x28, 2 (DenseNet-121)",
         lambda lib, x: lib.nn.functional.avg_pool2d(x, 2), (32, 256, 28, 28), 4, False),
    pool("adaptive_avg_pool 32x2048x7x7 (ResNet-50)",
         lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 1), (32, 2048, 7, 7), 49, True),
)  # fmt: skip


def drawn(draw: Random) -> Iterator[Case]:
    """Any channels and sizes, with and without a gradient."""
    for number in range(4):
        shape = (draw.randint(1, 16), draw.randint(1, 100), draw.randint(9, 40),
                 draw.randint(9, 40))  # fmt: skip
        kernel, stride = draw.choice((1, 3, 3, 5)), draw.choice((1, 1, 2))
        yield conv(
            "drawn", shape, draw.randint(1, 128), kernel, stride, kernel // 2,
            backward=number % 2 == 1,
        )  # fmt: skip
    shape = (draw.randint(1, 16), draw.randint(1, 64), draw.randint(9, 60), draw.randint(9, 60))
    yield max_pool("drawn", shape, 2, 2, 0, False)
