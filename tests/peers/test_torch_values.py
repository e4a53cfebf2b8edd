"""Tensors from Python values and arrays, and Python's types as dtypes, as PyTorch has them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")

Case = Callable[[Any, Any], Any]


def names(tt: Any) -> SimpleNamespace:
    return SimpleNamespace(a=np.arange(6.0).reshape(2, 3))


# fmt: off
CASES: list[Case] = [
    lambda tt, n: tt.zeros(2, dtype=float),
    lambda tt, n: tt.zeros(2, dtype=int),
    lambda tt, n: tt.zeros(2, dtype=bool),
    lambda tt, n: tt.zeros(2, dtype=complex),
    lambda tt, n: tt.ones(2, dtype=float),
    lambda tt, n: tt.empty(2, dtype=float).dtype,
    lambda tt, n: tt.full((2,), 1, dtype=float),
    lambda tt, n: tt.full((2,), 1.0, dtype=int),
    lambda tt, n: tt.arange(3, dtype=float),
    lambda tt, n: tt.linspace(0, 1, 3, dtype=float),
    lambda tt, n: tt.logspace(0, 1, 3, dtype=float),
    lambda tt, n: tt.eye(2, dtype=float),
    lambda tt, n: tt.rand(2, dtype=float).dtype,
    lambda tt, n: tt.randn(2, dtype=float).dtype,
    lambda tt, n: tt.randint(3, (2,), dtype=float).dtype,
    lambda tt, n: tt.randperm(3, dtype=int).dtype,
    lambda tt, n: tt.zeros_like(tt.ones(2), dtype=int),
    lambda tt, n: tt.ones_like(tt.ones(2), dtype=float),
    lambda tt, n: tt.full_like(tt.ones(2), 3, dtype=int),
    lambda tt, n: tt.rand_like(tt.ones(2), dtype=float).dtype,
    lambda tt, n: tt.empty_like(tt.ones(2), dtype=float).dtype,
    lambda tt, n: tt.tensor([1, 2], dtype=float),
    lambda tt, n: tt.tensor([1.5, 2], dtype=int),
    lambda tt, n: tt.tensor([1, 0], dtype=bool),
    lambda tt, n: tt.tensor([1, 0], dtype=complex),
    lambda tt, n: tt.as_tensor([1, 2], dtype=float),
    lambda tt, n: tt.as_tensor(n.a, dtype=int),
    lambda tt, n: tt.asarray([1, 2], dtype=float),
    lambda tt, n: tt.ones(2).to(int),
    lambda tt, n: tt.ones(2).to(float),
    lambda tt, n: tt.ones(2).to(dtype=float),
    lambda tt, n: tt.ones(2).to('cpu', float),
    lambda tt, n: tt.ones(2).new_zeros(2, dtype=float),
    lambda tt, n: tt.ones(2).new_tensor([1], dtype=int),
    lambda tt, n: tt.ones(2).sum(dtype=float),
    lambda tt, n: tt.ones(2).mean(dtype=float),
    lambda tt, n: tt.ones(2).prod(dtype=int),
    lambda tt, n: tt.ones(2).cumsum(0, dtype=float),
    lambda tt, n: tt.sum(tt.ones(2), dtype=int),
    lambda tt, n: tt.nn.functional.softmax(tt.ones(2), 0, dtype=float),
    lambda tt, n: tt.ones(2).softmax(0, dtype=float),
    lambda tt, n: tt.nn.functional.log_softmax(tt.ones(2), 0, dtype=float),
    lambda tt, n: tt.nn.Linear(2, 2, dtype=float).weight.dtype,
    lambda tt, n: tt.nn.Conv2d(1, 1, 1, dtype=float).weight.dtype,
    lambda tt, n: tt.nn.Embedding(2, 2, dtype=float).weight.dtype,
    lambda tt, n: tt.nn.Linear(2, 2).to(float).weight.dtype,
    lambda tt, n: tt.nn.Linear(2, 2).to(dtype=float).weight.dtype,
    lambda tt, n: tt.finfo(float),
    lambda tt, n: tt.iinfo(int),
    lambda tt, n: tt.can_cast(float, int),
    lambda tt, n: tt.promote_types(float, tt.float32),
    lambda tt, n: tt.ones(2).view(dtype=int),
    lambda tt, n: tt.tril_indices(2, 2, dtype=int),
    lambda tt, n: tt.tensor([1.0, tt.tensor(2.0)]),
    lambda tt, n: tt.tensor([1, tt.tensor(2.5)]),
    lambda tt, n: tt.tensor([tt.tensor(2.5), 1]),
    lambda tt, n: tt.tensor([tt.tensor(2), 1.5]),
    lambda tt, n: tt.tensor([[1, tt.tensor(2)], [3, 4]]),
    lambda tt, n: tt.tensor([[1.0, 2.0], tt.tensor([3.0, 4.0])]),
    lambda tt, n: tt.tensor([np.float64(1), 2]),
    lambda tt, n: tt.tensor([1, np.float32(2)]),
    lambda tt, n: tt.tensor([np.array([1.5, 2]), [1, 2]]),
    lambda tt, n: tt.tensor([[1, 2], np.array([1.5, 2])]),
    lambda tt, n: tt.tensor([np.int32(1), 2]),
    lambda tt, n: tt.tensor([np.bool_(True), False]),
    lambda tt, n: tt.tensor([True, 2]),
    lambda tt, n: tt.tensor([1, 2.5, True]),
    lambda tt, n: tt.tensor([1, 2j]),
    lambda tt, n: tt.tensor([tt.tensor([1.0]), tt.tensor([2.0])]),
    lambda tt, n: tt.tensor([tt.tensor([[1.0]]), 2]),
    lambda tt, n: tt.tensor([[tt.tensor(1), 2.5], [3, tt.tensor(4.0)]]),
    lambda tt, n: tt.tensor((tt.tensor(1.0, dtype=tt.float64),)),
    lambda tt, n: tt.tensor([tt.tensor(1, dtype=tt.int8)]),
    lambda tt, n: tt.tensor([np.float32(1)]),
    lambda tt, n: tt.tensor([np.array([1, 2], dtype=np.float32)]),
    lambda tt, n: tt.tensor([np.array([1, 2], dtype=np.int16)]),
    lambda tt, n: tt.tensor([tt.tensor(1.0, requires_grad=True), 2.0]),
    lambda tt, n: tt.tensor([tt.tensor(True), 1]),
    lambda tt, n: tt.tensor(range(3)),
    lambda tt, n: tt.tensor([range(3), range(3)]),
    lambda tt, n: tt.tensor(np.float64(3)),
    lambda tt, n: tt.tensor(np.array(3)),
    lambda tt, n: tt.tensor([]),
    lambda tt, n: tt.tensor([[], []]),
    lambda tt, n: tt.Tensor(n.a),
    lambda tt, n: tt.Tensor(n.a.astype(int)),
    lambda tt, n: tt.Tensor([1, 2]),
    lambda tt, n: tt.Tensor(2, 3).shape,
    lambda tt, n: tt.Tensor(tt.tensor([1, 2])),
    lambda tt, n: tt.Tensor(tt.tensor([1.0, 2.0])),
    lambda tt, n: tt.Tensor(tt.Size([2])).shape,
    lambda tt, n: tt.Tensor((1, 2)),
    lambda tt, n: tt.Tensor(3).shape,
    lambda tt, n: tt.Tensor(np.int64(3)).shape,
    lambda tt, n: tt.Tensor(range(3)),
    lambda tt, n: tt.Tensor([[1, 2], [3, 4]]),
    lambda tt, n: tt.Tensor([tt.tensor(1.0), tt.tensor(2.0)]),
    lambda tt, n: tt.Tensor([np.array([1, 2]), np.array([1, 2])]),
    lambda tt, n: tt.Tensor([True]),
    lambda tt, n: tt.Tensor(n.a.astype(np.float32)),
    lambda tt, n: tt.Tensor().shape,
    lambda tt, n: tt.Tensor(2, 3, device='cpu').shape,
    lambda tt, n: tt.Tensor([1, 2], device='cpu'),
    lambda tt, n: tt.FloatTensor([1, 2], device='cpu'),
    lambda tt, n: tt.FloatTensor(2, device='cpu').shape,
    lambda tt, n: tt.FloatTensor(n.a),
    lambda tt, n: tt.FloatTensor(n.a.astype(np.float32)),
    lambda tt, n: tt.LongTensor(n.a.astype(int)),
    lambda tt, n: tt.LongTensor(n.a),
    lambda tt, n: tt.LongTensor([1.5]),
    lambda tt, n: tt.FloatTensor(tt.tensor([1.0])),
    lambda tt, n: tt.FloatTensor((2, 3)),
    lambda tt, n: tt.LongTensor(tt.Size([2])).shape,
    lambda tt, n: tt.LongTensor(np.int64(2)).shape,
    lambda tt, n: tt.LongTensor([np.int64(1), tt.tensor(2)]),
    lambda tt, n: tt.BoolTensor([1, 0]),
    lambda tt, n: tt.ByteTensor([1, 0]),
    lambda tt, n: tt.FloatTensor([[1, 2], [3, 4]]),
    lambda tt, n: tt.FloatTensor([tt.tensor(1.0)]),
    lambda tt, n: tt.from_numpy(n.a),
    lambda tt, n: tt.tensor([1, 2], device='cpu', requires_grad=False),
    lambda tt, n: tt.tensor([1.0, 2.0], requires_grad=True),
    lambda tt, n: tt.tensor(tt.ones(2), dtype=int),
    lambda tt, n: tt.tensor(data=[1, 2]),
    lambda tt, n: tt.tensor(float('nan')),
    lambda tt, n: tt.tensor([[np.ones(2), np.ones(2)]]),
    lambda tt, n: tt.tensor([tt.ones(2).numpy(), tt.zeros(2)]),
    lambda tt, n: tt.as_tensor([tt.tensor(1), 2]),
    lambda tt, n: tt.as_tensor(3),
    lambda tt, n: tt.as_tensor(tt.ones(2), dtype=int),
    lambda tt, n: tt.as_tensor(np.float32(2)),
    lambda tt, n: tt.as_tensor(np.array(2.0)),
]
# fmt: on


def answer(tt: Any, case: Case) -> str:
    """What a call gives, printed; its warnings are another matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repr(case(tt, names(tt))).replace("tinyt", "torch")


def text(case: Case) -> str:
    """The source of a case."""
    return inspect.getsource(case).strip().removeprefix("lambda tt, n: ").removesuffix(",")


@pytest.mark.parametrize("case", CASES, ids=text)
def test_as_pytorch(case: Case) -> None:
    assert answer(tinyt, case) == answer(torch, case)


SHAPES = [(), (1,), (3,), (2, 3), (0, 2), (2, 1, 3)]
NAMES = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_tensors_of_pytorch(name: str, shape: tuple[int, ...]) -> None:
    theirs = torch.arange(6).reshape(2, 3)[..., : max(shape[-1:], default=1)]
    theirs = theirs.reshape(-1)[:1].expand(shape) if shape else theirs[0, 0]
    theirs = theirs.to(getattr(torch, name))
    for ours in (tinyt.tensor(theirs), tinyt.as_tensor(theirs), tinyt.asarray(theirs)):
        assert ours.dtype is getattr(tinyt, name)
        assert tuple(ours.shape) == shape
        assert ours.tolist() == theirs.tolist()
    assert tinyt.Tensor(theirs.real.float()).tolist() == theirs.real.float().tolist()


def test_memory_of_pytorch() -> None:
    theirs = torch.arange(6.0).reshape(2, 3).t()
    shared, copied = tinyt.as_tensor(theirs), tinyt.tensor(theirs)
    theirs[0, 1] = 9.0
    assert shared.tolist() == theirs.tolist() != copied.tolist()
    assert shared.stride() == theirs.stride()
    leaf = torch.ones(2, requires_grad=True)
    assert tinyt.tensor(leaf).tolist() == [1.0, 1.0]
    assert not tinyt.tensor(leaf).requires_grad
    assert tinyt.tensor([leaf.detach(), [3, 4]]).tolist() == [[1.0, 1.0], [3.0, 4.0]]
    assert tinyt.tensor([torch.tensor(2.5), 1]).tolist() == [2.5, 1.0]


def state_of(tt: Any) -> Any:
    return tt.nn.Sequential(tt.nn.Linear(3, 4), tt.nn.BatchNorm1d(4), tt.nn.Linear(4, 1))


@pytest.mark.parametrize("assign", [False, True])
def test_state_dict_of_pytorch(assign: bool) -> None:
    theirs, ours = state_of(torch), state_of(tinyt)
    theirs(torch.randn(5, 3)).sum().backward()
    keys = ours.load_state_dict(theirs.state_dict(keep_vars=True), assign=assign)
    assert not any(keys)
    for name, value in theirs.state_dict().items():
        assert ours.state_dict()[name].tolist() == value.tolist()
        assert type(ours.state_dict()[name]).__module__ == "tinyt.tensor"
    assert all(isinstance(p, tinyt.nn.Parameter) for p in ours.parameters())
    broken = {**theirs.state_dict(), "0.weight": torch.ones(2, 2)}
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.weight"):
        ours.load_state_dict(broken)


@pytest.fixture(scope="module")
def loaded() -> None:
    """What PyTorch's optimisers import at their first step keeps the frames below it alive."""
    param = torch.nn.Parameter(torch.zeros(1))
    param.grad = torch.ones(1)
    torch.optim.SGD([param]).step()


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("kind", ["Adam", "SGD", "Rprop", "ASGD", "LBFGS"])
def test_optimizer_state_of_pytorch(kind: str) -> None:
    def steps(tt: Any, net: Any, optimizer: Any, count: int) -> list[float]:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = (net(tt.tensor([[1.0, 2.0, -1.0]], dtype=tt.float64)) ** 2).sum()
            loss.backward()
            return loss

        return [optimizer.step(closure).item() for _ in range(count)]

    options: dict[str, Any] = {"momentum": 0.9} if kind == "SGD" else {}
    options |= {"max_iter": 2} if kind == "LBFGS" else {}
    theirs = torch.nn.Linear(3, 2, dtype=torch.float64)
    first = getattr(torch.optim, kind)(theirs.parameters(), lr=0.01, **options)
    steps(torch, theirs, first, 3)
    ours = tinyt.nn.Linear(3, 2, dtype=tinyt.float64)
    second = getattr(tinyt.optim, kind)(ours.parameters(), lr=0.01, **options)
    ours.load_state_dict(theirs.state_dict())
    second.load_state_dict(first.state_dict())
    np.testing.assert_allclose(
        steps(tinyt, ours, second, 4), steps(torch, theirs, first, 4), rtol=1e-12
    )
