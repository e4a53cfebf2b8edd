"""`tinyt.distributed` in one process, DistributedDataParallel and DistributedSampler."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import tinyt
from tinyt import distributed as dist
from tinyt import nn
from tinyt.nn.parallel import DataParallel, DistributedDataParallel
from tinyt.utils.data import DataLoader
from tinyt.utils.data.distributed import DistributedSampler

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def world() -> None:
    dist.init_process_group("gloo")


def test_a_group_begins_and_ends() -> None:
    assert not dist.is_available()
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.all_reduce(tinyt.ones(1))
    dist.init_process_group("GLOO", timeout=timedelta(seconds=1))
    assert dist.is_initialized()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo")
    dist.destroy_process_group()
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"backend": "cpu:gloo"},
        {"backend": "fake"},
        {"init_method": "env://"},
        {"init_method": "tcp://localhost:12345", "rank": 0, "world_size": 1},
        {"init_method": "tcp://localhost:12345?rank=0&world_size=1"},
        {"store": dist.HashStore(), "rank": 0, "world_size": 1},
    ],
)
def test_ways_to_begin(options: dict[str, Any]) -> None:
    dist.init_process_group(**options)
    assert dist.get_world_size() == 1


def test_variables_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("LOCAL_RANK", "0")
    dist.init_process_group()
    assert dist.get_node_local_rank() == 0
    dist.destroy_process_group()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(RuntimeError, match=r"world size 2 and rank 1; tinyt runs in one process"):
        dist.init_process_group()
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ValueError, match="RANK must be an int, got 'one'"):
        dist.init_process_group()


def test_misuse() -> None:
    with pytest.raises(RuntimeError, match="world size 4"):
        dist.init_process_group("gloo", world_size=4, rank=0)
    with pytest.raises(ValueError, match="'carrier pigeon' is none of"):
        dist.init_process_group("carrier pigeon")
    with pytest.raises(RuntimeError, match="http"):
        dist.init_process_group("gloo", init_method="http://x")
    for backend in ("nccl", "MPI", "ucc", "xccl", "cpu:gloo,cuda:nccl"):
        with pytest.raises(RuntimeError, match=r"doesn't have \w+ built in"):
            dist.init_process_group(backend)
    assert not dist.is_initialized()


@pytest.mark.usefixtures("world")
def test_collectives_are_identities() -> None:
    x = tinyt.tensor([[1.0, 2.0], [3.0, 4.0]])
    for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX"):
        assert dist.all_reduce(x, getattr(dist.ReduceOp, op)) is None
    dist.reduce(x, dst=0)
    dist.broadcast(x, src=0)
    dist.barrier()
    dist.monitored_barrier()
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]

    def empty() -> tinyt.Tensor:
        return tinyt.zeros(2, 2)

    lists = [[empty()] for _ in range(4)]
    dist.all_gather(lists[0], x)
    dist.gather(x, lists[1], dst=0)
    dist.all_to_all(lists[2], [x])
    singles = [empty() for _ in range(5)]
    dist.scatter(singles[0], [x], src=0)
    dist.reduce_scatter(singles[1], [x])
    dist.reduce_scatter_tensor(singles[2], x)
    dist.all_gather_into_tensor(singles[3], x)
    dist.all_to_all_single(singles[4], x, [2], [2])
    for found in (*(x[0] for x in lists[:3]), *singles):
        assert tinyt.equal(found, x)
        assert found is not x


@pytest.mark.usefixtures("world")
def test_work_is_done_at_once() -> None:
    x = tinyt.ones(2)
    work = dist.all_reduce(x, async_op=True)
    assert isinstance(work, dist.Work)
    assert work.wait()
    assert work.is_completed()
    assert work.result() == [x]
    assert work.get_future().then(lambda f: f.wait()[0]).value() is x
    assert dist.barrier(async_op=True).wait()
    assert dist.batch_isend_irecv([]) == []


@pytest.mark.usefixtures("world")
def test_objects() -> None:
    given = {"a": [1, 2]}
    slots: list[Any] = [None]
    dist.all_gather_object(slots, given)
    assert slots == [given]
    assert slots[0] is not given
    gathered: list[Any] = [None]
    dist.gather_object(given, gathered)
    scattered: list[Any] = [None]
    dist.scatter_object_list(scattered, [given], src=0)
    assert gathered == scattered == [given]
    dist.broadcast_object_list(gathered, src=0)
    assert gathered == [given]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: dist.broadcast(x, src=1), ValueError, "rank 1"),
        (lambda x: dist.all_gather([x, x], x), ValueError, "got 2"),
        (lambda x: dist.all_gather(x, x), TypeError, "list of tensors"),
        (lambda x: dist.all_gather([tinyt.ones(3)], x), ValueError, "shape"),
        (lambda x: dist.all_gather([x.double()], x), TypeError, "dtype"),
        (lambda x: dist.all_reduce([x]), TypeError, "got list"),
        (lambda x: dist.all_reduce(x, "sum"), TypeError, "ReduceOp"),
        (lambda x: dist.gather(x), ValueError, "gather_list"),
        (lambda x: dist.scatter(x), ValueError, "scatter_list"),
        (lambda x: dist.send(x, 1), ValueError, "rank 1"),
        (lambda x: dist.recv(x), ValueError, "no process but this one"),
        (lambda x: dist.new_group([0, 1]), ValueError, "rank 1"),
        (lambda x: dist.get_rank("group"), ValueError, "Invalid process group"),
        (lambda x: dist.all_to_all_single(x, x, [1, 1]), RuntimeError, "split sizes"),
    ],
)
def test_arguments_are_checked(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(tinyt.ones(2))


@pytest.mark.usefixtures("world")
def test_groups() -> None:
    one = dist.new_group([0])
    assert dist.get_world_size(one) == one.size() == 1
    assert dist.get_process_group_ranks(one) == [0]
    assert dist.get_group_rank(one, 0) == dist.get_global_rank(one, 0) == 0
    dist.all_reduce(tinyt.ones(1), group=one)
    nobody = dist.new_group([])
    assert nobody == dist.GroupMember.NON_GROUP_MEMBER
    assert dist.get_rank(nobody) == -1
    assert dist.all_reduce(tinyt.ones(1), group=nobody) is None
    dist.destroy_process_group(one)
    with pytest.raises(ValueError, match="Invalid process group"):
        dist.get_rank(one)
    assert dist.group.WORLD is not None
    assert dist.get_rank(dist.group.WORLD) == 0


def test_store() -> None:
    store = dist.HashStore()
    store.set("a", "1")
    assert (store.get("a"), store.add("a", 3), store.num_keys()) == (b"1", 4, 1)
    assert store.check(["a"])
    assert store.delete_key("a")
    assert not store.delete_key("a")
    with pytest.raises(RuntimeError, match="no value under 'a'"):
        store.wait(["a"])


@pytest.mark.usefixtures("world")
def test_collectives_with_gradients() -> None:
    import tinyt.distributed.nn as dist_nn

    x = tinyt.ones(2, requires_grad=True)
    total = sum(y.sum() for y in dist_nn.all_gather(x)) + 2 * dist_nn.all_reduce(x).sum()
    total.backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_needs_several_processes() -> None:
    from tinyt.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    assert not isinstance(nn.Linear(1, 1), FullyShardedDataParallel)
    assert ShardingStrategy.NO_SHARD.value == 3
    assert dist.fsdp.MixedPrecision(param_dtype=tinyt.float32).param_dtype is tinyt.float32
    with pytest.raises(NotImplementedError, match=r"distributed\.fsdp\..*nothing to shard"):
        FullyShardedDataParallel(nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="device_mesh"):
        dist.init_device_mesh("cpu", (1,))
    parameters = nn.Linear(2, 2).parameters()
    optimizer = dist.optim.ZeroRedundancyOptimizer(parameters, tinyt.optim.Adam, lr=0.5)
    assert isinstance(optimizer, tinyt.optim.Adam)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_record_decorator() -> None:
    from tinyt.distributed.elastic.multiprocessing.errors import record

    assert record(test_store) is test_store


# DistributedDataParallel -------------------------------------------------------------------------


def test_ddp_needs_a_group() -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 2))


@pytest.mark.usefixtures("world")
def test_ddp_is_the_module() -> None:
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model = DistributedDataParallel(plain)
    assert model.module is plain
    assert list(model.state_dict()) == [f"module.{name}" for name in plain.state_dict()]
    x = tinyt.randn(5, 3)
    plain.eval()
    assert tinyt.equal(model(x), plain(x))
    with model.no_sync():
        assert not model.require_backward_grad_sync
        model(x).sum().backward()
    assert model.require_backward_grad_sync
    with model.join():
        pass
    assert all(p.grad is not None for p in plain.parameters())
    model.load_state_dict(DataParallel(plain).state_dict())
    model.register_comm_hook(None, lambda state, bucket: None)


@pytest.mark.usefixtures("world")
def test_ddp_checks_as_pytorch() -> None:
    with pytest.raises(RuntimeError, match="any parameter that requires a gradient"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids"):
        DistributedDataParallel(nn.Linear(1, 1), device_ids=[0])


@pytest.mark.usefixtures("world")
def test_ddp_step_compiles_to_the_same_bits() -> None:
    def train(compiled: bool) -> list[list[float]]:
        tinyt.manual_seed(0)
        model = DistributedDataParallel(nn.Linear(3, 2))
        optimizer = tinyt.optim.SGD(model.parameters(), lr=0.1)

        def step(x: tinyt.Tensor) -> tinyt.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            average = loss.detach().clone()
            dist.all_reduce(average, dist.ReduceOp.AVG)
            return average

        run = tinyt.compile(step) if compiled else step
        for i in range(4):
            run(tinyt.full((2, 3), i + 1.0))
        return model.module.weight.tolist()

    assert train(True) == train(False)


# DistributedSampler ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5, 12, 13])
@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_parts_of_a_sampler(count: int, replicas: int, drop_last: bool, shuffle: bool) -> None:
    if drop_last and count < replicas:
        pytest.skip("nothing is left")
    parts = []
    for rank in range(replicas):
        sampler = DistributedSampler(
            range(count), replicas, rank, shuffle=shuffle, seed=3, drop_last=drop_last
        )
        parts.append(list(sampler))
        assert len(parts[-1]) == len(sampler)
    flat = [part[i] for i in range(len(parts[0])) for part in parts]
    if drop_last:
        assert len(flat) == len(set(flat)) == count - count % replicas
    else:
        assert set(flat) == set(range(count))
        assert flat[count:] == (flat[:count] * replicas)[: len(flat) - count]
    order = flat[:count]
    if shuffle:
        stream = tinyt.Generator().manual_seed(3)
        assert order == tinyt.randperm(count, generator=stream).tolist()[: len(order)]
    else:
        assert order == sorted(order)


def test_epochs_of_a_sampler() -> None:
    sampler = DistributedSampler(range(20), 2, 0, seed=1)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    second = list(sampler)
    assert second != first
    other = DistributedSampler(range(20), 2, 0, seed=2)
    assert list(other) == second  # seed and epoch are added, as in PyTorch


def test_sampler_of_the_group() -> None:
    with pytest.raises(ValueError, match="has not been initialized"):
        DistributedSampler(range(4))
    with pytest.raises(ValueError, match=r"Invalid rank 2.*\[0, 1\]"):
        DistributedSampler(range(4), 2, 2)
    dist.init_process_group("gloo")
    data = tinyt.utils.data.TensorDataset(tinyt.arange(6))
    sampler = tinyt.utils.data.DistributedSampler(data, shuffle=False)
    batches = [batch.tolist() for (batch,) in DataLoader(data, batch_size=4, sampler=sampler)]
    assert batches == [[0, 1, 2, 3], [4, 5]]
