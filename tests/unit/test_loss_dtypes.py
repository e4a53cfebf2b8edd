"""Which dtypes the losses take, and which they give."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F

f16, f32, f64, i64, u8, bools = (
    tinyt.float16,
    tinyt.float32,
    tinyt.float64,
    tinyt.int64,
    tinyt.uint8,
    tinyt.bool,
)
GIVEN: list[tuple[str, Any, Any, Any]] = [
    ("mse_loss", f32, i64, f32),
    ("mse_loss", i64, f32, f32),
    ("mse_loss", f32, bools, f32),
    ("mse_loss", bools, f16, f16),
    ("smooth_l1_loss", f32, bools, f32),
    ("smooth_l1_loss", i64, f64, f64),
    ("smooth_l1_loss", f16, f32, f32),
    ("huber_loss", f16, f32, f16),
    ("huber_loss", f32, f64, f32),
    ("huber_loss", f64, bools, f64),
    ("huber_loss", f32, i64, f32),
    ("binary_cross_entropy_with_logits", f32, f64, f64),
    ("binary_cross_entropy_with_logits", f64, f16, f16),
    ("soft_margin_loss", f32, f64, f32),
    ("soft_margin_loss", f16, i64, f16),
    ("hinge_embedding_loss", f32, i64, f32),
    ("hinge_embedding_loss", i64, i64, i64),
    ("multilabel_soft_margin_loss", f16, u8, f16),
    ("kl_div", f16, f32, f32),
]


@pytest.mark.parametrize(("name", "input", "target", "want"), GIVEN)
def test_dtype_of_a_loss(name: str, input: Any, target: Any, want: Any) -> None:
    loss = getattr(F, name)
    x = tinyt.tensor([[1, 0, 1]]).to(input)
    t = tinyt.tensor([[0, 0, 1]]).to(target)
    for reduction in ("none", "sum"):
        assert loss(x, t, reduction=reduction).dtype is want
    if want is not i64:
        assert loss(x, t).dtype is want
        exact = loss(x.double(), t.double())
        assert float(loss(x, t)) == pytest.approx(float(exact), rel=1e-3)


def test_pos_weight_and_weight_do_not_change_the_dtype() -> None:
    x, t, w = tinyt.tensor([0.5, 0.25]).half(), tinyt.tensor([0.0, 1.0]).half(), tinyt.ones(2)
    assert F.binary_cross_entropy(x, t, w.double()).dtype is f16
    assert F.binary_cross_entropy_with_logits(x, t, pos_weight=w).dtype is f16
    assert F.binary_cross_entropy_with_logits(x, t, w, reduction="none").dtype is f16


def test_gradients_in_other_dtypes() -> None:
    x = tinyt.tensor([0.5, 3.0], dtype=f16, requires_grad=True)
    F.huber_loss(x, tinyt.tensor([0.0, 0.0], dtype=f64), reduction="sum").backward()
    assert x.grad.tolist() == [0.5, 1.0]
    assert x.grad.dtype is f16
