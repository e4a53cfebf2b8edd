"""Arithmetic of complex numbers by their parts: what runs on devices that have no kernels for it,
against the CPU's kernels and NumPy; and every way of calling it, wherever the tests run."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import Array, to_numpy
from tinyt import _core, _tensor, decompositions
from tinyt.cli.backends.check import _defined_calls
from tinyt.tensor import prim

CPU = tinyt.device("cpu")
ROWS = decompositions.of_complex()
PARTS = {"complex64": np.float32, "complex128": np.float64}
DTYPES = list(PARTS)


def has_kernel(name: str, dtype: str) -> bool:
    """Of the device where the tests run."""
    place = _tensor.number_of_device(tinyt.get_default_device())
    return bool(_core.has_kernel(name, getattr(tinyt, dtype), place))


def takes(dtype: str) -> bool:
    """Whether the device computes on the parts of such numbers."""
    return has_kernel("add", str(np.dtype(PARTS[dtype])))


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not takes(name):
        pytest.skip(f"the device has no arithmetic of the parts of {name}")
    return name


def test_every_row_with_complex_arithmetic_has_a_decomposition() -> None:
    flagged = {row["name"] for row in _core.op_table() if "complex" in row["flags"]}
    assert set(ROWS) == flagged


def test_every_row_that_the_device_refuses_has_a_decomposition() -> None:
    """Of those that the CPU has in complex64; a fused row has one as such."""
    for row in _core.op_table():
        name = row["name"]
        known = bool({"view", "fused"} & row["flags"]) or has_kernel(name, "complex64")
        if not known and takes("complex64") and _defined_calls(name, tinyt.complex64, 0):
            assert name in ROWS


# ---- functions of one number

# Their largest error: units in the last place of the size of the result.
BOUND = 5.0
UNARY = [
    row["name"]
    for row in _core.op_table()
    if row["name"] in ROWS and row["inputs"] == 1 and row["kind"] == "scalar"
]
# Of these the CPU's kernels have larger errors in complex128: of the angle y log 2, near poles.
ROUGH = {"exp2", "sigmoid"}
EXACT = {"neg", "conj_physical", "logical_not", "isnan", "isinf", "isfinite"}


def around(rng: np.random.Generator, dtype: str, count: int = 4000) -> dict[str, Array]:
    """Numbers of all sizes, near the axes, the unit circle, branch points and poles."""

    def normal() -> Array:
        return rng.normal(size=count) + 1j * rng.normal(size=count)

    def sign() -> Array:
        return rng.choice([-1.0, 1.0], count)

    tiny = 10.0 ** rng.uniform(-7, -1, count)
    wide = 30 if dtype == "complex64" else 250
    made = {
        "near 1 in size": normal() * 2,
        "far": normal() * 30,
        "small": normal() * 10.0 ** rng.uniform(-6, 0, count),
        "of all sizes": sign() * 10.0 ** rng.uniform(-wide, wide, count)
        + 1j * sign() * 10.0 ** rng.uniform(-wide, wide, count),
        "near the unit circle": (1 + tiny * sign()) * np.exp(1j * rng.uniform(-4, 4, count)),
        "near 1, -1, i, -i": rng.choice([-1, 1, 1j, -1j], count) + normal() * tiny,
        "near multiples of i pi / 2": rng.choice([-1, 1, 2, 0.5], count) * np.pi * 1j
        + normal() * tiny,
        "near the real axis": rng.normal(size=count) * 3 + 1j * rng.normal(size=count) * tiny**3,
    }
    return {name: values.astype(dtype) for name, values in made.items()}


def log1p(z: Array) -> Array:
    """By its series where 1 + z has too few digits."""
    series = np.zeros_like(z)
    for k in range(14, 0, -1):
        series = z * (LONG(1) / k - series)
    return np.where(np.abs(z) < 0.05, series, np.log(1 + z))


def sigmoid(z: Array) -> Array:
    """By the hyperbolic cosine near the poles, which are its zeros."""
    near = np.where(np.abs(z.real) < 30, z, 0)
    e = np.exp(np.where(z.real < 0, z, -z))
    plain = np.where(z.real < 0, e, 1) / (1 + e)
    return np.where(np.abs(z.real) < 30, np.exp(near / 2) / (2 * np.cosh(near / 2)), plain)


# In extended precision: NumPy's own functions lose digits near their zeros.
LONG = np.longdouble
IN_NUMPY: dict[str, Callable[[Array], Array]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sigmoid": sigmoid,
    "log1p": log1p,
    "exp2": lambda z: np.exp(z * np.log(LONG(2))),
    "log2": lambda z: np.log(z) / np.log(LONG(2)),
    "log10": lambda z: np.log(z) / np.log(LONG(10)),
}


def ulps(got: Array, want: Array) -> Array:
    """Errors relative to the size of what is wanted; 0 where that overflows, or nearly."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        size = np.abs(want)
        error = np.abs(got.astype(np.clongdouble) - want) / (info.eps * (size + info.tiny))
    plain = np.isfinite(size) & (size < info.max / 2)
    return np.where(plain, np.where(np.isnan(error), 1e9, np.minimum(error, 1e9)), 0)


def called(name: str, by: str) -> Callable[..., tinyt.Tensor]:
    """A row as it runs where the tests do, or its decomposition."""
    return ROWS[name] if by == "decomposition" else getattr(prim, name)


@pytest.mark.parametrize("by", ["call", "decomposition"])
@pytest.mark.parametrize("name", [n for n in UNARY if n not in EXACT])
def test_error_of_a_function(name: str, by: str, dtype: str, rng: np.random.Generator) -> None:
    if by == "call" and name in ROUGH and has_kernel(name, dtype):
        pytest.skip("the CPU's is the plain formula")
    for where, values in around(rng, dtype).items():
        got = to_numpy(called(name, by)(tinyt.tensor(values)))
        # Its angle is beyond what extended precision holds.
        kept = np.abs(values.imag) < 1e3 if name == "exp2" else np.full(values.shape, True)
        with np.errstate(all="ignore"):
            want = reference(name, values, dtype)
        found = np.where(kept, ulps(got, want), 0)
        at = int(found.argmax())
        assert found[at] <= BOUND, f"{where}: {values[at]} gives {got[at]}, not {want[at]}"


def reference(name: str, values: Array, dtype: str) -> Array:
    """Of the CPU's kernels in complex128; for that itself NumPy."""
    if dtype == "complex64" and name != "exp2":
        wide = tinyt.tensor(values.astype(np.complex128), device=CPU)
        return to_numpy(getattr(prim, name)(wide)).astype(np.clongdouble)
    function = IN_NUMPY.get(name) or getattr(np, name)
    return np.asarray(function(values.astype(np.clongdouble)))


@pytest.mark.parametrize("by", ["call", "decomposition"])
@pytest.mark.parametrize("name", sorted(EXACT))
def test_exact_function(name: str, by: str, dtype: str, rng: np.random.Generator) -> None:
    values = np.concatenate([special(dtype), around(rng, dtype)["far"]])
    want = getattr(prim, name)(tinyt.tensor(values, device=CPU))
    np.testing.assert_array_equal(to_numpy(called(name, by)(tinyt.tensor(values))), to_numpy(want))


def special(dtype: str) -> Array:
    """All pairs of zeros, ones, infinities, NaN, the smallest and nearly the largest."""
    info = np.finfo(PARTS[dtype])
    ends = [0.0, 1.0, 0.5, 2.0, math.inf, float(info.tiny) / 8, float(info.max) * 0.9]
    values = [s * x for x in ends for s in (1, -1)] + [math.nan]
    made = np.empty((len(values), len(values)), dtype)
    made.real, made.imag = np.array(values)[:, None], np.array(values)
    return made.ravel()


def is_same_part(got: float, want: float, of_any_sign: bool) -> bool:
    """NaN for NaN, the infinity, the zero; of finite numbers the sign."""
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if of_any_sign:
        return math.isinf(got) == math.isinf(want)
    if math.isinf(want) or math.isinf(got) or want == 0:
        return got == want and math.copysign(1, got) == math.copysign(1, want)
    return True


def is_at_an_end(z: complex) -> bool:
    """Whether a part is nearly the smallest or the largest."""
    sizes = [abs(z.real), abs(z.imag)]
    return any(0 < x < 1e-30 or 1e38 < x < math.inf for x in sizes)


# Where the CPU's formulas give NaN, or the other zero, or over- or underflow on the way.
KNOWN: dict[str, Callable[[complex], bool]] = {
    "expm1": lambda z: not math.isfinite(z.real) or abs(z.real) > 80 or z.real == 0,
    "sigmoid": lambda z: abs(z.real) > 80 or math.copysign(1, z.imag) < 0,
    "exp2": lambda z: abs(z.imag) > 1e6 and math.isfinite(z.imag),
    "reciprocal": lambda z: is_at_an_end(z),
    "rsqrt": lambda z: is_at_an_end(z),
}


@pytest.mark.parametrize("by", ["call", "decomposition"])
@pytest.mark.parametrize("name", [n for n in UNARY if n not in EXACT])
def test_special_values(name: str, by: str, dtype: str) -> None:
    """As the CPU's kernels have them, which are those of C99, Annex G; it leaves signs open where
    the other part is NaN or the number infinite."""
    values = special(dtype)
    got = to_numpy(called(name, by)(tinyt.tensor(values)))
    want = to_numpy(getattr(prim, name)(tinyt.tensor(values, device=CPU)))
    wrong = []
    for z, g, w in zip(values.tolist(), got.tolist(), want.tolist(), strict=True):
        if KNOWN.get(name, lambda z: False)(z):
            continue
        is_open = not (math.isfinite(z.real) and math.isfinite(z.imag))
        pairs = [(g.real, w.real), (g.imag, w.imag)] if isinstance(w, complex) else [(g, w)]
        is_open = is_open and (isinstance(w, complex))
        if not all(
            is_same_part(a, b, is_open and (b == 0 or a == 0 or math.isinf(b))) for a, b in pairs
        ):
            wrong.append(f"{name}({z}) is {g}, not {w}")
    assert not wrong, "\n".join(wrong)


# ---- of two numbers and more

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((3,), ()),
    ((), (3,)),
    ((4, 1), (1, 5)),
    ((2, 1, 3), (4, 1)),
    ((0,), (1,)),
    ((2, 0), (1, 1)),
    ((67,), (67,)),
]
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "eq": operator.eq,
    "ne": operator.ne,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
KINDS = ["both", "left", "right"]  # which are complex


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """With zeros among them, and equal ones."""
    values = rng.integers(-3, 4, shape) * 0.5
    if dtype.startswith("complex"):
        values = values + 1j * rng.integers(-3, 4, shape) * 0.5
    return np.asarray(values, dtype)


def operands(
    rng: np.random.Generator, shapes: tuple[tuple[int, ...], ...], kind: str, dtype: str
) -> list[Array]:
    real = str(np.dtype(PARTS[dtype]))
    dtypes = {"both": (dtype, dtype), "left": (dtype, real), "right": (real, dtype)}[kind]
    made = [drawn(rng, s, d) for s, d in zip(shapes, dtypes, strict=True)]
    return [np.where(a == 0, np.asarray(1, a.dtype), a) for a in made]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(
    name: str,
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    kind: str,
    dtype: str,
    rng: np.random.Generator,
) -> None:
    a, b = operands(rng, shapes, kind, dtype)
    want = np.asarray(BINARY[name](a.astype(np.complex128), b.astype(np.complex128)))
    x, y = tinyt.tensor(a), tinyt.tensor(b)
    for function in (getattr(prim, name), ROWS[name]):
        got = to_numpy(function(x, y))
        assert got.shape == want.shape
        if want.dtype == bool:
            np.testing.assert_array_equal(got, want)
        else:
            assert got.dtype == dtype
            limit = 40 if name == "pow" else BOUND
            assert ulps(got, want.astype(np.clongdouble)).max(initial=0) <= limit


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "eq", "ne"])
def test_arithmetic_is_the_cpus(name: str, dtype: str, rng: np.random.Generator) -> None:
    """To the bit, but for quotients, also of infinities, NaN and zeros."""
    values = np.concatenate([special(dtype), around(rng, dtype)["far"]])
    others = [np.roll(values, k) for k in (1, 7, 30)]
    part = PARTS[dtype]
    for other, flip in itertools.product((*others, others[0].real.astype(part)), (False, True)):
        a, b = (other, values) if flip else (values, other)
        x, y = tinyt.tensor(a), tinyt.tensor(b)
        want = to_numpy(getattr(prim, name)(x.cpu(), y.cpu()))
        for function in (getattr(prim, name), ROWS[name]):
            got = to_numpy(function(x, y))
            if name == "div":
                plain = [
                    not (is_at_an_end(p) or is_at_an_end(q)) for p, q in zip(a, b, strict=True)
                ]
                found = ulps(got, want.astype(np.clongdouble))[plain]
                assert found.max() <= BOUND
                assert np.all((np.isnan(got) == np.isnan(want))[plain])
            else:
                np.testing.assert_array_equal(got, want)
                if want.dtype != bool:
                    for p, q in ((got.real, want.real), (got.imag, want.imag)):
                        same = np.signbit(p) == np.signbit(q)
                        assert np.all(same | np.isnan(p))


@pytest.mark.parametrize("number", [2, 0.5, 1j, -1.5 + 2j, 0])
@pytest.mark.parametrize("kind", ["complex", "real", "int"])
def test_numbers(number: complex, kind: str, dtype: str, rng: np.random.Generator) -> None:
    part = str(np.dtype(PARTS[dtype]))
    source = {"complex": dtype, "real": part, "int": "int64"}[kind]
    if kind == "int":
        values = rng.integers(1, 5, (3, 4))
    else:
        values = operands(rng, ((3, 4), (1,)), "both" if kind == "complex" else "right", dtype)[0]
    for array in (values.astype(source), values.astype(source)[0, 0]):
        x = tinyt.tensor(array)
        calls: list[Callable[[Any], Any]] = [
            lambda x: x + number,
            lambda x: number - x,
            lambda x: x * number,
            lambda x: number / x,
            lambda x: x == number,
            lambda x: (x + 0j) ** number,
        ]
        calls += [lambda x: x / number] if number else []
        for call in calls:
            got, want = call(x), call(x.cpu())
            assert got.device == x.device
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            np.testing.assert_allclose(to_numpy(got), to_numpy(want), rtol=4e-6)
        got = prim.where(x == x, number, x)
        np.testing.assert_array_equal(to_numpy(got), np.full(x.shape, number))


def test_numbers_in_the_default_dtype() -> None:
    """A number beside integers is of the default dtype, also after a call under another one."""
    if not takes("complex128"):
        pytest.skip("the device has no float64")
    x = tinyt.tensor([1, 2])
    assert (x * 1j).dtype is tinyt.complex64
    tinyt.set_default_dtype(tinyt.float64)
    try:
        assert (x * 1j).dtype is tinyt.complex128
        assert (x * 1j).tolist() == [1j, 2j]
    finally:
        tinyt.set_default_dtype(tinyt.float32)
    assert (x * 1j).dtype is tinyt.complex64


@pytest.mark.parametrize("kind", KINDS)
def test_where(kind: str, dtype: str, rng: np.random.Generator) -> None:
    for shapes in SHAPES:
        a, b = operands(rng, shapes, kind, dtype)
        for shape in ((), a.shape, (2, *np.broadcast_shapes(a.shape, b.shape))):
            mask = rng.integers(0, 2, shape).astype(bool)
            want = np.where(mask, a, b)
            for function in (prim.where, ROWS["where"]):
                got = to_numpy(function(tinyt.tensor(mask), tinyt.tensor(a), tinyt.tensor(b)))
                np.testing.assert_array_equal(got, want)
                assert got.shape == want.shape


def test_error_of_powers(dtype: str, rng: np.random.Generator) -> None:
    """It grows with |y log x|; that of the CPU's kernels is not looked at."""
    sets = around(rng, dtype, 1000)
    for (of, x), (to, y) in itertools.product(sets.items(), sets.items()):
        if to == "of all sizes":
            continue
        y = np.roll(y, 5)
        log = y.astype(np.clongdouble) * np.log(x.astype(np.clongdouble))
        for function in (prim.pow, ROWS["pow"]):
            if function is prim.pow and has_kernel("pow", dtype):
                continue
            got = to_numpy(function(tinyt.tensor(x), tinyt.tensor(y)))
            with np.errstate(over="ignore", invalid="ignore"):
                want = np.exp(log)
            found = ulps(got, want) / (1 + np.abs(log))
            at = int(found.argmax())
            assert found[at] <= 3, f"{of}, {to}: {x[at]} ** {y[at]} gives {got[at]}"


def test_known_powers(dtype: str, rng: np.random.Generator) -> None:
    """Of 0, 1 and 2, and of 0."""
    x = (rng.normal(size=300) + 1j * rng.normal(size=300)).astype(dtype)
    z = tinyt.tensor(x)
    for function in (prim.pow, ROWS["pow"]):
        for power, want in ((0, np.ones_like(x)), (1, x), (2, x.astype(np.clongdouble) ** 2)):
            found = to_numpy(function(z, tinyt.tensor(np.full(300, power, dtype))))
            assert ulps(found, want.astype(np.clongdouble)).max() <= (2 if power == 2 else 0)
    zero = tinyt.tensor(np.zeros(3, dtype))
    to = tinyt.tensor(np.array([2 + 1j, -1, 0], dtype))
    got = to_numpy(prim.pow(zero, to))
    assert got[0] == 0
    assert np.isnan(got[1])
    assert got[2] == 1


# ---- reductions, scans, products


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((), ()),
        ((5,), (0,)),
        ((1,), (0,)),
        ((0,), (0,)),
        ((3, 4), ()),
        ((3, 4), (1,)),
        ((3, 7), (0,)),
        ((2, 3, 5), (0, 2)),
        ((2, 0, 5), (1,)),
        ((0, 3), (1,)),
        ((33, 2), (0,)),
    ],
)
def test_reductions(
    shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool, dtype: str, rng: Any
) -> None:
    a = (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    axes = dims or tuple(range(len(shape)))
    whole = a.astype(np.complex128)
    for name, ulp in (("sum", 8), ("prod", 80)):
        want = np.asarray(getattr(np, name)(whole, axis=axes, keepdims=keepdim))
        size = np.asarray(getattr(np, name)(np.abs(whole), axis=axes, keepdims=keepdim))
        for function in (getattr(prim, name), ROWS[name]):
            got = to_numpy(function(tinyt.tensor(a), dims, keepdim))
            assert (got.shape, got.dtype) == (want.shape, dtype)
            assert np.all(np.abs(got - want) <= ulp * np.finfo(dtype).eps * (size + 1e-30))


@pytest.mark.parametrize("shape", [(), (1,), (9,), (3, 4), (2, 3, 5), (0, 3)])
def test_cumsum(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    a = drawn(rng, shape, dtype)
    for dim in range(-len(shape), len(shape)) or (0,):
        want = np.cumsum(a, dim).reshape(shape)
        for function in (prim.cumsum, ROWS["cumsum"]):
            np.testing.assert_array_equal(to_numpy(function(tinyt.tensor(a), dim)), want)


@pytest.mark.parametrize("shape", [(), (6,), (4, 5), (2, 3, 4)])
def test_scatter_add(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    a, b = drawn(rng, shape, dtype), drawn(rng, shape, dtype)
    for dim in range(len(shape)) or (0,):
        size = shape[dim] if shape else 1
        index = rng.integers(0, size, shape)
        want = a.copy().reshape(shape or (1,))
        places = list(np.indices(shape or (1,)))
        places[dim] = np.asarray(index).reshape(shape or (1,))
        np.add.at(want, tuple(places), b.reshape(shape or (1,)))
        for function in (prim.scatter_add, ROWS["scatter_add"]):
            x, i, y = tinyt.tensor(a), tinyt.tensor(index), tinyt.tensor(b)
            got = to_numpy(function(x, i, y, dim))
            np.testing.assert_array_equal(got, want.reshape(shape))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((4,), (4, 3)),
        ((2, 4), (4,)),
        ((2, 4), (4, 3)),
        ((1, 1), (1, 1)),
        ((5, 2, 4), (4, 3)),
        ((2, 4), (5, 4, 3)),
        ((5, 1, 2, 4), (3, 4, 3)),
        ((5, 2, 4), (4,)),
        ((4,), (5, 4, 3)),
        ((2, 0), (0, 3)),
        ((0, 4), (4, 3)),
        ((70, 33), (33, 65)),
    ],
)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...], dtype: str, rng: Any) -> None:
    a, b = drawn(rng, left, dtype), drawn(rng, right, dtype)  # whose sums are exact
    want = np.matmul(a, b)
    for function in (prim.matmul, ROWS["matmul"]):
        got = to_numpy(function(tinyt.tensor(a), tinyt.tensor(b)))
        np.testing.assert_array_equal(got, want)
        assert got.shape == np.shape(want)


# ---- every way of calling


def test_in_place_and_out(dtype: str, rng: np.random.Generator) -> None:
    a, b = drawn(rng, (4, 6), dtype), drawn(rng, (4, 6), dtype) + 1
    x, y = tinyt.tensor(a), tinyt.tensor(b)
    part = x[:, ::2]
    part.mul_(y[:, ::2]).add_(1j)
    a[:, ::2] = a[:, ::2] * b[:, ::2] + 1j
    np.testing.assert_array_equal(to_numpy(x), a)
    x.t().sub_(y.t())
    np.testing.assert_array_equal(to_numpy(x), a - b)
    x.add_(x)
    np.testing.assert_array_equal(to_numpy(x), 2 * (a - b))
    out = tinyt.zeros(4, 12, dtype=y.dtype)
    assert tinyt.mul(x, y, out=out[:, ::2]) is not None
    np.testing.assert_array_equal(to_numpy(out[:, ::2]), 2 * (a - b) * b)
    assert not bool(out[:, 1::2].abs().any())
    x.neg_()
    np.testing.assert_array_equal(to_numpy(x), -2 * (a - b))
    z = tinyt.zeros(3, dtype=y.dtype)
    z.scatter_add_(0, tinyt.tensor([1, 1, 2]), tinyt.tensor(np.array([1, 2j, 3], dtype)))
    np.testing.assert_array_equal(to_numpy(z), [0, 1 + 2j, 3])


def test_strides(dtype: str, rng: np.random.Generator) -> None:
    a = (rng.normal(size=(6, 8)) + 1j * rng.normal(size=(6, 8))).astype(dtype)
    x = tinyt.tensor(a)
    for name in ("exp", "sqrt", "reciprocal", "neg", "abs"):
        for view in (lambda t: t.T, lambda t: t[::2, 1::3], lambda t: t[:1].expand(4, 8)):
            got, want = getattr(prim, name)(view(x)), getattr(prim, name)(view(x).clone())
            np.testing.assert_array_equal(to_numpy(got), to_numpy(want))
    np.testing.assert_allclose(to_numpy(x.T @ x[:, ::2]), a.T @ a[:, ::2], rtol=1e-4, atol=1e-4)


def test_to_bool_and_back(dtype: str) -> None:
    values = np.array([[0, 1, 1j, -0.0], [complex(0, math.nan), 2 + 1j, 0, -1j]], dtype)
    x = tinyt.tensor(values)
    for view in (lambda t: t, lambda t: t.T, lambda t: t[:, ::2]):
        np.testing.assert_array_equal(to_numpy(view(x).bool()), view(values) != 0)
    mask = tinyt.zeros(2, 4, dtype=tinyt.bool)
    mask[:, 1:3].copy_(x[:, 1:3])
    np.testing.assert_array_equal(to_numpy(mask)[:, 1:3], values[:, 1:3] != 0)
    assert bool(x.any())
    np.testing.assert_array_equal(to_numpy(x.count_nonzero()), 5)


CHAINS: dict[str, Callable[[tinyt.Tensor], Any]] = {
    "arithmetic": lambda x: ((x * 1j + 2).exp() / x).abs().sum(),
    "reductions": lambda x: (x.sum(0), x.prod(1), x.cumsum(1), x @ x.T),
    "mixed": lambda x: (x.real * x.imag + 1).sqrt() * x + x.mean(),
    "fused": lambda x: tinyt.where(x.abs() > 2, x.log(), x * x.conj()).var(),
    "parts": lambda x: tinyt.view_as_real(x * 2).sum(-1) + x.angle(),
}


@pytest.mark.parametrize("name", CHAINS)
def test_compiled_and_lazy(name: str, dtype: str, rng: np.random.Generator) -> None:
    """The bits of the same calls one by one, again and again."""
    chain = CHAINS[name]
    x = tinyt.tensor((rng.normal(size=(3, 5)) + 1j * rng.normal(size=(3, 5))).astype(dtype))

    def listed(found: Any) -> list[Array]:
        return [to_numpy(t) for t in (found if isinstance(found, tuple) else (found,))]

    want = listed(chain(x))
    compiled = tinyt.compile(chain)
    for _ in range(3):
        for got, w in zip(listed(compiled(x)), want, strict=True):
            np.testing.assert_array_equal(got, w)
    with tinyt.lazy():
        found = chain(x)
    for got, w in zip(listed(found), want, strict=True):
        np.testing.assert_array_equal(got, w)
