"""A small Swin transformer (Liu et al., 2021): windows, shifts by roll, TorchScript helpers."""
import argparse
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@torch.jit.script
def window_partition(x: torch.Tensor, window_size: int) -> torch.Tensor:
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size * window_size, C)


@torch.jit.script
def window_reverse(windows: torch.Tensor, window_size: int, H: int, W: int) -> torch.Tensor:
    B = int(windows.shape[0] / (H * W / window_size / window_size))
    x = windows.view(B, H // window_size, W // window_size, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim: int, window_size: int, num_heads: int):
        super().__init__()
        self.dim, self.window_size, self.num_heads = dim, window_size, num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(
            torch.zeros((2 * window_size - 1) * (2 * window_size - 1), num_heads))
        coords = torch.stack(torch.meshgrid([torch.arange(window_size)] * 2, indexing="ij"))
        coords_flatten = torch.flatten(coords, 1)
        relative_coords = coords_flatten[:, :, None] - coords_flatten[:, None, :]
        relative_coords = relative_coords.permute(1, 2, 0).contiguous()
        relative_coords += window_size - 1
        relative_coords[:, :, 0] *= 2 * window_size - 1
        self.register_buffer("relative_position_index", relative_coords.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=.02)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        attn = attn + bias.view(N, N, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        x = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B_, N, C)
        return self.proj(x)

    @torch.jit.ignore
    def no_weight_decay(self):
        return {"relative_position_bias_table"}


class SwinBlock(nn.Module):
    def __init__(self, dim: int, resolution: Tuple[int, int], num_heads: int, window: int, shift: int):
        super().__init__()
        self.resolution, self.window, self.shift = resolution, window, shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.register_buffer("attn_mask", self.make_mask() if shift else None, persistent=False)

    def make_mask(self):
        H, W = self.resolution
        img_mask, cnt = torch.zeros((1, H, W, 1)), 0
        parts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for h in parts:
            for w in parts:
                img_mask[:, h, w, :] = cnt
                cnt += 1
        mask = window_partition(img_mask, self.window).squeeze(-1)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        return mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))

    def forward(self, x):
        H, W = self.resolution
        B, L, C = x.shape
        assert L == H * W, "input feature has wrong size"
        shortcut, x = x, self.norm1(x).view(B, H, W, C)
        if self.shift > 0:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        windows = self.attn(window_partition(x, self.window), self.attn_mask)
        x = window_reverse(windows, self.window, H, W)
        if self.shift > 0:
            x = torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2))
        x = shortcut + x.view(B, H * W, C)
        return x + self.mlp(self.norm2(x))


class SwinTransformer(nn.Module):
    def __init__(self, img_size=16, patch_size=2, embed_dim=16, num_heads=2, window=4, classes=4):
        super().__init__()
        res = (img_size // patch_size, img_size // patch_size)
        self.patch_embed = nn.Conv2d(1, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.blocks = nn.ModuleList([SwinBlock(embed_dim, res, num_heads, window, 0),
                                     SwinBlock(embed_dim, res, num_heads, window, window // 2)])
        self.norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, classes)
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=.02)
            if m.bias is not None:
                nn.init.constant_(m.bias, 0)

    @torch.jit.ignore
    def no_weight_decay_keywords(self):
        return {'relative_position_bias_table'}

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x).mean(dim=1))


def train_step(model, optimizer, images, labels):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    parser = argparse.ArgumentParser("Swin training script")
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = SwinTransformer()
    skip = model.no_weight_decay_keywords()
    decay = [p for n, p in model.named_parameters() if not any(k in n for k in skip)]
    rest = [p for n, p in model.named_parameters() if any(k in n for k in skip)]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05},
                                   {"params": rest, "weight_decay": 0.}], lr=2e-3)
    print("parameter groups:", [len(g["params"]) for g in optimizer.param_groups])
    for step in range(args.steps):
        labels = torch.randint(0, 4, (8,))
        angle = labels.view(-1, 1, 1, 1) * (3.14159265 / 4)
        grid = torch.arange(16.0)
        images = torch.sin(grid.view(1, 1, 1, 16) * angle.cos() + grid.view(1, 1, 16, 1) * angle.sin())
        loss = train_step(model, optimizer, images + 0.1 * torch.randn(8, 1, 16, 16), labels)
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.4f}")
