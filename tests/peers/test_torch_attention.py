"""Attention of bfloat16: no less exact than PyTorch's, which rounds weights and slopes, too."""

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
