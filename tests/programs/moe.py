"""Sparsely gated mixture of experts (Shazeer et al., 2017) for a piecewise function."""
import argparse
import torch
import torch.nn as nn
from torch.optim import Adam
import torch.nn.functional as F


class Expert(nn.Module):
    def __init__(self, input_size, output_size, hidden_size):
        super().__init__()
        self.w1 = nn.Linear(input_size, hidden_size, bias=False)
        self.w2 = nn.Linear(hidden_size, output_size, bias=False)
        self.w3 = nn.Linear(input_size, hidden_size, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoE(nn.Module):
    """Routes every row to its best `top_k` experts; their results are added by index_add_."""

    def __init__(self, dim, hidden, num_experts=4, top_k=2, noisy=True):
        super().__init__()
        self.num_experts, self.top_k, self.noisy = num_experts, top_k, noisy
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.noise = nn.Linear(dim, num_experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, dim, hidden) for _ in range(num_experts)])

    def forward(self, x):
        router_logits = self.gate(x)
        if self.noisy and self.training:
            router_logits = router_logits + torch.randn_like(router_logits) * F.softplus(self.noise(x))
        weights = F.softmax(router_logits, dim=1)
        weights, selected = torch.topk(weights, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)

        out = torch.zeros_like(x)
        expert_mask = F.one_hot(selected, num_classes=self.num_experts).permute(2, 1, 0)
        for expert_idx in range(self.num_experts):
            idx, top_x = torch.where(expert_mask[expert_idx])
            if top_x.shape[0] == 0:
                continue
            current = self.experts[expert_idx](x[top_x]) * weights[top_x, idx, None]
            out.index_add_(0, top_x, current.to(x.dtype))
        return out, self.balance_loss(router_logits, selected)

    def balance_loss(self, logits, selected):
        probs = F.softmax(logits, dim=-1)
        load = torch.zeros(self.num_experts).scatter_add_(
            0, selected.reshape(-1), torch.ones(selected.numel()))
        return self.num_experts * (probs.mean(0) * load / selected.numel()).sum()


class Model(nn.Module):
    def __init__(self, dim=16, hidden=24):
        super().__init__()
        self.inp = nn.Linear(2, dim)
        self.norm = nn.RMSNorm(dim)
        self.moe = SparseMoE(dim, hidden)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        y, aux = self.moe(self.norm(h))
        return self.out(h + y).squeeze(-1), aux


def target(x):
    a, b = x.unbind(dim=1)
    return torch.where(a > 0, torch.sin(3 * b), a * b - 0.5 * b.abs())


def train_step(model, optimizer, x, y):
    model.train()
    pred, aux = model(x)
    loss = F.mse_loss(pred, y) + 0.01 * aux
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main(args):
    torch.manual_seed(args.seed)
    model = Model()
    optimizer = Adam(model.parameters(), lr=args.lr)
    for i in range(args.iters):
        x = torch.rand(64, 2) * 2 - 1
        loss = train_step(model, optimizer, x, target(x))
        if (i + 1) % 10 == 0:
            print(f'[{i + 1}/{args.iters}] loss: {loss:.5f}')
    model.eval()
    with torch.no_grad():
        x = torch.rand(128, 2) * 2 - 1
        pred, aux = model(x)
    print(f'test mse: {(pred - target(x)).square().mean():.5f} balance: {aux:.3f}')


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('--iters', type=int, default=40)
    p.add_argument('--lr', type=float, default=5e-3)
    p.add_argument('--seed', type=int, default=0)
    main(p.parse_args())
