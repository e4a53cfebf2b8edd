"""Recurrent layers as C: forward, and their gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

import tinyt
from c_library import compiles, has_fma
from c_program import run_both
from tinyt import nn

pytestmark = [compiles, has_fma, pytest.mark.host]


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
def test_lstm(tmp_path: Path, dtype: tinyt.dtype) -> None:
    layer = nn.LSTM(3, 5, num_layers=2, bidirectional=True).to(dtype)
    short = nn.LSTM(3, 4, batch_first=True).to(dtype)

    def function(x: tinyt.Tensor, y: tinyt.Tensor) -> list[tinyt.Tensor]:
        out, (hidden, memory) = layer(x)
        return [out, hidden, memory, short(y)[0]]

    operands = tinyt.randn(6, 2, 3).to(dtype), tinyt.randn(4, 1, 3).to(dtype)
    bound = 1e-5 if dtype is tinyt.float32 else 1e-13
    for have, want in run_both(tmp_path, function, *operands):
        assert tinyt.allclose(have, want, rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
def test_gradients(tmp_path: Path, dtype: tinyt.dtype) -> None:
    layer = nn.LSTM(3, 5, bidirectional=True).to(dtype)

    def function(x: tinyt.Tensor) -> list[tinyt.Tensor]:
        with tinyt.enable_grad():
            x = x.detach().requires_grad_()
            loss = layer(x)[0].square().sum()
            return list(tinyt.autograd.grad(loss, [x, *layer.parameters()]))

    bound = 1e-5 if dtype is tinyt.float32 else 1e-13
    for have, want in run_both(tmp_path, function, tinyt.randn(6, 2, 3).to(dtype)):
        assert tinyt.allclose(have, want, rtol=bound, atol=bound * want.abs().max().item())
