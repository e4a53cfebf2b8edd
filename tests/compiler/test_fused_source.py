"""Fused kernels printed as C99, compiled and run, beside their interpreter: the same bits."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from c_library import BY_PIECES, build, compiles, has_fma
from scalar_values import DIVIDES_INTEGERS, ROWS, pool, takes
from tinyt import _core

pytestmark = [compiles, has_fma, pytest.mark.host]

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16") + (
    "float32",
    "float64",
)
REDUCTIONS = ("sum", "prod", "amax", "amin")
SIZES = (0, 1, 2, 3, 31, 33, 70)
# Long to compile, and covered as single functions.
LONG = {"zeta", "gammainc", "gammaincc", "standard_gamma_grad", "dirichlet_grad"}
STRIDED, DENSE, REPEATED = 0, 1, 2


def compute_dtype(dtype: str) -> str:
    """What kernels of a dtype compute in."""
    if dtype in ("float16", "bfloat16"):
        return "float32"
    return "int64" if dtype.endswith(("int8", "int16", "int32")) else dtype


def result_dtype(rule: str, compute: str) -> str:
    if rule == "bool":
        return "bool"
    if rule == "sum" and not getattr(tinyt, compute).is_floating_point:
        return "int64"
    return compute


class Drawn:
    """A kernel by itself: its description, and tensors to run it on."""

    def __init__(self, draw: Any) -> None:
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        rank = draw(st.integers(0, 3))
        self.shape = [draw(st.sampled_from(SIZES)) for _ in range(rank)]
        if rank and draw(st.integers(0, 9)) == 0:
            self.shape[-1] = draw(st.sampled_from((4096, 4097, 13000)))
            self.shape[:-1] = [min(size, 2) for size in self.shape[:-1]]
        self.reduced = draw(st.integers(0, min(rank, 2)))
        self.values: list[tuple[str, bool]] = []
        self.loads = [self.load(draw) for _ in range(draw(st.integers(1, 3)))]
        self.ops: list[Any] = []
        for _ in range(draw(st.integers(1, 6))):
            self.op(draw)
        if not self.ops:
            self.add("logical_not", self.values[0][0], "bool", False, [0])
        made = range(len(self.loads), len(self.values))
        self.stores = sorted({len(self.values) - 1, *draw(st.lists(st.sampled_from(made)))})

    def load(self, draw: Any) -> tinyt.Tensor:
        dtype = draw(st.sampled_from(DTYPES))
        shape = [1 if draw(st.integers(0, 3)) == 0 else size for size in self.shape]
        order = draw(st.permutations(range(len(shape))))
        values = pool(compute_dtype(dtype), self.rng)
        if dtype in ("float16", "bfloat16", "float32", "float64") and draw(st.booleans()):
            values = self.rng.normal(size=100)
        drawn = values[self.rng.integers(0, len(values), [shape[d] for d in order])]
        x = tinyt.tensor(drawn).to(getattr(tinyt, dtype))
        self.values.append((dtype, False))
        return x.permute(*np.argsort(order).tolist()) if shape else x

    def op(self, draw: Any) -> None:
        if self.reduced and draw(st.integers(0, 2)) == 0:
            name = draw(st.sampled_from(REDUCTIONS))
            value = draw(st.integers(0, len(self.values) - 1))
            dtype, _ = self.values[value]
            rule = "sum" if name in ("sum", "prod") else "same"
            return self.add(name, dtype, result_dtype(rule, dtype), True, [value])
        name = draw(st.sampled_from(sorted(set(ROWS) - LONG)))
        row = ROWS[name]
        inputs = [draw(st.integers(0, len(self.values) - 1)) for _ in range(row["inputs"])]
        promoted = tinyt.bool
        for value in inputs["predicate_first" in row["flags"] :]:
            promoted = tinyt.promote_types(promoted, getattr(tinyt, self.values[value][0]))
        # A number counts by its kind alone.
        number = inputs[-1] if len(inputs) == 2 and draw(st.booleans()) else None
        if number is not None and number < len(self.loads) and self.loads[number].numel() == 1:
            other = getattr(tinyt, self.values[inputs[0]][0])
            if inputs[0] != number and (other.is_floating_point or not promoted.is_floating_point):
                return self.take(name, other, inputs, frozenset({number}))
        return self.take(name, promoted, inputs, frozenset())

    def take(self, name: str, promoted: Any, inputs: list[int], singles: frozenset[int]) -> None:
        row = ROWS[name]
        compute = promoted.name
        if row["dtype_rule"] == "float" and not promoted.is_floating_point:
            compute = "float32"
        if not takes(name, compute_dtype(compute)) or (name, compute) in BY_PIECES:
            return None
        if name in DIVIDES_INTEGERS and not getattr(tinyt, compute).is_floating_point:
            return None  # eager calls raise where a divisor is 0
        per_row = all(self.values[v][1] for v in inputs)
        dtype = result_dtype(row["dtype_rule"], compute)
        return self.add(name, compute, dtype, per_row, inputs, singles)

    def add(
        self,
        name: str,
        compute: str,
        dtype: str,
        per_row: bool,
        inputs: list[int],
        singles: frozenset[int] = frozenset(),
    ) -> None:
        operands = [(value, value in singles) for value in inputs]
        dtypes = (getattr(tinyt, compute), getattr(tinyt, dtype))
        self.ops.append((name, *dtypes, per_row, operands))
        self.values.append((dtype, per_row))

    def kernel(self) -> Any:
        loads = [x.dtype for x in self.loads]
        return _core.FusedKernel(self.shape, self.reduced, loads, self.ops, self.stores)

    def strides(self, x: tinyt.Tensor) -> list[int]:
        pairs = zip(x.stride(), x.shape, self.shape, strict=True)
        return [0 if size != whole else step for step, size, whole in pairs]

    def layout(self, x: tinyt.Tensor) -> int:
        step = self.strides(x)[-1:] or [0]
        return {0: REPEATED, 1: DENSE}.get(step[0], STRIDED)

    def run(self, library: ctypes.CDLL) -> list[tinyt.Tensor]:
        def numbers(values: list[int]) -> Any:
            return (ctypes.c_int64 * max(len(values), 1))(*values)

        whole = self.shape[: len(self.shape) - self.reduced]
        outs = [
            tinyt.empty(
                whole + [1] * self.reduced if self.values[v][1] else self.shape,
                dtype=getattr(tinyt, self.values[v][0]),
            )
            for v in self.stores
        ]
        arguments: list[Any] = [numbers(self.shape)]
        for x in self.loads:
            arguments += [ctypes.c_void_p(x.data_ptr()), numbers(self.strides(x))]
        library.kernel(*arguments, *(ctypes.c_void_p(y.data_ptr()) for y in outs))
        return outs


def bits(x: tinyt.Tensor) -> np.ndarray:
    """For comparison: a NaN is one whatever its bits are."""
    if not x.dtype.is_floating_point:
        return x.numpy()
    whole = {2: tinyt.int16, 4: tinyt.int32, 8: tinyt.int64}[x.element_size()]
    seen = x.contiguous().view(whole)
    return tinyt.where(x.isnan(), tinyt.zeros_like(seen) - 1, seen).numpy()


@given(data=st.data())
def test_same_bits_as_the_interpreter(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    drawn = Drawn(data.draw)
    kernel = drawn.kernel()
    text = kernel.source([drawn.layout(x) for x in drawn.loads], "kernel", "c99")
    library = build(tmp_path_factory.mktemp("fused"), declared(text), "-O0")
    for got, want in zip(drawn.run(library), kernel.interpret(drawn.loads), strict=True):
        np.testing.assert_array_equal(bits(got), bits(want), err_msg=text)


def declared(text: str) -> str:
    """With the prototype that a strict compiler asks of the kernel."""
    at = text.rindex("void kernel(")
    head = text[at : text.index("{", at)].strip()
    return f"{text[:at]}{head};\n{text[at:]}"


def softmax(columns: int) -> tuple[Any, list[int]]:
    f = tinyt.float32
    ops = [
        ("amax", f, f, True, [(0, False)]),
        ("sub", f, f, False, [(0, False), (1, False)]),
        ("exp", f, f, False, [(2, False)]),
        ("sum", f, f, True, [(3, False)]),
        ("div", f, f, False, [(3, False), (4, False)]),
    ]
    return _core.FusedKernel([5, columns], 1, [f], ops, [5]), [5, columns]


@pytest.mark.parametrize("columns", [1, 10, 32, 1000, 4096, 30000])
def test_softmax_by_hand(columns: int, rng: np.random.Generator, tmp_path: Path) -> None:
    kernel, shape = softmax(columns)
    x = tinyt.tensor(rng.normal(size=shape).astype(np.float32) * 5)
    library = build(tmp_path, declared(kernel.source([DENSE], "kernel", "c99")))
    y = tinyt.empty_like(x)
    sizes, strides = (ctypes.c_int64 * 2)(*shape), (ctypes.c_int64 * 2)(*x.stride())
    library.kernel(sizes, ctypes.c_void_p(x.data_ptr()), strides, ctypes.c_void_p(y.data_ptr()))
    (want,) = kernel.interpret([x])
    np.testing.assert_array_equal(bits(y), bits(want))
    np.testing.assert_allclose(y.sum(1).numpy(), 1, rtol=1e-5)


RARE = ["rsqrt", "sin", "cos", "tan", "erfcx", "log_ndtr", "ndtri"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_elements_are_rare(dtype: str, rng: np.random.Generator, tmp_path: Path) -> None:
    f = getattr(tinyt, dtype)
    values = pool(dtype, rng)
    drawn = np.where(rng.random(5000) < 0.01, rng.choice(values, 5000), rng.uniform(0.2, 0.8, 5000))
    x = tinyt.tensor(drawn.astype(dtype))
    ops = [(name, f, f, False, [(0, False)]) for name in RARE if takes(name, dtype)]
    kernel = _core.FusedKernel([5000], 0, [f], ops, list(range(1, len(ops) + 1)))
    text = kernel.source([DENSE], "kernel", "c99")
    assert text.count("_common(") >= 3 * len(RARE) - 3
    library = build(tmp_path, declared(text), "-O3", "-fno-math-errno", "-fno-trapping-math")
    outs = [tinyt.empty_like(x) for _ in ops]
    pointers = [ctypes.c_void_p(y.data_ptr()) for y in (x, *outs)]
    library.kernel((ctypes.c_int64 * 1)(5000), pointers[0], (ctypes.c_int64 * 1)(1), *pointers[1:])
    for name, got, want in zip(RARE, outs, kernel.interpret([x]), strict=True):
        np.testing.assert_array_equal(bits(got), bits(want), err_msg=name)


def stores_over_its_load(last: str) -> Any:
    """The load is read again after the pass in which the first store's value is there."""
    f = tinyt.float32
    ops = [
        ("sin", f, f, False, [(0, False)]),
        ("sum", f, f, True, [(1, False)]),
        ("sub", f, f, False, [(0, False), (2, False)]),
        (last, f, f, True, [(3, False)]),
        ("amax", f, f, True, [(3, False)]),
        ("add", f, f, True, [(4, False), (5, False)]),
    ]
    return _core.FusedKernel([3, 5000], 1, [f], ops, [1, 3, 6])


@pytest.mark.parametrize("last", ["sum", "prod"])
@pytest.mark.parametrize("over", [0, 1])
def test_a_store_in_the_memory_of_a_load(
    last: str, over: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    kernel = stores_over_its_load(last)
    x = tinyt.tensor(rng.normal(size=(3, 5000)).astype(np.float32))
    x[1, 4998] = 1e30
    want = kernel.interpret([x])
    library = build(tmp_path, declared(kernel.source([DENSE], "kernel", "c99")), "-O2")
    outs = [tinyt.empty_like(x), tinyt.empty_like(x), tinyt.empty(3, 1)]
    outs[over] = x
    sizes, strides = (ctypes.c_int64 * 2)(*x.shape), (ctypes.c_int64 * 2)(*x.stride())
    pointers = [ctypes.c_void_p(y.data_ptr()) for y in outs]
    library.kernel(sizes, ctypes.c_void_p(x.data_ptr()), strides, *pointers)
    for got, expected in zip(outs, want, strict=True):
        np.testing.assert_array_equal(bits(got), bits(expected))


def test_columns_of_one_element_in_the_memory_of_a_load(tmp_path: Path) -> None:
    f = tinyt.float32
    ops = [
        ("neg", f, f, False, [(0, False)]),
        ("sum", f, f, True, [(1, False)]),
        ("add", f, f, True, [(2, False), (0, False)]),
    ]
    kernel = _core.FusedKernel([4, 1], 1, [f], ops, [1, 3])
    x = tinyt.tensor([[1.0], [2.0], [3.0], [4.0]])
    want = kernel.interpret([x])
    library = build(tmp_path, declared(kernel.source([DENSE], "kernel", "c99")))
    y = tinyt.empty_like(x)
    sizes, strides = (ctypes.c_int64 * 2)(4, 1), (ctypes.c_int64 * 2)(1, 1)
    pointers = [ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())]
    library.kernel(sizes, pointers[0], strides, *pointers)
    for got, expected in zip([x, y], want, strict=True):
        np.testing.assert_array_equal(bits(got), bits(expected))


def test_what_has_no_source() -> None:
    kernel, _ = softmax(3)
    with pytest.raises(ValueError, match="kernel: 2 layouts for 1 loads"):
        kernel.source([DENSE, DENSE], "kernel", "c99")
    with pytest.raises(ValueError, match="no layout 7"):
        kernel.source([7], "kernel", "c99")
    c = tinyt.complex64
    numbers = _core.FusedKernel([2], 0, [c], [("square", c, c, False, [(0, False)])], [1])
    with pytest.raises(NotImplementedError, match="c99: no complex64 in memory"):
        numbers.source([DENSE], "kernel", "c99")
    f = tinyt.float32
    with pytest.raises(RuntimeError, match="reads a value too early"):
        _core.FusedKernel([2], 0, [f], [("neg", f, f, False, [(1, False)])], [1])
