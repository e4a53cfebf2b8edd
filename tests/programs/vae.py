"""Variational autoencoder on small pictures of bars."""
from __future__ import print_function
import argparse
import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F
from torch.distributions import Normal, kl_divergence

parser = argparse.ArgumentParser(description='VAE bars example')
parser.add_argument('--batch-size', type=int, default=32, metavar='N',
                    help='input batch size for training (default: 32)')
parser.add_argument('--epochs', type=int, default=4, metavar='N')
parser.add_argument('--latent', type=int, default=4)
parser.add_argument('--seed', type=int, default=1, metavar='S')
parser.add_argument('--no-cuda', action='store_true', default=False)
args = parser.parse_args()
args.cuda = not args.no_cuda and torch.cuda.is_available()

torch.manual_seed(args.seed)
device = torch.device("cuda" if args.cuda else "cpu")


def make_bars(n, size=8):
    images = torch.zeros(n, 1, size, size)
    rows = torch.randint(0, size, (n,))
    vertical = torch.rand(n) < 0.5
    for i in range(n):
        if vertical[i]:
            images[i, 0, :, rows[i]] = 1.
        else:
            images[i, 0, rows[i], :] = 1.
    return images


class Encoder(nn.Module):
    def __init__(self, latent):
        super(Encoder, self).__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, latent)
        self.fc22 = nn.Linear(48, latent)

    def forward(self, x):
        h1 = F.relu(self.fc1(x.view(-1, 64)))
        return Normal(self.fc21(h1), F.softplus(self.fc22(h1)) + 1e-4)


class Decoder(nn.Module):
    def __init__(self, latent):
        super(Decoder, self).__init__()
        self.net = nn.Sequential(nn.Linear(latent, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, z):
        return torch.sigmoid(self.net(z))


class VAE(nn.Module):
    def __init__(self, latent):
        super(VAE, self).__init__()
        self.encoder = Encoder(latent)
        self.decoder = Decoder(latent)
        self.register_buffer('prior_loc', torch.zeros(latent))
        self.register_buffer('prior_scale', torch.ones(latent))

    def forward(self, x):
        q = self.encoder(x)
        z = q.rsample()
        return self.decoder(z), q

    def loss(self, x):
        recon, q = self(x)
        prior = Normal(self.prior_loc, self.prior_scale)
        bce = F.binary_cross_entropy(recon, x.view(-1, 64), reduction='sum')
        kld = kl_divergence(q, prior).sum()
        return bce + kld


def train_step(model, optimizer, data):
    optimizer.zero_grad()
    loss = model.loss(data)
    loss.backward()
    optimizer.step()
    return loss.detach()


train_loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(make_bars(256)), batch_size=args.batch_size, shuffle=True)
test_images = make_bars(64).to(device)

model = VAE(args.latent).to(device)
optimizer = optim.Adam(model.parameters(), lr=3e-3)


def train(epoch):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(train_loader):
        data = data.to(device)
        loss = train_step(model, optimizer, data)
        train_loss += loss.item()
        if batch_idx % 4 == 0:
            print('Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}'.format(
                epoch, batch_idx * len(data), len(train_loader.dataset),
                100. * batch_idx / len(train_loader), loss.item() / len(data)))
    print('====> Epoch: {} Average loss: {:.4f}'.format(
        epoch, train_loss / len(train_loader.dataset)))


def test():
    model.eval()
    with torch.no_grad():
        test_loss = model.loss(test_images).item() / len(test_images)
        sample = model.decoder(torch.randn(8, args.latent).to(device)).view(8, 1, 8, 8)
    print('====> Test set loss: {:.4f}, sample mean {:.3f}'.format(test_loss, sample.mean().item()))


if __name__ == "__main__":
    for epoch in range(1, args.epochs + 1):
        train(epoch)
        test()
