"""SimCLR (Chen et al., 2020): contrastive learning of small textures, then a linear probe."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class ContrastiveViews(object):
    """Take two random augmentations of one image as the query and key."""

    def __init__(self, transforms, n_views=2):
        self.transforms = transforms
        self.n_views = n_views

    def __call__(self, x):
        views = []
        for _ in range(self.n_views):
            v = x
            for t in self.transforms:
                v = t(v)
            views.append(v)
        return views


def random_flip(x):
    return x.flip(-1) if torch.rand(1).item() < 0.5 else x


def random_shift(x):
    dy, dx = torch.randint(-2, 3, (2,)).tolist()
    return torch.roll(x, (dy, dx), dims=(-2, -1))


def jitter(x):
    return x * (0.8 + 0.4 * torch.rand(1)) + 0.1 * torch.randn_like(x)


class Textures(Dataset):
    def __init__(self, n, transform=None, size=12):
        self.labels = torch.arange(n) % 3
        base = torch.arange(size).float()
        kinds = [torch.sin(base)[None, :].expand(size, size),
                 torch.sin(base)[:, None].expand(size, size),
                 torch.sin(base[:, None] + base[None, :])]
        self.images = torch.stack([kinds[i] for i in self.labels.tolist()]).unsqueeze(1)
        self.images = self.images + 0.2 * torch.randn(n, 1, size, size)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = self.images[i]
        return (self.transform(x) if self.transform else x), self.labels[i]


class Encoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten())
        self.projector = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, dim))

    def forward(self, x):
        h = self.backbone(x)
        return h, self.projector(h)


def info_nce_loss(features, n_views, temperature):
    n = features.shape[0] // n_views
    labels = torch.cat([torch.arange(n) for _ in range(n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)

    # discard the main diagonal from both: labels and similarities matrix
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    labels = torch.zeros(logits.shape[0], dtype=torch.long)
    return logits / temperature, labels


def train_step(model, optimizer, images, temperature):
    _, features = model(images)
    logits, labels = info_nce_loss(features, 2, temperature)
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    top1 = (logits.argmax(dim=1) == labels).float().mean()
    return loss.detach(), top1


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='PyTorch SimCLR')
    parser.add_argument('--epochs', default=5, type=int)
    parser.add_argument('-b', '--batch-size', default=16, type=int)
    parser.add_argument('--temperature', default=0.2, type=float)
    args = parser.parse_args()
    torch.manual_seed(8)
    views = ContrastiveViews([random_flip, random_shift, jitter])
    loader = DataLoader(Textures(96, views), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=6)
    for epoch in range(args.epochs):
        for images, _ in loader:
            loss, top1 = train_step(model, optimizer, torch.cat(images, dim=0), args.temperature)
            warmup.step()
        print(f'Epoch: {epoch}\tLoss: {loss:.4f}\tTop1 accuracy: {top1:.3f}')

    data = Textures(60)
    with torch.no_grad():
        h, _ = model(data.images)
    probe = nn.Linear(h.shape[1], 3)
    probe_opt = torch.optim.SGD(probe.parameters(), lr=0.5)
    for _ in range(20):
        probe_opt.zero_grad()
        F.cross_entropy(probe(h), data.labels).backward()
        probe_opt.step()
    acc = (probe(h).argmax(1) == data.labels).float().mean().item()
    print('linear probe accuracy %.2f' % acc)
