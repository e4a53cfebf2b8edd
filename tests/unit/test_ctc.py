"""The CTC loss: against the sum over all paths, and PyTorch where it is installed."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.nn.functional import ctc_loss

try:
    import torch
except ImportError:
    torch = None


def expected(scores: Any, target: list[int], blank: int) -> float:
    """Minus the logarithm of the summed probabilities of all paths that read as the target."""
    steps, classes = scores.shape
    total = 0.0
    for path in product(range(classes), repeat=steps):
        read = [label for label, _ in groupby(path) if label != blank]
        if read == target:
            total += np.exp(sum(scores[t, label] for t, label in enumerate(path)))
    return -np.log(total) if total else np.inf


def log_probs(rng: np.random.Generator, *shape: int) -> Any:
    scores = rng.normal(size=shape)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


TARGETS = [[], [1], [1, 1], [1, 2], [2, 2, 1], [1, 2, 1], [1, 1, 1]]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [1, 2, 4, 5])
def test_sums_over_paths(target: list[int], steps: int, rng: np.random.Generator) -> None:
    scores = log_probs(rng, steps, 3)
    found = ctc_loss(
        tinyt.tensor(scores),
        tinyt.tensor(target, dtype=tinyt.int64),
        tinyt.tensor(steps),
        tinyt.tensor(len(target)),
        reduction="none",
    )
    np.testing.assert_allclose(found.item(), expected(scores, target, 0), rtol=1e-12)


def batch(tt: Any, scores: Any, form: str) -> tuple[Any, ...]:
    targets = [[1, 2, 2], [3, 1, 1], [2, 1, 0], [1, 0, 0]]
    lengths = [3, 2, 2, 1]
    pairs = zip(targets, lengths, strict=True)
    rows: Any = targets if form == "rows" else [x for row, n in pairs for x in row[:n]]
    x = tt.tensor(scores, requires_grad=True)
    return x, tt.tensor(rows), tt.tensor([7, 6, 5, 1]), tt.tensor(lengths)


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("form", ["rows", "one"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("through", [False, True])
def test_as_pytorch(form: str, reduction: str, through: bool, rng: np.random.Generator) -> None:
    """With gradients at the log-probabilities, and through log_softmax."""
    scores = log_probs(rng, 7, 4, 5)
    results = []
    for tt in (torch, tinyt):
        x, *rest = batch(tt, scores, form)
        y = tt.nn.functional.log_softmax(x * 1.5, 2) if through else x
        loss = tt.nn.functional.ctc_loss(y, *rest, reduction=reduction)
        (loss * tt.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
        results.append((loss.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    layers = [tt.nn.CTCLoss(blank=4, reduction=reduction) for tt in (torch, tinyt)]
    assert repr(layers[0]) == repr(layers[1])
    a, b = (
        layer(*batch(tt, scores, form)).detach().numpy()
        for tt, layer in zip((torch, tinyt), layers, strict=True)
    )
    np.testing.assert_allclose(b, a, rtol=1e-10)


def test_inputs_that_are_too_short(rng: np.random.Generator) -> None:
    x = tinyt.tensor(log_probs(rng, 4, 3, 3), requires_grad=True)
    targets = tinyt.tensor([[1, 1, 1], [1, 2, 1], [1, 2, 1]])
    sizes = (tinyt.tensor([4, 0, 4]), tinyt.tensor([3, 3, 0]))
    loss = ctc_loss(x, targets, *sizes, reduction="none")
    assert loss[:2].tolist() == [float("inf")] * 2
    assert loss[2].item() == pytest.approx(-x[:, 2, 0].sum().item())
    assert ctc_loss(x, targets, (0, 0, 0), (0, 0, 0), reduction="none").tolist() == [0.0] * 3
    ctc_loss(x, targets, *sizes, zero_infinity=True).backward()
    assert x.grad.isfinite().all()
    assert (x.grad[:, :2] == 0).all()


def test_halves_and_second_gradients(rng: np.random.Generator) -> None:
    x = tinyt.tensor(log_probs(rng, 3, 2, 3))
    rest = (tinyt.tensor([[1], [2]]), (3, 3), (1, 1))
    half = ctc_loss(x.half(), *rest)
    assert half.dtype is tinyt.float16
    assert half.item() == pytest.approx(ctc_loss(x, *rest).item(), rel=2e-3)
    y = tinyt.tensor(rng.normal(size=(3, 2, 3)), requires_grad=True)
    assert tinyt.autograd.gradgradcheck(
        lambda y: ctc_loss(y.log_softmax(2), *rest, reduction="sum"), (y,)
    )


def test_compiled(rng: np.random.Generator) -> None:
    def loss_of(x: Any, targets: Any, sizes: Any, lengths: Any) -> Any:
        loss = ctc_loss(x.log_softmax(2), targets, sizes, lengths)
        (grad,) = tinyt.autograd.grad(loss, x)
        return loss.detach(), grad

    compiled = tinyt.compile(loss_of)
    for seed in range(3):
        x = tinyt.tensor(rng.normal(size=(6, 2, 4)), requires_grad=True)
        rest = (tinyt.tensor([[1, 2], [3, 3]]), tinyt.tensor([6, 4 + seed % 2]),
                tinyt.tensor([2, 1 + seed % 2]))  # fmt: skip
        for a, b in zip(compiled(x, *rest), loss_of(x, *rest), strict=True):
            assert a.tolist() == b.tolist()


def test_errors() -> None:
    x, targets = tinyt.zeros(4, 2, 3), tinyt.tensor([[1, 2], [1, 2]])
    for arguments, message in (
        ((x, targets, (4, 5), (1, 1)), "input_lengths must be between 0 and 4"),
        ((x, targets, (4, 4), (1, 3)), "target_lengths must be between 0 and 2"),
        ((x, targets, (4,), (1, 1)), "must be of size batch_size"),
        ((x, targets, (4, 4), (1, 1), 3), "blank must be in label range"),
        ((x, tinyt.tensor([1]), (4, 4), (1, 1)), "as many entries"),
        ((x[:, :1], targets, (4,), (1,)), "of 1 samples"),
        ((x[0, 0], targets, (4,), (1,)), "2 or 3 dimensions"),
        ((x[:0], targets, (0, 0), (1, 1)), "at least one step"),
    ):
        with pytest.raises(RuntimeError, match=message):
            ctc_loss(*arguments)
    with pytest.raises(ValueError, match="reduction"):
        ctc_loss(x, targets, (4, 4), (1, 1), reduction="all")
    with pytest.raises(TypeError, match="expected a Tensor"):
        ctc_loss(x, [1, 2], (4, 4), (1, 1))
