"""Worker threads of the loader, streams, and further datasets and samplers."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tinyt
from interrupts import interrupted_at
from tinyt import Tensor, nn
from tinyt.data import workers
from tinyt.utils.checkpoint import checkpoint
from tinyt.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_convert,
    get_worker_info,
)


class Noisy(Dataset[Any]):
    """Samples that take unequal time and draw random numbers."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002 * (index % 3))
        return index, tinyt.rand(1)


class Count(IterableDataset[Any]):
    """0, 1, 2, ... or, in a worker, its part of them."""

    def __init__(self, end: int) -> None:
        self.end = end

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.end, step))

    def __len__(self) -> int:
        return self.end


def listed(loader: Any) -> list[Any]:
    return [tuple(part.tolist() for part in batch) for batch in loader]


@pytest.fixture(autouse=True)
def no_leaked_threads() -> Any:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_give_the_same_batches_in_order_each_time(persistent: bool) -> None:
    def passes(workers: int) -> list[Any]:
        loader = DataLoader(
            Noisy(),
            batch_size=3,
            shuffle=True,
            num_workers=workers,
            seed=4,
            persistent_workers=persistent and workers > 0,
        )
        return [listed(loader), listed(loader)]

    first, second = passes(3)
    assert passes(3) == [first, second]
    assert first != second
    assert sorted(i for batch in first for i in batch[0]) == list(range(23))
    # The order of the samples is that of a loader without workers.
    assert [[b[0] for b in run] for run in passes(0)] == [
        [b[0] for b in run] for run in (first, second)
    ]


def test_out_of_order_gives_all_of_them() -> None:
    loader = DataLoader(Noisy(), batch_size=2, num_workers=3, in_order=False)
    assert sorted(i for batch in loader for i in batch[0].tolist()) == list(range(23))


def test_break_and_errors_in_the_loop_end_the_threads() -> None:
    for _ in DataLoader(Noisy(), num_workers=2):
        break

    def loop() -> None:
        for _ in DataLoader(Noisy(), num_workers=2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()


def test_persistent_workers_after_a_break() -> None:
    loader = DataLoader(Noisy(), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in loader:
        break
    threads = {t for t in threading.enumerate() if t.name.startswith("tinyt-loader")}
    assert [batch[0].tolist() for batch in loader][-1] == [20, 21, 22]
    assert {t for t in threading.enumerate() if t.name.startswith("tinyt-loader")} == threads


class Fails(Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise LookupError(f"no sample {index}")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_keeps_its_type_and_comes_in_its_place(workers: int) -> None:
    seen = []

    def run() -> None:
        for batch in DataLoader(Fails(), num_workers=workers):
            seen.append(batch.item())

    with pytest.raises(LookupError, match="no sample 2"):
        run()
    assert seen == [0, 1]


def test_going_on_after_an_error() -> None:
    batches = iter(DataLoader(Fails(), num_workers=2))
    seen: list[Any] = []
    for _ in range(6):
        try:
            seen.append(next(batches).item())
        except LookupError:
            seen.append("error")
    assert seen == [0, 1, "error", 3, 4, 5]
    assert list(batches) == []


def test_errors_of_the_setup() -> None:
    def fail(worker: int) -> None:
        raise OSError(f"worker {worker}")

    with pytest.raises(OSError, match="worker 0"):
        list(DataLoader(Noisy(), num_workers=2, worker_init_fn=fail))


def test_timeout() -> None:
    class Sleeps(Noisy):
        def __getitem__(self, index: int) -> Any:
            time.sleep(0.2)
            return index

    with pytest.raises(RuntimeError, match=r"timed out after 0\.05 seconds"):
        list(DataLoader(Sleeps(), num_workers=1, timeout=0.05, prefetch_factor=1))


def test_worker_info_and_init() -> None:
    seen = []

    def init(worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.end = 4 + worker  # type: ignore[attr-defined]
        seen.append((worker, info.id, info.num_workers, info.seed - worker))

    data = Count(100)
    loader = DataLoader(data, batch_size=None, num_workers=2, worker_init_fn=init, seed=1)
    assert sorted(loader) == [0, 1, 2, 3]
    assert data.end == 100
    assert get_worker_info() is None
    assert sorted(s[:3] for s in seen) == [(0, 0, 2), (1, 1, 2)]
    assert len({s[3] for s in seen}) == 1


def test_streams() -> None:
    loader = DataLoader(Count(7), batch_size=3)
    assert [b.tolist() for b in loader] == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3
    loader = DataLoader(Count(7), batch_size=3, drop_last=True)
    assert [b.tolist() for b in loader] == [[0, 1, 2], [3, 4, 5]]
    assert len(loader) == 2
    loader = DataLoader(Count(7), batch_size=2, num_workers=2)
    assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5]]
    loader = DataLoader(Count(3), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[0, 2], [1]]
    assert list(Count(2) + Count(1)) == [0, 1, 0]
    assert len(ChainDataset([Count(2), Count(1)])) == 3
    with pytest.raises(ValueError, match="IterableDataset"):
        DataLoader(Count(7), shuffle=True)
    with pytest.raises(TypeError, match="only supports IterableDataset"):
        list(ChainDataset([Noisy()]))


def test_concatenated_and_stacked() -> None:
    numbers, letters = TensorDataset(tinyt.arange(3)), Fails()
    both = numbers + letters
    assert isinstance(both, ConcatDataset)
    assert (len(both), both[1][0].item(), both[3], both[-1], both.cumulative_sizes) == (
        9,
        1,
        0,
        5,
        [3, 9],
    )
    with pytest.raises(IndexError, match="index 9 is out of range"):
        both[9]
    with pytest.raises(ValueError, match="empty"):
        ConcatDataset([])
    with pytest.raises(ValueError, match="IterableDataset"):
        ConcatDataset([Count(2)])
    assert StackDataset(Fails(), [10, 11, 12, 13, 14, 15])[1] == (1, 11)  # type: ignore[arg-type]
    named = StackDataset(a=Fails(), b=Fails())
    assert (named[5], len(named)) == ({"a": 5, "b": 5}, 6)
    with pytest.raises(ValueError, match=r"size mismatch between datasets, got \[6, 23\]"):
        StackDataset(Fails(), Noisy())
    with pytest.raises(ValueError, match="at least one"):
        StackDataset()


def test_subset_and_weighted_samplers() -> None:
    generator = tinyt.Generator().manual_seed(1)
    sampler = SubsetRandomSampler([5, 7, 9], generator)
    assert (sorted(sampler), len(sampler)) == ([5, 7, 9], 3)
    weighted = WeightedRandomSampler([0.0, 1.0, 3.0], 2000, generator=generator)
    counts = Counter(weighted)
    assert len(weighted) == 2000
    assert counts[0] == 0
    assert 2.4 < counts[2] / counts[1] < 3.7
    once = WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False, generator=generator)
    assert sorted(once) == [0, 1, 2]
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        WeightedRandomSampler([1.0], 0)
    with pytest.raises(ValueError, match=r"1d sequence.*\(1, 1\)"):
        WeightedRandomSampler([[1.0]], 1)  # type: ignore[list-item]


def test_default_convert() -> None:
    sample = {"a": np.ones(2), "b": ["text", (1, np.float64(2.0))]}
    converted = default_convert(sample)
    assert converted["a"].tolist() == [1.0, 1.0]
    assert converted["b"][0] == "text"
    assert converted["b"][1][1].item() == 2.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only"),
        ({"prefetch_factor": 0, "num_workers": 1}, "should be positive"),
        ({"persistent_workers": True}, "needs num_workers > 0"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(Noisy(), **options)


def test_what_a_loader_was_made_with_is_fixed():
    loader = DataLoader(range(4), batch_size=2)
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after"):
            setattr(loader, name, None)
    loader.collate_fn = sum
    assert list(loader) == [1, 5]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [1, 2])
def test_a_pass_goes_on_after_an_error(workers: int, size: int) -> None:
    """One bad sample costs its batch only."""

    class Bad(Dataset[Any]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> Any:
            if index == 3:
                raise ValueError("sample 3")
            return index

    batches = iter(DataLoader(Bad(), size, num_workers=workers))
    found: list[Any] = []
    while True:
        try:
            found.append(next(batches).tolist())
        except ValueError as error:
            found.append(str(error))
            del error
        except StopIteration:
            break
    want = [[0], [1], [2], "sample 3", [4], [5]] if size == 1 else [[0, 1], "sample 3", [4, 5]]
    assert found == want
    assert next(batches, None) is None


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_collate_and_of_a_stream(workers: int) -> None:
    def collate(samples: list[Any]) -> Any:
        if samples == [2]:
            raise ValueError("collate 2")
        return samples

    batches = iter(DataLoader(Count(4), 1, num_workers=workers, collate_fn=collate))
    assert [next(batches), next(batches)] == [[0], [1]]
    with pytest.raises(ValueError, match="collate 2"):
        next(batches)
    assert list(batches) == [[3]]
    assert list(batches) == []


def interrupted(step: int, run: Any) -> bool:
    """`interrupted_at` in the workers' module, but for what only ends the threads."""
    return interrupted_at(step, [workers], run, ("_stop", "close"))


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_an_interrupt_anywhere_leaves_the_next_pass_whole(in_order: bool, stream: bool) -> None:
    data: Any = Count(7) if stream else range(7)
    loader = DataLoader(
        data, 2, num_workers=2, persistent_workers=True, in_order=in_order, timeout=5
    )
    whole = [[0, 2], [1, 3], [4, 6], [5]] if stream else [[0, 1], [2, 3], [4, 5], [6]]
    step = 1
    while interrupted(step, lambda: list(loader)):
        found = [batch.tolist() for batch in loader]
        assert (found if in_order else sorted(found)) == (whole if in_order else sorted(whole))
        step += 1
    assert step > 40


def test_a_pass_goes_on_after_an_interrupt_anywhere() -> None:
    """An interrupt costs the batch that was taken and the index that was handed out at most."""
    step, going = 1, True
    while going:
        found: list[Any] = []
        batches = iter(DataLoader(range(20), 2, num_workers=2, timeout=5, prefetch_factor=1))
        going = interrupted(step, lambda b=batches, f=found: f.extend(map(Tensor.tolist, b)))
        found += [batch.tolist() for batch in batches]
        assert found == sorted(found)
        assert len(found) >= (8 if going else 10)
        step += 1
    assert step > 40


@pytest.mark.parametrize("in_order", [True, False])
def test_a_stream_that_cannot_start_costs_one_batch(in_order: bool) -> None:
    starts = itertools.count(1)

    class Fails(IterableDataset[Any]):
        def __iter__(self) -> Any:
            if next(starts) == 3:
                raise ValueError("third start")
            return iter(range(4))

    loader = DataLoader(
        Fails(), 2, num_workers=2, persistent_workers=True, in_order=in_order, timeout=5
    )
    errors = 0
    for _ in range(4):
        batches, found = iter(loader), []
        while True:
            try:
                found.append(next(batches).tolist())
            except ValueError:
                errors += 1
            except StopIteration:
                break
        assert sorted(found) == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert errors == 1


def test_a_worker_without_a_task_goes_on_when_the_others_have_ended() -> None:
    class Uneven(IterableDataset[Any]):
        def __iter__(self) -> Any:
            info = get_worker_info()
            assert info is not None
            if info.id == 0:
                yield from range(12)
            time.sleep(0.05)  # meanwhile all tasks come to this worker

    loader = DataLoader(Uneven(), None, num_workers=2, in_order=False, prefetch_factor=1)
    assert sorted(loader) == list(range(12))


def each_of(sample: Any) -> list[Any]:
    """What `sample(index)` gives in two workers, whose draws leave the main stream alone."""

    class Samples(Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return sample(index)

    tinyt.manual_seed(11)
    generator = tinyt.Generator().manual_seed(11)
    found = list(DataLoader(Samples(), None, num_workers=2, collate_fn=lambda x: x))
    tinyt.randint(2**62, (), generator=generator)  # what a pass draws
    assert tinyt.get_rng_state().tolist() == generator.get_state().tolist()
    return found


def test_the_default_generator_of_a_worker_is_its_own() -> None:
    def seeds(_: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return tinyt.initial_seed() == tinyt.default_generator.initial_seed() == info.seed

    def again(_: int) -> Any:
        state = tinyt.get_rng_state()
        first = tinyt.rand(3).tolist()
        tinyt.set_rng_state(state)
        return first == tinyt.rand(3).tolist()

    def newly_seeded(_: int) -> Any:
        seed = tinyt.seed()
        first = tinyt.rand(3).tolist()
        return (
            tinyt.manual_seed(seed) is tinyt.default_generator and first == tinyt.rand(3).tolist()
        )

    assert each_of(seeds) == each_of(again) == each_of(newly_seeded) == [True] * 4
    tinyt.manual_seed(5)
    want = tinyt.rand(3).tolist()
    assert (
        each_of(lambda _: tinyt.default_generator.manual_seed(5) and tinyt.rand(3).tolist())
        == [want] * 4
    )


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_in_a_worker_draws_the_same_again(reentrant: bool) -> None:
    """exp(2 x^2) where the mask is 1 has the slope 4 x exp(2 x^2), and 0 elsewhere."""

    def sample(_: int) -> Any:
        x = tinyt.ones(64).requires_grad_()
        y = checkpoint(
            lambda q: nn.functional.dropout(q * q, 0.5).exp(), x, use_reentrant=reentrant
        )
        y.sum().backward()
        assert x.grad is not None
        value = y.detach().numpy()
        return np.allclose(x.grad.numpy(), np.where(value > 1.5, 4 * value, 0))

    assert each_of(sample) == [True] * 4


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [None, 2])
def test_stop_iteration_of_a_sample_ends_the_pass(workers: int, size: int | None) -> None:
    class Stops(Dataset[Any]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            if index == 2:
                raise StopIteration
            return index

    loader = DataLoader(Stops(), size, num_workers=workers, persistent_workers=workers > 0)
    for _ in range(2):
        batches = iter(loader)
        found = list(batches)
        assert found == [0, 1] if size is None else [b.tolist() for b in found] == [[0, 1]]
        assert list(batches) == []
