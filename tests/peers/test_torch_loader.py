"""Batches of `DataLoader` beside PyTorch's: kinds of indices, types of samples."""

from __future__ import annotations

from collections import Counter, OrderedDict, UserDict, UserList, deque, namedtuple
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import tinyt
import tinyt.utils.data

Pair = namedtuple("Pair", "x y")

INDICES: dict[str, list[Any]] = {
    "numbers": [2, 0, -1],
    "NumPy's": [np.int64(2), np.int32(0)],
    "tuples": [(0, 1), (1, 2)],
    "slices": [slice(0, 2), slice(1, 3)],
    "lists": [[0, 1], [2, 2]],
    "None": [None, None],
    "Ellipsis": [..., ...],
    "bools": [True, False],
    "mixed": [slice(0, 1), None],
    "fractions": [1.7, 0.2],
    "too large": [0, 3],
}


def batch_of(package: Any, sampler: Any, subset: bool) -> Any:
    data = package.utils.data.TensorDataset(package.arange(9).reshape(3, 3), package.arange(3))
    if "(0, 1)" in str(list(sampler)):  # two dimensions for a tuple of two indices
        data = package.utils.data.TensorDataset(package.arange(9).reshape(3, 3))
    if subset:
        data = package.utils.data.Subset(data, range(3))
    try:
        batches = list(package.utils.data.DataLoader(data, len(sampler), sampler=sampler))
        return [[part.tolist() for part in batch] for batch in batches]
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("kind", INDICES)
def test_indices(kind: str, subset: bool) -> None:
    got, want = (batch_of(package, INDICES[kind], subset) for package in (tinyt, torch))
    assert issubclass(got, want) if isinstance(want, type) else got == want


@pytest.mark.parametrize("subset", [False, True])
@pytest.mark.parametrize("make", [iter, tuple, np.array, lambda x: dict.fromkeys(x)])
def test_batches_of_indices(make: Any, subset: bool) -> None:
    found = []
    for package in (tinyt, torch):
        data = package.utils.data.TensorDataset(package.arange(9).reshape(3, 3))
        if subset:
            data = package.utils.data.Subset(data, [2, 1, 0])
        loader = package.utils.data.DataLoader(data, batch_sampler=[make([2, 1]), make([0])])
        found.append([batch[0].tolist() for batch in loader])
    assert found[0] == found[1]


class Named(dict[str, Any]):
    """A dict with an attribute."""

    name = "none"


class Fixed(UserList[Any]):
    """A list whose copy cannot be written."""

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError


def named() -> Named:
    made = Named(a=1, b=[2.0])
    made.name = "some"
    return made


SAMPLES: list[Any] = [
    named(),
    OrderedDict(a=1, b=2),
    UserDict(a=1),
    MappingProxyType({"a": 1}),
    UserList([1, 2.0]),
    Fixed([1, 2.0]),
    deque([1, 2]),
    range(3),
    Pair(1, [2, 3]),
    (1, 2),
    [1, {"a": (2, UserList([3]))}],
    bytearray(b"ab"),
]


def plain(x: Any) -> Any:
    """Types and values of a batch."""
    if isinstance(x, (tinyt.Tensor, torch.Tensor)):
        return str(x.dtype).split(".")[-1], x.tolist()
    if isinstance(x, (dict, UserDict, MappingProxyType)):
        return type(x), getattr(x, "name", None), {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, UserList, deque)):
        return type(x), [plain(value) for value in x]
    return x


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda x: type(x).__name__)
def test_types_of_samples(sample: Any) -> None:
    for function, given in (("default_collate", [sample, sample]), ("default_convert", sample)):
        got, want = (getattr(p.utils.data, function)(given) for p in (tinyt, torch))
        assert plain(got) == plain(want)


def test_counts_are_not_added_to_batches() -> None:
    """Where PyTorch does: `Counter.update` adds."""
    batch = tinyt.utils.data.default_collate([Counter(a=1), Counter(a=2)])
    assert (type(batch), batch["a"].tolist()) == (Counter, [1, 2])


def test_samples_of_pytorch() -> None:
    """As datasets of packages give them that have PyTorch: batches are tinyt's."""
    samples = [(torch.ones(2, 3, requires_grad=True), {"label": torch.tensor(i)}) for i in (3, 4)]
    images, rest = tinyt.utils.data.default_collate(samples)
    assert isinstance(images, tinyt.Tensor)
    assert images.shape == (2, 2, 3)
    assert rest["label"].tolist() == [3, 4]
    assert rest["label"].dtype is tinyt.int64
    image, rest = tinyt.utils.data.default_convert(samples[0])
    assert isinstance(image, tinyt.Tensor)
    assert isinstance(rest["label"], tinyt.Tensor)
    batches = list(tinyt.utils.data.DataLoader(samples, batch_size=2, num_workers=1))
    assert [batch[1]["label"].tolist() for batch in batches] == [[3, 4]]
