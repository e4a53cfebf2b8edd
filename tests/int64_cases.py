"""Whole numbers on devices with kernels of `src/gpu/`, some of which have no 64-bit integers and
compute in two words: against the CPU, to the bit. All of it is part of WebGPU's cases, some of
OpenCL's, whose driver compiles long."""

import itertools

import numpy as np
import pytest

import tinyt
from device_cases import same

LEAST, MOST = -(1 << 63), (1 << 63) - 1
# Around the borders of words and of their halves.
NUMBERS = [
    *(0, 1, -1, 2, -2, 3, -3, 7, -10, 255, 256, 65535, 65536, 65537, -65536),
    *((1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1, (1 << 32) - 1, 1 << 32, (1 << 32) + 1),
    *(-(1 << 32), -(1 << 32) - 1, (1 << 33) + 5, -(3 << 32), (1 << 47) - 1, (1 << 53) + 1),
    *(1 << 62, -(1 << 62), MOST, MOST - 1, LEAST, LEAST + 1, 0x0123456789ABCDEF),
    -0x7EDCBA9876543210,
]
NARROW = ("bool", "uint8", "int8", "int16", "int32", "int64")


def drawn(count, seed):
    """Of any number of bits."""
    rng = np.random.default_rng(seed)
    values = rng.integers(LEAST, MOST, count, endpoint=True)
    return values >> rng.integers(0, 64, count)


def pairs():
    """Each number beside each other one, and more."""
    known = np.array(list(itertools.product(NUMBERS, NUMBERS)), dtype=np.int64)
    more = np.stack([drawn(700, 1), drawn(700, 2)], 1)
    both = np.concatenate([known, more])
    return [tinyt.tensor(both[:, k].copy()) for k in (0, 1)]


def check(function, place, *operands):
    same(function(*(x.to(place) for x in operands)), function(*operands))


BINARY = [
    *("add", "sub", "mul", "div", "gcd", "lcm", "maximum", "minimum", "eq", "ne", "lt", "le"),
    *("gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_xor"),
]


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_numbers(place, name):
    check(getattr(tinyt, name), place, *pairs())


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_division(place, name):
    x, y = pairs()
    has_result = (y != 0) & ~((x == LEAST) & (y == -1))
    check(getattr(tinyt, name), place, x[has_result], y[has_result])


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts(place, name):
    x = tinyt.tensor(NUMBERS)[:, None]
    check(getattr(tinyt, name), place, x, tinyt.arange(64)[None])
    small = x.to(tinyt.int32)
    check(getattr(tinyt, name), place, small, tinyt.arange(32, dtype=tinyt.int32)[None])


@pytest.mark.parametrize("name", ["neg", "abs", "sign", "bitwise_not", "logical_not", "square"])
def test_single_numbers(place, name):
    check(getattr(tinyt, name), place, tinyt.tensor([*NUMBERS, *drawn(300, 3).tolist()]))


def test_choices_and_powers(place):
    x, y = pairs()
    check(lambda x, y: tinyt.where(x < y, x, -y), place, x, y)
    check(lambda x, y: x.clamp(-5, 1 << 40) + y.clamp(max=-(1 << 35)), place, x, y)
    check(lambda x, y: x ** (y & 7), place, x, y)
    check(lambda x, y: tinyt.addcmul(x, x, y, value=-3), place, x, y)
    check(lambda x: x.bool(), place, x)
    check(lambda x: (x * 5 + (1 << 34)) ^ (x >> 3), place, x)


def near_ties():
    """Whole numbers that float32 rounds: halfway between two floats, and beside that."""
    cases = []
    for shift in range(39):
        for top in (0x800000, 0x800001, 0xFFFFFE, 0xFFFFFF):
            half = ((top << 1) | 1) << shift
            cases += [half - 1, half, half + 1]
    return [s * min(c, MOST) for c in cases for s in (1, -1)]


def test_conversions_to_floats(place):
    x = tinyt.tensor([*NUMBERS, *near_ties(), *drawn(500, 4).tolist()])
    for dtype in (tinyt.float32, tinyt.float16, tinyt.bfloat16):
        check(lambda x, dtype=dtype: x.to(dtype), place, x)
        check(lambda x, dtype=dtype: (x % 2048).to(dtype), place, x)


def test_conversions_from_floats(place):
    inf, nan = float("inf"), float("nan")
    values = [0.0, -0.0, 0.49, 0.99, -0.99, 1.5, -1.5, 255.7, 1e-45, 2.0**23, 2.0**24 + 2]
    values += [2.0**k * f for k in range(24, 64) for f in (1.0, 1.5, 0.999)]
    values += [-v for v in values] + [inf, -inf, nan, 3e38, -(2.0**63), 2.0**63, 2.0**64]
    x = tinyt.tensor(values, dtype=tinyt.float32)
    check(lambda x: x.to(tinyt.int64), place, x)
    check(lambda x: x.to(tinyt.bool), place, x)
    for dtype in (tinyt.int32, tinyt.int16, tinyt.int8, tinyt.uint8):
        check(lambda x, dtype=dtype: x.clamp(0, 100).to(dtype), place, x.nan_to_num())
    for half in (tinyt.float16, tinyt.bfloat16):
        check(lambda x: x.to(tinyt.int64), place, x.clamp(-60000, 60000).to(half))


def ends_of(name):
    if name == "bool":
        return tinyt.tensor([True, False, True, True, False, True])
    dtype = getattr(tinyt, name)
    ends = tinyt.iinfo(dtype)
    return tinyt.tensor([ends.min, ends.max, 0, 1, ends.min + 1, ends.max - 100], dtype=dtype)


@pytest.mark.parametrize("first", NARROW)
def test_mixtures_of_dtypes(place, first):
    x = ends_of(first)
    for second in NARROW:
        y = ends_of(second).flip(0)
        check(lambda x, y: x.to(y.dtype), place, x, y)
        for name in ("add", "mul", "lt", "maximum", "bitwise_xor"):
            check(getattr(tinyt, name), place, x, y)
        y = tinyt.where(y == 0, 3, y)
        if "bool" not in (first, second):
            y = tinyt.where(y == -1, 5, y)
            for name in ("floor_divide", "remainder"):
                check(getattr(tinyt, name), place, x, y)


def shuffled(count=1000):
    rng = np.random.default_rng(6)
    values = np.concatenate([np.array(NUMBERS * 3), drawn(count - 3 * len(NUMBERS), 5)])
    return tinyt.tensor(rng.permutation(values))


def test_order(place):
    x = shuffled()
    for falling in (False, True):
        for k in (0, 1):
            check(lambda x, f=falling, k=k: x.sort(descending=f)[k], place, x)
            check(lambda x, f=falling, k=k: x.topk(9, largest=f)[k], place, x)
            check(lambda x, f=falling, k=k: x.reshape(40, 25).sort(0, f)[k], place, x)
    for k in (0, 1):
        check(lambda x, k=k: x.kthvalue(77)[k], place, x)
        check(lambda x, k=k: x.reshape(20, 50).median(1)[k], place, x)
        check(lambda x, k=k: x.cummax(0)[k], place, x)
        check(lambda x, k=k: x.reshape(50, 20).cummin(0)[k], place, x)
    line = x.sort()[0]
    for right in (False, True):
        check(lambda a, b, r=right: tinyt.searchsorted(a, b, right=r), place, line, x + 1)
    for name in ("argmax", "argmin", "amax", "amin"):
        check(lambda x, name=name: getattr(x, name)(0), place, x)
        check(lambda x, name=name: getattr(x.reshape(8, 125), name)(1), place, x)
        check(lambda x, name=name: getattr(x.reshape(8, 125), name)(0), place, x)


def test_sums_wrap(place):
    x = shuffled()
    for name in ("sum", "prod", "cumsum", "cumprod"):
        check(lambda x, name=name: getattr(x, name)(0), place, x | 1)
        check(lambda x, name=name: getattr((x | 1).reshape(8, 125), name)(0), place, x)
        check(lambda x, name=name: getattr((x | 1).reshape(8, 125), name)(1), place, x)
    for dtype in (tinyt.int32, tinyt.uint8, tinyt.bool):
        check(lambda x: x.sum(), place, x.to(dtype))
        check(lambda x: x.cumsum(0), place, x.to(dtype))
    long = tinyt.tensor(drawn(70_001, 8))
    check(lambda x: x.sum(), place, long)
    check(lambda x: x.cumsum(0), place, long)
    check(lambda x, y: x @ y, place, x.reshape(25, 40), x.reshape(40, 25))


def test_fused_functions(place):
    """Long rows: a thread's loops have a limit, all together, in some drivers."""
    x = tinyt.tensor(drawn(70_001, 9))

    def mixed(x):
        y = (x % 1000003) * 3 - (x >> 7)
        return y, (x // 77 + (x & 0xFFFF)).sum(), (y < x).sum(), x.float().amax()

    compiled = tinyt.compile(mixed)
    for _ in range(2):
        for got, want in zip(compiled(x.to(place)), mixed(x), strict=True):
            same(got, want)


def test_what_is_zero(place):
    """The lower word of some alone."""
    x = tinyt.tensor([0, 1 << 32, 5, 0, LEAST, -(1 << 40), 1 << 31, 0])
    check(lambda x: x.nonzero(), place, x)
    check(lambda x: x[x != 0], place, x)
    check(lambda x: x.masked_select(x < 0), place, x)
    check(lambda x: tinyt.logical_not(x), place, x)
    check(lambda x: x.any() & ~x.all(), place, x)
    check(lambda x: x.masked_fill(x > 0, -(1 << 50)), place, x)
    check(lambda x: tinyt.unique(x), place, x)
    doubles = tinyt.tensor([0.0, -0.0, 5e-324, -(2.0**40), float("nan")], dtype=tinyt.float64)
    check(lambda x: x.nonzero(), place, doubles)


@pytest.mark.parametrize("kind", ["int64", "int32"])
def test_indices(place, kind):
    x = shuffled(600).reshape(20, 30)
    rng = np.random.default_rng(10)
    rows = tinyt.tensor(rng.integers(-20, 20, 45)).to(getattr(tinyt, kind))
    columns = tinyt.tensor(rng.integers(-20, 20, 45)).to(getattr(tinyt, kind))
    check(lambda x, i: x[i], place, x, rows)
    check(lambda x, i, j: x[i, j], place, x, rows, columns)
    check(lambda x, i: x.index_select(1, i % 20), place, x, rows.long())

    def put(x, i, j):
        x = x.clone()
        x.index_put_((i, j), tinyt.tensor(1 << 40, device=x.device), accumulate=True)
        return x

    check(put, place, x, rows.long(), columns.long())
    index = tinyt.tensor(rng.integers(0, 20, (7, 30)))
    check(lambda x, i: x.gather(0, i), place, x, index)
    check(lambda x, i: x.scatter(0, i, x), place, x, index)
    check(lambda x, i: x.scatter_add(0, i, x), place, x, index)
    for reduce in ("prod", "amax", "amin"):
        check(lambda x, i, r=reduce: x.scatter_reduce(0, i, x, r), place, x, index)
    check(lambda x: tinyt.nn.functional.pad(x, (2, 1), value=1 << 33), place, x)


@pytest.mark.parametrize("kind", NARROW[1:-1])
def test_narrow_numbers_added_up(place, kind):
    """They wrap as they are stored."""
    x = shuffled(600).reshape(20, 30).to(getattr(tinyt, kind))
    index = tinyt.tensor(np.random.default_rng(11).integers(0, 5, (20, 30)))
    check(lambda x, i: x.scatter_add(0, i, x), place, x, index)
    for reduce in ("prod", "amax", "amin"):
        check(lambda x, i, r=reduce: x.scatter_reduce(0, i, x, r), place, x, index)


def test_windows_of_whole_numbers(place):
    x = shuffled(720).reshape(1, 2, 18, 20)
    for k in (0, 1):
        check(
            lambda x, k=k: tinyt.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[k],
            place,
            x,
        )


def test_numbers_from_nothing(place):
    for arguments in (
        (9,),
        (-(1 << 62), 1 << 62, (1 << 58) + 3),
        (1 << 40, -(1 << 40), -(1 << 35) - 1),
        ((1 << 32) - 3, (1 << 32) + 3),
    ):
        same(tinyt.arange(*arguments, device=place), tinyt.arange(*arguments))
    same(tinyt.arange(200, device=place, dtype=tinyt.uint8), tinyt.arange(200, dtype=tinyt.uint8))
    for value in (LEAST, MOST, -1, 1 << 32, 7):
        same(tinyt.full((5,), value, device=place), tinyt.full((5,), value))


def test_draws(place):
    draws = [
        lambda d: tinyt.randint(-(1 << 62), 1 << 62, (1001,), device=d),
        lambda d: tinyt.randint(0, 10, (77,), device=d),
        lambda d: tinyt.randint(-3, 4, (77,), dtype=tinyt.int8, device=d),
        lambda d: tinyt.randperm(300, device=d),
        lambda d: tinyt.rand(1001, device=d),
        lambda d: tinyt.rand(101, dtype=tinyt.bfloat16, device=d),
    ]
    for draw in draws:
        tinyt.manual_seed((1 << 61) + 12345)
        want = draw("cpu")
        tinyt.manual_seed((1 << 61) + 12345)
        same(draw(place), want)
