"""Type promotion: the rules, in the words of the documentation, over every pair of dtypes."""

from __future__ import annotations

import itertools

import pytest

import tinyt

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
HALVES = ["float16", "bfloat16"]
FLOATS = [*HALVES, "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS, *COMPLEX]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def category(name: str) -> int:
    return 0 if name == "bool" else 1 if name in INTEGERS else 2 if name in FLOATS else 3


def promoted(a: str, b: str) -> str:
    """The smallest dtype of the higher category that holds both."""
    if a == b:
        return a
    if category(a) > category(b):
        a, b = b, a
    if category(a) != category(b):
        if category(b) == 3 and a == "float64":
            return "complex128"
        return b
    if category(a) == 1:
        if "uint8" in (a, b):
            signed = a if b == "uint8" else b
            return "int16" if signed == "int8" else signed
        return max(a, b, key=BITS.__getitem__)
    if category(a) == 2:
        if {a, b} == set(HALVES):
            return "float32"  # neither holds the other
        return max(a, b, key=FLOATS.index)
    return "complex128"


def dtype(name: str) -> tinyt.dtype:
    return getattr(tinyt, name)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_promote_types(a: str, b: str) -> None:
    assert tinyt.promote_types(dtype(a), dtype(b)) == dtype(promoted(a, b))


COMPLETE = ["bool", "int64", "float32", "float64"]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(COMPLETE, COMPLETE)))
def test_result_of_tensors(a: str, b: str) -> None:
    x, y = tinyt.ones(2, dtype=dtype(a)), tinyt.ones(3, 1, dtype=dtype(b))
    want = dtype(promoted(a, b))
    assert (x + y).dtype == want
    assert (x * y).dtype == want
    assert tinyt.maximum(x, y).dtype == want
    assert tinyt.where(tinyt.ones(2, dtype=tinyt.bool), x, y).dtype == want
    assert tinyt.cat([x, y.reshape(3)]).dtype == want
    assert (x < y).dtype == tinyt.bool
    division = want if want.is_floating_point else tinyt.float32
    assert (x / y).dtype == division
    assert tinyt.result_type(x, y) == want


# A 0-d tensor counts only where its category is higher, and a Python number even less.
WEAK = [
    ("float32", 2, "float32"),
    ("float32", 2.5, "float32"),
    ("float64", 2.5, "float64"),
    ("int64", 2, "int64"),
    ("int64", 2.5, "float32"),
    ("int64", True, "int64"),
    ("bool", 2, "int64"),
    ("bool", 2.5, "float32"),
    ("bool", True, "bool"),
]


@pytest.mark.parametrize(("name", "number", "want"), WEAK)
def test_python_number(name: str, number: complex, want: str) -> None:
    x = tinyt.ones(2, dtype=dtype(name))
    assert (x * number).dtype == dtype(want)
    assert (number * x).dtype == dtype(want)
    assert tinyt.result_type(x, number) == dtype(want)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(COMPLETE, COMPLETE)))
def test_zero_dim_tensor(a: str, b: str) -> None:
    x, zero_dim = tinyt.ones(2, dtype=dtype(a)), tinyt.ones((), dtype=dtype(b))
    want = a if category(b) <= category(a) else b
    assert (x + zero_dim).dtype == dtype(want)
    assert (zero_dim + x).dtype == dtype(want)


def test_default_dtype() -> None:
    assert tinyt.get_default_dtype() == tinyt.float32
    tinyt.set_default_dtype(tinyt.float64)
    try:
        assert tinyt.tensor(1.5).dtype == tinyt.float64
        assert tinyt.zeros(2).dtype == tinyt.float64
        assert (tinyt.ones(2, dtype=tinyt.int64) / 2).dtype == tinyt.float64
        assert tinyt.tensor(1).dtype == tinyt.int64
    finally:
        tinyt.set_default_dtype(tinyt.float32)


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_object(name: str) -> None:
    t = dtype(name)
    assert str(t) == repr(t) == f"{tinyt.__name__}.{name}"
    assert t == dtype(name)
    assert len({t, dtype(name)}) == 1
    assert t.is_floating_point == (name in FLOATS)
    assert t.is_complex == (name in COMPLEX)
    width = {"bool": 1, "uint8": 1, "bfloat16": 2, "complex64": 8, "complex128": 16}
    assert t.itemsize == (width.get(name) or int(name.lstrip("intfloa")) // 8)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        ("int", "int32"),
        ("long", "int64"),
        ("short", "int16"),
        ("cfloat", "complex64"),
        ("cdouble", "complex128"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert dtype(alias) is dtype(name)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(COMPLETE, COMPLETE)))
def test_cast(source: str, target: str) -> None:
    x = tinyt.tensor([0, 1, 2, -3]).to(dtype(source))
    y = x.to(dtype(target))
    assert y.dtype == dtype(target)
    values = [0, 1, 2, -3]
    if "bool" in (source, target):
        values = [int(v != 0) for v in values]
    assert [int(v) for v in y.tolist()] == values
    assert (y is x) == (source == target)


def test_cast_of_fractions_truncates() -> None:
    x = tinyt.tensor([-1.7, -0.2, 0.2, 1.7])
    assert x.to(tinyt.int64).tolist() == [-1, 0, 0, 1]
    assert x.to(tinyt.bool).tolist() == [True, True, True, True]
