"""WGAN with gradient penalty (Gulrajani et al., 2017) on a ring of Gaussians."""
import argparse
import math

import torch
import torch.nn as nn
import torch.autograd as autograd
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, IterableDataset

parser = argparse.ArgumentParser()
parser.add_argument("--n_batches", type=int, default=40, help="batches of training")
parser.add_argument("--batch_size", type=int, default=32, help="size of the batches")
parser.add_argument("--latent_dim", type=int, default=4)
parser.add_argument("--n_critic", type=int, default=3, help="critic steps per generator step")
parser.add_argument("--lambda_gp", type=float, default=10)
opt = parser.parse_args()
print(opt)


class Ring(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for _ in range(self.n):
            angle = torch.randint(0, 8, ()) * (2 * math.pi / 8)
            yield torch.stack([angle.cos(), angle.sin()]) + 0.05 * torch.randn(2)


def block(in_feat, out_feat, normalize=True):
    layers = [nn.Linear(in_feat, out_feat)]
    if normalize:
        layers.append(nn.BatchNorm1d(out_feat, 0.8))
    layers.append(nn.LeakyReLU(0.2, inplace=True))
    return layers


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        self.model = nn.Sequential(
            *block(opt.latent_dim, 24, normalize=False), *block(24, 24), nn.Linear(24, 2))

    def forward(self, z):
        return self.model(z)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.model = nn.Sequential(
            weight_norm(nn.Linear(2, 24)), nn.Softplus(),
            weight_norm(nn.Linear(24, 24)), nn.Softplus(),
            nn.Linear(24, 1))

    def forward(self, x):
        return self.model(x)


generator = Generator()
discriminator = Discriminator()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.9))


def compute_gradient_penalty(D, real_samples, fake_samples):
    """Calculates the gradient penalty loss for WGAN GP"""
    alpha = torch.rand(real_samples.size(0), 1)
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = torch.ones(real_samples.shape[0], 1, requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=fake,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def train_step(real):
    optimizer_D.zero_grad()
    z = torch.randn(real.shape[0], opt.latent_dim)
    fake = generator(z).detach()
    gradient_penalty = compute_gradient_penalty(discriminator, real, fake)
    d_loss = -torch.mean(discriminator(real)) + torch.mean(discriminator(fake)) \
        + opt.lambda_gp * gradient_penalty
    d_loss.backward()
    optimizer_D.step()
    return d_loss.detach()


def generator_step():
    optimizer_G.zero_grad()
    fake = generator(torch.randn(opt.batch_size, opt.latent_dim))
    g_loss = -torch.mean(discriminator(fake))
    g_loss.backward()
    optimizer_G.step()
    return g_loss.detach()


torch.manual_seed(1)
dataloader = DataLoader(Ring(opt.n_batches * opt.batch_size), batch_size=opt.batch_size)
for i, real in enumerate(dataloader):
    d_loss = train_step(real)
    if i % opt.n_critic == 0:
        g_loss = generator_step()
    if i % 10 == 0:
        print("[Batch %d/%d] [D loss: %f] [G loss: %f]" % (
            i, opt.n_batches, d_loss.item(), g_loss.item()))
print(len(list(discriminator.parameters())), "tensors in the critic")
