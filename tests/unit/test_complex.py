"""Complex tensors: parts as views, Python numbers, promotion, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.compiler.capture.recording import record
from tinyt.compiler.graph.interpreter import interpret

c64, c128 = tinyt.complex64, tinyt.complex128


def test_facts() -> None:
    x = tinyt.tensor([1 + 2j])
    assert (x.dtype, x.itemsize, x.is_complex(), x.is_floating_point()) == (c64, 8, True, False)
    assert tinyt.is_complex(x)
    assert not tinyt.is_floating_point(x)
    assert not tinyt.is_complex(x.real)
    assert tinyt.is_floating_point(x.real)
    assert not (x.conj().is_conj())
    assert not (tinyt.is_conj(x))
    assert not (tinyt.is_neg(-x))
    assert not (x.is_neg())
    assert x.resolve_conj() is x
    assert x.resolve_neg() is x


def test_parts_are_views() -> None:
    x = tinyt.tensor([[1 + 2j, 3 + 4j], [5 + 6j, 7 + 8j]])
    assert x.real.tolist() == [[1.0, 3.0], [5.0, 7.0]]
    x.t().imag[0] = 0
    assert x.tolist() == [[1, 3 + 4j], [5, 7 + 8j]]
    x.real = tinyt.zeros(2)
    x.imag.add_(1)
    assert x.tolist() == [[1j, 5j], [1j, 9j]]
    parts = tinyt.view_as_real(x[1])
    parts[0] = tinyt.tensor([3.0, -3.0])
    assert x[1, 0].item() == 3 - 3j
    assert (parts.stride(), x.T.real.stride()) == ((2, 1), (2, 4))
    assert tinyt.view_as_complex(parts).data_ptr() == x[1].data_ptr()


def test_a_real_tensor_is_its_own_real_part() -> None:
    x = tinyt.ones(2)
    assert x.real is x
    assert tinyt.real(x) is x
    assert x.conj() is x


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tinyt.view_as_complex(tinyt.ones(3)), r"view_as_complex.*size 2.*\(3,\)"),
        (lambda: tinyt.view_as_complex(tinyt.ones(())), r"view_as_complex.*size 2.*\(\)"),
        (lambda: tinyt.view_as_complex(tinyt.tensor([1, 2])), r"view_as_complex.*int64"),
        (lambda: tinyt.view_as_complex(tinyt.ones(2).half()), r"view_as_complex.*float16"),
        (lambda: tinyt.view_as_complex(tinyt.ones(2, 4)[:, ::2]), r"stride 1.*\(4, 2\)"),
        (lambda: tinyt.view_as_complex(tinyt.ones(3, 3)[:, :2]), r"even.*\(3, 1\)"),
        (lambda: tinyt.view_as_complex(tinyt.ones(3)[1:]), r"offset.*1"),
        (lambda: tinyt.ones(2).imag, r"imag.*float32"),
        (lambda: tinyt.ones(2).H, r"H:.*\(2,\)"),
        (lambda: tinyt.ones(2).mH, r"mH:.*\(2,\)"),
        (lambda: tinyt.ones(2).fill_(1j), r"1j.*float32"),
        (lambda: tinyt.full((2,), 1j, dtype=tinyt.float32), r"full.*1j.*float32"),
        (lambda: tinyt.ones(2).add_(1j), r"add.*complex64.*float32"),
        (lambda: float(tinyt.tensor(1j)), r"float.*1j"),
        (lambda: int(tinyt.tensor(1j)), r"int.*1j"),
    ],
)
def test_what_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        wrong()


UNORDERED = {
    "one": ["sort", "argmax", "sign", "floor", "relu"],
    "two": ["lt", "ge", "maximum", "floor_divide", "remainder"],
}


@pytest.mark.parametrize("name", UNORDERED["one"] + UNORDERED["two"])
def test_operations_that_need_an_order(name: str) -> None:
    x = tinyt.tensor([1j, 2])
    with pytest.raises(RuntimeError, match=rf"{name}.*complex64"):
        getattr(tinyt, name)(*([x, x] if name in UNORDERED["two"] else [x]))


def test_python_numbers() -> None:
    x = tinyt.tensor([1.0, 2.0])
    assert (x * 1j).tolist() == (1j * x).tolist() == [1j, 2j]
    assert (1j - x, 1j / x, x + 1j)[0].tolist() == [-1 + 1j, -2 + 1j]
    z = tinyt.zeros(3, dtype=c64)
    z[0], z[1:] = 1 + 1j, 2
    z[tinyt.tensor([True, False, True])] = -1j
    assert z.tolist() == [-1j, 2, -1j]
    assert z.fill_(2j).tolist() == [2j] * 3
    assert tinyt.full((1,), 1j).dtype == c64
    assert tinyt.full((1,), 1j, dtype=c128).item() == 1j
    assert tinyt.full_like(z, 3j).tolist() == [3j] * 3
    assert (z[0].item(), complex(z[0]), bool(z[0]), bool(z[0] * 0)) == (2j, 2j, True, False)
    assert complex(tinyt.tensor(2.0)) == 2 + 0j
    assert float(tinyt.tensor(2 + 0j)) == 2.0
    assert int(tinyt.tensor(2 + 0j)) == 2
    assert tinyt.zeros(2).fill_(3 + 0j).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match=r"complex.*float32"):
        tinyt.tensor([1j], dtype=tinyt.float32)


PROMOTED = [
    ("bool", "complex64"),
    ("int64", "complex64"),
    ("float16", "complex64"),
    ("float32", "complex64"),
    ("float64", "complex128"),
    ("complex64", "complex64"),
    ("complex128", "complex128"),
]


@pytest.mark.parametrize(("name", "want"), PROMOTED)
def test_promotion_with_a_number(name: str, want: str) -> None:
    x = tinyt.ones(2, dtype=getattr(tinyt, name))
    for result in (x + 1j, 1j * x, x / 1j, tinyt.where(x == 1, x, 1j)):
        assert result.dtype == getattr(tinyt, want)
    assert tinyt.result_type(x, 1j) == getattr(tinyt, want)
    assert (x + tinyt.ones(2, dtype=c64)).dtype == getattr(tinyt, want)


def test_default_dtype_of_complex_numbers() -> None:
    tinyt.set_default_dtype(tinyt.float64)
    try:
        assert tinyt.tensor(1j).dtype == c128
        assert tinyt.full((1,), 1j).dtype == c128
        assert (tinyt.tensor([1]) * 1j).dtype == c128
    finally:
        tinyt.set_default_dtype(tinyt.float32)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_numpy_round_trip(dtype: str) -> None:
    array = np.array([[1 + 2j, 3], [4j, -0.0]], dtype)
    x = tinyt.from_numpy(array)
    x.mul_(1j)
    np.testing.assert_array_equal(x.numpy(), array)
    assert np.asarray(x.T).dtype == dtype
    assert tinyt.tensor(array[0, 0]).item() == array[0, 0]
    np.testing.assert_array_equal(np.from_dlpack(x), array)


def test_comparison_of_tensors() -> None:
    x = tinyt.tensor([1 + 1e-9j, 2j])
    assert tinyt.allclose(x, tinyt.tensor([1 + 0j, 2j]))
    assert x.equal(x.clone())
    assert not tinyt.allclose(x, x + 1j)
    nan = tinyt.tensor([complex(0, float("nan"))])
    assert not tinyt.allclose(nan, nan)
    assert tinyt.allclose(nan, nan, equal_nan=True)


def test_random_parts() -> None:
    tinyt.manual_seed(0)
    z, u = tinyt.randn(20_000, dtype=c64), tinyt.rand(20_000, dtype=c128)
    assert (z.dtype, u.dtype, tinyt.randn_like(z).dtype) == (c64, c128, c64)
    assert abs((z.abs() ** 2).mean().item() - 1) < 0.05
    assert abs(u.mean().item() - (0.5 + 0.5j)) < 0.02
    assert bool(((u.imag >= 0) & (u.imag < 1)).all())


def test_covariance_conjugates(rng: np.random.Generator) -> None:
    array = rng.normal(size=(3, 5)) + 1j * rng.normal(size=(3, 5))
    np.testing.assert_allclose(tinyt.cov(tinyt.tensor(array)).numpy(), np.cov(array), rtol=1e-13)


def test_special_values() -> None:
    """Quotients by zero, powers of zero: each part by itself, never a trap."""
    z = tinyt.tensor([1 + 1j, -1 + 0j])
    assert tinyt.isinf(z / 0).tolist() == [True, True]
    assert tinyt.isnan(tinyt.tensor([0j]) / 0).item()
    assert (tinyt.tensor([0j, 2j]) ** 0).tolist() == [1, 1]
    assert (tinyt.tensor([0j]) ** (2 + 1j)).tolist() == [0]
    big = tinyt.tensor([3e38 + 3e38j])
    assert (big / big).tolist() == [1 + 0j]
    assert (big.abs() > 3e38).item()


REFUSED = {
    "requires_grad_": lambda x: tinyt.ones(2, dtype=c64).requires_grad_(),
    "mul": lambda x: x * 1j,
    "complex": lambda x: tinyt.complex(x, x),
    "view_as_complex": lambda x: tinyt.view_as_complex(x),
    "to": lambda x: x.to(c64),
    "copy_": lambda x: tinyt.zeros(2, dtype=c64).copy_(x),
    "in-place": lambda x: tinyt.ones(2, dtype=c64).mul_(x),
    "through a part": lambda x: tinyt.ones(2, dtype=c64).real.mul_(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_gradients_are_refused(name: str) -> None:
    """With an error where they would be lost, and nothing written."""
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"gradients of complex.*complex64"):
        REFUSED[name](x)
    with tinyt.no_grad():
        assert (x * 1j).tolist() == [1j, 1j]


RECORDED = {
    "arithmetic": lambda x: ((x * 1j + 2).exp() / x).abs().sum(),
    "reductions": lambda x: (x.sum(0), x.prod(1), x.cumsum(1), x @ x.T),
    "parts": lambda x: (x * 2).real + x.imag,
    "views": lambda x: tinyt.view_as_complex(tinyt.view_as_real(x * 2).clone()),
    "writes through parts": lambda x: write_parts(x * 1),
    "writes to memory": lambda x: write_parts(x),
}


def write_parts(x: Any) -> Any:
    before = x.real
    x.imag[0] = 5.0
    x.t().real.mul_(2.0)
    return x + before


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_equals_eager(name: str) -> None:
    array = np.arange(6).reshape(2, 3) + 1j * np.arange(6)[::-1].reshape(2, 3) + 1
    results = []
    for run in (
        RECORDED[name],
        lambda x: record(RECORDED[name], x).run(),
        lambda x: interpret(record(RECORDED[name], x).graph),
    ):
        x = tinyt.tensor(array, dtype=c64)
        out = run(x)
        results.append([t.tolist() for t in (out if isinstance(out, tuple | list) else [out])])
    assert results[0] == results[1]
    assert results[0] == results[2]
