"""The device "meta": tensors of shapes and dtypes alone."""

import pickle
import subprocess
import sys
import warnings

import pytest

import tinyt
from tinyt import nn
from tinyt.serialization import SerializationError


def test_what_they_are():
    x = tinyt.zeros(2, 3, device="meta")
    assert x.is_meta
    assert not x.is_cpu
    assert x.device == tinyt.device("meta")
    assert (x.get_device(), x.device.index, x.data_ptr()) == (-1, None, 0)
    assert tinyt.zeros(1, device="meta:3").device == tinyt.device("meta")
    assert repr(x) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(x.double()) == "tensor(..., device='meta', size=(2, 3), dtype=tinyt.float64)"
    assert repr(x.requires_grad_()).endswith("size=(2, 3), requires_grad=True)")
    assert repr(tinyt.zeros(0, device="meta")) == "tensor(..., device='meta', size=(0,))"
    assert tinyt.empty(2**40, 2**15, device="meta").numel() == 2**55
    assert tinyt.ones(2).to("meta").is_meta
    assert tinyt.empty_like(x, device="cpu").shape == (2, 3)


def test_a_training_step_without_elements():
    tinyt.memory.reset_peak()
    before = tinyt.memory.statistics()["peak_bytes"]
    with tinyt.device("meta"):
        layer = nn.TransformerEncoderLayer(512, 8)
        model = nn.TransformerEncoder(layer, 2)
        words = nn.Embedding(10**9, 512)
        out = model(words(tinyt.zeros(5, 2, dtype=tinyt.int64)))
        out.mean().backward()
    assert out.shape == (5, 2, 512)
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in words.parameters())
    tinyt.optim.AdamW(model.parameters()).step()
    assert tinyt.memory.statistics()["peak_bytes"] < before + 2**20
    assert tinyt.memory.statistics("meta")["current_bytes"] == 0


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: x.sum().item(),
        lambda x: bool(x.sum()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: tinyt.zeros(2, 3).copy_(x),
        lambda x: x.t().contiguous().cpu(),
        lambda x: x.numpy(force=True),
        lambda x: nn.Linear(2, 3, device="meta").to("cpu"),
    ],
)
def test_there_is_nothing_to_read(read):
    with pytest.raises(NotImplementedError, match=r"no elements to copy|no kernel on meta"):
        read(tinyt.zeros(2, 3, device="meta"))


def test_beside_others():
    x = tinyt.zeros(2, 3, device="meta")
    assert (x + tinyt.tensor(1.0)).is_meta
    assert x[tinyt.tensor([0])].shape == (1, 3)
    with pytest.raises(tinyt.DeviceError, match="one device, got meta and cpu"):
        x + tinyt.zeros(2, 3)
    assert x.copy_(tinyt.ones(2, 3)) is x
    assert not tinyt.accelerator.is_available()
    assert (tinyt.zeros(2, 3) + 1).sum().item() == 6.0


def test_draws_take_nothing_of_the_stream():
    tinyt.manual_seed(0)
    tinyt.rand(3, device="meta").normal_()
    nn.Linear(3, 4, device="meta")
    there = tinyt.rand(2)
    tinyt.manual_seed(0)
    assert there.tolist() == tinyt.rand(2).tolist()


def test_modules_get_their_elements_later():
    values = nn.Linear(2, 3).state_dict()
    model = nn.Linear(2, 3, device="meta")
    with pytest.warns(UserWarning, match="is copied to a tensor on meta"):
        model.load_state_dict(values)
    assert model.weight.is_meta
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.load_state_dict(values, assign=True)
    assert model.weight.tolist() == values["weight"].tolist()
    other = nn.Linear(2, 3, device="meta").to_empty(device="cpu")
    other.load_state_dict(values)
    assert other.bias.tolist() == values["bias"].tolist()


@pytest.mark.parametrize(
    "first",
    [
        "tinyt.zeros(2**40, 3, device='meta')",
        "tinyt.full((2**40, 3), 2, device=tinyt.device('meta'))",
        "tinyt.randn(2**40, 3, device='meta')",
        "tinyt.nn.Linear(2**20, 2**23, device='meta').weight",
        "tinyt.arange(2**42, device='meta')",
        "tinyt.zeros_like(tinyt.zeros(1).expand(2**40), device='meta')",
    ],
)
def test_the_first_use_in_a_process_makes_no_elements(first):
    program = f"import tinyt; x = {first}; assert x.is_meta, x.device"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_pickled_without_elements():
    x = tinyt.zeros(2**40, 3, device="meta", requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert (y.is_meta, y.shape, y.requires_grad) == (True, x.shape, True)
    assert f"{tinyt.zeros((), device='meta')}" == "tensor(..., device='meta', size=())"


def test_files_hold_none(tmp_path):
    with pytest.raises(NotImplementedError, match="no elements"):
        tinyt.save({"x": tinyt.zeros(2, device="meta")}, tmp_path / "file")
    path = tmp_path / "other"
    tinyt.save({"x": tinyt.zeros(2)}, path)
    header, rest = path.read_bytes()[8:].split(b"}}", 1)
    for name, error in (
        ("meta", "no elements"),
        ("\\ud800", "put on|surrogate"),
        ("none", "put on"),
    ):
        facts = f'{{"__metadata__":{{"tinyt.devices":"{{\\"x\\":\\"{name}\\"}}"}},'.encode()
        text = facts + header[1:] + b"}}" + rest[:-8]
        text += b" " * (-len(text) % 8)
        path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
        with pytest.raises((SerializationError, RuntimeError), match=error):
            tinyt.load(path)


def test_lazy_layers_keep_unknown_buffers():
    """What `double` and `to` make of a buffer without a size has none either."""
    layer = nn.LazyBatchNorm1d().double()
    assert layer(tinyt.rand(5, 4).double()).dtype is tinyt.float64
    assert nn.LazyBatchNorm1d().to("meta")(tinyt.rand(5, 4, device="meta")).is_meta
