"""Python on a device whose memory the host cannot read: run by `tests/unit/test_devices.py`, in a
process of its own, with the library's path in HOST2."""

import os

import numpy as np
import pytest

import tinyt
from tinyt import nn

NAME = tinyt.backends.load(os.environ["HOST2"])
PLACE = tinyt.device("host2:1")


def same(x, expected):
    assert x.device == PLACE
    np.testing.assert_array_equal(x.detach().cpu().numpy(), np.asarray(expected))


def test_its_name():
    assert NAME == "host2"
    assert tinyt.device("hidden", 1) == PLACE  # an alias
    assert tinyt.ones(1, device="host2").device == tinyt.device("host2:0")
    with pytest.raises(
        RuntimeError, match=r"'host2:2' is not available; .*: cpu, host2:0, host2:1"
    ):
        tinyt.ones(1, device="host2:2")
    with pytest.raises(ValueError, match="already"):
        tinyt.backends.load(os.environ["HOST2"])


def test_what_makes_tensors():
    for make in (tinyt.zeros, tinyt.ones, tinyt.empty, tinyt.rand, tinyt.randn):
        assert make(2, 3, device=PLACE).device == PLACE
        assert make(2, 3).device == tinyt.device("cpu")
    same(tinyt.arange(5, device=PLACE), np.arange(5))
    same(tinyt.full((2,), 3.5, device="host2:1"), [3.5, 3.5])
    same(tinyt.tensor([[1, 2], [3, 4]], device=PLACE), [[1, 2], [3, 4]])
    same(tinyt.eye(3, device=PLACE), np.eye(3, dtype=np.float32))
    same(tinyt.linspace(0, 1, 5, device=PLACE), np.linspace(0, 1, 5, dtype=np.float32))
    x = tinyt.ones(2, device=PLACE)
    same(tinyt.zeros_like(x), [0, 0])
    same(x.new_zeros(3), [0, 0, 0])
    assert tinyt.empty_like(x).device == PLACE
    assert x.new_empty(3).device == PLACE
    image = tinyt.zeros(1, 2, 3, 3, device=PLACE)
    assert tinyt.zeros_like(image, memory_format=tinyt.channels_last).device == PLACE
    assert tinyt.zeros_like(x, device="cpu").device == tinyt.device("cpu")
    tinyt.manual_seed(3)
    there = tinyt.rand(7, device=PLACE)
    tinyt.manual_seed(3)
    same(there, tinyt.rand(7).numpy())


def test_blocks_and_defaults():
    with PLACE:
        same(tinyt.tensor([1.0, 2.0]), [1, 2])
        with tinyt.device("cpu"):
            assert tinyt.zeros(1).device == tinyt.device("cpu")
        assert tinyt.zeros(1).device == PLACE
        assert tinyt.empty(1).device == PLACE
        assert {p.device for p in nn.Linear(2, 2).parameters()} == {PLACE}
        assert tinyt.get_default_device() == PLACE
    assert tinyt.zeros(1).device == tinyt.device("cpu")
    tinyt.set_default_device("host2:1")
    try:
        assert tinyt.zeros(1).device == PLACE
    finally:
        tinyt.set_default_device(None)
    assert tinyt.zeros(1).device == tinyt.device("cpu")


def test_moves():
    x = tinyt.arange(12.0).reshape(3, 4)
    same(x.to(PLACE), x.numpy())
    same(x.t().to(PLACE), x.t().numpy())
    same(x.to(PLACE).t().contiguous(), x.t().numpy())
    same(x.to(PLACE, tinyt.float64), x.numpy())
    assert x.to("cpu") is x
    y = x.to(PLACE)
    assert y.to(PLACE) is y
    assert y.to("host2:0").device == tinyt.device("host2:0")
    assert y.cpu().device == tinyt.device("cpu")
    assert y.get_device() == 1
    y.copy_(x + 1)
    same(y, x.numpy() + 1)
    x.copy_(y * 2)
    np.testing.assert_array_equal(x.numpy(), y.cpu().numpy() * 2)
    w = tinyt.ones(2, requires_grad=True)
    (w.to(PLACE) * tinyt.tensor([2.0, 3.0], device=PLACE)).sum().backward()
    assert w.grad.tolist() == [2.0, 3.0]


def test_looks():
    x = tinyt.tensor([1.0, 2.5], device=PLACE)
    assert repr(x) == "tensor([1.0000, 2.5000], device='host2:1')"
    assert x.tolist() == [1.0, 2.5]
    assert x[1].item() == 2.5
    assert float(x.sum()) == 3.5
    assert bool((x > 0).all())
    for read in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError, match=r"host2:1 device type tensor to numpy"):
            read()
    np.testing.assert_array_equal(x.numpy(force=True), [1.0, 2.5])
    with pytest.raises(BufferError):
        memoryview(x)
    with pytest.raises(BufferError):
        x.__dlpack__()


def test_operations():
    x = tinyt.arange(12.0, device=PLACE).reshape(3, 4)
    n = np.arange(12, dtype=np.float32).reshape(3, 4)
    same(x * 2 + 1, n * 2 + 1)
    same(1 - x, 1 - n)
    same(x + tinyt.tensor(3.0), n + 3)  # a 0-d tensor of the CPU
    same(x @ x.t(), n @ n.T)
    same(x[1:, ::2], n[1:, ::2])
    same(x[x > 5], n[n > 5])
    same(x[tinyt.tensor([2, 0], device=PLACE)], n[[2, 0]])
    same(x[[2, 0]], n[[2, 0]])
    same(tinyt.cat([x, x], 1), np.concatenate([n, n], 1))
    same(tinyt.where(x > 5, x, 0.0), np.where(n > 5, n, 0))
    same(x.sort(descending=True).values, -np.sort(-n))
    same(x.nonzero(), np.argwhere(n))
    same(x.cumsum(0), n.cumsum(0))
    same(tinyt.stack([x, x]).mean(0), n)
    x[0] = 7.0
    x[x == 7] = 8.0
    assert x[0].tolist() == [8.0] * 4
    x += 1
    same(x[0], [9.0] * 4)
    with pytest.raises(tinyt.DeviceError, match="one device, got host2:1 and cpu"):
        x + tinyt.ones(4)
    with pytest.raises(tinyt.DeviceError, match="out is on cpu"):
        tinyt.add(x, x, out=tinyt.empty(3, 4))


def test_gradients_arrive_where_their_tensors_are():
    w = tinyt.ones(3, device=PLACE, requires_grad=True)
    y = w * 2
    y.fill_(0.0)
    (y.sum() + w.sum()).backward()
    same(w.grad, [1, 1, 1])
    s = tinyt.tensor(2.0, requires_grad=True)  # a 0-d tensor of the CPU beside the other
    (w.detach() * s).sum().backward()
    assert s.grad.device == tinyt.device("cpu")
    assert s.grad.item() == 3.0
    here = tinyt.ones(3, requires_grad=True)
    tinyt.zeros(3, device=PLACE).copy_(here).sum().backward()
    assert here.grad.device == tinyt.device("cpu")
    v = tinyt.arange(1.0, 4.0, device=PLACE).requires_grad_()
    (5.0 // v + v * v).sum().backward()
    same(v.grad, [2, 4, 6])
    x = tinyt.arange(1.0, 4.0, device=PLACE).requires_grad_()
    (once,) = tinyt.autograd.grad((x**3).sum(), x, create_graph=True)
    (twice,) = tinyt.autograd.grad(once.sum(), x)
    same(twice, [6, 12, 18])


def test_gradients_of_a_network():
    tinyt.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    x, target = tinyt.rand(4, 1, 6, 6), tinyt.tensor([0, 2, 1, 1])
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    here = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    assert model.to(PLACE) is model
    assert {p.device for p in model.parameters()} == {PLACE}
    far = nn.functional.cross_entropy(model(x.to(PLACE)), target.to(PLACE))
    far.backward()
    assert far.item() == loss.item()
    for p, expected in zip(model.parameters(), here, strict=True):
        same(p.grad, expected)
    with tinyt.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    model.cpu()
    assert {p.device for p in model.parameters()} == {tinyt.device("cpu")}


def test_optimisers_under_a_default_device():
    with PLACE:
        p = nn.Parameter(tinyt.ones(2))
        made = tinyt.optim.Adam([p], lr=0.1)
        for _ in range(2):
            p.grad = tinyt.ones(2)
            made.step()
    np.testing.assert_allclose(p.detach().cpu().numpy(), [0.8, 0.8], rtol=1e-5)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_optimisers(kind):
    found = []
    for place in ("cpu", PLACE):
        p = nn.Parameter(tinyt.arange(4.0, device=place))
        made = getattr(tinyt.optim, kind)([p], lr=0.1)
        for _ in range(3):
            made.zero_grad()
            (p * p).sum().backward()
            made.step()
        found.append(p.detach().cpu().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_what_does_not_work_yet():
    x = tinyt.ones(3, device=PLACE)
    with pytest.raises(tinyt.CaptureError, match="host2:1 cannot be recorded"):
        tinyt.compile(lambda x: x + 1)(x)
    step = tinyt.compile(lambda x: x + 1)
    here = tinyt.rand(3, 4)
    for view in (here, here.t()):
        assert step(view).tolist() == (view + 1).tolist()
        with pytest.raises(tinyt.CaptureError, match="host2:1 cannot be recorded"):
            step(view.to(PLACE))
        with pytest.raises(tinyt.CaptureError, match="host2:1 cannot be recorded"):
            step(here.to(PLACE).t())
        assert step(view).tolist() == (view + 1).tolist()
    with pytest.raises(RuntimeError, match="move it to the CPU first"):
        x.share_memory_()
    with pytest.raises(NotImplementedError, match="map_location 'host2:1'"):
        tinyt.load("unread", map_location="host2:1")
    with tinyt.lazy():  # runs at once
        y = x + 1
    same(y, [2, 2, 2])
