"""Scalar definitions in float32 alone, as one C library: their types, error bounds, special values.

References are the kernels for float64, whose own bounds `test_math_ulp.py` checks.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable

import numpy as np
import pytest

import tinyt
from c_library import build
from tinyt import _core
from tinyt.tensor import prim
from ulp import SINGLE_BOUNDS, check, float32_errors, relative_to_one, samples

pytestmark = pytest.mark.host

Array = np.ndarray
# Functions with zeros between the floats: units in the last place of the larger of |result| and 1.
ABSOLUTE = ("lgamma", "digamma", "logaddexp", "logaddexp2")
# Exact: the reference is the float32 kernel.
EXACT = ("fmod", "remainder", "floor_divide")

EDGES = np.array(
    [0, 0.5, 1, 2, 3, 4, 0.97, 88.7, 89.4, 100, 1e20, 1e30, 1e-40, 2.0**127]
    + [1 - 2.0**-24, 1 + 2.0**-23, 2.0**-126, 2.0**-149, 3 * 2.0**-149]
    + [float(np.finfo(np.float32).max), np.inf],
    np.float32,
)
SPECIALS = np.concatenate([EDGES, -EDGES, np.array([np.nan], np.float32)])


def wide_types(op: str) -> set[str]:
    types = {node[1] for node in _core.single_definition(op)}
    return types & {"i64", "u64", "f64"}


def float32_ops() -> list[str]:
    ops = []
    for row in _core.op_table():
        if row["kind"] != "scalar":
            continue
        try:
            _core.scalar_definition(row["name"], tinyt.float32)
        except tinyt.DTypeError:
            continue
        ops.append(row["name"])
    return ops


def test_no_type_has_64_bits() -> None:
    ops = float32_ops()
    assert len(ops) > 100
    assert [op for op in ops if wide_types(op)] == []


def test_the_table_has_every_op_with_a_definition_of_its_own() -> None:
    own = [
        op
        for op in float32_ops()
        if _core.single_definition(op) != _core.scalar_definition(op, tinyt.float32)
    ]
    assert sorted(own) == sorted(SINGLE_BOUNDS)


Library = Callable[..., Array]


ARITY = {row["name"]: row["inputs"] for row in _core.op_table()}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    functions = [(f"one_{op}", op, tinyt.float32) for op in SINGLE_BOUNDS]
    source = _core.scalar_source(functions, "c99", single=True)
    for op in SINGLE_BOUNDS:
        inputs = range(ARITY[op])
        arguments = "".join(f"const float* x{i}, " for i in inputs)
        values = ", ".join(f"x{i}[k]" for i in inputs)
        source += f"void {op}_of({arguments}float* out, long n) {{\n"
        source += f"  for (long k = 0; k < n; ++k) out[k] = one_{op}({values});\n}}\n"
    loaded = build(tmp_path_factory.mktemp("single"), source)

    def run(op: str, *arrays: Array) -> Array:
        held = [np.ascontiguousarray(a, np.float32) for a in arrays]
        out = np.empty_like(held[0])
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*held, out)]
        getattr(loaded, f"{op}_of")(*pointers, ctypes.c_long(out.size))
        return out

    return run


def kernel(op: str, *arrays: Array) -> Array:
    return getattr(prim, op)(*(tinyt.as_tensor(a) for a in arrays)).numpy()


def of_one(op: str, rng: np.random.Generator, n: int) -> tuple[Array, ...]:
    powers = np.arange(1 << 9, dtype=np.uint32) << np.uint32(23)
    near_powers = np.concatenate([powers - 1, powers, powers + 1]).astype(np.uint32)
    parts = [near_powers.view(np.float32), samples(np.float32, rng, n)]
    parts += [rng.uniform(-160, 160, n), rng.uniform(-15, 15, n)]
    parts += [np.exp(-rng.uniform(0, 104, n)), 1 - np.exp(-rng.uniform(0, 17, n))]
    return (np.concatenate([p.astype(np.float32) for p in parts]),)


def of_two(op: str, rng: np.random.Generator, n: int) -> tuple[Array, ...]:
    x = samples(np.float32, rng, n)
    with np.errstate(all="ignore"):
        if op == "pow":  # results over the whole range
            fitting = rng.uniform(-1.1, 1.1, x.size) * 88 / np.log(np.abs(x.astype(np.float64)))
            whole = rng.integers(-20, 20, x.size)
            return x, np.where(rng.random(x.size) < 0.3, whole, fitting).astype(np.float32)
        y = rng.permutation(x)
        near = x * np.exp(rng.normal(size=x.size) * 3)
        return x, np.where(rng.random(x.size) < 0.5, near, y).astype(np.float32)


def of_zeta(op: str, rng: np.random.Generator, n: int) -> tuple[Array, ...]:
    s = np.concatenate([1 + np.exp(rng.uniform(-14, 5, n)), rng.integers(2, 12, n)])
    q = np.concatenate([np.exp(rng.uniform(-10, 8, n)), rng.uniform(-20, 20, n)])
    return s.astype(np.float32), q.astype(np.float32)


def of_gamma(op: str, rng: np.random.Generator, n: int) -> tuple[Array, ...]:
    a = np.exp(rng.uniform(-12, 14, n)).astype(np.float32)
    spread = rng.normal(size=n) * rng.choice([0.001, 0.03, 0.3, 1, 3], n)
    return a, (a * np.exp(spread)).astype(np.float32)


def of_dirichlet(op: str, rng: np.random.Generator, n: int) -> tuple[Array, ...]:
    a, b = (np.exp(rng.uniform(-8, 9, n)).astype(np.float32) for _ in range(2))
    x = rng.beta(a, b).astype(np.float32)
    return np.where((x > 0) & (x < 1), x, np.float32(0.5)), a, a + b


INPUTS = {
    "zeta": of_zeta,
    "gammainc": of_gamma,
    "gammaincc": of_gamma,
    "standard_gamma_grad": of_gamma,
    "dirichlet_grad": of_dirichlet,
}


@pytest.mark.parametrize("op", SINGLE_BOUNDS)
def test_bounds(op: str, library: Library, rng: np.random.Generator) -> None:
    makers = {1: of_one, 2: of_two}
    make = INPUTS.get(op) or makers[ARITY[op]]
    arrays = make(op, rng, 1000 if op in INPUTS else 5000)
    got = library(op, *arrays)
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        wide = arrays if op in EXACT else tuple(a.astype(np.float64) for a in arrays)
        want = kernel(op, *wide).astype(np.float64)
    errors = relative_to_one if op in ABSOLUTE else float32_errors
    check(op, errors(got, want), SINGLE_BOUNDS[op], *arrays)


@pytest.mark.parametrize("op", SINGLE_BOUNDS)
def test_special_values(op: str, library: Library) -> None:
    """NaN, infinities, zeros and their signs are those of the float32 kernel."""
    if op in ("dirichlet_grad", "standard_gamma_grad"):
        # Where terms of their fractions stay in float32's range.
        grid = EDGES[(EDGES == 0) | (EDGES > 1e-30) & (EDGES < 1e4)]
    elif op == "zeta":
        grid = SPECIALS[~(SPECIALS > 1e12)]  # beyond, the kernel's terms overflow
    else:
        grid = SPECIALS
    arrays = [a.ravel() for a in np.meshgrid(*[grid] * ARITY[op])]
    got, want = library(op, *arrays), kernel(op, *arrays)
    special = ~np.isfinite(want) | ~np.isfinite(got) | (want == 0)
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    # In place of 0, what is within the bound of it.
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= SINGLE_BOUNDS[op] * (2.0**-24 if op in ABSOLUTE else 2.0**-149)
    wrong = np.flatnonzero(special & ~same & ~((want == 0) & (got != 0) & near))
    assert [(*(a[i] for a in arrays), got[i], want[i]) for i in wrong] == []
