"""Softmax in clusters, and batch norms of all processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt

torch = pytest.importorskip("torch")


def pair(*args: Any, **kwargs: Any) -> list[Any]:
    theirs, ours = (
        tt.nn.AdaptiveLogSoftmaxWithLoss(*args, **kwargs, dtype=tt.float64) for tt in (torch, tinyt)
    )
    ours.load_state_dict(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    return [(torch, theirs), (tinyt, ours)]


@pytest.mark.parametrize("cutoffs", [[3], [2, 5, 11]])
@pytest.mark.parametrize("kwargs", [{}, {"div_value": 2.0, "head_bias": True}])
@pytest.mark.parametrize("targets", [[0, 1, 11, 4, 2, 3], [0, 1], [11], []])
def test_softmax_in_clusters(
    cutoffs: list[int], kwargs: Any, targets: list[int], rng: np.random.Generator
) -> None:
    values = rng.normal(size=(len(targets), 64))
    results = []
    for tt, layer in pair(64, 12, cutoffs, **kwargs):
        x = tt.tensor(values, requires_grad=True)
        if not targets:
            results.append([layer(x, tt.tensor(targets, dtype=tt.int64)).output.tolist()])
            continue
        output, loss = layer(x, tt.tensor(targets))
        loss.backward()
        grads = [p.grad for p in layer.parameters()]
        found = [output, loss, x.grad, *(tt.zeros(1) if g is None else g for g in grads)]
        found += [layer.log_prob(x), layer.predict(x), layer(x[0], tt.tensor(targets[0])).output]
        results.append([y.detach().numpy() for y in found])
    for ours, theirs in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-13)


def test_errors_of_softmax_in_clusters() -> None:
    for cutoffs in ([], [3, 3], [0, 2], [12], [5, 2], [1.5]):
        for tt in (torch, tinyt):
            with pytest.raises(ValueError, match="cutoffs should be a sequence"):
                tt.nn.AdaptiveLogSoftmaxWithLoss(4, 12, cutoffs)
    for tt, layer in pair(4, 12, [3]):
        x = tt.ones(2, 4, dtype=tt.float64)
        for target, message in (
            ([1, 12], "Target values should be in"),
            ([1], "same size in the batch"),
            ([[1, 2]], "multi-target"),
            (1, "0D target tensor expects 1D"),
        ):
            with pytest.raises(RuntimeError, match=message):
                layer(x, tt.tensor(target))
    before = layer.head.weight.tolist()
    layer.reset_parameters()
    assert layer.head.weight.tolist() != before


def nets(tt: Any) -> Any:
    net = tt.nn.Sequential(
        tt.nn.Conv2d(3, 4, 1), tt.nn.BatchNorm2d(4), tt.nn.Sequential(tt.nn.BatchNorm2d(4))
    ).double()
    return tt.nn.SyncBatchNorm.convert_sync_batchnorm(net)


def test_batch_norm_of_all_processes(rng: np.random.Generator) -> None:
    theirs, ours = nets(torch), nets(tinyt)
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(theirs.state_dict())
    value = rng.normal(size=(2, 3, 4, 4))
    a, b = theirs(torch.tensor(value)), ours(tinyt.tensor(value))
    np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-9, atol=1e-12)
    for name, held in theirs.state_dict().items():
        np.testing.assert_allclose(
            ours.state_dict()[name].numpy(), held.numpy(), rtol=1e-10, atol=1e-15
        )
    plain = tinyt.nn.BatchNorm1d(3).eval()
    other = tinyt.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    assert other.weight is plain.weight
    assert other.running_mean is plain.running_mean
    assert not other.training
    for tt in (torch, tinyt):
        with pytest.raises(ValueError, match="at least 2D"):
            tt.nn.SyncBatchNorm(3)(tt.ones(3))
