"""Layers that learn the number of their inputs from the first one."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")

LAYERS: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "LazyLinear": ((4,), {}, (2, 3)),
    "LazyConv1d": ((4, 2), {"stride": 2}, (2, 3, 7)),
    "LazyConv2d": ((4, 2), {"groups": 2, "bias": False}, (2, 6, 5, 5)),
    "LazyConv3d": ((4, 2), {"padding": 1}, (2, 3, 3, 3, 3)),
    "LazyConvTranspose1d": ((4, 2), {}, (2, 3, 5)),
    "LazyConvTranspose2d": ((4, 2), {"groups": 2, "stride": 2}, (2, 6, 3, 3)),
    "LazyConvTranspose3d": ((4, 2), {}, (2, 3, 2, 2, 2)),
    "LazyBatchNorm1d": ((), {}, (4, 3)),
    "LazyBatchNorm2d": ((), {"affine": False}, (2, 3, 4, 4)),
    "LazyBatchNorm3d": ((), {"track_running_stats": False}, (2, 3, 2, 2, 2)),
    "LazyInstanceNorm1d": ((), {"affine": True}, (2, 3, 4)),
    "LazyInstanceNorm2d": ((), {"affine": True, "track_running_stats": True}, (2, 3, 4, 4)),
    "LazyInstanceNorm3d": ((), {"affine": True}, (2, 3, 2, 2, 2)),
}


def made(tt: Any, name: str, **more: Any) -> Any:
    args, kwargs, _ = LAYERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch's: lazy modules are new
        return getattr(tt.nn, name)(*args, **kwargs, **more)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, rng: np.random.Generator) -> None:
    theirs, ours = (made(tt, name, dtype=tt.float64) for tt in (torch, tinyt))
    assert repr(ours) == repr(theirs)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    params = list(ours.parameters())
    value = rng.normal(size=LAYERS[name][2])
    theirs(torch.tensor(value))
    first = ours(tinyt.tensor(value))
    assert type(ours).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    assert repr(ours) == repr(theirs)
    assert all(a is b for a, b in zip(params, ours.parameters(), strict=True))
    assert all(type(p) is tinyt.nn.Parameter for p in params)
    assert not ours._forward_pre_hooks
    with torch.no_grad():
        for p, q in zip(theirs.parameters(), params, strict=True):
            assert tuple(p.shape) == tuple(q.shape)
            p.copy_(torch.tensor(q.detach().numpy()))
    for (_, p), (_, q) in zip(theirs.named_buffers(), ours.named_buffers(), strict=True):
        np.testing.assert_allclose(q.numpy(), p.numpy(), rtol=1e-12)
    expected = theirs(torch.tensor(value)).detach().numpy()
    np.testing.assert_allclose(ours(tinyt.tensor(value)).detach().numpy(), expected, rtol=1e-9)
    assert tuple(first.shape) == expected.shape


@pytest.mark.parametrize("name", LAYERS)
def test_loading(name: str, rng: np.random.Generator) -> None:
    """The state of a layer with sizes gives a lazy one its sizes."""
    layer, lazy = made(tinyt, name), made(tinyt, name)
    x = tinyt.tensor(rng.normal(size=LAYERS[name][2]), dtype=tinyt.float32)
    layer(x)
    lazy.load_state_dict(layer.state_dict())
    if not list(layer.parameters()) + list(layer.buffers()):
        return
    lazy.eval(), layer.eval()
    assert lazy(x).tolist() == layer(x).tolist()
    if list(layer.parameters()):
        assert repr(lazy) == repr(layer)


def test_drawing() -> None:
    """What a lazy layer draws at its first call is what the layer draws when it is made."""
    tinyt.manual_seed(5)
    plain = tinyt.nn.Linear(3, 4)
    tinyt.manual_seed(5)
    lazy = tinyt.nn.LazyLinear(4)
    lazy(tinyt.ones(3))
    assert lazy.weight.tolist() == plain.weight.tolist()
    assert lazy.bias.tolist() == plain.bias.tolist()


def test_before_the_first_call() -> None:
    layer = tinyt.nn.LazyLinear(4)
    assert layer.has_uninitialized_params()
    assert repr(layer.weight) == "<UninitializedParameter>"
    for ask in (lambda: layer.weight.shape, layer.weight.size, layer.weight.numel):
        with pytest.raises(RuntimeError, match="has no shape yet"):
            ask()
    other = copy.deepcopy(layer).double()
    assert other(tinyt.ones(3, dtype=tinyt.float64)).dtype is tinyt.float64
    assert layer.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="batched"):
        tinyt.nn.LazyConv2d(3, 2)(tinyt.ones(2, 2))
    with pytest.raises(ValueError, match="divisible by groups"):
        tinyt.nn.LazyConv2d(4, 2, groups=2)(tinyt.ones(1, 3, 4, 4))


def test_optimizers_made_before() -> None:
    net = tinyt.nn.Sequential(tinyt.nn.LazyLinear(4), tinyt.nn.LazyBatchNorm1d())
    optimizer = tinyt.optim.SGD(net.parameters(), lr=0.1)
    net(tinyt.rand(5, 3)).square().sum().backward()
    before = net[0].weight.tolist()
    optimizer.step()
    assert net[0].weight.tolist() != before


def test_layers_of_programs() -> None:
    from tinyt.nn.lazy import LazyModuleMixin

    class Scale(LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.scale = tinyt.nn.UninitializedParameter()
            self.register_buffer("mean", tinyt.nn.UninitializedBuffer())

        def initialize_parameters(self, x: tinyt.Tensor) -> None:
            self.scale.materialize((x.shape[-1],))
            self.mean.materialize((x.shape[-1],))
            with tinyt.no_grad():
                self.scale.fill_(2.0)

        def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
            return x * self.scale

    layer = Scale()
    assert layer(tinyt.ones(3)).tolist() == [2.0] * 3
    assert type(layer) is Scale
    assert type(layer.mean) is tinyt.Tensor
    assert tuple(layer.mean.shape) == (3,)
