"""Instructions of GPUs and warps on the stand-in for CUDA, of `twin_kernels.cu`: run by
`tests/unit/test_cuda.py`. Layouts are those of the PTX ISA's tables, element by element."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cuda_calls import (
    ILLEGAL_ADDRESS,
    INVALID_VALUE,
    LAUNCH_FAILED,
    MISALIGNED_ADDRESS,
    CudaError,
    Kernels,
)
from standin import nvrtc, standin

HERE = Path(__file__).parent
INSTRUCTIONS = HERE.parents[1] / "src/cuda/kernels/instructions.cuh"
ORDERS = ["forward", "reverse", "random"]
LANES = np.arange(32)
GROUP, T = LANES // 4, LANES % 4  # groupID and threadID_in_group of the PTX ISA
POISON = 0xFFFFFFFF
WORDS = np.zeros(1024, np.uint32)


SOURCE = INSTRUCTIONS.read_text() + (HERE / "twin_kernels.cu").read_text()


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    """NVRTC has to take the same text, where it is installed."""
    variables = os.environ if "TINYT_CUDA_LIBRARY" in os.environ else standin()
    if variables is None:
        pytest.skip("needs a C++ compiler")
    os.environ["STANDIN_NVRTC"] = nvrtc()
    os.environ["STANDIN_NVRTC_ARCHITECTURES"] = "sm_80 sm_90a sm_100"
    return Kernels(ctypes.CDLL(variables["TINYT_CUDA_LIBRARY"]), SOURCE)


def test_nvrtc_looks_at_the_kernels(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    if not nvrtc():
        pytest.skip("needs NVRTC")
    monkeypatch.setenv("STANDIN_NVRTC_ARCHITECTURES", "sm_75")  # without asynchronous copies
    with pytest.raises(CudaError, match=r"sm_75: [^$]*cp\.async"):
        Kernels(kernels.library, SOURCE)


@pytest.fixture(autouse=True)
def forward(kernels: Kernels) -> Iterator[None]:
    yield
    kernels.library.standin_order(b"forward")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# ---- products of matrices


def bits_of(name: str, values: np.ndarray) -> np.ndarray:
    """Numbers that the type has, as it stores them."""
    if name == "Float16":
        return values.astype(np.float16).view(np.uint16)
    if name == "Bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.view(np.uint32) if name == "Tfloat32" else values.view(np.uint8)


def drawn(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if name == "Int8":
        return rng.integers(-128, 128, shape, dtype=np.int8)
    if name == "UInt8":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    values = rng.normal(size=shape).astype(np.float32)
    if name == "Float16":
        values = values.astype(np.float16).astype(np.float32)
        values[0, 0] = 3 * 2.0**-24  # a subnormal number
    elif name == "Bfloat16":
        values = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    return values


def places_of_a(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each element of a lane, as the tables of m16n8k8 (.tf32), m16n8k16 (16
    bits) and m16n8k32 (8 bits) have them."""
    of_word = depth // 8
    i = np.arange(4 * of_word)
    if of_word == 1:
        down, across = i % 2, T[:, None] + 4 * (i >= 2)
    elif of_word == 2:
        down = ~((i < 2) | ((i >= 4) & (i < 6))) & 1
        across = T[:, None] * 2 + (i & 1) + 8 * (i >= 4)
    else:
        down = ~((i < 4) | ((i >= 8) & (i < 12))) & 1
        across = T[:, None] * 4 + (i & 3) + 16 * (i >= 8)
    return GROUP[:, None] + 8 * down, across


def places_of_b(depth: int) -> tuple[np.ndarray, np.ndarray]:
    of_word = depth // 8
    i = np.arange(2 * of_word)
    row = T[:, None] * of_word + i % of_word + depth // 2 * (i >= of_word)
    return row, GROUP[:, None] + 0 * i


def places_of_sums() -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(4)
    return GROUP[:, None] + 8 * (i >= 2), T[:, None] * 2 + (i & 1)


PRODUCTS = [("Bfloat16", 16), ("Float16", 16), ("Tfloat32", 8), ("Int8", 32), ("UInt8", 32)]


@pytest.mark.parametrize(("name", "depth"), PRODUCTS)
def test_multiply_add(kernels: Kernels, rng: np.random.Generator, name: str, depth: int) -> None:
    a, b = drawn(name, (16, depth), rng), drawn(name, (depth, 8), rng)
    is_integer = name.endswith("Int8")
    first = rng.normal(size=(16, 8)).astype(np.float32)
    if is_integer:
        first = rng.integers(2**31 - 2**16, 2**31, (16, 8)).astype(np.int32)  # so that sums wrap
    words = np.ascontiguousarray(bits_of(name, a)[places_of_a(depth)]).view(np.uint32)
    columns = np.ascontiguousarray(bits_of(name, b)[places_of_b(depth)]).view(np.uint32)
    sums = np.ascontiguousarray(first[places_of_sums()])
    kernels.run(f"product_{name}", words, columns, sums, 2)
    got = np.empty_like(first)
    got[places_of_sums()] = sums
    if is_integer:
        exact = first.astype(np.int64) + 2 * (a.astype(np.int64) @ b.astype(np.int64))
        assert np.array_equal(got, exact.astype(np.int32))
        assert (exact != got).any()
        return
    used = [x.astype(np.float64) for x in (a, b)]
    if name == "Tfloat32":
        used = [(x.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for x in (a, b)]
    exact = first + 2 * (used[0] @ used[1])
    bound = 2.0**-23 * (np.abs(first) + 2 * (np.abs(used[0]) @ np.abs(used[1])))
    assert (np.abs(got - exact) <= bound).all()


def test_products_of_infinities(kernels: Kernels) -> None:
    for name, one, infinity in (("Bfloat16", 0x3F80, 0x7F80), ("Float16", 0x3C00, 0x7C00)):
        a, b = np.zeros((16, 16), np.uint16), np.full((16, 8), one, np.uint16)
        a[3, 1], a[4, 2] = infinity, infinity
        b[2, :] = 0
        words = np.ascontiguousarray(a[places_of_a(16)]).view(np.uint32)
        columns = np.ascontiguousarray(b[places_of_b(16)]).view(np.uint32)
        sums, got = np.zeros((32, 4), np.float32), np.empty((16, 8), np.float32)
        kernels.run(f"product_{name}", words, columns, sums, 1)
        got[places_of_sums()] = sums
        assert np.isinf(got[3]).all()
        assert np.isnan(got[4]).all()
        assert (got[:3] == 0).all()


def test_fragments_are_loaded(kernels: Kernels, rng: np.random.Generator) -> None:
    rows = rng.integers(0, 2**16, (4, 8, 8)).astype(np.uint16)  # four matrices
    got = np.zeros((32, 4), np.uint32)
    for name, matrices in (("load_rows", rows), ("load_columns", rows.transpose(0, 2, 1))):
        kernels.run(name, rows, got, 0, shared=512)
        pairs = got.view(np.uint16).reshape(32, 4, 2)
        for i in range(2):
            expected = matrices[np.arange(4)[None], GROUP[:, None], 2 * T[:, None] + i]
            assert np.array_equal(pairs[:, :, i], expected)


@pytest.mark.parametrize("order", ORDERS)
def test_tiles(kernels: Kernels, rng: np.random.Generator, order: str) -> None:
    kernels.library.standin_order(order.encode())
    rows, columns, depth = 128, 64, 80
    a, b = drawn("Bfloat16", (rows, depth), rng), drawn("Bfloat16", (depth, columns), rng)
    c = np.zeros((rows, columns), np.float32)
    operands = [bits_of("Bfloat16", x) for x in (a, b)]
    size = 2 * (64 * 24 + 16 * 72) * 2
    kernels.run(
        "multiply", *operands, c, depth, columns, grid=(1, 2, 1), block=(128, 1, 1), shared=size
    )
    exact = a.astype(float) @ b.astype(float)
    assert (np.abs(c - exact) <= 2.0**-22 * (np.abs(a) @ np.abs(b))).all()


# ---- conversions


def test_conversions(kernels: Kernels, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2**32, 4096, dtype=np.uint32)
    near = rng.integers(0x33000000, 0x47900000, 4096, dtype=np.uint32)  # float16 has them
    ties = near & 0xFFFFF000
    edges = np.array(
        [
            0,
            1 << 31,
            0x7F800000,
            0xFF800000,
            0x7FC00000,
            0x477FEFFF,
            0x477FF000,
            0x7F7FFFFF,
            0x33000000,
            0x33000001,
            0x38800000,
            0x387FFFFF,
        ],
        np.uint32,
    )
    bits = np.concatenate([x, near, ties, ties ^ (1 << 31), near & 0xFFFF8000, edges])
    values, n = bits.view(np.float32), len(bits)
    tfloat32 = np.zeros(n, np.uint32)
    bfloat16, float16 = np.zeros(n, np.uint16), np.zeros(n, np.uint16)
    back = np.zeros(n, np.float32)
    kernels.run("convert", values, tfloat32, bfloat16, float16, back, n)
    is_nan, is_finite = np.isnan(values), np.isfinite(values)
    with np.errstate(all="ignore"):
        halves = values.astype(np.float16)
    assert np.array_equal(float16[~is_nan], halves.view(np.uint16)[~is_nan])
    assert np.array_equal(back[~is_nan], halves.astype(np.float32)[~is_nan])
    assert (float16[is_nan] == 0x7FFF).all()
    assert (bfloat16[is_nan] == 0x7FFF).all()
    assert np.isnan(tfloat32.view(np.float32)[is_nan]).all()
    assert np.isnan(back[is_nan]).all()
    wide = bits.astype(np.int64)
    even = (wide + 0x7FFF + (wide >> 16 & 1)) >> 16
    away = (wide + 0x1000) >> 13 << 13
    assert np.array_equal(bfloat16[~is_nan], even[~is_nan])
    assert np.array_equal(tfloat32[is_finite], away[is_finite])


def test_exponentials_and_logarithms(kernels: Kernels, rng: np.random.Generator) -> None:
    """Within the PTX ISA's bounds of ex2.approx.ftz.f32 and lg2.approx.ftz.f32."""
    edges = [0, -0.0, 1, 2, -1, 127.99999, 128, 200, -125.5, -126.5, -150, 1e-39, 3e38, -3e38]
    special = [np.inf, -np.inf, np.nan, 0.99999, 1.00001, 0.70710677, 0.7071068, 1.4142135]
    drawn = np.concatenate([rng.uniform(-130, 130, 500), rng.uniform(0.5, 2, 500)])
    x = np.concatenate([edges, special, drawn, 2.0 ** rng.uniform(-126, 127, 500)])
    x = x.astype(np.float32)
    exponentials, logarithms = np.zeros_like(x), np.zeros_like(x)
    kernels.run("evaluate", x, exponentials, logarithms, len(x))
    with np.errstate(all="ignore"):
        numbers = np.where(np.abs(x) < 2.0**-126, 0 * x, x).astype(float)
        powers, logs = np.exp2(numbers), np.log2(numbers)
    powers[(powers < 2.0**-126) & ~np.isnan(powers)] = 0
    powers[powers > np.finfo(np.float32).max] = np.inf
    np.testing.assert_allclose(exponentials, powers, rtol=2.0**-22, atol=0)
    near_one = (numbers > 0.5) & (numbers < 2)
    np.testing.assert_allclose(logarithms[near_one], logs[near_one], rtol=0, atol=2.0**-22)
    np.testing.assert_allclose(logarithms[~near_one], logs[~near_one], rtol=2.0**-22, atol=0)


# ---- copies


def words_copied(kernels: Kernels, name: str, has_fourth: int = 0) -> tuple[np.ndarray, np.ndarray]:
    source, got = np.arange(1, 129, dtype=np.uint32), np.zeros(128, np.uint32)
    kernels.run(name, source, got, has_fourth, shared=512)
    source[[5, 37, 69]] = 0  # of the thread that copies zeros
    return source.reshape(4, 32), got.reshape(4, 32)


@pytest.mark.parametrize("order", ORDERS)
def test_copies_are_there_once_waited_for(kernels: Kernels, order: str) -> None:
    kernels.library.standin_order(order.encode())
    for name in ("copy_unawaited", "copy_fewer"):
        _, got = words_copied(kernels, name)
        assert (got == POISON).all()
    source, got = words_copied(kernels, "copy_over")
    assert (got[0] == POISON).all()
    assert np.array_equal(got[1] % 128, np.arange(1, 33))
    source, got = words_copied(kernels, "copy_but_last")
    assert np.array_equal(got[:2], source[:2])
    assert (got[2:] == POISON).all()
    source, got = words_copied(kernels, "copy_all", 1)
    assert np.array_equal(got[:3], source[:3])
    assert (got[3] == POISON).all()


def test_parts_of_copies_are_zeros(kernels: Kernels) -> None:
    source, got = np.arange(1, 513).astype(np.uint8), np.zeros(512, np.uint8)
    kernels.run("copy_parts", source, got, 0, 0, shared=512)
    expected = source.reshape(32, 16).copy()
    for t in range(32):
        expected[t, t % 17 :] = 0
    assert np.array_equal(got.reshape(32, 16), expected)


# ---- errors


def failing(
    kernels: Kernels,
    capfd: pytest.CaptureFixture[str],
    status: int,
    text: str,
    name: str,
    *values: np.ndarray | int,
    block: int = 32,
    shared: int = 512,
) -> None:
    for order in ORDERS:
        kernels.library.standin_order(order.encode())
        with pytest.raises(CudaError) as error:
            kernels.run(name, *values, block=(block, 1, 1), shared=shared)
        assert error.value.status == status
        told = capfd.readouterr().err
        assert f"kernel {name} " in told
        assert text in told


def test_places_that_are_no_multiples(kernels: Kernels, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(520, np.uint8)
    misaligned = MISALIGNED_ADDRESS, "copies 16 bytes from"
    failing(kernels, capfd, *misaligned, "copy_parts", x, x, 4, 0)
    misaligned = MISALIGNED_ADDRESS, "uses 16 bytes of shared memory"
    failing(kernels, capfd, *misaligned, "copy_parts", x, x, 0, 8, shared=520)
    failing(kernels, capfd, *misaligned, "load_rows", WORDS, WORDS, 2, shared=528)
    failing(kernels, capfd, *misaligned, "load_columns", WORDS, WORDS, 8, shared=528)


def test_places_outside_shared_memory(kernels: Kernels, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(512, np.uint8)
    none = ILLEGAL_ADDRESS, "has no shared memory at +496 of 511 bytes"
    failing(kernels, capfd, *none, "copy_parts", x, x, 0, 0, shared=511)
    none = ILLEGAL_ADDRESS, "has no shared memory at +512 of 512 bytes"
    failing(kernels, capfd, *none, "load_rows", WORDS, WORDS, 16)
    for place in (64, 64 + 511, -1, -512):
        outside = ILLEGAL_ADDRESS, "writes outside 64 bytes of shared memory"
        failing(kernels, capfd, *outside, "write_at", WORDS, place, shared=64)
    kernels.run("write_at", WORDS, 63, shared=64)


def test_operations_that_not_all_lanes_reach(
    kernels: Kernels, capfd: pytest.CaptureFixture[str]
) -> None:
    half = LAUNCH_FAILED, "__shfl_xor_sync"
    failing(kernels, capfd, *half, "half_a_warp", WORDS, WORDS)
    failing(kernels, capfd, *half, "two_places", WORDS, WORDS)
    lanes = LAUNCH_FAILED, "lanes 0xffff wait"
    failing(kernels, capfd, *lanes, "half_a_warp", WORDS, WORDS)
    lanes = LAUNCH_FAILED, "mask 0xffffffff, lanes 0xff wait"  # a warp that is not whole
    failing(kernels, capfd, *lanes, "product_Int8", WORDS, WORDS, WORDS, 1, block=40)
    barrier = LAUNCH_FAILED, "32 of 64 threads wait"
    failing(kernels, capfd, *barrier, "warp_at_no_barrier", WORDS, block=64)


# ---- shared memory


def test_shared_memory_that_is_not_written(kernels: Kernels) -> None:
    got = np.zeros(32, np.uint32)
    kernels.run("read_unwritten", got, shared=128)
    assert (got == POISON).all()


def test_shared_memory_beyond_the_limit(kernels: Kernels) -> None:
    def run(size: int) -> None:
        kernels.run("read_unwritten", np.zeros(32, np.uint32), shared=size)

    def refuse(size: int) -> None:
        with pytest.raises(CudaError, match=f"cuLaunchKernel: {INVALID_VALUE} "):
            run(size)

    most = ctypes.c_int()
    kernels.call("cuDeviceGetAttribute", ctypes.byref(most), 97, 0)
    assert most.value == 227 << 10
    own = 4  # of __shared__ variables
    run((48 << 10) - own)
    refuse((48 << 10) - own + 1)
    with pytest.raises(CudaError, match="cuFuncSetAttribute: 1 "):
        kernels.allow_shared("read_unwritten", most.value - own + 1)
    kernels.allow_shared("read_unwritten", most.value - own)
    run(most.value - own)
    refuse(most.value - own + 1)
    kernels.allow_shared("read_unwritten", 1 << 10)
    refuse(2 << 10)
    kernels.allow_shared("read_unwritten", (48 << 10) - own)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("block", [(32, 1, 1), (1024, 1, 1), (8, 8, 3), (1, 16, 64)])
def test_blocks_and_grids(kernels: Kernels, order: str, block: tuple[int, int, int]) -> None:
    kernels.library.standin_order(order.encode())
    threads = block[0] * block[1] * block[2]
    got = np.zeros(24, np.uint32)
    kernels.run("add_blocks", got, grid=(2, 3, 4), block=block)
    assert np.array_equal(got, threads * (threads - 1) // 2 + np.arange(24))


def test_large_grids_and_blocks(kernels: Kernels) -> None:
    for grid in ((1, 65535, 1), (1, 1, 65535)):
        got = np.zeros(65535, np.uint32)
        kernels.run("add_blocks", got, grid=grid)
        assert np.array_equal(got, 496 + np.arange(65535))
    for grid, block in (
        ((1, 65536, 1), (32, 1, 1)),
        ((1, 1, 65536), (32, 1, 1)),
        ((1, 1, 1), (1056, 1, 1)),
        ((1, 1, 1), (32, 33, 1)),
    ):
        with pytest.raises(CudaError, match="cuLaunchKernel: 1 "):
            kernels.run("add_blocks", got, grid=grid, block=block)


def test_threads_run_in_each_order(kernels: Kernels) -> None:
    """A missing barrier shows in one of them, within a warp as between two."""
    for distance in (1, 32):
        for synchronizes in (0, 1):
            wrong = 0
            for order in ORDERS:
                kernels.library.standin_order(order.encode())
                got = np.zeros(64, np.int32)
                kernels.run("exchange", got, synchronizes, distance, block=(64, 1, 1), shared=256)
                wrong += not np.array_equal(got, np.arange(64) ^ distance)
            assert wrong == (0 if synchronizes else 3)


# ---- other operations of warps, and numbers


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [32, 8, 2])
def test_shuffles(kernels: Kernels, rng: np.random.Generator, width: int, order: str) -> None:
    kernels.library.standin_order(order.encode())
    x = rng.permutation(32).astype(np.int32)
    got, doubles = np.zeros(256, np.int32), np.zeros(32)
    kernels.run("shuffles", x, got, doubles, width)
    first = LANES // width * width
    up, down, other = LANES - 3, LANES + 3, LANES ^ 5
    sources = [
        first + LANES * 7 % width,
        np.where(up >= first, up, LANES),
        np.where(down < first + width, down, LANES),
        np.where(other < first + width, other, LANES),
    ]
    for row, source in zip(got.reshape(8, 32), sources, strict=False):
        assert np.array_equal(row, x[source])
    votes = sum(1 << int(lane) for lane in LANES[x % 3 == 0])
    assert (got[128:160].view(np.uint32) == votes).all()
    assert (got[160:192] == 2).all()
    assert np.array_equal(doubles, x[::-1] / 3)
    assert np.array_equal(got[192:200], x[LANES[:8] ^ 1])


def test_numbers(kernels: Kernels, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2**32, 32, dtype=np.uint32)
    x[:4] = 0, 0x7FC00000, 0x80000000, 0x3F800000
    x[-4:] = 0x7FC00000, 0x80000000, 0x3F800000, 1 << 31
    y = x[::-1]
    got = np.zeros((32, 16), np.uint32)
    kernels.run("numbers", x, got)
    f, h = x.view(np.float32), np.ascontiguousarray(y).view(np.float32)
    wide = [int(v) for v in x]

    def check(place: int, expected: object) -> None:
        assert np.array_equal(got[:, place], np.asarray(expected, dtype=np.uint32)), place

    def check_floats(place: int, expected: np.ndarray) -> None:
        assert np.array_equal(got[:, place].view(np.float32), expected, equal_nan=True), place

    check(0, [a * b >> 32 for a, b in zip(wide, wide[::-1], strict=True)])
    check(1, [a.bit_count() for a in wide])
    check(2, [(a & -a).bit_length() for a in wide])
    check(3, [int(f"{a:032b}"[::-1], 2) for a in wide])
    check(4, np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32))
    check(5, np.maximum(x, y))
    check_floats(6, np.fmax(f, h))
    check_floats(7, np.fmin(f, h))
    check(8, x & 0x7FFFFFFF)
    check(9, np.minimum(x, y))
    check(10, (x + y + x[0] + 32).astype(np.uint32))
    check(11, x)
    check(12, np.maximum(x, y))
    check(13, np.full(32, 16))
    check_floats(14, np.fmax(f, h))
    check(15, y)
    assert got[0, 6] == 0  # of +0 and -0
    assert got[0, 7] == 0x80000000
