"""RealNVP on two moons: affine coupling layers under a base distribution of torch.distributions."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
from torch import distributions
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import AffineTransform


def two_moons(n, noise=0.05):
    t = torch.rand(n) * math.pi
    upper = torch.rand(n) < 0.5
    x = torch.where(upper, torch.cos(t), 1 - torch.cos(t))
    y = torch.where(upper, torch.sin(t), 0.5 - torch.sin(t))
    return torch.stack([x, y], dim=1) + noise * torch.randn(n, 2)


class RealNVP(nn.Module):
    def __init__(self, nets, nett, mask, prior):
        super().__init__()
        self.prior = prior
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.t = nn.ModuleList([nett() for _ in range(len(mask))])
        self.s = nn.ModuleList([nets() for _ in range(len(mask))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp

    def sample(self, n):
        return self.g(self.prior.sample((n,)))


def train_step(flow, optimizer, batch):
    loss = -flow.log_prob(batch).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(3)
    nets = lambda: nn.Sequential(nn.Linear(2, args.hidden), nn.LeakyReLU(),
                                 nn.Linear(args.hidden, 2), nn.Tanh())
    nett = lambda: nn.Sequential(nn.Linear(2, args.hidden), nn.LeakyReLU(),
                                 nn.Linear(args.hidden, 2))
    masks = torch.from_numpy(np.array([[0, 1], [1, 0]] * 2)).float()
    base = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
    # a base that is wider in its first dimension
    prior = TransformedDistribution(base, [AffineTransform(torch.tensor([0.5, 0.25]),
                                                           torch.tensor([1.0, 0.5]), event_dim=1)])
    print("prior:", prior.event_shape, isinstance(prior, distributions.Distribution))
    flow = RealNVP(nets, nett, masks, prior)
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad], lr=5e-3)

    for t in range(args.steps):
        loss = train_step(flow, optimizer, two_moons(args.batch))
        if t % 10 == 0:
            print('iter %s:' % t, 'loss = %.3f' % loss)

    with torch.no_grad():
        x = flow.sample(256)
        z, _ = flow.f(x)
        back = flow.g(z)
    print('inverse is exact:', torch.allclose(back, x, atol=1e-4))
    print('sample mean', ' '.join('%.2f' % v for v in x.mean(0).tolist()))


if __name__ == "__main__":
    main()
