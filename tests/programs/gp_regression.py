"""Gaussian process regression: marginal likelihood by Cholesky factors, fitted by LBFGS and Adam."""
import math

import torch
from torch import nn
from torch.distributions import MultivariateNormal
from torch.nn.functional import softplus


class RBFKernel(nn.Module):
    def __init__(self, lengthscale=1.0, variance=1.0):
        super().__init__()
        self.raw_lengthscale = nn.Parameter(torch.tensor(math.log(math.expm1(lengthscale))))
        self.raw_variance = nn.Parameter(torch.tensor(math.log(math.expm1(variance))))

    @property
    def lengthscale(self):
        return softplus(self.raw_lengthscale)

    @property
    def variance(self):
        return softplus(self.raw_variance)

    def forward(self, a, b):
        d2 = ((a[:, None, :] - b[None, :, :]) / self.lengthscale).pow(2).sum(-1)
        return self.variance * torch.exp(-0.5 * d2)


class GPRegression(nn.Module):
    def __init__(self, kernel, noise=0.1):
        super().__init__()
        self.kernel = kernel
        self.raw_noise = nn.Parameter(torch.tensor(math.log(math.expm1(noise))))

    def covariance(self, x):
        return self.kernel(x, x) + (softplus(self.raw_noise) + 1e-4) * torch.eye(len(x))

    def neg_log_marginal(self, x, y):
        L = torch.linalg.cholesky(self.covariance(x))
        alpha = torch.linalg.solve_triangular(L, y.unsqueeze(-1), upper=False).squeeze(-1)
        n = len(y)
        return 0.5 * alpha.dot(alpha) + L.diagonal().log().sum() + 0.5 * n * math.log(2 * math.pi)

    def predict(self, x, y, new):
        L = torch.linalg.cholesky(self.covariance(x))
        v = torch.linalg.solve_triangular(L, self.kernel(x, new), upper=False)
        a = torch.linalg.solve_triangular(L, y.unsqueeze(-1), upper=False)
        mean = (v.mT @ a).squeeze(-1)
        cov = self.kernel(new, new) - v.mT @ v
        return mean, cov


def train_step(gp, optimizer, x, y):
    optimizer.zero_grad()
    loss = gp.neg_log_marginal(x, y)
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == "__main__":
    torch.manual_seed(17)
    x = torch.rand(24, 1) * 6 - 3
    y = torch.sin(2 * x).squeeze(1) + 0.1 * torch.randn(24)
    gp = GPRegression(RBFKernel())
    optimizer = torch.optim.Adam(gp.parameters(), lr=0.05)
    for i in range(30):
        loss = train_step(gp, optimizer, x, y)
        if i % 10 == 0:
            print("iteration %d, negative log likelihood %.3f" % (i, loss))

    lbfgs = torch.optim.LBFGS(gp.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        lbfgs.zero_grad()
        loss = gp.neg_log_marginal(x, y)
        loss.backward()
        return loss

    for _ in range(2):
        lbfgs.step(closure)
    print("lengthscale %.3f variance %.3f noise %.3f" % (
        gp.kernel.lengthscale, gp.kernel.variance, softplus(gp.raw_noise)))

    with torch.no_grad():
        whole = MultivariateNormal(torch.zeros(24), gp.covariance(x)).log_prob(y)
        print("same as MultivariateNormal:",
              torch.allclose(-whole, gp.neg_log_marginal(x, y), rtol=1e-3))
        new = torch.linspace(-3, 3, 7).unsqueeze(1)
        mean, cov = gp.predict(x, y, new)
        posterior = MultivariateNormal(mean, cov + 1e-2 * torch.eye(7))
        draws = posterior.rsample(torch.Size([50]))
        print("draws", tuple(draws.shape), "rmse %.3f" % (mean - torch.sin(2 * new[:, 0])).norm())
