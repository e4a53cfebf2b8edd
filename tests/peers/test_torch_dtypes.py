"""The narrow dtypes: where PyTorch computes in one, so does tinyt, with the same result dtype.

The values come from the rows of the op table; float16 and bfloat16 are compared to some units in
their last place, integers exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import Sample, arrays_in, build, dtype_name, flat, map_arrays

INTEGERS = ("uint8", "int8", "int16", "int32")
HALVES = ("float16", "bfloat16")
CASES = [
    pytest.param(op, dtype, id=f"{op.name}-{dtype}")
    for op in OPS
    for dtypes, base in ((INTEGERS, "int64"), (HALVES, "float32"))
    for dtype in dtypes
    if base in op.dtypes
]
# Where PyTorch differs for a reason: (operation, dtype or "*").
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("complex", "float16"): "there is no complex32",
    ("view_as_complex", "float16"): "there is no complex32",
    ("histc", "bfloat16"): "PyTorch rounds positions to bfloat16, which moves some to the next bin",
}
LARGEST = 200
SAMPLES = 4


def samples_in(op: Op, dtype: str, rng: np.random.Generator) -> list[Sample]:
    """Small samples of a row; those of bfloat16, which NumPy lacks, in float32."""
    drawn = op.samples(rng, "float32" if dtype == "bfloat16" else dtype)
    small = [
        s
        for s in drawn
        if all(a.size <= LARGEST for a, _ in arrays_in([s.args, s.kwargs]))
        and all(np.isfinite(a).all() for a, _ in arrays_in([s.args, s.kwargs]))
    ]
    return small[:SAMPLES]


def call(tt: Any, op: Op, sample: Sample, dtype: str) -> list[Any]:
    args, kwargs = build(tt, sample.args), build(tt, sample.kwargs)
    if dtype == "bfloat16":

        def tensor(array: np.ndarray, _: bool) -> Any:
            made = tt.tensor(array)
            return made.to(tt.bfloat16) if array.dtype == np.float32 else made

        args, kwargs = map_arrays((sample.args, sample.kwargs), tensor, lambda n: getattr(tt, n))
    return list(flat(op.function(tt)(*args, **kwargs)))


# PyTorch's infinite power of two makes NaN of a zero, which stays a zero.
ZERO_FOR_NAN = {"ldexp"}


def compare(ours: Any, theirs: Any, what: str) -> None:
    assert dtype_name(ours) == dtype_name(theirs), what
    assert tuple(ours.shape) == tuple(theirs.shape), what
    name = dtype_name(theirs)
    a = np.array(ours.to(tinyt.float64).tolist() if name in HALVES else ours.tolist())
    b = np.array(theirs.to(torch.float64).tolist() if name in HALVES else theirs.tolist())
    if not theirs.dtype.is_floating_point:
        np.testing.assert_array_equal(a, b, what)
        return
    if what.split()[0] in ZERO_FOR_NAN:
        b = np.where(np.isnan(b), 0.0, b)
    eps = float(torch.finfo(theirs.dtype).eps)
    size = max(1.0, float(np.max(np.abs(b), initial=0, where=np.isfinite(b))))
    np.testing.assert_allclose(a, b, 8 * eps, 8 * eps * size, err_msg=what)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_narrow_dtype(op: Op, dtype: str, rng: np.random.Generator) -> None:
    reason = EXCEPTIONS.get((op.name, dtype)) or EXCEPTIONS.get((op.name, "*"))
    if reason:
        pytest.skip(reason)
    for number, sample in enumerate(samples_in(op, dtype, rng)):
        try:
            theirs = call(torch, op, sample, dtype)
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            continue  # PyTorch does not take it
        ours = call(tinyt, op, sample, dtype)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b, f"{op.name} {dtype} sample {number}")
