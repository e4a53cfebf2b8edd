"""embedding_bag: where bags start and end."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt
from tinyt.nn.functional import embedding_bag

WRONG = [[0, 2, 1], [1, 2, 3], [0, 4, 4], [-1, 0, 0], [0, 3, 2], [0, 0, -1], [2, 1, 0], [3, 3, 3]]
MODES = ["sum", "mean", "max"]


def table() -> tinyt.Tensor:
    return tinyt.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("dtype", [tinyt.int32, tinyt.int64])
def test_bags_start_in_order(mode: str, last: bool, padding: int | None, dtype: Any) -> None:
    def call(index: Any, offsets: Any) -> tinyt.Tensor:
        return embedding_bag(
            index, weight, offsets, mode=mode, include_last_offset=last, padding_idx=padding
        )

    weight, index = table(), tinyt.tensor([0, 1, 2])
    compiled = tinyt.compile(call)
    right = tinyt.tensor([0, 2, 3], dtype=dtype)
    for _ in range(2):
        assert compiled(index, right).tolist() == call(index, right).tolist()
    for starts in WRONG:
        offsets = tinyt.tensor(starts, dtype=dtype)
        with pytest.raises(tinyt.OutOfRangeError, match="offsets must start at 0, not decrease"):
            call(index, offsets)
        with pytest.raises(tinyt.OutOfRangeError):
            compiled(index, offsets)
    assert compiled(index, right).tolist() == call(index, right).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_empty_bags(mode: str) -> None:
    index = tinyt.tensor([3, 3])
    for starts, want in (
        ([0, 0, 2], [[0.0, 0.0], [6.0, 7.0], [0.0, 0.0]]),
        ([0, 2, 2], [[6.0, 7.0], [0.0, 0.0], [0.0, 0.0]]),
        ([], []),
    ):
        scale = 2 if mode == "sum" else 1
        offsets = tinyt.tensor(starts, dtype=tinyt.int64)
        out = embedding_bag(index, table(), offsets, mode=mode)
        assert out.shape == (len(starts), 2)
        assert out.tolist() == [[scale * x for x in row] for row in want]
    none = embedding_bag(index[:0], table(), tinyt.tensor([0, 0]), mode=mode)
    assert none.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(tinyt.OutOfRangeError, match="offsets must start at 0"):
        embedding_bag(index[:0], table(), tinyt.tensor([0, 1]), mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", [None, 0])
def test_bags_end_at_the_last_offset(mode: str, padding: int | None) -> None:
    """What stands behind it is in no bag, and gets no gradient."""
    index = tinyt.tensor([3, 1, 2, 0])
    for ends in ([0, 2], [0, 1, 1, 3], [0], [0, 2, 4]):
        rows = [table().requires_grad_() for _ in range(2)]
        out = embedding_bag(
            index,
            rows[0],
            tinyt.tensor(ends),
            mode=mode,
            include_last_offset=True,
            padding_idx=padding,
        )
        want = (
            embedding_bag(
                index[: ends[-1]], rows[1], tinyt.tensor(ends[:-1]), mode=mode, padding_idx=padding
            )
            if len(ends) > 1
            else rows[1][:0]
        )
        assert out.tolist() == want.tolist()
        for bags in (out, want):
            (bags * 3).sum().backward()
        grads = [[[0.0] * 2] * 4 if w.grad is None else w.grad.tolist() for w in rows]
        assert grads[0] == grads[1]
