"""Copies whose ways depend on size and layout: squares of a transposing copy and what is left at
their ends, rows and single items in order or at computed places, masks, results that pass the
caches, conversions with instructions of their own."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tinyt
from tinyt.tensor import prim
from waiting import settled

DTYPES = ("int8", "int16", "float32", "float64", "complex128")
# Sides of squares at any level, one more and one less; rows that begin anywhere in a cache line.
SIDES = (1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 130)
MIB = 1 << 20


def numbers(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-100, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed_sides(dtype: str, rng: np.random.Generator) -> None:
    for rows in SIDES:
        for columns in SIDES:
            a = numbers((rows, columns), dtype, rng)
            x = tinyt.as_tensor(a)
            np.testing.assert_array_equal(x.t().contiguous().numpy(force=True), a.T)
            part, want = x[1:, 1:].t(), a[1:, 1:].T
            np.testing.assert_array_equal(part.contiguous().numpy(force=True), want)
            np.testing.assert_array_equal((part + part).numpy(force=True), want + want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 3, 1), (0, 3, 1, 2), (2, 0, 3, 1)])
def test_permuted(dtype: str, order: tuple[int, ...], rng: np.random.Generator) -> None:
    a = numbers((3, 20, 17, 35), dtype, rng)
    for part in (a, a[:, ::2], a[:, :, ::-1], a[..., :3]):
        x = tinyt.as_tensor(np.ascontiguousarray(part))
        got = x.permute(order).contiguous().numpy(force=True)
        np.testing.assert_array_equal(got, part.transpose(order))


@pytest.mark.parametrize("dtype", ["uint8", *DTYPES])
@pytest.mark.parametrize("channels", [2, 3, 4, 5])
def test_pixels_and_planes(channels: int, dtype: str, rng: np.random.Generator) -> None:
    """A few items side by side to planes and back; the last is large enough to be streamed."""
    for pixels in (1, 7, 16, 47, 64, 65, 1000, 700_001):
        a = numbers((1 if pixels > 1000 else 2, pixels, channels), dtype, rng)
        planes = tinyt.as_tensor(a).transpose(1, 2).contiguous()
        np.testing.assert_array_equal(planes.numpy(force=True), a.transpose(0, 2, 1))
        np.testing.assert_array_equal(planes.transpose(1, 2).contiguous().numpy(force=True), a)


@pytest.mark.parametrize("dtype", ["int16", "int64", "float32", "float64"])
def test_rows_added_at_computed_places(dtype: str, rng: np.random.Generator) -> None:
    """Of any width, one or several pieces side by side, in the order of the index."""
    for width in (1, 5, 16, 31, 32, 33, 64, 180):
        a, rows = numbers((50, width), dtype, rng), numbers((300, width), dtype, rng)
        rows = rows / 7 if "float" in dtype else rows
        places = rng.integers(0, 50, 300)
        want = a.astype(rows.dtype)
        np.add.at(want, places, rows)
        for threads in (1, 2, 3):
            tinyt.set_num_threads(threads)
            x, y = tinyt.as_tensor(a.astype(rows.dtype)), tinyt.as_tensor(rows)
            got = x.index_add(0, tinyt.as_tensor(places), y)
            np.testing.assert_array_equal(got.numpy(force=True), want)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_transposed_past_the_caches(threads: int, rng: np.random.Generator) -> None:
    """Large enough to be streamed; rows that fill cache lines, and rows that do not."""
    tinyt.set_num_threads(threads)
    for shape in ((1040, 784), (1001, 777)):
        a = numbers(shape, "float32", rng)
        x = tinyt.as_tensor(a)
        np.testing.assert_array_equal(x.t().contiguous().numpy(force=True), a.T)
        into = tinyt.zeros(shape[1], shape[0] + 3)
        into[:, 1:-2].copy_(x.t())
        np.testing.assert_array_equal(into.numpy(force=True)[:, 1:-2], a.T)
        assert not into.numpy(force=True)[:, [0, -2, -1]].any()


def test_results_past_the_caches(rng: np.random.Generator) -> None:
    tinyt.set_num_threads(3)
    n = 10 * MIB + 5
    a = rng.integers(-100, 100, n).astype(np.float32)
    x = tinyt.as_tensor(a)
    later = tinyt.empty(n + 3)[3:]  # no whole cache line at either end
    np.testing.assert_array_equal((x + x).numpy(force=True), a + a)
    later.copy_(x)
    np.testing.assert_array_equal(later.numpy(force=True), a)
    tinyt.neg(x, out=later)
    np.testing.assert_array_equal(later.numpy(force=True), -a)
    np.testing.assert_array_equal(x.int().numpy(force=True), a.astype(np.int32))
    np.testing.assert_array_equal(
        tinyt.full((n,), 3.5).numpy(force=True), np.full(n, 3.5, np.float32)
    )


def test_broadcasts_past_the_caches(rng: np.random.Generator) -> None:
    tinyt.set_num_threads(3)
    a = rng.integers(-100, 100, (5300, 2003)).astype(np.float32)
    b = rng.integers(-100, 100, (5300, 1)).astype(np.float32)
    x = tinyt.as_tensor(a)
    np.testing.assert_array_equal((x * tinyt.as_tensor(b)).numpy(force=True), a * b)
    into = tinyt.zeros(5300, 2010)
    tinyt.add(x, tinyt.as_tensor(a[0]), out=into[:, 4:-3])
    np.testing.assert_array_equal(into.numpy(force=True)[:, 4:-3], a + a[0])
    assert not into.numpy(force=True)[:, [0, 1, 2, 3, -3, -2, -1]].any()


# Around the sizes of all registers.
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 130, 300)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_rows_of_any_width(dtype: str, rng: np.random.Generator) -> None:
    a = numbers((37, 310), dtype, rng)
    x, places = tinyt.as_tensor(a), rng.integers(-37, 37, 50)
    for width in WIDTHS:
        part = a[:, 3 : 3 + width]
        np.testing.assert_array_equal(x[:, 3 : 3 + width].contiguous().numpy(force=True), part)
        got = tinyt.cat((x[:, :width], x[:, 3 : 3 + width]), 1)
        np.testing.assert_array_equal(
            got.numpy(force=True), np.concatenate((a[:, :width], part), 1)
        )
        got = x[:, 3 : 3 + width][tinyt.as_tensor(places)]
        np.testing.assert_array_equal(got.numpy(force=True), part[places])


@pytest.mark.parametrize("dtype", DTYPES)
def test_items_in_steps(dtype: str, rng: np.random.Generator) -> None:
    a = numbers((3, 1000), dtype, rng)
    x = tinyt.as_tensor(a)
    for width in WIDTHS:
        for step in (2, 3, -1):
            part = a[:, : step * width : step] if step > 0 else a[:, width::-1]
            view = x[:, : step * width : step] if step > 0 else x[:, : width + 1].flip(1)
            np.testing.assert_array_equal(view.contiguous().numpy(force=True), part)
    # Nothing lies behind the last item.
    odd = tinyt.as_tensor(a.ravel()[-257:].copy())[::2]
    np.testing.assert_array_equal(odd.contiguous().numpy(force=True), a.ravel()[-257::2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_items_at_computed_places(dtype: str, rng: np.random.Generator) -> None:
    a = numbers((60, 70), dtype, rng)
    x = tinyt.as_tensor(a)
    for dim, shape in ((0, (91, 70)), (1, (60, 91)), (1, (11, 3)), (0, (5, 1))):
        index = rng.integers(0, a.shape[dim], shape)
        part = a[:, : shape[1]] if dim == 0 else a[: shape[0]]
        want = np.take_along_axis(part, index, dim)
        for i in (tinyt.as_tensor(index), tinyt.as_tensor(index.T.copy()).t()):
            np.testing.assert_array_equal(x.gather(dim, i).numpy(force=True), want)
    rows, columns = rng.integers(-60, 60, (9, 1)), rng.integers(-70, 70, 13).astype(np.int32)
    got = x[tinyt.as_tensor(rows), tinyt.as_tensor(columns)]
    np.testing.assert_array_equal(got.numpy(force=True), a[rows, columns])


@pytest.mark.parametrize(("row", "column"), [(60, 0), (-61, 0), (0, 70), (0, -71)])
def test_places_out_of_range(row: int, column: int) -> None:
    x = tinyt.zeros(60, 70)
    rows, columns = tinyt.tensor([1] * 40 + [row]), tinyt.tensor([2] * 40 + [column])
    dim, wrong, size = (1, column, 70) if row == 0 else (0, row, 60)
    with pytest.raises(IndexError, match=rf"{wrong} .*dimension {dim} of size {size}"):
        settled(x[rows, columns])
    with pytest.raises(RuntimeError, match=f"gather: index {wrong}"):
        settled(x.gather(dim, tinyt.full((1, 1), wrong, dtype=tinyt.int64)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_masks(dtype: str, threads: int, rng: np.random.Generator) -> None:
    """Tiles and chunks of the mask, one more and one less; rows and single items."""
    tinyt.set_num_threads(threads)
    for shape in ((0,), (1,), (511,), (513,), (70_001,), (300, 7), (40, 3, 50)):
        a = numbers(shape, dtype, rng)
        x = tinyt.as_tensor(a)
        for lead in range(1, len(shape) + 1):
            for share in (0.0, 0.4, 1.0):
                mask = rng.random(shape[:lead]) < share
                np.testing.assert_array_equal(x[tinyt.as_tensor(mask)].numpy(force=True), a[mask])
    flipped, mask = a.transpose(2, 0, 1), rng.random((40, 50)).T < 0.5
    got = x.permute(2, 0, 1)[tinyt.as_tensor(mask.T.copy()).t()]
    np.testing.assert_array_equal(got.numpy(force=True), flipped[mask])
    places = np.argwhere(mask)
    np.testing.assert_array_equal(
        tinyt.as_tensor(mask.T.copy()).t().nonzero().numpy(force=True), places
    )


@pytest.mark.parametrize("lead", [1, 2])
def test_mask_gradients(lead: int, rng: np.random.Generator) -> None:
    a, mask = rng.standard_normal((6, 5)), rng.random((6, 5)[:lead]) < 0.5
    x = tinyt.tensor(a, requires_grad=True)
    (x[tinyt.as_tensor(mask)] ** 3).sum().backward()
    wide = mask if lead == 2 else mask[:, None]
    np.testing.assert_allclose(x.grad.numpy(force=True), np.where(wide, 3 * a**2, 0.0), rtol=1e-14)
    (second,) = tinyt.autograd.grad(
        tinyt.autograd.grad((x[tinyt.as_tensor(mask)] ** 3).sum(), x, create_graph=True)[0].sum(),
        x,
    )
    np.testing.assert_allclose(second.numpy(force=True), np.where(wide, 6 * a, 0.0), rtol=1e-14)


def test_mask_written_to_before_its_gradient() -> None:
    x, mask = tinyt.ones(3, requires_grad=True), tinyt.tensor([True, False, True])
    picked = x[mask]
    mask[1] = True
    with pytest.raises(RuntimeError, match=r"modified by an inplace.*input 1 of masked_select"):
        picked.sum().backward()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["bool", *DTYPES])
def test_constant_pads(dtype: str, threads: int, rng: np.random.Generator) -> None:
    """What is added and taken away in any dimension, of inputs that lie dense or do not."""
    tinyt.set_num_threads(threads)
    a = numbers((3, 40, 36, 33), dtype, rng)
    pads = ((1, 1, 1, 1), (0, 0, 3, 2), (0, 20), (-3, 1, 2, -30), (2, 0, 0, 0, 1, 3), (1,) * 8)
    for flat in (*pads, (0, 0, 0, 0, 0, 0, 2, 1), (0, 0), (-33, 2), (0, 0, -36, 1)):
        sides = [(0, 0)] * (4 - len(flat) // 2) + list(zip(flat[::2], flat[1::2], strict=True))[
            ::-1
        ]
        for x in (a[:2], a[:2].transpose(0, 1, 3, 2), a[:2, :, ::2, ::3], a[:2, :, 1:, 2:]):
            parts = tuple(
                slice(max(0, -b), max(0, n + min(0, e)))
                for n, (b, e) in zip(x.shape, sides, strict=True)
            )
            added = [(max(0, b), max(0, e)) for b, e in sides]
            if any(n + min(0, b) + min(0, e) < 0 for n, (b, e) in zip(x.shape, sides, strict=True)):
                continue
            got = tinyt.nn.functional.pad(tinyt.as_tensor(x), flat, value=1)
            want = np.pad(x[parts], added, constant_values=1)
            np.testing.assert_array_equal(got.numpy(force=True), want)
    got = tinyt.nn.functional.pad(tinyt.as_tensor(a[0, 0, 0]), (2, 3))
    np.testing.assert_array_equal(got.numpy(force=True), np.pad(a[0, 0, 0], (2, 3)))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_joined_runs(dtype: str, threads: int, rng: np.random.Generator) -> None:
    """Rows of one run of each input: short and long, empty ones among them, more than one chunk."""
    tinyt.set_num_threads(threads)
    for rows, widths in (
        (1, (1,)),
        (300, (57, 57, 1)),
        (2000, (0, 3, 70, 0)),
        (3, (40_000, 0, 7, 33_000)),
        (1, [12_345] * 9),
        (1, [1] * 40 + [100_000]),
    ):
        parts = [numbers((rows, n), dtype, rng) for n in widths]
        got = tinyt.cat([tinyt.as_tensor(a) for a in parts], 1)
        np.testing.assert_array_equal(got.numpy(force=True), np.concatenate(parts, 1))
    odd = numbers((50, 40), dtype, rng)
    got = tinyt.cat([tinyt.as_tensor(odd), tinyt.as_tensor(odd.T[:, ::2]).t()], 0)
    np.testing.assert_array_equal(got.numpy(force=True), np.concatenate((odd, odd.T[:, ::2].T), 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "mode", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
def test_borders(mode: tuple[str, str], threads: int, dtype: str, rng: np.random.Generator) -> None:
    """The largest that a mode allows, on one side, on both; of inputs that do not lie dense."""
    tinyt.set_num_threads(threads)
    a = numbers((3, 40, 36, 33), dtype, rng)
    for pads in ((32, 32, 0, 0), (2, 3, 0, 0), (1, 0, 0, 2), (5, 32, 35, 1), (0, 4, 2, 0, 39, 3)):
        for x in (a[:2], a[:2].transpose(0, 1, 3, 2), a[:2, :, ::2, ::3]):
            sides = [(0, 0)] * 4
            for k in range(len(pads) // 2):
                size = x.shape[3 - k] - 1
                sides[3 - k] = (min(pads[2 * k], size), min(pads[2 * k + 1], size))
            flat = [n for pair in sides[: 3 - len(pads) // 2 : -1] for n in pair]
            got = tinyt.nn.functional.pad(tinyt.as_tensor(x), flat, mode[0])
            np.testing.assert_array_equal(got.numpy(force=True), np.pad(x, sides, mode[1]))


def test_borders_that_do_not_fit() -> None:
    x = tinyt.zeros(2, 3)
    for pads, mode in (((0, 0, 3, 0), 0), ((0, 0, 0, 4), 2), ((-1, 0, 0, 0), 1), ((0, 0), 1)):
        with pytest.raises(RuntimeError, match="pad_border"):
            prim.pad_border(x, pads, mode)
    with pytest.raises(ValueError, match="pad_border: mode must be 0, 1 or 2, got 3"):
        prim.pad_border(x, (0, 0, 0, 0), 3)


def assert_same_halves(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; any NaN for a NaN."""
    unsigned = np.uint16 if want.dtype == np.float16 else np.uint32
    same = (got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), want[~same][:5]


def test_every_float16_to_float32() -> None:
    """Subnormals too; the conversion to float64 is the one without instructions."""
    a = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = tinyt.as_tensor(a)
    assert_same_halves(x.float().numpy(force=True), a.astype(np.float32))
    bits = x.float().numpy(force=True).view(np.uint32)
    np.testing.assert_array_equal(bits, x.double().float().numpy(force=True).view(np.uint32))


def test_float32_to_float16(rng: np.random.Generator) -> None:
    """All halves, the numbers half way between two of them, and the neighbours of both."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = every.view(np.uint32)
    with np.errstate(all="ignore"):
        middle = ((every + np.roll(every, -1)) / 2).view(np.uint32)
        step = np.array([[-1], [0], [1]]).astype(np.uint32)  # wraps
        near = (np.stack([bits, middle])[:, None] + step).ravel()
        a = np.concatenate([near, rng.integers(0, 1 << 32, 99_999, np.uint32)]).view(np.float32)
        want = a.astype(np.float16)
    got = tinyt.as_tensor(a).half().numpy(force=True)
    assert_same_halves(got, want)
    twice = tinyt.as_tensor(a).double().half().numpy(force=True)
    np.testing.assert_array_equal(got.view(np.uint16), twice.view(np.uint16))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("shape", [(2, 9, 130, 131), (1, 3, 400, 400), (300, 31, 29)])
def test_borders_in_pieces(shape: tuple[int, ...], mode: str, rng: np.random.Generator) -> None:
    """Borders are made together with a few planes at a time, the last ones fewer."""
    pads = [(0, 0)] * (len(shape) - 2) + [(3, 2), (1, 9)]
    a = numbers(shape, "float32", rng)
    name = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode]
    swapped = tinyt.as_tensor(a.swapaxes(0, 1).copy()).transpose(0, 1)
    for threads in (1, 3):
        tinyt.set_num_threads(threads)
        for view in (tinyt.as_tensor(a), swapped):
            got = tinyt.nn.functional.pad(view, (1, 9, 3, 2), name)
            np.testing.assert_array_equal(got.numpy(force=True), np.pad(a, pads, mode))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_one_element_spread_out(dtype: str, rng: np.random.Generator) -> None:
    """The zeros that gradients of lookups start from lie in memory once."""
    zero = tinyt.zeros((), dtype=getattr(tinyt, dtype)).expand(70, 33)
    np.testing.assert_array_equal(zero.contiguous().numpy(force=True), np.zeros((70, 33), dtype))
    index = rng.integers(0, 70, (40, 33))
    a = rng.integers(-8, 8, (40, 33)).astype(dtype)
    want = np.zeros((70, 33), dtype)
    np.add.at(want, (index, np.arange(33)), a)
    got = zero.scatter_add(0, tinyt.as_tensor(index), tinyt.as_tensor(a))
    np.testing.assert_array_equal(got.numpy(force=True), want)


@pytest.mark.parametrize("size", [1, 64, 256, 2048, 3000])
def test_gather_of_whole_rows(size: int, rng: np.random.Generator) -> None:
    """Rows of which most lines are read are fetched ahead, longer ones are not."""
    a, index = rng.standard_normal((37, size), np.float32), rng.integers(0, size, (29, 200))
    got = tinyt.as_tensor(a).gather(1, tinyt.as_tensor(index))
    np.testing.assert_array_equal(got.numpy(force=True), np.take_along_axis(a[:29], index, 1))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
def test_rows_read_backwards(dtype: str, rng: np.random.Generator) -> None:
    a = numbers((5, 310), dtype, rng)
    x = tinyt.as_tensor(a)
    for width in WIDTHS:
        part = a[:, 3 : 3 + width]
        got = x[:, 3 : 3 + width].flip(1)
        np.testing.assert_array_equal(got.numpy(force=True), part[:, ::-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(17, 3, 15, 4), (25, 5, 56, 3), (3, 2, 601, 3), (4, 7, 1031, 2), (6, 5, 4, 3), (9, 12, 8, 16)],
)
def test_short_dimensions_in_any_order(
    shape: tuple[int, ...], dtype: str, rng: np.random.Generator
) -> None:
    """Single items and short rows by their places; also into a target with gaps."""
    a = numbers(shape, dtype, rng)
    x = tinyt.as_tensor(a)
    for order in itertools.permutations(range(4)):
        want = a.transpose(order)
        np.testing.assert_array_equal(x.permute(order).contiguous().numpy(force=True), want)
        backwards = x.flip(1)[..., 1:].permute(order).contiguous()
        np.testing.assert_array_equal(
            backwards.numpy(force=True), a[:, ::-1][..., 1:].transpose(order)
        )
        wide = tinyt.zeros((want.shape[0], 2 * want.shape[1], *want.shape[2:]), dtype=x.dtype)
        wide[:, ::2].copy_(x.permute(order))
        np.testing.assert_array_equal(wide[:, ::2].numpy(force=True), want)
        assert not wide[:, 1::2].numpy(force=True).any()


@pytest.mark.parametrize("width", [16, 31, 64, 257, 2100])
def test_rows_that_lie_apart(width: int, rng: np.random.Generator) -> None:
    """Fetched ahead; of 8 KiB and more in one go."""
    a = numbers((90, width + 5), "float32", rng)
    x = tinyt.as_tensor(a)
    np.testing.assert_array_equal(x[:, 2:-3].contiguous().numpy(force=True), a[:, 2:-3])
    heads = numbers((2, 70, 3, width), "float32", rng)
    got = tinyt.as_tensor(heads).transpose(1, 2).contiguous()
    np.testing.assert_array_equal(got.numpy(force=True), heads.transpose(0, 2, 1, 3))


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 3), (3, 28, 9, 32), (2, 70, 150, 64), (1, 31, 33, 65)])
def test_operands_that_all_cross_the_result(
    shape: tuple[int, ...], dtype: str, rng: np.random.Generator
) -> None:
    """Channels-last images, whose results are contiguous; the largest are streamed."""
    a, b = numbers(shape, dtype, rng), numbers(shape, dtype, rng)
    x, y = tinyt.as_tensor(a).permute(0, 3, 1, 2), tinyt.as_tensor(b).permute(0, 3, 1, 2)
    v, w = a.transpose(0, 3, 1, 2), b.transpose(0, 3, 1, 2)
    for threads in (1, 2, 3):
        tinyt.set_num_threads(threads)
        np.testing.assert_array_equal(tinyt.relu(x).numpy(force=True), np.maximum(v, 0))
        np.testing.assert_array_equal((x * 2).numpy(force=True), v * 2)
        np.testing.assert_array_equal((x + y).numpy(force=True), v + w)
        np.testing.assert_array_equal((x + y.contiguous()).numpy(force=True), v + w)
        np.testing.assert_array_equal(tinyt.where(x > y, x, y).numpy(force=True), np.maximum(v, w))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_larger_and_smaller(dtype: str) -> None:
    """Of NaN the first operand's bits stay, +0 is above -0, at every level."""
    bits = np.uint32 if dtype == "float32" else np.uint64
    odd = np.array([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, -5e-324, 1e-40], dtype)
    high = bits(0x7FC if dtype == "float32" else 0x7FF8) << bits(20 if dtype == "float32" else 48)
    nans = (np.arange(1, 4, dtype=bits) + high) | np.array([0, 1, 0], bits) << bits(
        8 * odd.itemsize - 1
    )
    values = np.concatenate([odd, nans.view(dtype)])
    n = len(values)
    a, b = np.repeat(values, n), np.tile(values, n)
    first = np.isnan(a) | ~np.isnan(b) & ((a > b) | (a == b) & np.signbit(b))
    last = np.isnan(a) | ~np.isnan(b) & ((a < b) | (a == b) & np.signbit(a))
    x, y = tinyt.as_tensor(a), tinyt.as_tensor(b)
    for got, want in (
        (tinyt.maximum(x, y), np.where(first, a, b)),
        (tinyt.minimum(x, y), np.where(last, a, b)),
        (tinyt.clamp(x, min=y), np.where(first, a, b)),
    ):
        np.testing.assert_array_equal(got.numpy(force=True).view(bits), want.view(bits))


@pytest.mark.parametrize("dtype", ["bool", "int32", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 5, 7, 2), (1, 70, 33, 65), (2, 300, 129, 1)])
def test_operands_across_the_result(shape: tuple[int, ...], dtype: str) -> None:
    """One transposed operand goes through pieces in cache, also where the result is another."""
    x = (tinyt.arange(math.prod(shape)) % 251 - 120).reshape(shape).to(getattr(tinyt, dtype))
    turned = x.permute(0, 3, 1, 2)
    dense = turned.contiguous()
    mask = dense > 3
    for threads in (1, 3):
        tinyt.set_num_threads(threads)
        for function in (
            lambda t: t.abs() if dtype != "bool" else ~t,
            lambda t: tinyt.maximum(t, dense),
            lambda t: tinyt.where(mask, dense, t),
            lambda t: t > dense[:1, :1],
            lambda t: t * t,
            lambda t: tinyt.maximum(dense.clone(), t, out=dense.clone()),
        ):
            assert tinyt.equal(function(turned), function(dense))
        into = dense.clone()
        into.copy_(tinyt.maximum(into, turned))
        assert tinyt.equal(into, dense)
        square = (tinyt.arange(300 * 300) % 37).reshape(300, 300).to(getattr(tinyt, dtype))
        own = square.clone()
        own.mul_(square.t())
        assert tinyt.equal(own, square * square.t().contiguous())
        with pytest.raises(RuntimeError, match="overlaps"):
            own.mul_(own.t())


def test_streamed_outer_sum(rng: np.random.Generator) -> None:
    a = rng.standard_normal((5003, 1), np.float32)
    b = rng.standard_normal(2100, np.float32)
    for threads in (1, 2, 3, 7):
        tinyt.set_num_threads(threads)
        got = tinyt.as_tensor(a) + tinyt.as_tensor(b)
        np.testing.assert_array_equal(got.numpy(force=True), a + b)
