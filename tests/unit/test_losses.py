"""Loss and distance layers against PyTorch's; reductions, warnings and limits beyond the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import nn
from tinyt.nn import functional as F

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="compares with PyTorch")
REDUCTIONS: list[dict[str, Any]] = [{}, {"reduction": "sum"}, {"reduction": "none"}]

rng = np.random.default_rng(5)
X, Y, Z = (rng.standard_normal((6, 4)).astype(np.float32) for _ in range(3))
P = 1 / (1 + np.exp(-X))
SIGNS = np.where(Y > 0, 1, -1).astype(np.float32)
CLASSES = rng.integers(0, 4, 6)
WEIGHT = rng.uniform(0.2, 2, 4).astype(np.float32)
LISTS = np.array([[3, 0, -1, 1]] * 6)

# Layer, its arguments beside the reduction, and what it is called with.
LOSSES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("L1Loss", {}, (X, Y)),
    ("MSELoss", {}, (X, Y)),
    ("SmoothL1Loss", {"beta": 0.5}, (X, Y)),
    ("HuberLoss", {"delta": 0.5}, (X, Y)),
    ("CrossEntropyLoss", {}, (X, CLASSES)),
    ("CrossEntropyLoss", {"weight": WEIGHT, "label_smoothing": 0.1}, (X, CLASSES)),
    ("CrossEntropyLoss", {"ignore_index": 1}, (X, CLASSES)),
    ("CrossEntropyLoss", {"weight": WEIGHT}, (X, P / P.sum(1, keepdims=True))),
    ("NLLLoss", {}, (X, CLASSES)),
    ("NLLLoss", {"weight": WEIGHT, "ignore_index": 2}, (X, CLASSES)),
    ("BCELoss", {"weight": WEIGHT}, (P, 0.5 + SIGNS / 2)),
    ("BCEWithLogitsLoss", {"pos_weight": WEIGHT}, (X, 0.5 + SIGNS / 2)),
    ("PoissonNLLLoss", {"full": True}, (X, np.abs(Y) * 3)),
    ("GaussianNLLLoss", {"full": True}, (X, Y, P)),
    ("SoftMarginLoss", {}, (X, SIGNS)),
    ("MultiLabelSoftMarginLoss", {"weight": WEIGHT}, (X, 0.5 + SIGNS / 2)),
    ("MultiLabelMarginLoss", {}, (X, LISTS)),
    ("MultiMarginLoss", {"p": 2, "margin": 0.5, "weight": WEIGHT}, (X, CLASSES)),
    ("HingeEmbeddingLoss", {"margin": 0.5}, (X, SIGNS)),
    ("CosineEmbeddingLoss", {"margin": 0.2}, (X, Y, SIGNS[:, 0])),
    ("MarginRankingLoss", {"margin": 0.2}, (X, Y, SIGNS)),
    ("TripletMarginLoss", {"swap": True}, (X, Y, Z)),
    ("TripletMarginWithDistanceLoss", {"margin": 0.5}, (X, Y, Z)),
]
CASES = [(n, {**k, **r}, a) for n, k, a in LOSSES for r in REDUCTIONS]
CASES += [("KLDivLoss", {"reduction": r}, (X, P)) for r in ("batchmean", "sum", "none")]
CASES += [
    ("PairwiseDistance", {"p": 1.0, "keepdim": True}, (X, Y)),
    ("CosineSimilarity", {"dim": 0}, (X, Y)),
]


def tensors(tt: Any, value: Any) -> Any:
    return tt.tensor(value) if isinstance(value, np.ndarray) else value


@needs_torch
@pytest.mark.parametrize(("name", "kwargs", "args"), CASES)
def test_layer_equals_pytorch(name: str, kwargs: dict[str, Any], args: tuple[Any, ...]) -> None:
    results = []
    for tt in (tinyt, torch):
        layer = getattr(tt.nn, name)(**{k: tensors(tt, v) for k, v in kwargs.items()})
        first, *rest = (tensors(tt, a) for a in args)
        first.requires_grad_()
        out = layer(first, *rest)
        (out * out).sum().backward()
        results.append(
            (out.detach().numpy(), first.grad.numpy(), repr(layer), [*layer.state_dict()])
        )
    (out, grad, *facts), (out2, grad2, *facts2) = results
    np.testing.assert_allclose(out, out2, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(grad, grad2, rtol=2e-5, atol=2e-5)
    assert facts == facts2


@pytest.mark.parametrize(
    ("size_average", "reduce", "want"),
    [(None, True, "mean"), (True, None, "mean"), (False, None, "sum"), (True, False, "none")],
)
def test_legacy_booleans(size_average: bool | None, reduce: bool | None, want: str) -> None:
    x, y = tinyt.tensor(X), tinyt.tensor(Y)
    with pytest.warns(UserWarning, match=f"reduction='{want}'"):
        got = F.mse_loss(x, y, size_average, reduce)
    assert tinyt.equal(got, F.mse_loss(x, y, reduction=want))
    with pytest.warns(UserWarning, match=f"reduction='{want}'"):
        assert nn.MSELoss(size_average, reduce).reduction == want


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_broadcast_target_warns(name: str) -> None:
    with pytest.warns(UserWarning, match=r"\(1, 4\).*\(6, 4\)"):
        getattr(F, name)(tinyt.tensor(X), tinyt.tensor(Y[:1]))


def test_ignored_targets_have_no_influence() -> None:
    """Neither a value nor a gradient, though their log-probability is infinite."""
    x = tinyt.tensor([[0.0, -float("inf")], [1.0, 2.0]], requires_grad=True)
    loss = F.cross_entropy(x, tinyt.tensor([-100, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(1 + np.exp(-1)), rel=1e-6)
    assert x.grad.tolist()[0] == [0.0, 0.0]
    nothing = F.cross_entropy(x, tinyt.tensor([-100, -100]))
    assert np.isnan(nothing.item())  # 0 / 0, as in PyTorch
    assert F.cross_entropy(x, tinyt.tensor([-100, -100]), reduction="sum").item() == 0


def test_logits_far_out_stay_finite() -> None:
    x = tinyt.tensor([-1e4, 1e4, -1e4, 1e4], requires_grad=True)
    t = tinyt.tensor([0.0, 1.0, 1.0, 0.0])
    loss = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    loss.sum().backward()
    assert loss.tolist() == [0.0, 0.0, 1e4, 1e4]
    assert x.grad.tolist() == [0.0, 0.0, -1.0, 1.0]


def test_cross_entropy_takes_bytes_and_half() -> None:
    x, t = tinyt.tensor(X), tinyt.tensor(CLASSES)
    want = F.cross_entropy(x, t)
    assert tinyt.equal(F.cross_entropy(x, t.to(tinyt.uint8)), want)
    half = F.cross_entropy(x.to(tinyt.bfloat16), t)
    assert half.dtype is tinyt.bfloat16
    assert half.item() == pytest.approx(want.item(), rel=1e-2)


def test_variance_limit_passes_the_gradient() -> None:
    var = tinyt.tensor([0.0, 1.0], requires_grad=True)
    F.gaussian_nll_loss(tinyt.zeros(2), tinyt.zeros(2), var, eps=0.5).backward()
    assert var.grad.tolist() == [0.5, 0.25]
    assert var.tolist() == [0.0, 1.0]


def test_similarity_of_zero_is_zero() -> None:
    x = tinyt.zeros(1, 3, requires_grad=True)
    y = tinyt.ones(1, 3)
    out = F.cosine_similarity(x, y)
    assert out.tolist() == [0.0]
    assert F.normalize(x.detach()).tolist() == [[0.0, 0.0, 0.0]]


def test_gradients_at_zero_are_those_of_the_limited_norm() -> None:
    x = tinyt.zeros(1, 3, dtype=tinyt.float64, requires_grad=True)
    y = tinyt.ones(1, 3, dtype=tinyt.float64, requires_grad=True)
    F.normalize(x).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [[1e12] * 3])  # 1 / eps
    x.grad = None
    F.cosine_similarity(x, y).sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [[1e8 / 3**0.5] * 3])  # y / (eps |y|)
    assert y.grad.tolist() == [[0.0] * 3]


def test_attention_over_no_features_is_the_mean_of_the_values() -> None:
    nothing, value = tinyt.ones(2, 3, 0), tinyt.arange(12.0).reshape(2, 3, 2)
    out = F.scaled_dot_product_attention(nothing, nothing, value)
    assert out.tolist() == [[[2.0, 3.0]] * 3, [[8.0, 9.0]] * 3]


def test_distance_function_is_called() -> None:
    layer = nn.TripletMarginWithDistanceLoss(
        distance_function=lambda a, b: (a - b).abs().amax(-1), margin=2.0, reduction="none"
    )
    got = layer(*(tinyt.tensor(v) for v in (X, Y, Z)))
    far = [np.abs(X - v).max(-1) for v in (Y, Z)]
    np.testing.assert_allclose(got.numpy(), np.maximum(far[0] - far[1] + 2, 0), rtol=1e-6)


@pytest.mark.parametrize("dtype", [tinyt.float32, tinyt.float64])
@pytest.mark.parametrize("shape", [(3, 21, 70), (2, 5, 9, 11), (2, 33, 4), (1, 700, 130)])
def test_cross_entropy_has_the_same_bits_for_every_layout(
    shape: tuple[int, ...], dtype: tinyt.dtype
) -> None:
    """Classes apart or side by side: losses, gradients, ignored rows that hold no numbers."""
    tinyt.manual_seed(1)
    apart = tinyt.randn(shape, dtype=dtype) * 5
    target = tinyt.randint(0, shape[1], (shape[0], *shape[2:]))
    target[0, 1] = -100
    apart.transpose(0, 1)[:, 0, 1] = float("nan")
    results = []
    for x in (apart, apart.movedim(1, -1).contiguous().movedim(-1, 1), apart.flip(-1).flip(-1)):
        leaf = x.detach().requires_grad_()
        losses = F.cross_entropy(leaf, target, reduction="none")
        (losses * tinyt.arange(losses.numel()).reshape(losses.shape).to(dtype)).sum().backward()
        results.append((losses.detach(), leaf.grad))
    for losses, grad in results[1:]:
        assert_same_bits(losses, results[0][0])
        assert_same_bits(grad, results[0][1])
    assert bool(tinyt.isfinite(results[0][1]).all())
