"""A small transformer that predicts the next character."""

# ruff: noqa: D102
# (forward is described by the class.)

from __future__ import annotations

import math

from tinyt import nn, ops
from tinyt.nn import functional as F
from tinyt.nn import init
from tinyt.tensor import Tensor


class Attention(nn.Module):
    """Causal self-attention with several heads. Shapes: (N, T, width) to the same."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"Attention: width {width} must be a multiple of heads {heads}")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        split = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, time, width)))
        return result


class Block(nn.Module):
    """Attention, then two linear layers, each normalised before and added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.feed_forward(self.norm2(x))
        return result


class CharTransformer(nn.Module):
    """A decoder-only transformer over characters (Vaswani et al., 2017; Radford et al., 2019).

    Learned positions, normalisation before each part, and the embedding's weight used again for
    the output. Shapes: character numbers (N, T) with T <= context, output logits (N, T, classes).
    """

    def __init__(
        self,
        classes: int,
        context: int = 128,
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(classes, width)
        self.position = nn.Parameter(ops.zeros(context, width))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for name, param in self.named_parameters():
            if name.endswith(("out.weight", "feed_forward.2.weight")):
                # What is added to the residual path shrinks with its length.
                init.normal_(param, std=0.02 / math.sqrt(2 * layers))
            elif param.dim() > 1:
                init.normal_(param, std=0.02)
            elif name.endswith("bias"):
                init.zeros_(param)

    def forward(self, characters: Tensor) -> Tensor:
        time = characters.shape[1]
        if time > self.context:
            raise ValueError(f"CharTransformer: at most {self.context} characters, got {time}")
        x = self.dropout(self.embedding(characters) + self.position[:time])
        return F.linear(self.norm(self.blocks(x)), self.embedding.weight)
