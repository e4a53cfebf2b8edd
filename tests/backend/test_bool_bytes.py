"""A bool is true where its byte is not 0, whatever wrote the byte: views of uint8, NumPy, DLPack,
uninitialised memory."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import Layout, arrays_in, assert_same_bits, build, flat, to_numpy

BYTES = np.array([1, 2, 127, 128, 129, 254, 255], np.uint8)


def any_byte(array: np.ndarray) -> np.ndarray:
    """The same truth values in a uint8 array, of bytes that take turns."""
    turns = np.resize(BYTES[::-1], array.size).reshape(array.shape)
    return np.where(array, turns, 0).astype(np.uint8)


def odd(array: np.ndarray) -> tinyt.Tensor:
    return tinyt.tensor(any_byte(array)).view(tinyt.bool)


def _build(tt: ModuleType, array: np.ndarray) -> Any:
    return odd(array) if array.dtype == bool else tt.tensor(array)


ODD = Layout("any byte", _build)


def truth(result: Any) -> Any:
    """A bool result as 0 and 1: a copy or view may pass bytes on as they are."""
    if isinstance(result, tinyt.Tensor) and result.dtype == tinyt.bool:
        return tinyt.tensor(
            (np.array(result.view(tinyt.uint8).numpy(force=True)) != 0).astype(np.uint8)
        )
    return result


def same(got: Any, want: Any, what: str) -> None:
    for g, w in zip(flat(got), flat(want), strict=True):
        if isinstance(w, tinyt.Tensor):
            assert g.dtype == w.dtype, what
            assert_same_bits(truth(g), truth(w), what)
        else:
            assert g == w, what


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_any_byte_is_true(op: Op, rng: np.random.Generator) -> None:
    if op.name.startswith(("empty", "view_as_real")):
        pytest.skip("of no value")
    dtypes = ["bool"] if "bool" in op.dtypes else []
    for dtype in [*dtypes, op.dtypes[0]]:
        for number, sample in enumerate(op.samples(rng, dtype)):
            arrays = [a for a, _ in arrays_in([sample.args, sample.kwargs])]
            if not any(a.dtype == bool for a in arrays):
                continue
            f = op.function(tinyt)
            want = f(*build(tinyt, sample.args), **build(tinyt, sample.kwargs))
            got = f(*build(tinyt, sample.args, ODD), **build(tinyt, sample.kwargs, ODD))
            same(got, want, f"{op.name} {dtype} sample {number}")


@pytest.mark.parametrize("n", [7, 64, 1001, 100_000])
def test_large_masks(n: int, rng: np.random.Generator) -> None:
    clean = rng.random(n) < 0.4
    values = rng.standard_normal(n).astype(np.float32)
    mask, x = odd(clean), tinyt.tensor(values)
    np.testing.assert_array_equal(to_numpy(x[mask]), values[clean])
    np.testing.assert_array_equal(to_numpy(mask.nonzero())[:, 0], np.flatnonzero(clean))
    np.testing.assert_array_equal(
        to_numpy(tinyt.where(mask, x, 0.0)), np.where(clean, values, np.float32(0))
    )
    assert mask.sum().item() == mask.count_nonzero().item() == clean.sum()
    assert mask.any().item() is True
    assert mask.all().item() is False
    assert tinyt.equal(mask, tinyt.tensor(clean))
    np.testing.assert_array_equal(to_numpy(mask.cumsum(0)), clean.cumsum())
    np.testing.assert_array_equal(
        to_numpy(mask.view(tinyt.uint8)[mask.argsort(stable=True)] != 0), np.sort(clean)
    )
    for dtype in (tinyt.float16, tinyt.float32, tinyt.float64, tinyt.int32, tinyt.complex64):
        np.testing.assert_array_equal(
            to_numpy(mask.to(dtype)).astype(np.complex64), clean.astype(np.complex64)
        )
    y = x.clone()
    y[mask] = -1.0
    np.testing.assert_array_equal(to_numpy(y), np.where(clean, np.float32(-1), values))
    y = x.clone()
    y[mask] = x[mask] * 2
    np.testing.assert_array_equal(to_numpy(y), np.where(clean, values * 2, values))


def test_all_bytes_of_one_value() -> None:
    mask = tinyt.full((100_000,), 128, dtype=tinyt.uint8).view(tinyt.bool)
    assert mask.sum().item() == 100_000
    assert tinyt.ones(100_000)[mask].shape == (100_000,)
    assert mask.nonzero().shape == (100_000, 1)


@pytest.mark.host
def test_memory_of_numpy() -> None:
    array = np.full((64, 3), 128, np.uint8).view(np.bool_)
    mask = tinyt.from_numpy(array)
    assert mask.sum().item() == 192
    assert mask.tolist() == [[True] * 3] * 64
    assert (mask == tinyt.ones(64, 3, dtype=tinyt.bool)).all().item() is True
    assert tinyt.from_dlpack(tinyt.from_numpy(array)).sum().item() == 192


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "eq", "ne", "lt"])
def test_compiled(name: str, rng: np.random.Generator) -> None:
    a, b = (rng.random(501) < 0.5 for _ in range(2))
    x = tinyt.tensor(rng.standard_normal(501).astype(np.float32))

    def f(a: tinyt.Tensor, b: tinyt.Tensor, x: tinyt.Tensor) -> tuple[tinyt.Tensor, ...]:
        c = getattr(tinyt, name)(a, b)
        return c, tinyt.where(c, x * 2, x), x.masked_fill(a, 3.0) + b, (a & ~b).sum()

    clean = (tinyt.tensor(a), tinyt.tensor(b), x)
    dirty = (odd(a), odd(b), x)
    want = f(*clean)
    same(f(*dirty), want, "eager")
    compiled = tinyt.compile(f)
    same(compiled(*dirty), want, "compiled")
    same(compiled(*dirty), want, "second call")


def test_branch_on_any_byte() -> None:
    def f(p: tinyt.Tensor, x: tinyt.Tensor) -> tinyt.Tensor:
        return tinyt.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))

    p = tinyt.tensor([2], dtype=tinyt.uint8).view(tinyt.bool)[0]
    x = tinyt.ones(3)
    assert f(p, x).tolist() == tinyt.compile(f)(p, x).tolist() == [2.0] * 3


def test_attention_masks(rng: np.random.Generator) -> None:
    clean = rng.random((2, 1, 70, 70)) < 0.7
    clean[..., 0] = True
    q, k, v = (tinyt.tensor(rng.standard_normal((2, 2, 70, 16)).astype(np.float32)) for _ in "qkv")
    attend = tinyt.nn.functional.scaled_dot_product_attention
    same(attend(q, k, v, odd(clean)), attend(q, k, v, tinyt.tensor(clean)), "attention")


def test_saved_and_loaded(tmp_path: Any) -> None:
    clean = np.array([True, False, True])
    path = tmp_path / "mask.safetensors"
    tinyt.save({"mask": odd(clean)}, path)
    data = path.read_bytes()
    assert data.endswith(b"\1\0\1")
    path.write_bytes(data[:-3] + b"\x80\0\2")
    assert tinyt.load(path)["mask"].tolist() == clean.tolist()
    assert tinyt.load(path)["mask"].sum().item() == 2
