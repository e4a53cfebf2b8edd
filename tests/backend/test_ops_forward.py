"""Every row of the op table against its reference, and every way of calling it against another."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import COMPLEX, Op
from op_samples import BY_NAME, OPS
from sampling import (
    BROADCASTS,
    STRIDED,
    Layout,
    arrays_in,
    assert_same_bits,
    assert_within,
    build,
    draw,
    dtype_name,
    flat,
    plain,
    to_numpy,
)

CASES = [pytest.param(op, dtype, id=f"{op.name}-{dtype}") for op in OPS for dtype in op.dtypes]


def call(op: Op, args: Any, kwargs: Any) -> Any:
    return op.function(tinyt)(*args, **kwargs)


def expected_dtype(op: Op, dtype: str, reference: np.ndarray) -> str:
    if op.result == "reference":
        kind = reference.dtype.kind
        given = dtype if op.dtypes != ("float32",) else str(reference.dtype)
        return given if kind == "f" else str(reference.dtype)
    integer = dtype == "bool" or dtype.startswith(("int", "uint"))
    part = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    rules = {
        "same": dtype,
        "real": part,
        "complex": {"float32": "complex64", "float64": "complex128"}.get(dtype, dtype),
        "angle": "float32" if integer else part,
        "float": "float32" if integer else dtype,
        "sum": "int64" if integer else dtype,
    }
    return rules.get(op.result, op.result)


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_reference(op: Op, dtype: str, rng: np.random.Generator) -> None:
    for number, sample in enumerate(op.samples(rng, dtype)):
        got = list(flat(call(op, build(tinyt, sample.args), build(tinyt, sample.kwargs))))
        want = list(flat(op.reference(*plain(sample.args), **plain(sample.kwargs))))
        assert len(got) == len(want)
        scale = op.error_scale(sample)
        for g, w in zip(got, want, strict=True):
            what = f"{op.name} sample {number}"
            w = np.asarray(w)
            if not any(not isinstance(a, np.ndarray) for a in sample.args[1:2]):
                assert dtype_name(g) == expected_dtype(op, dtype, w), what
            ulp = op.complex_ulp if dtype in COMPLEX else op.ulp
            assert_within(to_numpy(g), w, ulp, scale, what)


@pytest.mark.parametrize("layout", STRIDED, ids=lambda layout: layout.name)
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_strided_equals_contiguous(
    op: Op, dtype: str, layout: Layout, rng: np.random.Generator
) -> None:
    if not op.strided and layout.name == "expanded":
        pytest.skip("an expanded index repeats positions")
    for number, sample in enumerate(op.samples(rng, dtype)):
        if not arrays_in([sample.args, sample.kwargs]):
            continue
        try:
            strided = call(
                op, build(tinyt, sample.args, layout), build(tinyt, sample.kwargs, layout)
            )
        except RuntimeError:
            if op.name == "view":  # the one operation that asks for fitting strides
                continue
            raise
        same_values = Layout("", lambda tt, a: tt.tensor(a), layout.values)
        contiguous = call(
            op, build(tinyt, sample.args, same_values), build(tinyt, sample.kwargs, same_values)
        )
        for s, c in zip(flat(strided), flat(contiguous), strict=True):
            assert_same_bits(s, c, f"{op.name} sample {number} {layout.name}")


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_inputs_are_not_changed(op: Op, dtype: str, rng: np.random.Generator) -> None:
    for sample in op.samples(rng, dtype)[:6]:
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        call(op, args, kwargs)
        held = [t for t in flat([args, list(kwargs.values())]) if isinstance(t, tinyt.Tensor)]
        given = [a for a, _ in arrays_in([sample.args, sample.kwargs])]
        for tensor, array in zip(held, given, strict=True):
            np.testing.assert_array_equal(to_numpy(tensor), array)


@pytest.mark.parametrize("op", [op for op in OPS if op.method], ids=lambda op: op.name)
def test_method_equals_function(op: Op, rng: np.random.Generator) -> None:
    name = op.call if isinstance(op.call, str) and op.call else op.name
    for sample in op.samples(rng, op.dtypes[0]):
        first, *rest = build(tinyt, sample.args)
        kwargs = build(tinyt, sample.kwargs)
        got = getattr(first, name)(*rest, **kwargs)
        for g, w in zip(flat(got), flat(call(op, [first, *rest], kwargs)), strict=True):
            assert_same_bits(g, w, name)


@pytest.mark.parametrize("op", [op for op in OPS if op.out], ids=lambda op: op.name)
def test_out(op: Op, rng: np.random.Generator) -> None:
    """`out=` is written and returned; a strided one too, and nothing beside its elements. An empty
    one takes the shape of the result."""
    for sample in op.samples(rng, op.dtypes[0]):
        if op.name == "sum" and len(sample.args) == 1:
            continue  # the sum of everything has no `out` in PyTorch
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        want = call(op, args, kwargs)
        single = isinstance(want, tinyt.Tensor)
        for make in (tinyt.empty_like, lambda w: w.new_empty(0)):
            outs = [make(w) for w in flat(want)]
            got = call(op, args, kwargs | {"out": outs[0] if single else outs})
            for g, out, w in zip(flat(got), outs, flat(want), strict=True):
                assert g is out
                assert_same_bits(out, w)
        if single and want.ndim:
            base = want.new_ones((*want.shape[:-1], 2 * want.shape[-1]))
            call(op, args, kwargs | {"out": base[..., ::2]})
            assert_same_bits(base[..., ::2].clone(), want)
            assert bool((base[..., 1::2] == 1).all())


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "bitwise_not": operator.invert,
    "neg": operator.neg,
    "abs": abs,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_function(name: str, rng: np.random.Generator) -> None:
    op = BY_NAME[name]
    for sample in op.samples(rng, op.dtypes[0]):
        args = build(tinyt, sample.args)
        assert_same_bits(OPERATORS[name](*args), call(op, args, {}), name)


REFLECTED = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", REFLECTED)
def test_number_on_the_left(name: str, dtype: str, rng: np.random.Generator) -> None:
    x = tinyt.tensor(draw(rng, (4, 5), dtype, (1, 4)))
    got = REFLECTED[name](3, x)
    assert_same_bits(got, BY_NAME[name].function(tinyt)(tinyt.tensor(3), x), name)


@pytest.mark.parametrize(("a", "b"), BROADCASTS)
def test_broadcast_shape(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert tuple((tinyt.ones(a) + tinyt.ones(b)).shape) == np.broadcast_shapes(a, b)


@pytest.mark.parametrize("op", [o for o in OPS if o.dtypes[0] == "float32"], ids=lambda o: o.name)
def test_twice_is_the_same(op: Op, rng: np.random.Generator) -> None:
    """No result depends on what the memory held before."""
    for sample in op.samples(rng, "float32")[:8]:
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        first = list(flat(call(op, args, kwargs)))
        for g, w in zip(flat(call(op, args, kwargs)), first, strict=True):
            assert_same_bits(g, w, op.name)
