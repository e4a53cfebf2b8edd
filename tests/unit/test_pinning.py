"""Containers of batches in pinned memory, where no CUDA device is: nothing but the containers is
new. With a device: `tests/cuda/pinned_cases.py`."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from types import MappingProxyType
from typing import Any

import pytest

import tinyt
from tinyt.utils.data import DataLoader, TensorDataset
from tinyt.utils.data._utils.pin_memory import pin_memory

Pair = namedtuple("Pair", ["a", "b"])


class Named(list):
    """With more than its items."""

    name = ""


class Fixed(dict):
    """Which takes no other items."""

    def update(self, *items: Any) -> None:
        raise TypeError


def test_containers_keep_their_types() -> None:
    x = tinyt.ones(2)
    named = Named([x, "text"])
    named.name = "n"
    fixed = Fixed(a=x)
    data = {
        "pair": Pair(x, 1),
        "tuple": (x, b"bytes"),
        "named": named,
        "ordered": OrderedDict(b=x, a=2),
        "proxy": MappingProxyType({"c": x}),
        "fixed": fixed,
        "range": range(2),
        "none": None,
    }
    made = pin_memory(data)
    assert list(made) == list(data)
    for key in ("pair", "tuple", "named", "ordered", "proxy"):
        assert type(made[key]) is type(data[key])
    assert made["named"] is not named
    assert made["named"].name == "n"
    assert list(made["ordered"]) == ["b", "a"]
    assert (type(made["fixed"]), made["range"], made["none"]) == (dict, [0, 1], None)
    tensors = (made["pair"].a, made["tuple"][0], made["named"][0], made["ordered"]["b"])
    assert all(t is x for t in (*tensors, made["proxy"]["c"], made["fixed"]["a"]))


def test_what_pins_itself() -> None:
    class Own:
        def pin_memory(self) -> str:
            return "by itself"

    assert pin_memory([Own()]) == ["by itself"]


@pytest.mark.parametrize("pin", [False, True])
def test_batches_without_a_device(pin: bool) -> None:
    x = tinyt.arange(4.0)
    batches = list(DataLoader(TensorDataset(x), batch_size=2, pin_memory=pin))
    assert [b[0].tolist() for b in batches] == [[0.0, 1.0], [2.0, 3.0]]
    assert not batches[0][0].is_pinned()
    assert not tinyt.zeros(2, pin_memory=True).is_pinned()
    assert x.to("cpu", non_blocking=True) is x
