"""repr and str: the layout PyTorch users know, limits, and odd values."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tinyt
from tinyt.compiler.capture.recording import record

EXPECTED: list[tuple[Any, str]] = [
    (1, "tensor(1)"),
    (1.5, "tensor(1.5000)"),
    (True, "tensor(True)"),
    ([], "tensor([])"),
    ([1, 2, 3], "tensor([1, 2, 3])"),
    ([-1, 200], "tensor([ -1, 200])"),
    ([1.0, 2.0], "tensor([1., 2.])"),
    ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
    ([True, False], "tensor([ True, False])"),
    ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
    ([[[1]], [[2]]], "tensor([[[1]],\n\n        [[2]]])"),
    ([1e-8, 1.0], "tensor([1.0000e-08, 1.0000e+00])"),
    ([1e10, 1.0], "tensor([1.0000e+10, 1.0000e+00])"),
    ([math.nan, 1.0], "tensor([nan, 1.])"),
    ([math.inf, -math.inf, 0.25], "tensor([   inf,   -inf, 0.2500])"),
    ([0.1, -0.2], "tensor([ 0.1000, -0.2000])"),
    ([100000.0, 0.5], "tensor([1.0000e+05, 5.0000e-01])"),
    ([12345.0, 0.5], "tensor([1.2345e+04, 5.0000e-01])"),
    ([0.0], "tensor([0.])"),
    ([1234567.0], "tensor([1234567.])"),
    ([1j, 2.5], "tensor([0.0000+1.j, 2.5000+0.j])"),
    ([complex(math.nan, -0.0)], "tensor([nan-0.j])"),
]


@pytest.mark.parametrize(("value", "text"), EXPECTED, ids=[t[7:30] for _, t in EXPECTED])
def test_repr(value: Any, text: str) -> None:
    assert repr(tinyt.tensor(value)) == str(tinyt.tensor(value)) == text


def test_dtype_is_shown_where_it_is_not_the_default() -> None:
    name = tinyt.__name__
    assert repr(tinyt.tensor([1.0], dtype=tinyt.float64)) == f"tensor([1.], dtype={name}.float64)"
    assert repr(tinyt.tensor([1], dtype=tinyt.int32)) == f"tensor([1], dtype={name}.int32)"
    assert repr(tinyt.zeros(0, dtype=tinyt.int64)) == f"tensor([], dtype={name}.int64)"
    assert repr(tinyt.zeros(2, 0)) == "tensor([], size=(2, 0))"


def test_gradients_are_shown() -> None:
    x = tinyt.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2).startswith("tensor([2.], grad_fn=<Mul")


def test_summary_of_large_tensors() -> None:
    text = repr(tinyt.arange(10_000))
    assert text == "tensor([   0,    1,    2,  ..., 9997, 9998, 9999])"
    text = repr(tinyt.zeros(200, 200))
    assert text.count("...") == 7
    assert len(text) < 700


def test_long_lines_are_wrapped() -> None:
    text = repr(tinyt.arange(100))
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[1].startswith("        ")


def test_huge_tensor_is_quick() -> None:
    """Only the edges are looked at."""
    assert len(repr(tinyt.zeros(1).expand(10**9))) < 100


def test_options() -> None:
    x = tinyt.tensor([1.23456789, 2.0])
    tinyt.set_printoptions(precision=2)
    try:
        assert repr(x) == "tensor([1.23, 2.00])"
        tinyt.set_printoptions(threshold=2, edgeitems=1)
        assert repr(tinyt.arange(5)) == "tensor([0,  ..., 4])"
    finally:
        tinyt.set_printoptions(profile="default")
    assert repr(x) == "tensor([1.2346, 2.0000])"


def test_strided_tensors_print_as_they_read() -> None:
    assert repr(tinyt.arange(6).reshape(2, 3).t()) == (
        "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])"
    )


@pytest.mark.parametrize("shape", [(2,) * 20, (7,) * 6, (1, 2) * 12, (50, 1, 50, 1, 50, 3, 9)])
def test_many_dimensions_do_not_flood(shape: tuple[int, ...]) -> None:
    text = repr(tinyt.zeros(1).expand(shape))
    assert text.count("0.") <= 6**4
    assert "..." in text


def test_large_tensors_while_recording() -> None:
    """What is read of them is not recorded."""
    x = tinyt.zeros(2000)
    seen: list[str] = []
    recording = record(lambda a: seen.append(repr(x)) or a + 1, x)
    assert seen == [repr(x)]
    assert len(recording.graph.nodes) == 1


def test_profiles_and_reading_the_options() -> None:
    before = tinyt.get_printoptions()
    assert before["precision"] == 4
    try:
        tinyt.set_printoptions(profile="short", sci_mode=True)
        assert tinyt.get_printoptions() == before | {
            "precision": 2,
            "edgeitems": 2,
            "sci_mode": True,
        }
        assert repr(tinyt.tensor([1.5])) == "tensor([1.50e+00])"
        tinyt.set_printoptions(profile="full")
        assert "..." not in repr(tinyt.zeros(2000))
        tinyt.set_printoptions(linewidth=20)
        assert max(map(len, repr(tinyt.arange(30)).splitlines())) <= 20
        with pytest.raises(ValueError, match=r"profile 'long'"):
            tinyt.set_printoptions(profile="long")
    finally:
        tinyt.set_printoptions(profile="default")
