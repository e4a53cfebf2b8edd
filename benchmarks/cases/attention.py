"""Attention, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from benchmarks.case import Case, Input, Work, normal, with_backward
from benchmarks.networks import fill


def attention(
    of: str, batch: int, heads: int, queries: int, width: int, keys: int = 0, groups: int = 0,
    causal: bool = False, masked: bool = False, backward: bool = False, dtype: str = "float32",
) -> Case:  # fmt: skip
    """``groups``: heads of keys and values, where they are fewer."""
    keys, groups = keys or queries, groups or heads
    options: dict[str, Any] = {"is_causal": True} if causal else {}
    if groups != heads:
        options["enable_gqa"] = True
    inputs: tuple[Input, ...] = (
        normal(batch, heads, queries, width, grad=backward, dtype=dtype),
        normal(batch, groups, keys, width, grad=backward, dtype=dtype),
        normal(batch, groups, keys, width, grad=backward, dtype=dtype),
    )
    if masked:
        inputs += (normal(batch, 1, queries, keys, dtype=dtype),)

    def function(lib: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, mask, **options)

    name = f"{batch}x{heads}x{queries}x{width}"
    name += f" over {keys}" if keys != queries else ""
    name += f", {groups} groups" if groups != heads else ""
    name += (" causal" if causal else "") + (" masked" if masked else "")
    name += (" forward, backward" if backward else "") + ("" if dtype == "float32" else f" {dtype}")
    # Two products forward; backward recomputes one and has four of its own. Half is masked out.
    products = 7 if backward else 2
    flops = 2 * products * batch * heads * queries * keys * width / (2 if causal else 1)
    return Case(
        f"{name} ({of})",
        inputs,
        with_backward(function) if backward else lambda lib, *t: lambda: function(lib, *t),
        Work(flops, sum(i.nbytes for i in inputs), inputs[0].nbytes,
             "bfloat16" if dtype == "bfloat16" else "float32"),
    )  # fmt: skip


def multihead(of: str, batch: int, tokens: int, width: int, heads: int) -> Case:
    """nn.MultiheadAttention on itself, forward and backward."""

    def setup(lib: Any, x: Any) -> Any:
        layer = fill(lib, lib.nn.MultiheadAttention(width, heads, batch_first=True))
        return with_backward(lambda lib, x: layer(x, x, x, need_weights=False)[0])(lib, x)

    flops = 3 * (8 * batch * tokens * width**2 + 4 * batch * tokens**2 * width)
    return Case(f"MultiheadAttention {batch}x{tokens}x{width} forward, backward ({of})",
                (normal(batch, tokens, width, grad=True),), setup, Work(flops))  # fmt: skip


FIXED = (
    attention("GPT-2", 1, 12, 1024, 64, causal=True),
    attention("GPT-2", 4, 12, 256, 64, causal=True),
    attention("GPT-2", 1, 12, 1024, 64, causal=True, backward=True),
    attention("small transformer", 8, 6, 256, 64, causal=True),
    attention("small transformer", 8, 6, 256, 64, causal=True, backward=True),
    attention("BERT base", 4, 12, 512, 64),
    attention("BERT base, padded", 4, 12, 512, 64, masked=True),
    attention("BERT base, padded", 4, 12, 512, 64, masked=True, backward=True),
    attention("ViT-B/16", 8, 12, 197, 64),
    attention("ViT-B/16", 8, 12, 197, 64, backward=True),
    attention("Swin-T, windows", 256, 3, 49, 32),
    attention("Swin-T, windows", 256, 3, 49, 32, backward=True),
    attention("Stable Diffusion, text", 2, 8, 4096, 40, keys=77),
    attention("Stable Diffusion, image", 1, 8, 2048, 40),
    attention("Whisper base, encoder", 1, 8, 1500, 64),
    attention("T5 small, cross", 8, 8, 64, 64, keys=512),
    attention("Llama 3 8B, prompt", 1, 32, 512, 128, groups=8, causal=True),
    attention("Llama 3 8B, one token", 1, 32, 1, 128, keys=2048, groups=8),
    attention("Llama 7B, one token", 1, 32, 1, 128, keys=4096),
    attention("GPT-2, one token", 8, 12, 1, 64, keys=1024),
    attention("tiny", 1, 2, 16, 16, causal=True),
    attention("GPT-2", 1, 12, 1024, 64, causal=True, dtype="bfloat16"),
    attention("Llama 7B, prompt", 1, 32, 512, 128, causal=True, dtype="bfloat16"),
    multihead("small transformer", 8, 128, 384, 6),
)


def drawn(draw: Random) -> Iterator[Case]:
    """Any lengths and widths."""
    for number in range(4):
        yield attention(
            "drawn", draw.randint(1, 4), draw.randint(1, 12), draw.randint(10, 700),
            8 * draw.randint(2, 16), causal=draw.random() < 0.5, backward=number % 2 == 1,
        )  # fmt: skip
