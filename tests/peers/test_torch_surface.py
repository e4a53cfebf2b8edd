"""Names, promotion and printing as in PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_samples import OPS

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
KINDS = ("tensor", "zero_dim", "number")
NUMBERS = {"bool": True, "int64": 2, "float32": 2.5}


def short(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_promotion(a: str, b: str) -> None:
    assert short(tinyt.promote_types(getattr(tinyt, a), getattr(tinyt, b))) == short(
        torch.promote_types(getattr(torch, a), getattr(torch, b))
    )
    for source, target in ((a, b), (b, a)):
        assert tinyt.can_cast(getattr(tinyt, source), getattr(tinyt, target)) == torch.can_cast(
            getattr(torch, source), getattr(torch, target)
        )


def operand(tt: Any, dtype: str, kind: str) -> Any:
    if kind == "number":
        return NUMBERS[dtype]
    return tt.ones(() if kind == "zero_dim" else (2,), dtype=getattr(tt, dtype))


def operand_pairs() -> list[tuple[str, str, str, str]]:
    """All pairs, without numbers that Python lacks and what PyTorch answers with complex32."""
    operands = [
        (dtype, kind)
        for dtype, kind in itertools.product(DTYPES, KINDS)
        if kind != "number" or dtype in NUMBERS
    ]
    return [
        (a, kind_a, b, kind_b)
        for (a, kind_a), (b, kind_b) in itertools.product(operands, operands)
        if "float16" not in (a, b) or not (a + b).count("complex")
    ]


@pytest.mark.parametrize(("a", "kind_a", "b", "kind_b"), operand_pairs())
def test_result_type(a: str, kind_a: str, b: str, kind_b: str) -> None:
    assert short(tinyt.result_type(operand(tinyt, a, kind_a), operand(tinyt, b, kind_b))) == short(
        torch.result_type(operand(torch, a, kind_a), operand(torch, b, kind_b))
    )


REAL = [d for d in DTYPES if not d.startswith("complex")]


@pytest.mark.parametrize("name", ["add", "mul", "sub", "div", "maximum", "pow", "eq", "lt"])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(REAL, REAL)))
def test_binary_dtypes(name: str, a: str, b: str) -> None:
    results = []
    for tt in (tinyt, torch):
        x, y = operand(tt, a, "tensor"), operand(tt, b, "tensor")
        try:
            result = getattr(tt, name)(x, y)
        except RuntimeError:
            results.append("RuntimeError")
        else:
            results.append((short(result.dtype), [float(v) for v in result.tolist()]))
    assert results[0] == results[1]


# ------------------------------------------------------------------ printing

VALUES: list[Any] = [
    1,
    1.5,
    True,
    [],
    [[]],
    [1, -2, 300],
    [1.0, 2.0],
    [0.1, -20.25],
    [1e-8, 1.0],
    [1e10, 1.0],
    [float("nan"), 1.0],
    [float("inf"), 0.25],
    [-float("inf")],
    [True, False],
    [[1.5], [2.0]],
    [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    [1e-38],
    [123456.789],
    [0.0, -0.0],
    [1e5, 1e-4],
    [99999999.0, 1.0],
    [1234.5, 0.001],
    [[float("nan"), 2], [3, 4]],
]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("dtype", ["", "float64", "float32"])
def test_repr(value: Any, dtype: str) -> None:
    ours, theirs = (
        repr(tt.tensor(value, dtype=getattr(tt, dtype) if dtype else None)) for tt in (tinyt, torch)
    )
    assert ours.replace("tinyt.", "torch.") == theirs


@pytest.mark.parametrize(
    "shape",
    [(7,), (100,), (1001,), (3, 50), (2, 0, 3), (1, 1, 1), (20, 60), (2, 3, 4, 5), (300, 9)],
)
@pytest.mark.parametrize("kind", ["int", "float", "bool", "half", "wide", "complex"])
def test_repr_of_shapes(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> None:
    values: dict[str, Any] = {
        "int": rng.integers(-1000, 1000, shape),
        "float": rng.normal(size=shape).astype(np.float32),
        "bool": rng.random(shape) < 0.5,
        "half": rng.integers(0, 100, shape).astype(np.float16),
        "wide": rng.normal(size=shape) * 10.0 ** rng.integers(-3, 9, shape),
        "complex": (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64),
    }
    ours, theirs = (repr(tt.tensor(values[kind])) for tt in (tinyt, torch))
    assert ours.replace("tinyt.", "torch.") == theirs


OPTIONS: list[dict[str, Any]] = [
    {"precision": 2},
    {"precision": 0},
    {"edgeitems": 1, "threshold": 5},
    {"linewidth": 40},
    {"linewidth": 1},
    {"sci_mode": True},
    {"sci_mode": False},
    {"profile": "short"},
    {"profile": "full", "precision": 1},
]
ODD: list[Any] = [
    [1e-38, 1.0],
    [float("nan"), 0.25, float("-inf")],
    [float("inf")] * 30,
    [1.5, -2000.0] * 20,
    list(range(-30, 30)),
    [[1j, 2.5], [complex("nan+infj"), -0.0]],
    [1e10j, 1.0],
    [True, False] * 9,
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_repr_with_options(options: dict[str, Any]) -> None:
    try:
        for tt in (tinyt, torch):
            tt.set_printoptions(**options)
        for value in ODD:
            ours, theirs = (repr(tt.tensor(value)) for tt in (tinyt, torch))
            assert ours == theirs
    finally:
        for tt in (tinyt, torch):
            tt.set_printoptions(profile="default")


@pytest.mark.parametrize("name", DTYPES)
def test_limits(name: str) -> None:
    """Every attribute and the repr of finfo or iinfo; the class of error for bool."""
    kind = "iinfo" if "int" in name or name == "bool" else "finfo"
    if name == "bool":
        for tt in (tinyt, torch):
            with pytest.raises(TypeError):
                tt.iinfo(tt.bool)
        return
    ours, theirs = (getattr(tt, kind)(getattr(tt, name)) for tt in (tinyt, torch))
    assert repr(ours) == repr(theirs)
    for fact in [f for f in dir(theirs) if not f.startswith("_")]:
        assert getattr(ours, fact) == getattr(theirs, fact), fact


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("op", [op for op in OPS if op.inplace], ids=lambda op: op.name)
def test_inplace_methods_exist_in_both(op: Any) -> None:
    assert hasattr(torch.Tensor, op.name + "_")
    assert hasattr(tinyt.Tensor, op.name + "_")


def test_every_method_is_one_of_pytorch() -> None:
    """But for what ends a lazy block, nothing that a PyTorch script could trip over."""
    own = {name for name in dir(tinyt.Tensor) if not name.startswith("_")}
    assert sorted(own - set(dir(torch.Tensor))) == ["compute"]


def in_place_names(tt: Any) -> set[str]:
    return {n for n in dir(tt) if n.endswith("_") and n[0] != "_" and callable(getattr(tt, n))}


def test_in_place_functions() -> None:
    """PyTorch's, in the package and in nn.functional, but for sparse tensors; none besides."""
    assert in_place_names(tinyt) == in_place_names(torch) - {"resize_as_sparse_"}
    ours, theirs = (in_place_names(tt.nn.functional) for tt in (tinyt, torch))
    assert ours == theirs


# ------------------------------------------------------------------ memory exchange


def test_dlpack_with_pytorch() -> None:
    x = tinyt.arange(6).reshape(2, 3)
    y = torch.from_dlpack(x.t())
    y[0, 1] = 50
    assert x[1, 0].item() == 50
    z = tinyt.from_dlpack(torch.ones(2, 2).t())
    assert z.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_return_types() -> None:
    """The same fields for each function, and the same text."""
    for name in tinyt.return_types.__all__:
        ours, theirs = (getattr(m.return_types, name)((1, 2)) for m in (tinyt, torch))
        assert repr(ours) == repr(theirs).replace("torch.", "tinyt.", 1)
    x = [[3.0, 1.0], [2.0, 5.0]]
    texts = [repr(m.tensor(x).sort(dim=0)) for m in (tinyt, torch)]
    assert texts[0] == texts[1].replace("torch.", "tinyt.", 1)
