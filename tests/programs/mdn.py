"""Mixture density network (Bishop, 1994) with torch.distributions' mixtures."""
import argparse
import torch
import torch.nn as nn
import torch.distributions as D


class MDN(nn.Module):
    def __init__(self, n_hidden, n_gaussians):
        super(MDN, self).__init__()
        self.z_h = nn.Sequential(nn.Linear(1, n_hidden), nn.Tanh())
        self.z_pi = nn.Linear(n_hidden, n_gaussians)
        self.z_mu = nn.Linear(n_hidden, n_gaussians)
        self.z_sigma = nn.Linear(n_hidden, n_gaussians)

    def forward(self, x):
        z_h = self.z_h(x)
        mix = D.Categorical(logits=self.z_pi(z_h))
        comp = D.Normal(self.z_mu(z_h), torch.exp(self.z_sigma(z_h)))
        return D.MixtureSameFamily(mix, comp)


def generate_data(n_samples):
    epsilon = D.Normal(0., 1.).sample((n_samples,))
    x_data = D.Uniform(-10.5, 10.5).sample((n_samples,))
    y_data = 7 * torch.sin(0.75 * x_data) + 0.5 * x_data + epsilon
    return y_data.view(-1, 1) / 10, x_data / 10


def train_step(model, optimizer, x, y):
    loss = -model(x).log_prob(y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=40)
    parser.add_argument('--gaussians', type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(21)
    x, y = generate_data(200)
    model = MDN(n_hidden=20, n_gaussians=args.gaussians)
    optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
    for epoch in range(args.epochs):
        loss = train_step(model, optimizer, x, y)
        if epoch % 10 == 0:
            print(epoch, '%.5f' % loss.item())

    with torch.no_grad():
        mixture = model(torch.linspace(-1, 1, 5).unsqueeze(1))
        samples = mixture.sample((100,))
        print('samples', tuple(samples.shape), 'spread %.3f' % samples.std().item())
        print('mean', ['%.2f' % m for m in mixture.mean.tolist()])
        inside = mixture.cdf(torch.tensor(2.0)) - mixture.cdf(torch.tensor(-2.0))
        print('mass in [-2, 2]: %.3f' % inside.mean())
        prior = D.Independent(D.Normal(torch.zeros(3), torch.ones(3)), 1)
        other = D.MultivariateNormal(torch.ones(3), torch.eye(3) * 0.5)
        print('divergence %.4f' % D.kl_divergence(
            other, D.MultivariateNormal(prior.mean, torch.diag(prior.variance))).item())
        for d in (D.Beta(torch.tensor(2.), torch.tensor(3.)), D.Gamma(torch.tensor([2.0]), 1.0),
                  D.Laplace(0.0, 1.0), D.StudentT(torch.tensor(3.0)), D.Poisson(torch.tensor(3.0))):
            print(type(d).__name__, '%.4f %.4f' % (d.mean.item(), d.log_prob(torch.tensor(0.5 if
                  type(d).__name__ != 'Poisson' else 2.0)).sum().item()))


if __name__ == '__main__':
    main()
