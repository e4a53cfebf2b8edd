"""Spectral-norm GAN (Miyato et al., 2018) of waves in small pictures."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.autograd import Variable
from torch.nn.utils import spectral_norm

parser = argparse.ArgumentParser()
parser.add_argument('--batch_size', type=int, default=16)
parser.add_argument('--lr', type=float, default=2e-4)
parser.add_argument('--loss', type=str, default='hinge', choices=['hinge', 'bce'])
parser.add_argument('--steps', type=int, default=30)
parser.add_argument('--disc_iters', type=int, default=2)
args = parser.parse_args()

Z_dim = 8
torch.manual_seed(11)


class Generator(nn.Module):
    def __init__(self, z_dim):
        super(Generator, self).__init__()
        self.z_dim = z_dim
        self.model = nn.Sequential(
            nn.ConvTranspose2d(z_dim, 16, 4, stride=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, stride=2, padding=(1, 1)),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 3, stride=1, padding=(1, 1)),
            nn.Tanh())

    def forward(self, z):
        return self.model(z.view(-1, self.z_dim, 1, 1))


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.conv1 = spectral_norm(nn.Conv2d(1, 8, 3, stride=1, padding=(1, 1)))
        self.conv2 = spectral_norm(nn.Conv2d(8, 12, 4, stride=2, padding=(1, 1)))
        self.fc = spectral_norm(nn.Linear(4 * 4 * 12, 1))

    def forward(self, x):
        m = nn.LeakyReLU(0.1)(self.conv1(x))
        m = nn.LeakyReLU(0.1)(self.conv2(m))
        return self.fc(m.view(-1, 4 * 4 * 12))


def real_data(n):
    phase = torch.rand(n, 1, 1, 1) * 2 * math.pi
    grid = torch.arange(8).float().view(1, 1, 1, 8)
    return torch.sin(grid * (math.pi / 4) + phase).expand(n, 1, 8, 8)


discriminator = Discriminator()
generator = Generator(Z_dim)

# because the spectral normalization module creates parameters that don't require gradients (u and
# v), we don't want to optimize these using sgd.
optim_disc = optim.Adam(filter(lambda p: p.requires_grad, discriminator.parameters()), lr=args.lr,
                        betas=(0.0, 0.9))
optim_gen = optim.Adam(generator.parameters(), lr=args.lr, betas=(0.0, 0.9))
scheduler_d = optim.lr_scheduler.ExponentialLR(optim_disc, gamma=0.99)
scheduler_g = optim.lr_scheduler.ExponentialLR(optim_gen, gamma=0.99)


def disc_step(data):
    z = Variable(torch.randn(args.batch_size, Z_dim))
    optim_disc.zero_grad()
    optim_gen.zero_grad()
    if args.loss == 'hinge':
        disc_loss = nn.ReLU()(1.0 - discriminator(data)).mean() + \
            nn.ReLU()(1.0 + discriminator(generator(z))).mean()
    else:
        disc_loss = nn.BCEWithLogitsLoss()(discriminator(data), torch.ones(args.batch_size, 1)) + \
            nn.BCEWithLogitsLoss()(discriminator(generator(z)), torch.zeros(args.batch_size, 1))
    disc_loss.backward()
    optim_disc.step()
    return disc_loss.detach()


def gen_step():
    optim_disc.zero_grad()
    optim_gen.zero_grad()
    z = Variable(torch.randn(args.batch_size, Z_dim))
    if args.loss == 'hinge':
        gen_loss = -discriminator(generator(z)).mean()
    else:
        gen_loss = F.binary_cross_entropy_with_logits(discriminator(generator(z)),
                                                      torch.ones(args.batch_size, 1))
    gen_loss.backward()
    optim_gen.step()
    return gen_loss.detach()


def train_step(batches):
    for data in batches:
        disc_loss = disc_step(data)
    return disc_loss, gen_step()


if __name__ == '__main__':
    for step in range(args.steps):
        batches = [Variable(real_data(args.batch_size)) for _ in range(args.disc_iters)]
        disc_loss, gen_loss = train_step(batches)
        scheduler_d.step()
        scheduler_g.step()
        if step % 10 == 0:
            print('disc loss', disc_loss.item(), 'gen loss', gen_loss.item())
    with torch.no_grad():
        for name, layer in [('conv1', discriminator.conv1), ('fc', discriminator.fc)]:
            weight = layer.weight.flatten(1).cpu().numpy()
            print(name, 'largest singular value %.2f' % np.linalg.svd(weight, compute_uv=False)[0])
    print([k for k in discriminator.state_dict() if k.startswith('fc')])
