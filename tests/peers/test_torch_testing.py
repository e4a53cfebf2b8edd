"""`tinyt.testing.assert_close` decides as PyTorch's does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinyt
import tinyt.testing

NAN, INF = float("nan"), float("inf")


def like(lib: Any, value: Any) -> Any:
    """A description (dtype name, data) as the library's tensor; containers by their parts."""
    if isinstance(value, tuple) and isinstance(value[0], str):
        return lib.tensor(value[1], dtype=getattr(lib, value[0]))
    if isinstance(value, (list, tuple)):
        return type(value)(like(lib, v) for v in value)
    if isinstance(value, dict):
        return {k: like(lib, v) for k, v in value.items()}
    return value


F32 = ("float32", [1.0, 2.0, 3.0])
CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    (F32, F32, {}),
    (F32, ("float32", [1.0, 2.0, 3.0001]), {}),
    (F32, ("float32", [1.0, 2.0, 3.000003]), {}),
    (F32, ("float32", [1.0, 2.0, 3.1]), {"rtol": 0.1, "atol": 0.0}),
    (F32, ("float32", [1.0, 2.0, 3.1]), {"rtol": 0.1}),
    (F32, ("float64", [1.0, 2.0, 3.0]), {}),
    (F32, ("float64", [1.0, 2.0, 3.0]), {"check_dtype": False}),
    (F32, ("float32", [[1.0, 2.0, 3.0]]), {}),
    (F32, ("float32", [1.0, 2.0]), {}),
    (("float32", [NAN]), ("float32", [NAN]), {}),
    (("float32", [NAN]), ("float32", [NAN]), {"equal_nan": True}),
    (("float32", [NAN]), ("float32", [1.0]), {"equal_nan": True}),
    (("float32", [INF]), ("float32", [INF]), {}),
    (("float32", [INF]), ("float32", [-INF]), {}),
    (("float32", [INF]), ("float32", [1.0]), {}),
    (("float32", [1.0]), ("float32", [INF]), {}),
    (("float32", []), ("float32", []), {}),
    (("bfloat16", [1.0]), ("bfloat16", [1.01]), {}),
    (("bfloat16", [1.0]), ("bfloat16", [1.1]), {}),
    (("float16", [1.0]), ("float16", [1.002]), {}),
    (("int64", [2**62]), ("int64", [2**62 + 1]), {}),
    (("int64", [2**63 - 1]), ("int64", [-(2**63)]), {"rtol": 0.1, "atol": 1.0}),
    (("int32", [10]), ("int32", [11]), {"rtol": 0.0, "atol": 1.0}),
    (("uint8", [0]), ("uint8", [255]), {"rtol": 0.0, "atol": 1.0}),
    (("bool", [True]), ("bool", [True]), {}),
    (("bool", [True]), ("bool", [False]), {}),
    (("complex64", [1 + 1j]), ("complex64", [1 + 1.00001j]), {}),
    (("complex64", [1 + 1j]), ("complex64", [1 + 1.0000001j]), {}),
    (("float32", 1.0), ("float32", 2.0), {}),
    (1, 1, {}),
    (1.0, 1.1, {}),
    (1.0, 1.0 + 1e-9, {}),
    (1, 1.0, {}),
    (1, 1.0, {"check_dtype": False}),
    (None, None, {}),
    ("a", "a", {}),
    (1.0, ("float32", 1.0), {}),
    ([F32, F32], [F32, F32], {}),
    ([F32, F32], (F32, F32), {}),
    ([F32, F32], [F32], {}),
    ([F32, [1, F32]], [F32, [1, ("float32", [1.0, 2.0, 4.0])]], {}),
    ({"a": F32}, {"a": F32}, {}),
    ({"a": F32}, {"b": F32}, {}),
    ({"a": F32}, [F32], {}),
    (F32, [1.0, 2.0, 3.0], {}),
]


def outcome(lib: Any, actual: Any, expected: Any, kwargs: dict[str, Any]) -> type | None:
    try:
        lib.testing.assert_close(like(lib, actual), like(lib, expected), **kwargs)
    except (AssertionError, TypeError, ValueError) as error:
        return type(error)
    return None


@pytest.mark.parametrize("case", CASES, ids=str)
def test_decides_as_pytorch(case: tuple[Any, Any, dict[str, Any]]) -> None:
    assert outcome(tinyt, *case) == outcome(torch, *case)


def test_arrays() -> None:
    tinyt.testing.assert_close(np.ones(3), np.ones(3))


@pytest.mark.parametrize("data", [[1.0, 2.0, 4.0], [[1.0, 5.0], [3.0, 4.5]]])
def test_messages(data: Any) -> None:
    messages = []
    for lib in (tinyt, torch):
        wanted = lib.tensor(data)
        with pytest.raises(AssertionError) as info:
            lib.testing.assert_close(
                [wanted + lib.tensor([[0.0], [0.5]])[-1], wanted], [wanted, wanted]
            )
        messages.append(str(info.value))
        del info
    ours, theirs = (m.splitlines() for m in messages)
    assert ours[:3] == theirs[:3]
    assert [line.split(":")[0] for line in ours] == [line.split(":")[0] for line in theirs]


def test_message_of_the_user() -> None:
    with pytest.raises(AssertionError, match=r"^mine$"):
        tinyt.testing.assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"(?s)^see: Scalars are not close"):
        tinyt.testing.assert_close(1, 2, msg=lambda text: f"see: {text}")
