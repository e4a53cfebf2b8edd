"""The fused row of long short-term memory, and the layer that takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn
from tinyt.autograd import gradcheck, gradgradcheck
from tinyt.tensor import prim


def sequence(rng: Any, times: int, batch: int, width: int, dtype: type = np.float64) -> list[Any]:
    shapes = (times, batch, 4 * width), (batch, width), (batch, width), (4 * width, width)
    return [tinyt.tensor(rng.standard_normal(s).astype(dtype)) for s in shapes]


@pytest.mark.parametrize("reverse", [False, True])
def test_first_and_second_gradients(reverse: bool, rng: Any) -> None:
    parts = [x.requires_grad_() for x in sequence(rng, 3, 2, 2)]

    def run(*inputs: Any) -> Any:
        return prim.lstm(*inputs, reverse)[:2]

    assert gradcheck(run, parts)
    assert gradgradcheck(run, parts)


def test_no_times_pass_the_states_on(rng: Any) -> None:
    parts = [x.requires_grad_() for x in sequence(rng, 0, 3, 5)]
    out, last, saved = prim.lstm(*parts, False)
    assert out.shape == (0, 3, 5)
    np.testing.assert_array_equal(last.numpy(force=True), parts[2].numpy(force=True))
    assert saved.shape == (0, 75)
    (out.sum() + last.sum()).backward()
    grads = [x.grad.numpy(force=True) for x in parts]
    assert grads[0].shape == (0, 3, 20)
    assert [g.sum() for g in grads[1:]] == [0, 15, 0]


@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 3, 0)])
def test_nothing_to_do(shape: tuple[int, int, int], rng: Any) -> None:
    parts = [x.requires_grad_() for x in sequence(rng, *shape)]
    out, last, _ = prim.lstm(*parts, False)
    assert (out.shape, last.shape) == (shape, shape[1:])
    (out.sum() + last.sum()).backward()
    assert all((x.grad.numpy(force=True) == 0).all() for x in parts)


def test_bits_are_the_same_for_any_threads(rng: Any) -> None:
    parts = [x.requires_grad_() for x in sequence(rng, 4, 33, 130, np.float32)]
    results = []
    for threads in (1, 2, 3, 7):
        with tinyt.num_threads(threads):
            out, last, _ = prim.lstm(*parts, True)
            grads = tinyt.autograd.grad(out.square().sum() + last.sum(), parts)
        results.append([x.detach().numpy(force=True).tobytes() for x in (out, last, *grads)])
    assert all(r == results[0] for r in results)


def test_strided_operands(rng: Any) -> None:
    parts = sequence(rng, 3, 4, 5)
    want = prim.lstm(*parts, False)[0].numpy(force=True)
    turned = [x.transpose(0, 1).clone().transpose(0, 1) for x in parts]
    np.testing.assert_array_equal(prim.lstm(*turned, False)[0].numpy(force=True), want)


def test_refused_operands(rng: Any) -> None:
    gates, hidden, memory, weight = sequence(rng, 3, 4, 5)
    with pytest.raises(RuntimeError, match=r"lstm: shapes .*\(4, 4\)"):
        prim.lstm(gates, hidden[:, :4], memory, weight, False)
    with pytest.raises(RuntimeError, match=r"lstm: shapes .*\(19, 5\)"):
        prim.lstm(gates, hidden, memory, weight[:19], False)
    with pytest.raises(RuntimeError, match="lstm: needs one dtype, float32 or float64"):
        prim.lstm(gates, hidden, memory, weight.float(), False)
    with pytest.raises(RuntimeError, match=r"lstm: needs one dtype.*float16"):
        prim.lstm(*(x.half() for x in (gates, hidden, memory, weight)), False)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"bidirectional": True}])
def test_layer_is_its_cell_at_each_time(options: dict[str, Any], rng: Any) -> None:
    layer = nn.LSTM(6, 4, dtype=tinyt.float64, **options)
    x = tinyt.tensor(rng.standard_normal((5, 3, 6)))
    out, last = layer(x)
    cell = nn.LSTMCell(6, 4, bias=options.get("bias", True), dtype=tinyt.float64)
    for reverse in range(2 if "bidirectional" in options else 1):
        suffix = "_l0_reverse" if reverse else "_l0"
        cell.load_state_dict({name: getattr(layer, name + suffix) for name in cell.state_dict()})
        state = None
        for t in reversed(range(5)) if reverse else range(5):
            state = cell(x[t], state)
            part = out[t, :, 4 * reverse : 4 * reverse + 4]
            np.testing.assert_allclose(
                part.detach().numpy(force=True), state[0].detach().numpy(force=True), rtol=1e-12
            )
        for got, want in zip(last, state, strict=True):
            np.testing.assert_allclose(
                got[reverse].detach().numpy(force=True), want.detach().numpy(force=True), rtol=1e-12
            )
