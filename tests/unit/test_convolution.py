"""Convolution layers beyond the table of layers: output sizes and refused arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn
from tinyt.testing.reference import products as ref


@pytest.mark.parametrize("size", [(9, 7), (10, 8), (1, 2, 10, 7)])
def test_transposed_layer_makes_the_size_asked_for(size: tuple[int, ...]) -> None:
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    out = layer(tinyt.ones(1, 3, 5, 4), output_size=size)
    assert tuple(out.shape) == (1, 2, *size[-2:])
    # It undoes the size of a convolution with the same arguments.
    assert tuple(nn.Conv2d(2, 3, 3, stride=2, padding=1)(out).shape) == (1, 3, 5, 4)


@pytest.mark.parametrize("size", [(8, 7), (11, 7), (9,), (1, 9, 7)])
def test_transposed_layer_refuses_other_sizes(size: tuple[int, ...]) -> None:
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    with pytest.raises(ValueError, match=r"ConvTranspose2d.*output_size"):
        layer(tinyt.ones(1, 3, 5, 4), output_size=size)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("Conv2d", {"groups": 0}, "groups must be a positive"),
        ("Conv2d", {"groups": 3}, "in_channels must be divisible"),
        ("Conv1d", {"kernel_size": (3, 3)}, r"Conv1d: kernel_size.*\(3, 3\)"),
        ("Conv2d", {"padding": "full"}, "'full'"),
        ("Conv2d", {"padding": "same", "stride": 2}, "strided"),
        ("Conv2d", {"padding_mode": "mirror"}, r"Conv2d: padding_mode.*'mirror'"),
        ("ConvTranspose2d", {"padding_mode": "reflect"}, r"ConvTranspose2d.*'reflect'"),
        ("ConvTranspose2d", {"groups": 4}, "out_channels must be divisible"),
    ],
)
def test_refused_arguments(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        getattr(nn, name)(4, 6, **({"kernel_size": 3} | arguments))


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16, tinyt.int32, tinyt.int64])
def test_transposed_convolution_of_other_dtypes(
    dtype: tinyt.dtype, rng: np.random.Generator
) -> None:
    """Small integers: exact in every dtype."""
    x, w = rng.integers(-3, 4, (1, 2, 4)), rng.integers(-3, 4, (2, 1, 3))
    want = tinyt.conv_transpose1d(tinyt.tensor(x).double(), tinyt.tensor(w).double(), stride=2)
    got = tinyt.conv_transpose1d(tinyt.tensor(x).to(dtype), tinyt.tensor(w).to(dtype), stride=2)
    assert got.dtype is dtype
    assert got.double().tolist() == want.tolist()


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_gradients_of_larger_planes(stride: int, groups: int, rng: np.random.Generator) -> None:
    """Cut into bands and phases: both gradients are the adjoints of the convolution, in all
    numbers of threads with the same bits."""
    shape, kernel = (2, 6, 75, 90), (6, 6 // groups, 3, 5)
    x, w, other_x, other_w = (rng.normal(size=s) for s in (shape, kernel, shape, kernel))

    def conv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return ref.conv(a, b, None, stride, 2, (1, 2), groups)

    results = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            tx, tw = (tinyt.tensor(a, requires_grad=True) for a in (x, w))
            y = tinyt.conv2d(tx, tw, None, stride, 2, (1, 2), groups)
            g = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
            y.backward(tinyt.tensor(g))
        results.append([t.detach().numpy() for t in (y, tx.grad, tw.grad)])
    for once, again in zip(*results, strict=True):
        np.testing.assert_array_equal(once, again)
    out, dx, dw = results[0]
    np.testing.assert_allclose(out, conv(x, w), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((dx * other_x).sum(), (g * conv(other_x, w)).sum(), rtol=1e-9)
    np.testing.assert_allclose((dw * other_w).sum(), (g * conv(x, other_w)).sum(), rtol=1e-9)


def conv_by_threads(
    x: np.ndarray, w: np.ndarray, dtype: tinyt.dtype = tinyt.float32, **options: Any
) -> tuple[list[np.ndarray], np.ndarray]:
    """The output and both gradients, the same for 1, 2, 3 and 7 threads; and the output's
    gradient."""
    results = []
    for threads in (1, 2, 3, 7):
        with tinyt.num_threads(threads):
            tx, tw = (tinyt.tensor(a).to(dtype).requires_grad_() for a in (x, w))
            y = getattr(tinyt, f"conv{x.ndim - 2}d")(tx, tw, **options)
            g = np.cos(np.arange(y.numel(), dtype=np.float32)).reshape(tuple(y.shape))
            grad = tinyt.tensor(g).to(dtype)
            y.backward(grad)
        results.append([t.detach().float().numpy() for t in (y, tx.grad, tw.grad)])
    for other in results[1:]:
        for once, again in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(once, again)
    return results[0], grad.float().numpy()


def exact_conv(
    x: np.ndarray, w: np.ndarray, g: np.ndarray, **options: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The output and both gradients in float64, and their sums of absolute products."""
    sums = []
    with tinyt.num_threads(1):
        for sign in (np.asarray, np.abs):
            tx, tw = (tinyt.tensor(sign(a.astype(np.float64)), requires_grad=True) for a in (x, w))
            ty = getattr(tinyt, f"conv{x.ndim - 2}d")(tx, tw, **options)
            ty.backward(tinyt.tensor(sign(g.astype(np.float64))))
            sums.append([t.detach().numpy() for t in (ty, tx.grad, tw.grad)])
    return sums[0], sums[1]


@pytest.mark.parametrize(
    ("images", "ins", "outs", "size", "options"),
    [
        (2, 16, 17, (9, 33), {"padding": 1}),
        (9, 17, 33, (7, 7), {"padding": 1}),
        (40, 19, 16, (3, 3), {}),  # one element of a tile
        (3, 16, 16, (18, 5), {"padding": (0, 2)}),
        (1, 40, 40, (31, 17), {"padding": 5}),
        (1, 32, 36, (17, 21), {"padding": 1, "groups": 2}),
        (1, 300, 20, (21, 20), {"padding": 1}),  # more than one chain of terms
        (1, 16, 16, (5, 9, 11), {"padding": 1, "stride": (2, 1, 1)}),
        (2, 24, 16, (24, 150), {"padding": 1}),  # several blocks
        (9, 17, 16, (35, 45), {"padding": 1}),  # gradients in parts
        (2, 16, 16, (9, 28), {"padding": 1}),  # rows of few tiles and of one more
        (2, 16, 16, (9, 29), {"padding": 1}),
        (2, 16, 16, (5, 12), {"padding": (6, 1)}),
        (2, 16, 16, (5, 13), {"padding": (6, 1)}),
        (1, 16, 16, (6, 50), {"padding": (1, 19)}),  # zeros for more than a register
    ],
)
def test_winograd(
    images: int, ins: int, outs: int, size: tuple[int, ...], options: dict[str, Any],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """3x3 kernels of stride 1 with 16 channels and more: within 32 ULP of the largest sum of
    absolute products (of neighbours: a tile's errors spread over it)."""
    groups = options.get("groups", 1)
    x = rng.normal(size=(images, ins, *size)).astype(np.float32)
    w = rng.normal(size=(outs, ins // groups, *[3] * len(size))).astype(np.float32)
    results, g = conv_by_threads(x, w, **options)
    for got, want, scale in zip(results, *exact_conv(x, w, g, **options), strict=True):
        assert np.abs(got - want).max() < 32 * 2**-24 * scale.max()


@pytest.mark.parametrize(
    ("images", "ins", "outs", "size", "kernel", "options"),
    [
        (2, 16, 16, (9, 13), (3, 3), {"padding": 1}),
        (1, 17, 33, (7, 31), (3, 3), {"padding": 1}),
        (40, 31, 17, (5, 5), (3, 3), {"padding": 1}),  # images side by side
        (40, 16, 34, (24, 24), (3, 3), {"padding": 1}),  # some images at a time
        (36, 32, 32, (24, 24), (3, 3), {"padding": 1, "groups": 2}),
        (2, 65, 48, (12, 12), (3, 3), {"padding": (0, 2)}),  # several blocks of channels
        (1, 64, 32, (40, 60), (1, 1), {}),  # several blocks of one line
        (3, 33, 20, (13, 11), (1, 1), {"stride": 2}),
        (2, 32, 40, (21, 18), (3, 3), {"stride": 2, "padding": 1}),
        (2, 20, 18, (23, 25), (5, 2), {"stride": (3, 2), "padding": (2, 1)}),
        (1, 48, 16, (19, 20), (3, 3), {"dilation": 3, "padding": 2}),
        (2, 64, 48, (10, 9), (3, 3), {"groups": 2}),
        (1, 16, 24, (2500,), (3,), {"padding": 1}),  # several blocks with ends of their own
        (1, 24, 16, (5, 9, 11), (3, 3, 3), {"padding": 1, "stride": (2, 1, 1)}),
    ],
)
def test_bfloat16(
    images: int, ins: int, outs: int, size: tuple[int, ...], kernel: tuple[int, ...],
    options: dict[str, Any], rng: np.random.Generator,
) -> None:  # fmt: skip
    """Sums in float32, rounded once."""
    x, w = (
        tinyt.tensor(rng.normal(size=s).astype(np.float32)).bfloat16().float().numpy()
        for s in ((images, ins, *size), (outs, ins // options.get("groups", 1), *kernel))
    )
    results, g = conv_by_threads(x, w, tinyt.bfloat16, **options)
    for got, want, scale in zip(results, *exact_conv(x, w, g, **options), strict=True):
        assert (np.abs(got - want) <= 2**-8 * np.abs(want) + 32 * 2**-24 * scale.max()).all()


def check_exact(
    images: int, channels: tuple[int, int], size: tuple[int, ...], kernel: tuple[int, ...],
    options: dict[str, Any], dtype: type, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Small integers: exact in every dtype and any order, with any number of threads."""
    ins, outs = channels
    x = rng.integers(-3, 4, (images, ins, *size)).astype(dtype)
    w = rng.integers(-3, 4, (outs, ins // options.get("groups", 1), *kernel)).astype(dtype)
    want = ref.conv(x, w, **options)
    for threads in (1, 2, 3, 7):
        with tinyt.num_threads(threads):
            got = getattr(tinyt, f"conv{len(size)}d")(tinyt.tensor(x), tinyt.tensor(w), **options)
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("images", "channels", "size", "kernel", "options"),
    [
        (3, (5, 13), (19, 32), (5, 5), {"padding": 2}),  # row by row
        (2, (5, 13), (19, 33), (4, 5), {"padding": 2}),  # rows as one
        (2, (5, 13), (25, 27), (5, 2), {}),  # where they lie in the source
        (2, (70, 3), (24, 24), (1, 1), {}),
        (520, (20, 3), (1, 1), (1, 1), {}),  # too short for it: packed
        (9, (20, 40), (7, 9), (1, 1), {}),
        (2, (300, 25), (23, 45), (1, 1), {"stride": 2}),  # two chains of terms
        (1, (70, 24), (40, 50), (3, 2), {"stride": 2, "padding": 1}),
        (2, (12, 20), (30, 75), (2, 3), {"stride": (2, 3), "dilation": (3, 2), "groups": 2}),
        (1, (17, 30), (9003,), (2,), {"dilation": 60}),  # several blocks of one line
        (1, (17, 30), (9003,), (5,), {"padding": 2}),
        (2, (5, 30), (4, 18, 20), (2, 3, 5), {"padding": (1, 1, 2), "stride": (2, 1, 1)}),
    ],
)
def test_columns_read_in_lines(
    images: int, channels: tuple[int, int], size: tuple[int, ...], kernel: tuple[int, ...],
    options: dict[str, Any], dtype: type, rng: np.random.Generator,
) -> None:  # fmt: skip
    check_exact(images, channels, size, kernel, options, dtype, rng)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("images", "channels", "size", "kernel", "options"),
    [
        (2, (96, 80), (28, 30), (3, 3), {"padding": 6, "dilation": 6}),
        (2, (96, 80), (28, 30), (3, 3), {"padding": 9, "dilation": 4}),  # positions without a tap
        (4, (130, 300), (900,), (3,), {"padding": 200, "dilation": 400}),
        (5, (200, 200), (40, 36), (3, 3), {"padding": 8, "dilation": 8, "stride": 2, "groups": 2}),
        (1, (64, 128), (6, 18, 20), (3, 2, 2), {"padding": (3, 1, 1), "dilation": (3, 1, 1)}),
    ],
)
def test_regions_that_meet_the_same_taps(
    images: int, channels: tuple[int, int], size: tuple[int, ...], kernel: tuple[int, ...],
    options: dict[str, Any], dtype: type, rng: np.random.Generator,
) -> None:  # fmt: skip
    check_exact(images, channels, size, kernel, options, dtype, rng)


@pytest.mark.parametrize(
    ("images", "channels", "size", "kernel", "options"),
    [
        (10, (64, 80), (12, 14), (4, 4), {"stride": 2}),
        (2, (96, 80), (28, 30), (3, 3), {"padding": 6, "dilation": 6}),
    ],
)
def test_transposed_in_regions(
    images: int, channels: tuple[int, int], size: tuple[int, int], kernel: tuple[int, int],
    options: dict[str, Any], rng: np.random.Generator,
) -> None:  # fmt: skip
    """As above, for the transposed form."""
    ins, outs = channels
    x = rng.integers(-3, 4, (images, ins, *size)).astype(np.float32)
    w = rng.integers(-3, 4, (ins, outs, *kernel)).astype(np.float32)
    want = ref.conv_transpose(x, w, **options)
    for threads in (1, 2, 7):
        with tinyt.num_threads(threads):
            got = tinyt.conv_transpose2d(tinyt.tensor(x), tinyt.tensor(w), **options)
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_regions_have_the_same_bits(threads: int) -> None:
    """Drawn reals, against one thread and another alignment of the source."""
    x, w = tinyt.randn(2, 96, 28, 30), tinyt.randn(80, 96, 3, 3)
    with tinyt.num_threads(1):
        want = tinyt.conv2d(x, w, padding=6, dilation=6).numpy()
    shifted = tinyt.cat([tinyt.zeros(1), x.flatten()])[1:].reshape(2, 96, 28, 30)
    with tinyt.num_threads(threads):
        for source in (x, shifted):
            got = tinyt.conv2d(source, w, padding=6, dilation=6).numpy()
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_regions_spread_nothing(value: float, rng: np.random.Generator) -> None:
    """What is not finite stays with the positions that meet it."""
    x = rng.normal(size=(2, 96, 28, 30)).astype(np.float32)
    w = np.abs(rng.normal(size=(80, 96, 3, 3))).astype(np.float32)
    x[1, 50, 3, 28] = value
    y = tinyt.conv2d(tinyt.tensor(x), tinyt.tensor(w), padding=6, dilation=6).numpy()
    touched = np.zeros((28, 30), bool)
    touched[np.ix_([3, 9], [22, 28])] = True
    assert np.isfinite(y[0]).all()
    np.testing.assert_array_equal(np.isfinite(y[1]).all(0), ~touched)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_columns_read_in_lines_spread_nothing(value: float, rng: np.random.Generator) -> None:
    """What is not finite stays in its own windows: unused elements lie between rows."""
    x = rng.normal(size=(2, 9, 30, 33)).astype(np.float32)
    w = np.abs(rng.normal(size=(14, 9, 5, 5))).astype(np.float32)
    x[1, 8, 10, 32] = value
    y = tinyt.conv2d(tinyt.tensor(x), tinyt.tensor(w), padding=2).numpy()
    finite = np.isfinite(y)
    assert not finite[1, :, 8:13, 30:].any()
    finite[1, :, 8:13, 30:] = True
    assert finite.all()


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_bfloat16_spreads_nothing(value: float, rng: np.random.Generator) -> None:
    """What is not finite stays in its own windows: copies of the source have zeros between."""
    x = rng.normal(size=(3, 17, 6, 7)).astype(np.float32)
    w = np.abs(rng.normal(size=(18, 17, 3, 3))).astype(np.float32)
    x[1, 16, 5, 6] = value
    tw = tinyt.tensor(w).bfloat16().requires_grad_()
    y = tinyt.conv2d(tinyt.tensor(x).bfloat16(), tw, padding=1)
    finite = np.isfinite(y.detach().float().numpy())
    assert not finite[1, :, 4:, 5:].any()
    finite[1, :, 4:, 5:] = True
    assert finite.all()
    y.backward(tinyt.ones_like(y))
    finite = np.isfinite(tw.grad.float().numpy())
    assert not finite[:, 16, 1:, 1:].any()
    finite[:, 16, 1:, 1:] = True
    assert finite.all()


@pytest.mark.parametrize("seed", range(12))
def test_drawn_shapes(seed: int, rng: np.random.Generator) -> None:
    """Sides, steps and groups of all kinds against the definition in float64."""
    groups = int(rng.choice([1, 1, 2, 5]))
    ins, outs = (int(rng.integers(1, 4)) * groups for _ in range(2))
    if seed % 3 == 0:
        ins = outs = groups = int(rng.integers(1, 20))  # depthwise
    kernel = tuple(int(k) for k in rng.integers(1, 6, 2))
    stride, dilation = (tuple(int(k) for k in rng.integers(1, 4, 2)) for _ in range(2))
    padding = tuple(int(k) for k in rng.integers(0, 5, 2))
    size = tuple(
        max(d * (k - 1) + 1 - 2 * p, 1) + int(rng.integers(0, 40))
        for d, k, p in zip(dilation, kernel, padding, strict=True)
    )
    x = rng.normal(size=(int(rng.integers(1, 6)), ins, *size)).astype(np.float32)
    w = rng.normal(size=(outs, ins // groups, *kernel)).astype(np.float32)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    (y, dx, dw), g = conv_by_threads(x, w, **options)

    def conv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = a.astype(np.float64), b.astype(np.float64)
        return ref.conv(a, b, None, stride, padding, dilation, groups)

    np.testing.assert_array_less(np.abs(y - conv(x, w)), 2e-6 * conv(np.abs(x), np.abs(w)) + 1e-30)
    other_x, other_w = rng.normal(size=x.shape), rng.normal(size=w.shape)
    for got, want, bound in (
        (dx * other_x, g * conv(other_x, w), np.abs(g) * conv(np.abs(other_x), np.abs(w))),
        (dw * other_w, g * conv(x, other_w), np.abs(g) * conv(np.abs(x), np.abs(other_w))),
    ):
        assert abs(got.sum() - want.sum()) <= 2e-6 * bound.sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("kernel", "size", "options"),
    [
        ((7, 3), (11, 34), {"padding": (0, 0)}),  # rows and lines that fill no whole block
        ((5, 5), (9, 97), {"padding": (4, 2), "dilation": (2, 1)}),
        ((9, 2), (17, 140), {"padding": (3, 1), "stride": (2, 1)}),
        ((8, 3), (30, 75), {"padding": (1, 9), "stride": 2, "dilation": (1, 3)}),
        ((10, 1), (60, 100), {"padding": 0, "stride": 3}),
        ((31, 2), (40, 60), {"padding": (15, 0)}),
        ((3, 3), (9, 70), {"padding": 1}),
    ],
)
def test_tall_kernels_of_few_channels(
    kernel: tuple[int, ...], size: tuple[int, ...], options: dict[str, Any], dtype: type,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Small integers: exact in every dtype and any order."""
    x = rng.integers(-4, 5, (2, 3, *size)).astype(dtype)
    w = rng.integers(-4, 5, (6, 1, *kernel)).astype(dtype)
    want = ref.conv(x, w, groups=3, **options)
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            got = tinyt.conv2d(tinyt.tensor(x), tinyt.tensor(w), groups=3, **options)
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(
    ("channels", "kernel", "options"),
    [
        ((5, 6), (2, 2), {"stride": 2}),  # phases that are alike: one product
        ((5, 6), (4, 4), {"stride": 2}),
        ((6, 4), (3, 2), {"stride": (3, 2), "groups": 2}),
        ((3, 5), (5, 3), {"stride": (3, 1), "padding": 1}),
        ((3, 5), (3, 4), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((3, 5), (2, 3), {"stride": (4, 5), "output_padding": (1, 3)}),  # elements without a tap
        ((4, 4), (3, 3), {"stride": (2, 3), "dilation": (2, 3), "groups": 4}),
    ],
)
def test_transposed(
    channels: tuple[int, int], kernel: tuple[int, ...], options: dict[str, Any], dtype: type,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Small integers: exact in every dtype and any order."""
    ins, outs = channels
    x = rng.integers(-3, 4, (3, ins, 11, 20)).astype(dtype)
    w = rng.integers(-3, 4, (ins, outs // options.get("groups", 1), *kernel)).astype(dtype)
    want = ref.conv_transpose(x, w, **options)
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            got = tinyt.conv_transpose2d(tinyt.tensor(x), tinyt.tensor(w), **options)
        np.testing.assert_array_equal(got.numpy(), want)


def test_transposed_of_no_images() -> None:
    """These may have no places either, as in PyTorch."""
    x, w = tinyt.zeros(0, 3, 1, requires_grad=True), tinyt.zeros(3, 4, 2, requires_grad=True)
    y = tinyt.conv_transpose1d(x, w, padding=1)
    assert tuple(y.shape) == (0, 4, 0)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert w.grad is not None
    assert w.grad.tolist() == tinyt.zeros(3, 4, 2).tolist()
    with pytest.raises(tinyt.ShapeError, match=r"would have the size \[-2\]"):
        tinyt.conv_transpose1d(x, w, padding=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(16, 16, 0), (4, 4, 0), (11, 4, 2), (3, 40, 1), (2, 9, 1)]
)
def test_long_steps(
    kernel: int, stride: int, padding: int, dtype: type, rng: np.random.Generator
) -> None:
    """Positions far apart: small integers, exact in any order."""
    x = rng.integers(-3, 4, (3, 3, 45, 100)).astype(dtype)
    w = rng.integers(-3, 4, (20, 3, kernel, kernel)).astype(dtype)
    want = ref.conv(x, w, None, stride, padding)
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            got = tinyt.conv2d(tinyt.tensor(x), tinyt.tensor(w), None, stride, padding)
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_winograd_spreads_nothing(value: float, rng: np.random.Generator) -> None:
    """What is not finite, or overflows in the transforms only, stays in its own windows."""
    x = rng.normal(size=(2, 16, 16, 18)).astype(np.float32)
    w = np.abs(rng.normal(size=(16, 16, 3, 3)).astype(np.float32)) * 0.01
    x[1, 3, 5, 6] = value
    y = tinyt.conv2d(tinyt.tensor(x), tinyt.tensor(w), padding=1).numpy()
    x[1, 3, 5, 6] = 0
    plain = tinyt.conv2d(tinyt.tensor(x), tinyt.tensor(w), padding=1).numpy()
    touched = np.zeros((16, 18), bool)
    touched[4:7, 5:8] = True
    np.testing.assert_allclose(y[0], plain[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(y[1][:, ~touched], plain[1][:, ~touched], rtol=1e-4, atol=1e-6)
    if np.isfinite(value):
        expected = np.abs(value * w[:, 3, ::-1, ::-1].astype(np.float64))
        np.testing.assert_allclose(y[1][:, 4:7, 5:8], expected, rtol=1e-5)
    else:
        assert not np.isfinite(y[1][:, touched]).any()
