"""Every allocation of every operation fails once: an OutOfMemoryError, and nothing left alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from op_rows import Op
from op_samples import OPS
from sampling import assert_same_bits, build, flat
from tinyt import memory, nn, optim

pytestmark = pytest.mark.host
FIRST_SAMPLES = 4  # of an operation: the rest takes the same ways


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    memory.fail_nth_allocation(0)


def assert_fails_cleanly(call: Callable[[], Any], what: str) -> None:
    """The result after all failures is that of an undisturbed call."""
    want = list(flat(call()))
    for n in count(1):
        before = memory.live_tensors(), memory.statistics()["live_blocks"]
        memory.fail_nth_allocation(n)
        try:
            found = call()
        except tinyt.OutOfMemoryError:
            found = None
        finally:
            memory.fail_nth_allocation(0)
        if found is not None:
            break
        after = memory.live_tensors(), memory.statistics()["live_blocks"]
        assert after == before, f"{what}, allocation {n}"
    for got, expected in zip(flat(found), want, strict=True):
        assert_same_bits(got, expected, what)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op(op: Op, rng: np.random.Generator) -> None:
    for number, sample in zip(range(FIRST_SAMPLES), op.samples(rng, op.dtypes[0]), strict=False):
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)

        def call(args: Any = args, kwargs: Any = kwargs) -> Any:
            tinyt.manual_seed(0)
            return op.function(tinyt)(*args, **kwargs)

        assert_fails_cleanly(call, f"{op.name} sample {number}")


# Kernels that take scratch memory, at sizes where several threads do.
LARGE: dict[str, Callable[[], Callable[[], Any]]] = {
    "sum": lambda: tinyt.randn(300_001).sum,
    "column sums": lambda: (lambda x: lambda: x.sum(0))(tinyt.randn(3000, 130)),
    "var": lambda: (lambda x: lambda: x.var((0, 2)))(tinyt.randn(30, 9, 800)),
    "sort": lambda: (lambda x: lambda: x.sort())(tinyt.randn(200_001)),
    "sort of rows": lambda: (lambda x: lambda: x.sort(1))(tinyt.randn(64, 3000)),
    "topk": lambda: (lambda x: lambda: x.topk(50))(tinyt.randn(8, 20_000)),
    "median": lambda: tinyt.randn(100_001).median,
    "cumsum": lambda: (lambda x: lambda: x.cumsum(0))(tinyt.randn(200_001)),
    "nonzero": lambda: (lambda x: lambda: (x > 0).nonzero())(tinyt.randn(300, 401)),
    "softmax of columns": lambda: (lambda x: lambda: x.softmax(0))(tinyt.randn(300, 401)),
    "matmul": lambda: (lambda x: lambda: x @ x)(tinyt.randn(300, 300)),
    "transposed matmul": lambda: (lambda x: lambda: x.t() @ x)(tinyt.randn(700, 130)),
    "long inner dimension": lambda: (lambda x: lambda: x @ x.t())(tinyt.randn(4, 50_000)),
    "bfloat16 matmul": lambda: (lambda x: lambda: (x @ x).float())(
        tinyt.randn(300, 300).to(tinyt.bfloat16)
    ),
    "float16 matmul": lambda: (lambda x: lambda: x @ x.t())(
        tinyt.randn(300, 300).to(tinyt.float16)
    ),
    "conv 3x3": lambda: (lambda x, w: lambda: F.conv2d(x, w, padding=1))(
        tinyt.randn(4, 32, 28, 28), tinyt.randn(32, 32, 3, 3)
    ),
    "conv 5x5": lambda: (lambda x, w: lambda: F.conv2d(x, w, stride=2))(
        tinyt.randn(4, 32, 28, 28), tinyt.randn(40, 32, 5, 5)
    ),
    "depthwise": lambda: (lambda x, w: lambda: F.conv2d(x, w, groups=32))(
        tinyt.randn(4, 32, 28, 28), tinyt.randn(32, 1, 3, 3)
    ),
    "bfloat16 conv": lambda: (lambda x, w: lambda: F.conv2d(x, w, padding=1).float())(
        tinyt.randn(4, 32, 28, 28).to(tinyt.bfloat16), tinyt.randn(32, 32, 3, 3).to(tinyt.bfloat16)
    ),
    "attention": lambda: (
        lambda x: lambda: F.scaled_dot_product_attention(x, x, x, is_causal=True)
    )(tinyt.randn(2, 4, 300, 32)),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", LARGE)
def test_large(name: str, threads: int) -> None:
    tinyt.set_num_threads(threads)
    assert_fails_cleanly(LARGE[name](), name)


GRADIENTS: dict[str, Callable[..., Any]] = {
    "conv 3x3": lambda x, w: F.conv2d(x, w.view(16, 16, 3, 3), padding=1),
    "conv 3x3 /2": lambda x, w: F.conv2d(x, w.view(16, 16, 3, 3), stride=2),
    "layer_norm": lambda x, w: F.layer_norm(x, (20,), w.view(-1)[:20]),
    "group_norm": lambda x, w: F.group_norm(x, 4, w.view(-1)[:16]),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w.view(-1)[:16], training=True),
    "attention": lambda x, w: F.scaled_dot_product_attention(x, x, x * w.sum()),
    "linear": lambda x, w: F.linear(x, w.view(-1)[:60].view(3, 20)),
    "max_pool": lambda x, w: F.max_pool2d(x, 2) * w.sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    x, w = tinyt.randn(4, 16, 20, 20), tinyt.randn(16 * 16 * 9)

    def call() -> Any:
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        GRADIENTS[name](*leaves).square().sum().backward()
        return [leaf.grad for leaf in leaves]

    assert_fails_cleanly(call, name)


LAZY: dict[str, Callable[..., Any]] = {
    "region": lambda x, w: (x * 2 + 1).exp().sum(0),
    "product": lambda x, w: (x @ w + 1).relu(),
    "several": lambda x, w: (x.cumsum(0) * 2, (x @ w).softmax(1).sum()),
    "written": lambda x, w: x.clone().add_(1).mul_(w.sum()),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_programs(name: str) -> None:
    """A failure that was asked for is one of a lazy program, too, which would run one by one."""
    x, w = tinyt.randn(70, 50), tinyt.randn(50, 50)

    def call() -> Any:
        with tinyt.lazy():
            return LAZY[name](x, w)

    call()
    memory.fail_nth_allocation(1)
    with pytest.raises(tinyt.OutOfMemoryError):
        call()
    assert_fails_cleanly(call, name)


def states(parameters: Any, optimizer: Any) -> list[Any]:
    kept = [p.tolist() for p in parameters]
    for p in parameters:
        kept += [v.tolist() for v in optimizer.state[p].values() if isinstance(v, tinyt.Tensor)]
    return kept


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
}
# What a step returns, computed after the update: of the gradient, and of the new values.
RETURNED: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda p, q: None,
    "norms": lambda p, q: (p.grad.norm(), q.grad.abs().amax(0)),
    "gradient": lambda p, q: p.grad.sum(),
    "product": lambda p, q: (p.grad * 2, q * 3),
    "new values": lambda p, q: p + q,
    # Kernels that take memory for themselves, after the update.
    "new product": lambda p, q: p.t() @ q,
    "new sum": lambda p, q: p.sum(),
    "new largest": lambda p, q: (p * q).amax(),
    "new columns of halves": lambda p, q: (p.half() * q.half()).sum(0),
    "new tiles": lambda p, q: (p.bfloat16().t() + q.double().t()).exp(),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_step_of_equal_gradients(name: str, returned: str, threads: int) -> None:
    """One value is the gradient of both parameters: a run takes all memory before it writes."""
    tinyt.set_num_threads(threads)
    p, q = (nn.Parameter(tinyt.ones(70, 1000)) for _ in range(2))
    optimizer = OPTIMIZERS[name]([p, q])

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        ((p + q) * x).sum().backward()
        optimizer.step()
        return RETURNED[returned](p, q)

    x, program = tinyt.randn(70, 1000), tinyt.compile(step)
    for _ in range(3):
        program(x)
    for n in count(1):
        before = states((p, q), optimizer)
        memory.fail_nth_allocation(n)
        try:
            program(x)
        except tinyt.OutOfMemoryError:
            failed = True
        else:
            failed = False
        finally:
            memory.fail_nth_allocation(0)
        assert (states((p, q), optimizer) == before) == failed, f"allocation {n}"
        if not failed:
            break
