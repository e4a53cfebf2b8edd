"""Attention and recurrent layers as C, beside float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both, same_bits
from tinyt.nn.functional import scaled_dot_product_attention

pytestmark = [compiles, has_fma, pytest.mark.host]


class Case(NamedTuple):
    """Sizes, and what is masked."""

    batch: int = 2
    heads: int = 4
    groups: int = 4
    queries: int = 20
    keys: int = 33
    width: int = 8
    out_width: int = 8
    mask: str = ""
    causal: bool = False
    scale: float | None = None
    is_permuted: bool = False


CASES = [
    Case(),
    Case(causal=True, queries=33, groups=2, scale=0.5),
    Case(causal=True, queries=300, keys=300, batch=1, heads=2, groups=1, width=16, out_width=24),
    Case(causal=True, queries=7, keys=4),
    Case(mask="keep", queries=5, out_width=16),
    Case(mask="add", queries=1, groups=1),
    Case(mask="add of all heads", queries=210, keys=140, heads=1, groups=1),
    Case(mask="keep some", queries=3, keys=1),
    Case(is_permuted=True, heads=2, groups=1, queries=2),
    Case(is_permuted=True, mask="keep of keys", queries=40, keys=130, width=5),
]


def _operands(case: Case, t: tinyt.dtype) -> list[tinyt.Tensor]:
    """Queries, keys, values, and a mask if there is one."""

    def tensor(heads: int, rows: int, width: int) -> tinyt.Tensor:
        if case.is_permuted:
            return tinyt.randn(case.batch, rows, heads, width).to(t).transpose(1, 2)
        return tinyt.randn(case.batch, heads, rows, width).to(t)

    found = [
        tensor(case.heads, case.queries, case.width),
        tensor(case.groups, case.keys, case.width),
        tensor(case.groups, case.keys, case.out_width),
    ]
    shape = (case.batch, case.heads, case.queries, case.keys)
    if case.mask == "keep":
        found.append(tinyt.randn(shape) > 0)
    elif case.mask == "keep some":
        found.append(tinyt.randn(case.queries, case.keys) > 1)
    elif case.mask == "keep of keys":
        found.append(tinyt.randn(case.batch, 1, 1, case.keys) > 0)
    elif case.mask == "add":
        found.append(tinyt.randn(shape).to(t))
    elif case.mask:
        found.append(tinyt.randn(case.queries, case.keys).to(t))
    return found


def _attend(case: Case, operands: list[tinyt.Tensor]) -> tinyt.Tensor:
    q, k, v, *mask = operands
    return scaled_dot_product_attention(
        q, k, v, mask[0] if mask else None, 0.0, case.causal, case.scale, case.groups != case.heads
    )


def _split(tensors: tuple[tinyt.Tensor, ...]) -> list[tuple[Case, list[tinyt.Tensor]]]:
    at, found = 0, []
    for case in CASES:
        count = 4 if case.mask else 3
        found.append((case, list(tensors[at : at + count])))
        at += count
    return found


def _all_of(*tensors: tinyt.Tensor) -> list[tinyt.Tensor]:
    return [_attend(case, operands) for case, operands in _split(tensors)]


def _gradients(*tensors: tinyt.Tensor) -> list[tinyt.Tensor]:
    found: list[tinyt.Tensor] = []
    for case, operands in _split(tensors):
        with tinyt.enable_grad():
            wanted = [x.detach().requires_grad_() for x in operands[:3]]
            out = _attend(case, [*wanted, *operands[3:]])
            found += tinyt.autograd.grad((out * out.detach().cos()).sum(), wanted)
    return found


def _error(have: tinyt.Tensor, want: tinyt.Tensor) -> float:
    """The largest difference, relative to the largest element."""
    difference = (have.double() - want.double()).abs().max().item()
    return float(difference / max(want.double().abs().max().item(), 1e-3))


BOUND = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.2e-2}


@pytest.mark.parametrize("dtype", BOUND)
@pytest.mark.parametrize("function", [_all_of, _gradients])
def test_attention(tmp_path: Path, function: Callable[..., Any], dtype: str) -> None:
    tinyt.manual_seed(5)
    tensors = [x for case in CASES for x in _operands(case, getattr(tinyt, dtype))]
    pairs = run_both(tmp_path, function, *tensors)
    text = (tmp_path / "program.c").read_text()
    assert "tt_attention_f" in text if function is _all_of else "tt_attention_backward_f" in text
    with tinyt.no_grad():
        exact = function(*[x.double() if x.dtype.is_floating_point else x for x in tensors])
    bound = BOUND[dtype] * (1 if function is _all_of else 3)
    for (have, compiled), want in zip(pairs, exact, strict=True):
        assert _error(have, want) <= bound
        assert _error(have, compiled) <= bound


def test_nan_and_nothing(tmp_path: Path) -> None:
    q, k, v = (tinyt.randn(1, 2, n, 4) for n in (3, 5, 5))
    q[0, 0, 1], k[0, 1, 2, 0] = float("nan"), float("inf")
    empty = tinyt.zeros(1, 2, 0, 4)
    nothing = tinyt.zeros(1, 2, 3, 0)

    def function(
        q: tinyt.Tensor, k: tinyt.Tensor, v: tinyt.Tensor, e: tinyt.Tensor, n: tinyt.Tensor
    ) -> list[tinyt.Tensor]:
        attend = scaled_dot_product_attention
        return [attend(q, k, v), attend(q, e, e), attend(e, k, v), attend(n, n, q)]

    for have, want in run_both(tmp_path, function, q, k, v, empty, nothing):
        assert tinyt.allclose(have, want, rtol=1e-5, atol=1e-6, equal_nan=True)
        assert same_bits(have.isnan(), want.isnan())
