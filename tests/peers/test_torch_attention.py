"""Attention: a mask that is causal besides, and bfloat16, which is no less exact than PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tinyt

SIZES = [(256, 256, 64), (300, 500, 24), (193, 97, 40), (64, 1200, 128)]


def with_gradients(lib: Any, arrays: list[np.ndarray], dtype: str, **options: Any) -> list[Any]:
    """Output and gradients of query, key and value, as float64."""
    q, k, v, g = (lib.tensor(a).to(getattr(lib, dtype)) for a in arrays)
    for t in (q, k, v):
        t.requires_grad_()
    out = lib.nn.functional.scaled_dot_product_attention(q, k, v, **options)
    out.backward(g)
    return [t.detach().double().numpy() for t in (out, q.grad, k.grad, v.grad)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_errors_in_bfloat16(sizes: tuple[int, int, int], causal: bool, rng: Any) -> None:
    queries, keys, width = sizes
    shapes = (queries, width), (keys, width), (keys, width), (queries, width)
    drawn = [torch.tensor(rng.standard_normal((2, 4, *shape))).bfloat16() for shape in shapes]
    arrays = [t.double().numpy() for t in drawn]
    exact = with_gradients(torch, arrays, "float64", is_causal=causal)
    ours, theirs = (
        with_gradients(lib, arrays, "bfloat16", is_causal=causal) for lib in (tinyt, torch)
    )
    for name, want, a, b in zip(("out", "query", "key", "value"), exact, ours, theirs, strict=True):
        of_ours, of_theirs = (np.sqrt(np.mean((x - want) ** 2)) for x in (a, b))
        assert of_ours <= 1.02 * of_theirs, (name, of_ours / of_theirs)


@pytest.mark.parametrize("sizes", [(5, 5), (5, 7), (7, 5), (130, 130)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "float64"])
def test_a_mask_that_is_causal_besides(sizes: tuple[int, int], kind: str, rng: Any) -> None:
    """What neither hides is seen: eager, compiled, and with all scores in memory."""
    queries, keys = sizes
    shapes = (queries, 8), (keys, 8), (keys, 8), (queries, 8)
    arrays = [rng.standard_normal((2, 3, *shape)) for shape in shapes]
    mask = rng.standard_normal(sizes) if kind == "float64" else rng.random(sizes) < 0.7
    options = {"attn_mask": torch.tensor(mask), "is_causal": True}
    want = with_gradients(torch, arrays, "float64", **options)

    learnt = tinyt.tensor(mask)
    if kind == "float64":
        learnt.requires_grad_()  # PyTorch refuses this one
    compiled = tinyt.compile(with_mask)
    q, k, v, g = map(tinyt.tensor, arrays)
    for found in (
        with_gradients(tinyt, arrays, "float64", attn_mask=tinyt.tensor(mask), is_causal=True),
        with_gradients(tinyt, arrays, "float64", attn_mask=learnt, is_causal=True),
        *(compiled(q, k, v, g, tinyt.tensor(mask)) for _ in range(3)),
    ):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12, atol=1e-13)


def with_mask(q: Any, k: Any, v: Any, g: Any, mask: Any) -> list[Any]:
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    attention = tinyt.nn.functional.scaled_dot_product_attention
    out = attention(*leaves, attn_mask=mask, is_causal=True)
    return [out.detach(), *tinyt.autograd.grad(out, leaves, g)]
