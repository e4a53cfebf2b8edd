"""Tensors that a compiled function makes of numbers: the same at each recording, in any dtype."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt

NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"


@pytest.mark.parametrize("name", NAMES.split())
@pytest.mark.parametrize("data", [[1, 0], 1, []], ids=str)
def test_dtypes(name: str, data: Any) -> None:
    dtype = getattr(tinyt, name)

    def function(x: tinyt.Tensor) -> tinyt.Tensor:
        return tinyt.where(x, tinyt.tensor(data, dtype=dtype), tinyt.tensor(0, dtype=dtype))

    x = tinyt.tensor([True, False][: len(data)] if isinstance(data, list) else True)
    x = x.to(tinyt.bool)
    compiled = tinyt.compile(function)
    for _ in range(3):
        assert compiled(x).tolist() == function(x).tolist()
    assert compiled.cache_info().hits == 2
