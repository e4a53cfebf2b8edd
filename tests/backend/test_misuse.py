"""Wrong arguments at random: every operation gives a result or a typed error, and never crashes.

The arguments of a row's samples are replaced by others: shapes and dtypes that do not fit, sizes
that overflow, dimensions that are not there, NaN, wrong words. What comes out is not looked at.
"""

from __future__ import annotations

import warnings
import zlib
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import Const, Sample, arrays_in, build

Array = np.ndarray
Rng = np.random.Generator
# What PyTorch users catch; OutOfMemoryError is a RuntimeError.
EXPECTED = (RuntimeError, IndexError, ValueError, TypeError, OverflowError, MemoryError)
TRIES = 40
LARGEST = 200
LIMIT = 1 << 26
DTYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64", "complex64")
INTEGERS = (-(1 << 62), -9, -2, -1, 0, 1, 2, 7, 1 << 40, 1 << 62)
# They make as many tensors as they are asked for.
UNBOUNDED = {"tensor_split", "hsplit", "vsplit", "dsplit", "chunk"}
FLOATS = (-1.0, 0.0, 0.5, 2.0, 1e300, float("nan"), float("inf"))


def other_array(rng: Rng, array: Array) -> Array:
    """An array that probably does not fit where this one did."""
    kind = rng.integers(7)
    if kind == 0:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(DTYPES[rng.integers(len(DTYPES))])
    if kind == 1:
        return array.reshape(-1)
    if kind == 2:
        return array[None]
    if kind == 3:
        return array[..., :-1] if array.ndim else array[None, None]
    if kind == 4:
        return np.zeros((0, *array.shape[1:]), array.dtype)
    if kind == 5:
        return np.asarray(array.reshape(-1)[0]) if array.size else np.zeros((), array.dtype)
    return np.ascontiguousarray(array.T)


def other(rng: Rng, value: Any) -> Any:
    """Another value of about the same type."""
    if isinstance(value, Const):
        return Const(other_array(rng, value.array))
    if isinstance(value, Array):
        return other_array(rng, value)
    if isinstance(value, bool):
        return (not value, None, 2)[rng.integers(3)]
    if isinstance(value, int):
        return INTEGERS[rng.integers(len(INTEGERS))]
    if isinstance(value, float):
        return FLOATS[rng.integers(len(FLOATS))]
    if isinstance(value, str):
        return ("nonsense", "", None)[rng.integers(3)]
    if isinstance(value, (tuple, list)) and value:
        at = int(rng.integers(len(value) + 1))
        if at == len(value):
            return type(value)([*value, value[-1]]) if rng.integers(2) else type(value)(value[:-1])
        return type(value)(other(rng, v) if i == at else v for i, v in enumerate(value))
    return (0, -1, None, (), "nonsense")[rng.integers(5)]


def misused(rng: Rng, sample: Sample) -> Sample:
    """The sample with one or two of its arguments replaced, dropped or added."""
    args, kwargs = list(sample.args), dict(sample.kwargs)
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(len(args) + len(kwargs) + 1))
        if at < len(args):
            args[at] = other(rng, args[at])
        elif at < len(args) + len(kwargs):
            name = list(kwargs)[at - len(args)]
            kwargs[name] = other(rng, kwargs[name])
        elif rng.integers(2) and len(args) > 1:
            args.pop()
        else:
            args.append(INTEGERS[rng.integers(len(INTEGERS))])
    return Sample(tuple(args), kwargs)


@pytest.fixture(autouse=True)
def little_memory() -> Any:
    before = tinyt.memory.limit()
    tinyt.memory.set_limit(tinyt.memory.statistics()["current_bytes"] + LIMIT)
    yield
    tinyt.memory.set_limit(before)


def misuse(op: Op, rng: Rng, tries: int) -> None:
    function = op.function(tinyt)
    samples = [
        s
        for s in op.samples(rng, op.dtypes[0])
        if all(a.size <= LARGEST for a, _ in arrays_in([s.args, s.kwargs]))
    ]
    for _ in range(tries):
        sample = misused(rng, samples[rng.integers(len(samples))])
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        try:
            function(*args, **kwargs)
        except EXPECTED:
            continue
        except (AssertionError, ZeroDivisionError) as error:
            # PyTorch itself raises these in places; ours name the rule.
            assert op.name in str(error)  # noqa: PT017


BOUNDED = [op for op in OPS if op.name not in UNBOUNDED]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", BOUNDED, ids=lambda op: op.name)
def test_wrong_arguments_never_crash(op: Op) -> None:
    misuse(op, np.random.default_rng(zlib.crc32(op.name.encode())), TRIES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", BOUNDED, ids=lambda op: op.name)
def test_many_wrong_arguments_never_crash(op: Op, rng: Rng) -> None:
    misuse(op, rng, 10 * TRIES)
