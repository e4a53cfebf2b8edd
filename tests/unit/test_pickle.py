"""Pickling and copying of tensors: every dtype, shape and protocol; buffers that travel without a
copy; bytes that lie."""

from __future__ import annotations

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from tinyt import nn
from tinyt.dtypes import ALL
from tinyt.tensor import _rebuild

DTYPES = [t.name for t in ALL]
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def round_trip(x: Any, protocol: int) -> Any:
    return pickle.loads(pickle.dumps(x, protocol=protocol))


def same(a: Any, b: Any) -> bool:
    facts = [(type(t), t.dtype, t.shape, t.requires_grad, t.tolist()) for t in (a, b)]
    return facts[0] == facts[1]


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=4),
    st.sampled_from(PROTOCOLS),
    st.booleans(),
)
def test_round_trip(dtype: str, shape: list[int], protocol: int, strided: bool) -> None:
    count = int(np.prod(shape))
    x = (tinyt.arange(count) % 100).reshape(shape).to(getattr(tinyt, dtype))
    if strided:
        x = x.permute(tuple(reversed(range(len(shape)))))
    y = round_trip(x, protocol)
    assert same(x, y)
    assert y.data_ptr() != x.data_ptr() or count == 0
    y.zero_()  # whatever carried it, it may be written
    assert y.is_contiguous()


def test_elements_travel_without_a_copy() -> None:
    x = tinyt.arange(10_000.0)
    buffers: list[Any] = []
    data = pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 300
    y = pickle.loads(data, buffers=buffers)
    assert y.data_ptr() == x.data_ptr()
    y[0] = 5
    assert x[0].item() == 5
    received = [bytearray(b.raw()) for b in buffers]  # as they arrive from another process
    z = pickle.loads(data, buffers=received)
    assert z.tolist() == x.tolist()
    z[1] = 7
    assert received[0][4:8] == np.float32(7).tobytes()


def test_read_only_buffers_stay_so() -> None:
    buffers: list[Any] = []
    data = pickle.dumps(tinyt.ones(3), protocol=5, buffer_callback=buffers.append)
    y = pickle.loads(data, buffers=[memoryview(bytes(buffers[0].raw()))])
    assert y.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match=r"read-only"):
        y.add_(1)


def test_misaligned_buffers_are_copied() -> None:
    raw = bytearray(b"x") + tinyt.arange(4).numpy().tobytes()
    y = _rebuild(tinyt.Tensor, memoryview(raw)[1:], tinyt.int64, (4,), False)
    assert y.tolist() == [0, 1, 2, 3]


def test_leaves_modules_and_attributes() -> None:
    x = tinyt.ones(2, requires_grad=True)
    x.note = "kept"
    y = round_trip(x, 5)
    assert (y.requires_grad, y.is_leaf, y.note) == (True, True, "kept")
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    again = round_trip(model, 4)
    assert type(again[0].weight) is nn.Parameter
    assert all(same(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert same(again.state_dict()["1.running_var"], model.state_dict()["1.running_var"])


def test_between_processes() -> None:
    """What multiprocessing sends."""
    x = tinyt.arange(6, dtype=tinyt.bfloat16).reshape(2, 3)
    assert same(pickle.loads(ForkingPickler.dumps(x.t())), x.t())


def test_copy_shares_and_deepcopy_does_not() -> None:
    x = tinyt.arange(3.0).requires_grad_()
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow.data_ptr() == x.data_ptr() != deep.data_ptr()
    assert same(shallow, x)
    assert same(deep, x)
    with pytest.raises(RuntimeError, match=r"deepcopy.*leaf"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((tinyt.Tensor, b"12345678", tinyt.float32, (3,), False), r"needs 12 bytes, got 8"),
        ((tinyt.Tensor, b"", tinyt.float64, (2**40, 2**30), False), r"got 0"),
        ((tinyt.Tensor, b"", tinyt.float32, (-1, 0), False), r"-1"),
        ((tinyt.Tensor, b"", "float32", (0,), False), r"float32"),
        ((tinyt.Tensor, b"\x02", tinyt.bool, (1,), False), r"bool"),
        ((dict, b"", tinyt.float32, (0,), False), r"dict"),
    ],
)
def test_bytes_that_do_not_fit(args: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        _rebuild(*args)


class Bomb:
    """Unpickling it would call this."""

    exploded = False

    def __reduce__(self) -> Any:
        return setattr, (Bomb, "exploded", True)


def test_load_never_unpickles(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(tinyt.SerializationError):
        tinyt.load(path)
    assert not Bomb.exploded


def test_recorded_and_odd_states() -> None:
    with pytest.raises(TypeError, match=r"__setstate__.*int"):
        tinyt.ones(1).__setstate__(3)
    stream = io.BytesIO()
    pickle.Pickler(stream, protocol=5).dump({"a": tinyt.tensor(1), "d": tinyt.float16})
    found = pickle.loads(stream.getvalue())
    assert (found["a"].item(), found["d"]) == (1, tinyt.float16)
