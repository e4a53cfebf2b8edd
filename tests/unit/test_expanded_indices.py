"""Masks and positions of views that have more elements than memory: nothing is copied but what is
picked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import Tensor, memory

ROWS, COLUMNS = 500, 4000  # 8 MB of float32


def _masks() -> tuple[Tensor, Tensor, Tensor]:
    whole = tinyt.zeros(ROWS, COLUMNS, dtype=tinyt.bool)
    whole[::100, ::1000] = True
    return whole, whole[:, 0].clone(), whole[0].clone()


CASES: dict[str, Callable[[], Tensor]] = {
    "mask": lambda: tinyt.ones(1, COLUMNS).expand(ROWS, COLUMNS)[_masks()[0]],
    "mask of rows": lambda: tinyt.ones(1, 1).expand(ROWS, COLUMNS)[_masks()[1]],
    "expanded mask": lambda: tinyt.ones(ROWS, 1).expand(ROWS, COLUMNS)[
        _masks()[1][:, None].expand(ROWS, COLUMNS)
    ],
    "mask of inner dimensions": lambda: tinyt.ones(1, 1, COLUMNS).expand(3, ROWS, COLUMNS)[
        :, _masks()[0]
    ],
    "masked_select": lambda: tinyt.ones(ROWS, 1).masked_select(_masks()[2]),
    "nonzero": lambda: _masks()[2].expand(ROWS, COLUMNS)[:3].nonzero(),
    "positions": lambda: tinyt.ones(COLUMNS).expand(ROWS, COLUMNS)[
        tinyt.tensor([1, 2]), tinyt.tensor([-1, 0])
    ],
    "windows": lambda: tinyt.ones(ROWS + COLUMNS).unfold(0, COLUMNS, 1)[:ROWS][:, _masks()[2]],
    "positions of a transposed tensor": lambda: _masks()[0].t()[
        tinyt.tensor([1, 2]), tinyt.tensor([-1, 0])
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_is_picked_is_copied(name: str) -> None:
    memory.reset_peak()
    start = memory.statistics()["peak_bytes"]
    CASES[name]()
    # The masks are 2 MB, copies of a part of them 2 MB; the tensor is 8 MB (24 MB) in one piece.
    assert memory.statistics()["peak_bytes"] - start < 5e6


def _expanded(rng: np.random.Generator, dtype: str) -> list[tuple[Tensor, Any]]:
    """The same views in tinyt and NumPy."""
    made = []
    shapes = (((3, 1), (3, 600)), ((1, 4), (700, 4)), ((2, 1, 3), (2, 9, 3)), ((300, 1), (300, 2)))
    for shape, to in (*shapes, ((1,), (7,))):
        values = rng.normal(size=shape) * 3
        if dtype == "complex128":
            values = values + 1j * rng.normal(size=shape)
        base = values > 0 if dtype == "bool" else values.astype(dtype)
        made.append((tinyt.from_numpy(base).expand(*to), np.broadcast_to(base, to)))
    x, y = made[2]
    made.append((x.permute(1, 2, 0), y.transpose(1, 2, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(made[0][1][:, 0].repeat(300), 70)
    made.append((tinyt.from_numpy(made[0][1][:, 0].repeat(300)).unfold(0, 70, 1), windows))
    return made


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "complex128"])
def test_masks_of_expanded_tensors(rng: np.random.Generator, dtype: str) -> None:
    for x, want in _expanded(rng, dtype):
        np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(want))
        assert int(tinyt.count_nonzero(x)) == np.count_nonzero(want)
        for rank in range(1, x.dim() + 1):
            lead = want.shape[:rank]
            for shape in (lead, (lead[0], *[1] * (rank - 1)), (*[1] * (rank - 1), lead[-1])):
                own = rng.random(shape) < 0.4
                mask, given = np.broadcast_to(own, lead), tinyt.from_numpy(own).expand(lead)
                np.testing.assert_array_equal(x[given].numpy(), want[mask])
                np.testing.assert_array_equal(x.clone()[given].numpy(), want[mask])
                if rank == x.dim():
                    found = x.masked_select(tinyt.from_numpy(own))
                    np.testing.assert_array_equal(found.numpy(), want[mask])


def test_several_positions_of_strided_tensors(rng: np.random.Generator) -> None:
    base = rng.normal(size=(4, 5, 6, 7)).astype(np.float32)
    x = tinyt.from_numpy(base)
    for view, want in (
        (x.permute(3, 1, 0, 2), base.transpose(3, 1, 0, 2)),
        (x[::2, :, ::3, 1:], base[::2, :, ::3, 1:]),
        (x[:1, :, :1].expand(4, 5, 6, 7), np.broadcast_to(base[:1, :, :1], base.shape)),
    ):

        def at(dim: int, *shape: int, want: Any = want) -> np.ndarray:
            return rng.integers(-want.shape[dim], want.shape[dim], shape)

        for key in (
            (at(0, 3), at(1, 3)),
            (slice(None), at(1, 2, 3), at(2, 3)),
            (at(0, 3), slice(None), at(2, 2, 1)),
            (at(0, 2), at(1, 2), at(2, 2), at(3, 2)),
            (None, at(0, 2), slice(1, None, 2), slice(None), at(3, 2)),
            (1, at(1, 2, 2), slice(None), at(3, 2, 2)),
            (slice(None), rng.random(want.shape[1:3]) < 0.5),
            (np.zeros(0, np.int64), at(1, 1)),
        ):
            index = tuple(tinyt.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)
            np.testing.assert_array_equal(view[index].numpy(), want[key])
            with tinyt.enable_grad():
                leaf = view.detach().requires_grad_()
                np.testing.assert_array_equal(leaf[index].detach().numpy(), want[key])
        with pytest.raises(IndexError, match="10 is out of range for dimension 1"):
            view[tinyt.tensor([0]), tinyt.tensor([10])]


def test_gradients_of_masks_of_expanded_tensors() -> None:
    x = tinyt.tensor([[1.0], [2.0]], requires_grad=True)
    mask = tinyt.tensor([[True, False, True], [False, False, True]])
    (x.expand(2, 3)[mask] * tinyt.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[11.0], [100.0]]
