"""Python on a device whose memory the host cannot read: run by `tests/unit/test_devices.py`, in a
process of its own, with the library's path in HOST2."""

import copy
import os
import pickle

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
    np.testing.assert_array_equal(x.requires_grad_().numpy(force=True), [1.0, 2.5])
    x = x.detach()
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


def test_steps_of_loaded_state():
    """What `load_state_dict` is given may have been elsewhere; steps are counted on the CPU."""
    here = nn.Parameter(tinyt.ones(3))
    first = tinyt.optim.Adam([here], lr=0.1)
    here.grad = tinyt.ones(3)
    first.step()
    there = nn.Parameter(here.detach().to(PLACE))
    second = tinyt.optim.Adam([there], lr=0.1)
    second.load_state_dict(first.state_dict())
    state = second.state[there]
    assert state["exp_avg"].device == PLACE
    assert state["step"].is_cpu
    for made, p in ((first, here), (second, there)):
        p.grad = tinyt.ones(3, device=p.device)
        made.step()
    np.testing.assert_allclose(there.detach().cpu().numpy(), here.detach().numpy(), rtol=1e-6)


def test_indices_may_be_on_the_cpu():
    n = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = tinyt.tensor(n, device=PLACE)
    rows = np.array([2, 0])
    for index in (tinyt.tensor(rows), rows, [2, 0]):
        same(x[index], n[rows])
        same(x[:, index], n[:, rows])
        same(x[index, index], n[rows, rows])
    same(x[tinyt.tensor(n > 5)], n[n > 5])
    same(x[n > 5], n[n > 5])
    y = x.clone().requires_grad_()
    y[tinyt.tensor(rows)].sum().backward()
    same(y.grad, [[1] * 4, [0] * 4, [1] * 4])
    x[tinyt.tensor(rows)] = tinyt.tensor(1.0)
    x.index_put_((tinyt.tensor(rows),), tinyt.tensor(1.0))
    x[n > 5] = 2.0
    x[1] = np.full(4, 3, np.float32)
    x[0, :2] = [7.0, 8.0]
    same(x, [[7, 8, 1, 1], [3] * 4, [2] * 4])
    with pytest.raises(tinyt.DeviceError, match="must be on the CPU, got host2:1"):
        tinyt.ones(3)[tinyt.tensor([1], device=PLACE)]
    with pytest.raises(tinyt.DeviceError, match="on the CPU or on host2:1, where the tensor is"):
        x[tinyt.tensor([1], device="host2:0")]


def test_made_like_others():
    x = tinyt.ones(2, device=PLACE)
    same(x.new_tensor(tinyt.ones(3)), [1] * 3)
    same(x.new_tensor([1.0]), [1])
    assert tinyt.ones(3).type_as(x).device == PLACE
    assert x.new(3, 2).device == PLACE
    same(tinyt.normal(x, 0.0), [1, 1])
    same(tinyt.searchsorted(x, 0.5), 0)
    same(tinyt.linalg.vander(x), np.ones((2, 2)))
    assert x.type() == "tinyt.host2.FloatTensor"
    assert not x.is_cpu
    assert not x.is_meta
    assert x.__dlpack_device__() == (12, 1)


def test_gradients_that_are_given():
    w = tinyt.ones(3, device=PLACE, requires_grad=True)
    with pytest.raises(RuntimeError, match="the gradient is on cpu, the tensor on host2:1"):
        w.grad = tinyt.ones(3)
    with pytest.raises(RuntimeError, match="the gradient is on cpu, the output on host2:1"):
        (w * 2).backward(tinyt.ones(3))
    assert w.grad is None
    (w * 2).backward(tinyt.ones(3, device=PLACE))
    same(w.grad, [2] * 3)
    assert tinyt.autograd.gradcheck(tinyt.sin, w.detach().double().requires_grad_())


def test_code_of_the_user_in_a_pass():
    """It makes tensors where this thread does, and keeps gradients where they are."""
    w = tinyt.ones(2, device=PLACE, requires_grad=True)
    seen = []
    y = w * 2
    y.register_hook(lambda g: seen.append(tinyt.zeros(1).device))
    y.sum().backward()
    with tinyt.device("host2:0"):
        y = w * 2
        y.register_hook(lambda g: seen.append(tinyt.zeros(1).device))
        y.sum().backward()
    assert seen == [tinyt.device("cpu"), tinyt.device("host2:0")]
    y = w * 2
    y.register_hook(lambda g: g.cpu())
    with pytest.raises(RuntimeError, match="changed the device of the gradient, from host2:1"):
        y.sum().backward()

    class Moved(tinyt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.cpu()

    with pytest.raises(RuntimeError, match="expected device host2:1 but got cpu"):
        Moved.apply(w).sum().backward()


def test_gradients_on_several_devices():
    places = ["cpu", "host2:0", PLACE]
    params = [nn.Parameter(tinyt.ones(2, device=place)) for place in places]
    for p in params:
        p.grad = tinyt.full((2,), 3.0, device=p.device)
    total = nn.utils.clip_grad_norm_(params, 1.0)
    assert total.item() == pytest.approx(54**0.5)
    for p in params:
        assert p.grad.tolist() == pytest.approx([3 / 54**0.5] * 2)
    layer = nn.BatchNorm1d(3).to(PLACE)
    tinyt.optim.swa_utils.update_bn([tinyt.rand(4, 3)], layer, device=PLACE)
    assert layer.num_batches_tracked.item() == 1


def test_states_of_generators_are_on_the_cpu():
    for place in (PLACE, "meta"):
        with tinyt.device(place):
            assert tinyt.get_rng_state().is_cpu
            nn.LazyLinear(3)
            with tinyt.random.fork_rng():
                pass
    model, x = nn.Linear(2, 2, device="meta"), tinyt.zeros(1, 2, device="meta")
    tinyt.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()
    assert model.weight.grad.is_meta


def layers():
    yield "RNN", nn.RNN(4, 3)
    yield "LSTM", nn.LSTM(4, 3, bidirectional=True)
    yield "GRU", nn.GRU(4, 3)
    yield "LSTMCell", nn.LSTMCell(4, 3)
    yield "RNNCell", nn.RNNCell(4, 3)
    yield "GRUCell", nn.GRUCell(4, 3)
    yield "LazyLinear", nn.LazyLinear(3)
    yield "LazyBatchNorm", nn.LazyBatchNorm1d()
    yield "orthogonal", nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))
    yield "weight_norm", nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    yield "spectral_norm", nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    yield "Transformer", nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)


@pytest.mark.parametrize(("name", "layer"), list(layers()))
def test_layers(name, layer):
    """What they make themselves is where their input is."""
    x = tinyt.rand(5, 4)
    if name.startswith("Lazy"):
        out = layer.to(PLACE)(x.to(PLACE))
        assert out.device == PLACE
        return
    here = layer(x)
    there = layer.to(PLACE)(x.to(PLACE))
    for a, b in zip(*map(tinyt.utils._pytree.tree_leaves, (here, there)), strict=True):
        same(b, a.detach().numpy())


def test_packed_sequences_and_losses():
    layer = nn.LSTM(4, 3, batch_first=True)
    x = tinyt.rand(2, 5, 4)

    def packed(x):
        pack = nn.utils.rnn.pack_padded_sequence(x, [3, 5], batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(layer(pack)[0], batch_first=True)[0]

    here = packed(x).detach().numpy()
    layer.to(PLACE)
    same(packed(x.to(PLACE)), here)
    pack = nn.utils.rnn.pack_padded_sequence(x, [3, 5], batch_first=True, enforce_sorted=False)
    same(layer(pack.to(PLACE))[0].data, layer.cpu()(pack)[0].data.detach().numpy())
    scores, targets = tinyt.rand(10, 2, 5).log_softmax(-1), tinyt.ones(2, 3, dtype=tinyt.int64)
    lengths = tinyt.tensor([10, 9]), tinyt.tensor([3, 2])
    here = nn.functional.ctc_loss(scores, targets, *lengths)
    same(nn.functional.ctc_loss(scores.to(PLACE), targets.to(PLACE), *lengths), here.numpy())


def test_data():
    x = tinyt.arange(10.0).to(PLACE)
    loader = tinyt.utils.data.DataLoader(
        tinyt.utils.data.TensorDataset(x), batch_size=3, shuffle=True
    )
    rows = [batch for (batch,) in loader]
    assert {b.device for b in rows} == {PLACE}
    assert sorted(tinyt.cat(rows).tolist()) == list(range(10))


def test_saved_and_loaded(tmp_path):
    x, y = tinyt.arange(3.0, device=PLACE), tinyt.ones(2)
    path = tmp_path / "file"
    for whole in ({"x": x, "y": y}, {"x": [x], "y": y}):
        tinyt.save(whole, path)
        back = tinyt.load(path)
        x_back = back["x"] if isinstance(back["x"], tinyt.Tensor) else back["x"][0]
        same(x_back, [0, 1, 2])
        assert back["y"].is_cpu
    tinyt.save({"x": x, "y": y}, path)
    for to in ("cpu", {"host2:1": "cpu"}, lambda storage, place: storage):
        assert tinyt.load(path, map_location=to)["x"].is_cpu
    for to in ("host2:0", {"host2:1": "host2:0", "cpu": "host2:0"}):
        there = tinyt.load(path, map_location=to)
        assert [there[k].device.index for k in "xy"] == [0, 0]
    seen = []
    same(tinyt.load(path, map_location=lambda s, place: seen.append(place))["x"], [0, 1, 2])
    assert sorted(seen) == ["cpu", "host2:1"]
    content = path.read_bytes().replace(b"host2:1", b"host2:9")
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match=r"to be put on .host2:9.*pass another map_location"):
        tinyt.load(path)
    same(pickle.loads(pickle.dumps(x)), [0, 1, 2])
    same(copy.deepcopy(x), [0, 1, 2])
    model = nn.Linear(2, 2).to(PLACE)
    model.load_state_dict(nn.Linear(2, 2).state_dict())
    assert model.weight.device == PLACE


def test_accelerator_and_memory():
    assert tinyt.accelerator.is_available()
    assert tinyt.accelerator.current_accelerator() == tinyt.device("host2")
    assert tinyt.accelerator.device_count() == 2
    before = tinyt.accelerator.memory_allocated(1)
    x = tinyt.empty(1000, device=PLACE)
    assert tinyt.memory.statistics(PLACE)["current_bytes"] == before + 4000
    with tinyt.accelerator.device_index(1):
        assert tinyt.accelerator.current_device_index() == 1
        assert tinyt.accelerator.memory_allocated() == before + 4000
        tinyt.accelerator.reset_peak_memory_stats()
        assert tinyt.accelerator.max_memory_allocated() == before + 4000
        tinyt.accelerator.synchronize()
    assert tinyt.accelerator.current_device_index() == 0
    del x
    assert tinyt.memory.statistics(PLACE)["current_bytes"] == before
    tinyt.accelerator.empty_cache()
    assert tinyt.memory.statistics(PLACE)["cached_bytes"] == 0
    tinyt.memory.set_limit(before + 100, PLACE)
    try:
        with pytest.raises(tinyt.OutOfMemoryError, match="the limit of host2:1 is reached"):
            tinyt.empty(1000, device=PLACE)
    finally:
        tinyt.memory.set_limit(0, PLACE)
    with pytest.raises(ValueError, match="doesn't match the accelerator host2"):
        tinyt.accelerator.synchronize("cpu")
    with pytest.raises(ValueError, match="doesn't match the accelerator host2"):
        tinyt.accelerator.set_device_index("meta")
    tinyt.accelerator.current_stream().synchronize()
    with pytest.raises(NotImplementedError, match="have no events"):
        tinyt.accelerator.current_stream().record_event()


def test_close_and_autocast():
    x = tinyt.rand(3, 3, device=PLACE)
    tinyt.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="'device' do not match"):
        tinyt.testing.assert_close(x, x.cpu())
    tinyt.testing.assert_close(x, x.cpu(), check_device=False)
    with tinyt.autocast("host2"):
        assert (x @ x).dtype is tinyt.bfloat16
    same(
        tinyt.rand(3, device=PLACE, generator=tinyt.Generator(PLACE)),
        tinyt.rand(3, generator=tinyt.Generator()).numpy(),
    )


def test_what_does_not_work_yet():
    x = tinyt.ones(3, device=PLACE)
    with pytest.raises(RuntimeError, match="move it to the CPU first"):
        x.share_memory_()
    with tinyt.lazy():  # runs at once
        y = x + 1
    same(y, [2, 2, 2])


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "Adam": {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1},
    "RMSprop": {"lr": 0.1, "centered": True, "momentum": 0.5},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_row_of_any_number_of_parameters(name):
    """Split where the device binds fewer buffers (HOST2_BUFFERS); to the bit."""

    def train(place):
        tinyt.manual_seed(3)
        shapes = [(3, 4), (5,), (), (2, 0), (7, 2), (1,), (4, 4), (6,)]
        params = [tinyt.randn(s).to(place).requires_grad_() for s in shapes]
        params.append(tinyt.randn(4, 3).t().to(place).requires_grad_())  # of other strides
        optimizer = getattr(tinyt.optim, name)(params, **OPTIMIZERS[name])
        for _ in range(3):
            optimizer.zero_grad()
            sum((p * p.detach().cos()).sum() for p in params).backward()
            nn.utils.clip_grad_norm_(params, 1.0)
            optimizer.step()
        steps = [s["step"] for s in optimizer.state.values() if "step" in s]
        assert all(s.device == tinyt.device("cpu") and s == 3 for s in steps)
        return params

    for got, want in zip(train(PLACE), train(tinyt.device("cpu")), strict=True):
        same(got, want.detach())


def test_the_row_takes_parameters_with_memory_of_their_own():
    """What it leaves to the composite is told by number."""

    def left(params, numbers=(0.1, 0.0, 0.0, 0.0)):
        grads = [tinyt.ones_like(x) for x in params]
        return tinyt._core.sgd_step(params, grads, [], [], *numbers, False, False)

    whole = tinyt.zeros(12, device=PLACE)
    assert left([tinyt.zeros(n, device=PLACE) for n in (3, 4, 0, 5)]) == []
    assert left([whole[:4], whole[4:8], whole[8:]]) == []
    same(whole, np.full(12, -0.1, np.float32))
    assert left([whole[:5], whole[4:8]]) == [0, 1]
    assert left([tinyt.zeros(3, device=PLACE), tinyt.zeros(3)]) == [1]
    few = int(os.environ.get("HOST2_BUFFERS", "0"))
    parts = [tinyt.zeros(2, device=PLACE) for _ in range(5)]
    steps = [tinyt.tensor(0.0)]
    numbers = (0.1, 0.9, 0.99, 1e-8, 0.0)
    rest = tinyt._core.adam_step(
        *([x] for x in parts[:2]), steps, *([x] for x in parts[2:]), *numbers, False, False
    )
    assert rest == ([0] if 0 < few < 5 else [])


def test_many_tensors_at_once():
    parts = [tinyt.randn(2, n) for n in range(20)]
    there = [x.to(PLACE) for x in parts]
    same(tinyt.cat(there, 1), tinyt.cat(parts, 1))
    out = tinyt.empty(2, 190, device=PLACE)
    tinyt.cat(there, 1, out=out)
    same(out, tinyt.cat(parts, 1))
    same(tinyt.stack(there[3:4] * 9), tinyt.stack(parts[3:4] * 9))
    mixed = [x if i % 2 else x.double() for i, x in enumerate(parts)]
    same(tinyt.cat([x.to(PLACE) for x in mixed], 1), tinyt.cat(mixed, 1))
