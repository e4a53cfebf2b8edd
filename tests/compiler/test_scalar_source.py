"""Scalar definitions printed as C99, compiled and run: the bits of the CPU's own kernels."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tinyt
import ulp
from c_library import BY_PIECES, ENVIRONMENT, FLAGS, build, compiles, has_fma
from scalar_values import COMPUTE, ROWS, call, operands, same_bits, takes
from tinyt import _core

pytestmark = pytest.mark.host

CASES = [(name, dtype) for name in ROWS for dtype in COMPUTE if takes(name, dtype)]


def source(cases: list[tuple[str, str]]) -> str:
    functions = [(f"{name}_{dtype}", name, getattr(tinyt, dtype)) for name, dtype in cases]
    return _core.scalar_source(functions, "c99")


def driver(text: str, name: str, dtype: str) -> str:
    """A function ``run_...`` that calls one of the source's for each of ``n`` elements."""
    found = re.search(rf"inline (\w+) {name}_{dtype}\((.*?)\)", text)
    assert found is not None
    types = [part.split()[0] for part in found[2].split(", ")]
    arrays = "".join(f"const {c}* a{i}, " for i, c in enumerate(types))
    items = ", ".join(f"a{i}[i]" for i in range(len(types)))
    head = f"void run_{name}_{dtype}({arrays}{found[1]}* out, long n);"
    return (
        f"{head}\n{head[:-1]} {{\n"
        f"  for (long i = 0; i < n; ++i) out[i] = {name}_{dtype}({items});\n}}\n"
    )


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    text = source(CASES)
    drivers = "".join(driver(text, *case) for case in CASES)
    return build(tmp_path_factory.mktemp("scalar_source"), text + drivers)


Run = Callable[..., np.ndarray]


@pytest.fixture
def run(library: ctypes.CDLL) -> Run:
    def run(name: str, dtype: str, arrays: list[np.ndarray], result: np.dtype) -> np.ndarray:
        out = np.empty(len(arrays[0]), result)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
        getattr(library, f"run_{name}_{dtype}")(*pointers, ctypes.c_long(len(out)))
        return out

    return run


@compiles
@has_fma
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_same_bits(name: str, dtype: str, rng: np.random.Generator, run: Run) -> None:
    arrays = operands(name, dtype, rng, 20_000)
    want = call(name, *arrays)
    if dtype == "bool" and want.dtype != bool:
        pytest.skip("the operation makes integers of bools")
    got = run(name, dtype, arrays, want.dtype)
    if (name, dtype) in BY_PIECES:
        assert np.max(ulp.float32_errors(got, want.astype(np.float64))) <= 6
        return
    different = np.nonzero(~same_bits(got, want))[0]
    assert not different.size, [([a[i] for a in arrays], got[i], want[i]) for i in different[:3]]


@compiles
@pytest.mark.skipif(shutil.which("clang") is None, reason="needs a second C compiler")
def test_another_compiler_does_not_warn(tmp_path: Path) -> None:
    file = tmp_path / "scalar.c"
    file.write_text(source(CASES), encoding="utf-8")
    checks = ("-Wno-unused-function", "-fsyntax-only")
    subprocess.run(["clang", *FLAGS, *checks, str(file)], check=True, env=ENVIRONMENT)


def nodes(name: str, dtype: str) -> list[tuple[str, str, list[int], int]]:
    return _core.scalar_definition(name, getattr(tinyt, dtype))


def test_the_smallest_definition() -> None:
    x, y, total = nodes("add", "float32")
    assert x == ("input", "f32", [], 0)
    assert y == ("input", "f32", [], 1)
    assert total == ("add", "f32", [0, 1], 0)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_operands_come_first_and_loops_end(name: str, dtype: str) -> None:
    inside = False
    for place, (op, _, operands_, _) in enumerate(nodes(name, dtype)):
        assert all(0 <= k < place for k in operands_)
        if op in ("loop", "end_loop"):
            assert inside == (op == "end_loop")
            inside = not inside
        if op in ("leave_unless", "set"):
            assert inside
    assert not inside


def test_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="no scalar op nothing"):
        _core.scalar_definition("nothing", tinyt.float32)
    with pytest.raises(ValueError, match="no scalar op matmul"):
        _core.scalar_definition("matmul", tinyt.float32)
    with pytest.raises(RuntimeError, match="erf: has no definition in int64"):
        _core.scalar_definition("erf", tinyt.int64)
    with pytest.raises(RuntimeError, match="add: has no definition in float16"):
        _core.scalar_definition("add", tinyt.float16)
    with pytest.raises(TypeError, match="dtype must be a dtype, got str"):
        _core.scalar_definition("add", "float32")
    with pytest.raises(ValueError, match="no dialect cobol, only c99"):
        _core.scalar_source([("f", "add", tinyt.float32)], "cobol")
