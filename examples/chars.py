"""Trains a small causal transformer to write Python's help texts, character by character.

The text ships with Python itself: `pydoc_data.topics`.
"""

import argparse
import math
import os
from pydoc_data.topics import topics

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, Dataset, Subset


class Windows(Dataset):
    """Pieces of a text: characters, and the ones that follow them."""

    def __init__(self, codes, length):
        self.codes = codes
        self.length = length

    def __len__(self):
        return (len(self.codes) - 1) // self.length

    def __getitem__(self, index):
        start = index * self.length
        piece = self.codes[start : start + self.length + 1]
        return piece[:-1], piece[1:]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (
            t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in (q, k, v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Model(nn.Module):
    def __init__(self, characters, length, width, heads, layers, dropout):
        super().__init__()
        self.length = length
        self.token = nn.Embedding(characters, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        nn.init.normal_(self.token.weight, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, codes):
        positions = torch.arange(codes.size(1), device=codes.device)
        x = self.token(codes) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def decayed(model, decay):
    """Two groups of parameters: weight decay acts on matrices, not on vectors."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]


@torch.no_grad()
def evaluate(model, loader, criterion):
    """Bits per character on held-out text."""
    model.eval()
    losses = [criterion(model(x).flatten(0, 1), y.flatten()).item() for x, y in loader]
    model.train()
    return sum(losses) / len(losses) / math.log(2)


@torch.no_grad()
def generate(model, codes, count, temperature=0.8):
    model.eval()
    for _ in range(count):
        logits = model(codes[:, -model.length :])[:, -1] / temperature
        following = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
        codes = torch.cat([codes, following], dim=1)
    model.train()
    return codes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--characters", type=int, default=200_000, help="how much of the text")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--no-shuffle", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--init", help="NumPy file of initial weights")
    parser.add_argument("--checkpoint", help="file to save the best model in")
    parser.add_argument("--generate", type=int, default=200, help="characters to write at the end")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    text = "\n".join(topics[name] for name in sorted(topics))[: args.characters]
    alphabet = sorted(set(text))
    code_of = {c: i for i, c in enumerate(alphabet)}
    data = Windows(torch.tensor([code_of[c] for c in text], dtype=torch.long), args.length)
    held_out = len(data) // 10
    training = Subset(data, range(len(data) - held_out))
    testing = Subset(data, range(len(data) - held_out, len(data)))
    train_loader = DataLoader(
        training, args.batch_size, shuffle=not args.no_shuffle, drop_last=True
    )
    test_loader = DataLoader(testing, args.batch_size)

    model = Model(len(alphabet), args.length, args.width, args.heads, args.layers, args.dropout)
    if args.init:
        weights = np.load(args.init)
        model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(decayed(model, 0.1), lr=args.lr, betas=(0.9, 0.95))
    steps = args.epochs * len(train_loader)
    scheduler = SequentialLR(
        optimizer,
        [
            LinearLR(optimizer, start_factor=0.1, total_iters=args.warmup),
            CosineAnnealingLR(optimizer, T_max=max(1, steps - args.warmup), eta_min=args.lr / 10),
        ],
        milestones=[args.warmup],
    )

    best = float("inf")
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            scheduler.step()
            total += loss.item()
        bits = evaluate(model, test_loader, criterion)
        rate = scheduler.get_last_lr()[0]
        print(
            f"Epoch {epoch}: mean loss {total / len(train_loader):.6f}, "
            f"held-out bits {bits:.6f}, rate {rate:.6f}"
        )
        if bits < best and args.checkpoint:
            best = bits
            torch.save({"model": model.state_dict(), "bits": bits}, args.checkpoint)

    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        print(f"Best: held-out bits {state['bits']:.6f}")
    if args.generate:
        prompt = torch.tensor([[code_of[c] for c in text[:10]]])
        codes = generate(model, prompt, args.generate)[0].tolist()
        print("".join(alphabet[code] for code in codes))


if __name__ == "__main__":
    main()
