"""What `benchmarks.compare` times is the same computation in both libraries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import compare, memory
from benchmarks.case import Case
from benchmarks.cases import GROUPS, collect
from benchmarks.floors import FLOORS, judge
from benchmarks.protocol import Compiled, Row

import tinyt

SEED = 5
# Sums of thousands of products in another order; halves round each result.
TOLERANCE = {"float64": 1e-9, "float": 1e-3, "float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}
# The small ones would still take minutes together.
QUICK_WORK = 2e6


def work(case: Case) -> float:
    return case.work.flops + case.work.reads + case.work.writes


def quick() -> list[Case]:
    """All that are tiny, and at least the two smallest of each group."""
    cases = sorted(collect(SEED), key=work)
    seen = dict.fromkeys(GROUPS, 0)
    chosen = []
    for case in cases:
        seen[case.group] += 1
        if work(case) <= QUICK_WORK or seen[case.group] <= 2:
            chosen.append(case)
    return chosen


QUICK = quick()
LONG = [case for case in collect(SEED) if case not in QUICK]
COMPILED = [
    pytest.param(case, id=case.id, marks=[] if case in QUICK else pytest.mark.slow)
    for case in collect(SEED)
    if case.eager
]


def leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from leaves(item)
    else:
        yield result


def outcome(lib: Any, case: Case, arrays: list[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """Dtypes and values. The call is made twice: a timed one must leave its inputs usable."""
    call = case.call(lib, arrays)
    call()
    found = []
    for leaf in leaves(call()):
        if not isinstance(leaf, lib.Tensor):
            found.append((type(leaf).__name__, np.asarray(leaf)))
            continue
        dtype = str(leaf.dtype).rpartition(".")[2]
        wide = leaf.detach().float() if dtype in ("bfloat16", "float16") else leaf.detach()
        found.append((dtype, wide.numpy().copy()))
    return found


def check(case: Case) -> None:
    arrays = case.arrays(SEED)
    ours, theirs = (outcome(lib, case, arrays) for lib in (tinyt, torch))
    for (dtype, a), (expected, b) in zip(ours, theirs, strict=True):
        assert dtype == expected
        assert a.shape == b.shape
        if a.dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
            continue
        tolerance = TOLERANCE["bfloat16" if "autocast" in case.name else dtype]
        size = float(np.max(np.abs(b), initial=0, where=np.isfinite(b)))
        np.testing.assert_allclose(a, b, tolerance, tolerance * size)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.id)
def test_quick_cases(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", LONG, ids=lambda case: case.id)
def test_long_cases(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", COMPILED)
def test_compiled_cases(case: Case) -> None:
    """The same bits as without the compiler, which `check` has compared with PyTorch's."""
    arrays = case.arrays(SEED)
    ours, eager = (outcome(tinyt, side, arrays) for side in (case, case.uncompiled()))
    for (dtype, a), (expected, b) in zip(ours, eager, strict=True):
        assert dtype == expected
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow  # and not beside tests that fork: JAX's threads warn
@pytest.mark.parametrize("case", [param for param in COMPILED if param.values[0].jax])
def test_jax_cases(case: Case) -> None:
    """What stands beside compiled functions where JAX is installed is PyTorch's computation."""
    pytest.importorskip("jax")
    arrays = case.arrays(SEED)
    call = case.jax(arrays)
    call()
    for a, (dtype, b) in zip(leaves(call()), outcome(torch, case, arrays), strict=True):
        tolerance = TOLERANCE["bfloat16" if "autocast" in case.name else dtype]
        size = float(np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(np.asarray(a, b.dtype), b, tolerance, tolerance * size)


def test_compiled_floors() -> None:
    """Every part has its own, and what only compiled functions are asked is judged."""
    assert {case.part or case.group for case in collect(SEED)} == set(FLOORS)
    good = Compiled(1e-3, 1.5, 1.6, first=0.01, peak=10, eager_peak=10, system_allocations=0)
    row = Row("compile", "", 1e-3, 9e-3, 9.0, 9.1, part="compile MLP", compiled=good)
    assert judge([[row]]) == []
    assert Row.read(asdict(row)) == row
    for worse in ({"upper": 0.9}, {"first": 0.03}, {"peak": 11}, {"system_allocations": 1}):
        assert len(judge([[replace(row, compiled=replace(good, **worse))]])) == 1


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """One worker process from end to end."""
    assert compare.main(["--quick", "--threads", "1", "--cases", "^overhead/(t|item)$"]) == 0
    out = capsys.readouterr().out
    assert "2 cases, seed" in out
    assert "1 threads; torch" in out
    assert "call overhead" in out.rpartition("geometric mean")[2]


@pytest.mark.skipif(not memory.RESET_PEAK.exists(), reason="Linux tells the peak")
@pytest.mark.parametrize("library", ["tinyt", pytest.param("torch", marks=pytest.mark.slow)])
def test_peak_memory(library: str) -> None:
    case_id = "training/deep MLP, batch 256, float32, SGD"
    parameters = 512 * 1024 + 2 * 1024**2 + 1024 * 10
    least = 3 * 4 * parameters  # with gradients and momentum
    assert least < memory.peak(library, case_id, SEED) < 4 * least
