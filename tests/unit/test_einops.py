"""einops on tensors of tinyt: the functions, the layers, and under `import torch`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyt

einops = pytest.importorskip("einops")
# The layers of tinyt need einops, so they come after it.
from tinyt.interop.einops import EinMix, Rearrange, Reduce  # noqa: E402

ARRAY = np.random.default_rng(0).normal(size=(2, 3, 4, 6))


REARRANGED = [
    ("b c h w -> b h w c", {}),
    ("b c (h h2) w -> b (c h2) h w", {"h2": 2}),
    ("b c h w -> (b c h w)", {}),
    ("b c h w -> b c h 1 w", {}),
    ("b ... -> ... b", {}),
]


@pytest.mark.parametrize(("pattern", "lengths"), REARRANGED)
def test_rearrange(pattern: str, lengths: dict[str, int]) -> None:
    got = einops.rearrange(tinyt.tensor(ARRAY), pattern, **lengths)
    assert isinstance(got, tinyt.Tensor)
    np.testing.assert_array_equal(got.numpy(), einops.rearrange(ARRAY, pattern, **lengths))
    layer = Rearrange(pattern, **lengths)
    np.testing.assert_array_equal(layer(tinyt.tensor(ARRAY)).numpy(), got.numpy())


@pytest.mark.parametrize("how", ["min", "max", "sum", "mean", "prod"])
@pytest.mark.parametrize("pattern", ["b c h w -> b c", "b c (h 2) w -> c w", "b c h w ->"])
def test_reduce(pattern: str, how: str) -> None:
    got = einops.reduce(tinyt.tensor(ARRAY), pattern, how)
    want = einops.reduce(ARRAY, pattern, how)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    layer: Any = Reduce(pattern, how)
    np.testing.assert_array_equal(layer(tinyt.tensor(ARRAY)).numpy(), got.numpy())


@pytest.mark.parametrize("how", ["any", "all"])
def test_reduce_of_bools(how: str) -> None:
    got = einops.reduce(tinyt.tensor(ARRAY > 1.0), "b c h w -> b h", how)
    np.testing.assert_array_equal(got.numpy(), einops.reduce(ARRAY > 1.0, "b c h w -> b h", how))


def test_the_mean_of_integers_is_refused_as_by_einops() -> None:
    with pytest.raises(NotImplementedError):
        einops.reduce(tinyt.ones(2, 3, dtype=tinyt.int64), "a b -> a", "mean")


def test_repeat_pack_einsum_and_lists() -> None:
    x = tinyt.tensor(ARRAY)
    got = einops.repeat(x, "b c h w -> b c (h 2) (3 w)")
    np.testing.assert_array_equal(got.numpy(), einops.repeat(ARRAY, "b c h w -> b c (h 2) (3 w)"))
    packed, shapes = einops.pack([x, x[0], x[0, 0]], "* h w")
    assert packed.shape == (10, 4, 6)
    again = einops.unpack(packed, shapes, "* h w")
    assert all((a == b).all() for a, b in zip(again, (x, x[0], x[0, 0]), strict=True))
    product = einops.einsum(x, x, "b c h w, b d h w -> b c d")
    want = np.einsum("bchw,bdhw->bcd", ARRAY, ARRAY)
    np.testing.assert_allclose(product.numpy(), want, rtol=1e-12)
    assert einops.rearrange([x, x], "n b c h w -> b (n c) h w").shape == (2, 6, 4, 6)
    assert einops.asnumpy(x).shape == x.shape
    assert einops.parse_shape(x, "b _ h w") == {"b": 2, "h": 4, "w": 6}


def test_views_and_gradients() -> None:
    x = tinyt.tensor(ARRAY, requires_grad=True)
    assert einops.rearrange(x, "b c h w -> b h w c").data_ptr() == x.data_ptr()
    (einops.reduce(x, "b c h w -> c", "mean") ** 2).sum().backward()
    want = 2 * ARRAY.mean(axis=(0, 2, 3), keepdims=True) / 48 + np.zeros_like(ARRAY)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-10)


def mixer() -> tinyt.nn.Module:
    tinyt.manual_seed(0)
    reduce: Any = Reduce("b c h w -> b (h w)", "max")
    return tinyt.nn.Sequential(
        reduce, EinMix("b (h w) -> b o", weight_shape="h w o", bias_shape="o", h=4, w=6, o=5)
    )


def test_layers_are_modules() -> None:
    model = mixer()
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {
        "1.weight": (4, 6, 5),
        "1.bias": (1, 5),
    }
    x = tinyt.tensor(ARRAY).float()
    weight, bias = (p.detach().numpy() for p in model.parameters())
    want = np.einsum("bhw,hwo->bo", ARRAY.max(axis=1), weight) + bias
    np.testing.assert_allclose(model(x).detach().numpy(), want, rtol=1e-5, atol=1e-6)
    assert (pickle.loads(pickle.dumps(model))(x) == model(x)).all()
    assert "EinMix('b (h w) -> b o'" in repr(model)


def test_compiled() -> None:
    def step(model: tinyt.nn.Module, x: tinyt.Tensor) -> tinyt.Tensor:
        loss = (model(einops.rearrange(x, "b (c k) h w -> b (k c) h w", k=3)) ** 2).mean()
        loss.backward()
        return loss

    x = tinyt.tensor(ARRAY).float()
    eager, compiled = mixer(), mixer()
    fast = tinyt.compile(step)
    for _ in range(4):
        assert step(eager, x).item() == fast(compiled, x).item()
    for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
        assert (a.grad == b.grad).all()
    assert fast.cache_info().hits > 0


PROGRAM = """
import torch
from einops import rearrange, reduce
from einops.layers.torch import Rearrange, Reduce, EinMix
torch.manual_seed(0)
model = torch.nn.Sequential(
    Reduce("b c h w -> b (h w)", "max"),
    EinMix("b (h w) -> b o", weight_shape="h w o", bias_shape="o", h=4, w=6, o=5),
    Rearrange("b (o k) -> b o k", k=1),
)
x = torch.ones(2, 3, 4, 6)
model(x).sum().backward()
print(model(x).shape, isinstance(model[0], torch.nn.Module), model[1].weight.grad.sum().item())
print(rearrange(x, "b c h w -> (b c) (h w)").shape)
"""


def test_under_import_torch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tinyt", str(tmp_path / "program.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == "torch.Size([2, 5, 1]) True 240.0\ntorch.Size([6, 24])\n"
