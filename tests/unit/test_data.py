"""Datasets, samplers, collation and the loader."""

from collections import namedtuple
from itertools import islice

import numpy as np
import pytest

import tinyt
from tinyt import ops
from tinyt.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)
from tinyt.random import Generator


class Squares(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index * index


class Slow(TensorDataset):
    """A subclass, so that the loader asks for one sample after another."""


def columns():
    return ops.arange(20).reshape(10, 2), ops.arange(10) * 10


def generator(seed):
    result = Generator()
    result.manual_seed(seed)
    return result


def listed(loader):
    return [[part.tolist() for part in batch] for batch in loader]


def test_batches_in_order():
    loader = DataLoader(Squares(5), batch_size=2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9], [16]]
    assert len(loader) == 3
    loader = DataLoader(Squares(5), batch_size=2, drop_last=True)
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9]]
    assert len(loader) == 2
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert list(DataLoader(Squares(0), batch_size=2)) == []


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("indices", [None, [7, 1, 1, 4, 9]])
def test_fast_path_equals_sample_by_sample(shuffle, indices):
    fast, slow = TensorDataset(*columns()), Slow(*columns())
    if indices is not None:
        fast, slow = Subset(Subset(fast, range(10)), indices), Subset(slow, indices)
    batches = [
        listed(DataLoader(dataset, batch_size=3, shuffle=shuffle, seed=4))
        for dataset in (fast, slow)
    ]
    assert batches[0] == batches[1]
    assert sum(len(batch[1]) for batch in batches[0]) == len(fast)


def test_equal_seeds_give_equal_orders_and_passes_differ():
    def orders(loader):
        return [[batch.tolist() for batch in loader] for _ in range(2)]

    def make(**kw):
        return DataLoader(Squares(50), batch_size=50, shuffle=True, **kw)

    first = orders(make(seed=3))
    assert first == orders(make(seed=3))
    assert first == orders(make(generator=generator(3)))
    assert first != orders(make(seed=4))
    assert first[0] != first[1]
    assert sorted(first[0][0]) == [i * i for i in range(50)]
    tinyt.manual_seed(8)
    default = orders(make())
    tinyt.manual_seed(8)
    assert orders(make()) == default


def test_loader_with_samplers_and_collate():
    loader = DataLoader(Squares(9), batch_size=2, sampler=[5, 1, 2])
    assert [batch.tolist() for batch in loader] == [[25, 1], [4]]
    loader = DataLoader(Squares(9), batch_sampler=[[1], [2, 3]], collate_fn=sum)
    assert list(loader) == [1, 13]
    assert len(loader) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size should be a positive integer value"),
        ({"shuffle": True, "sampler": [0]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables"),
        ({"seed": 1, "generator": Generator()}, "mutually exclusive with seed"),
    ],
)
def test_loader_errors(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(3), **options)


def test_tensor_dataset():
    x, y = columns()
    dataset = TensorDataset(x, y)
    assert len(dataset) == 10
    assert [part.tolist() for part in dataset[3]] == [[6, 7], 30]
    with pytest.raises(IndexError):
        dataset[10]
    with pytest.raises(AssertionError, match=r"got shapes \(10, 2\), \(3,\)"):
        TensorDataset(x, y[:3])
    with pytest.raises(ValueError, match="at least one tensor"):
        TensorDataset()


def test_random_split():
    parts = random_split(Squares(10), [7, 3], generator(1))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted([*parts[0], *parts[1]]) == [i * i for i in range(10)]
    again = random_split(Squares(10), [7, 3], generator(1))
    assert [part.indices for part in again] == [part.indices for part in parts]
    assert [len(part) for part in random_split(Squares(11), [0.5, 0.25, 0.25])] == [6, 3, 2]
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(Squares(10), [7, 4])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        random_split(Squares(10), [1.5, -0.5])


def test_samplers():
    data = Squares(5)
    assert list(SequentialSampler(data)) == [0, 1, 2, 3, 4]
    assert sorted(RandomSampler(data)) == [0, 1, 2, 3, 4]
    once_more = list(RandomSampler(data, num_samples=7, generator=generator(0)))
    assert len(once_more) == 7
    assert sorted(once_more[:5]) == [0, 1, 2, 3, 4]
    drawn = list(RandomSampler(data, replacement=True, num_samples=400, generator=generator(0)))
    assert set(drawn) == {0, 1, 2, 3, 4}
    assert max(np.bincount(drawn)) < 2 * min(np.bincount(drawn))
    assert list(BatchSampler(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, drop_last=False)) == 3
    with pytest.raises(ValueError, match="num_samples should be a positive"):
        RandomSampler(data, num_samples=0)
    with pytest.raises(ValueError, match="drop_last should be a boolean"):
        BatchSampler(range(5), 2, drop_last=3)


def test_samples_with_replacement_are_drawn_by_pieces():
    data, many = Squares(10), 10**10
    weights = tinyt.tensor([1.0, 0.0, 2.0])
    whole = {  # of one draw
        "random": tinyt.randint(10, (70_000,), generator=generator(3)),
        "weighted": tinyt.multinomial(weights, 70_000, True, generator=generator(3)),
    }
    streams = {name: generator(3) for name in whole}
    samplers = {
        "random": RandomSampler(data, True, many, streams["random"]),
        "weighted": WeightedRandomSampler(weights, many, generator=streams["weighted"]),
    }
    for name, sampler in samplers.items():
        drawn = iter(sampler)
        first = next(drawn)
        assert streams[name].get_state().tolist() == [3, many // 4]
        tinyt.rand(5, generator=streams[name])  # does not matter to the rest
        assert [first, *islice(drawn, 69_999)] == whole[name].tolist()
    rest = generator(3)
    assert len(list(RandomSampler(data, True, 70_000, rest))) == 70_000
    assert rest.get_state().tolist() == [3, 17_500]
    with pytest.raises(ValueError, match=r"below 2\*\*63"):
        next(iter(RandomSampler(data, True, 2**63)))


def test_multinomial_of_many_categories_needs_no_table_of_them():
    tinyt.manual_seed(0)
    weights = tinyt.zeros(2, 10**5)
    weights[0, 77], weights[1, -1] = 1.0, 2.0
    drawn = tinyt.multinomial(weights, 10**5, replacement=True)  # 20 GB as a table
    assert drawn.min(1).values.tolist() == drawn.max(1).values.tolist() == [77, 10**5 - 1]


def test_default_collate():
    Point = namedtuple("Point", "x y")
    batch = default_collate(
        [
            {"a": ops.ones(2), "b": (1, 2.5), "c": "x", "d": Point(1, [2])},
            {"a": ops.zeros(2), "b": (3, 4.5), "c": "y", "d": Point(5, [6])},
        ]
    )
    assert batch["a"].tolist() == [[1, 1], [0, 0]]
    ints, floats = batch["b"]
    assert ints.tolist() == [1, 3]
    assert ints.dtype == tinyt.int64
    assert floats.tolist() == [2.5, 4.5]
    assert floats.dtype == tinyt.float64
    assert batch["c"] == ["x", "y"]
    assert type(batch["d"]) is Point
    assert batch["d"].y[0].tolist() == [2, 6]


def test_default_collate_of_numpy():
    arrays = default_collate([np.array([1, 2], dtype=np.float32), np.array([3, 4], np.float32)])
    assert arrays.tolist() == [[1, 2], [3, 4]]
    assert arrays.dtype == tinyt.float32
    scalars = default_collate([np.float32(1.5), np.float32(2.5)])
    assert scalars.tolist() == [1.5, 2.5]
    assert scalars.dtype == tinyt.float32


def test_default_collate_errors():
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(TypeError, match="array of dtype <U1"):
        default_collate([np.array(["x"])])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [1]])
