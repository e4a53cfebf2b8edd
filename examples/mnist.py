"""Trains a small convolutional network on pictures of digits.

The pictures are made here, so nothing is downloaded: seven-segment digits, moved, scaled and
covered with noise.
"""

import argparse
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

#       ###1###
#       6     2
#       ###7###
#       5     3
#       ###4###
SEGMENTS = ["123456", "23", "12754", "12374", "6723", "16734", "167345", "123", "1234567", "123467"]
BARS = {
    "1": (slice(0, 2), slice(0, 8)),
    "2": (slice(0, 8), slice(6, 8)),
    "3": (slice(6, 14), slice(6, 8)),
    "4": (slice(12, 14), slice(0, 8)),
    "5": (slice(6, 14), slice(0, 2)),
    "6": (slice(0, 8), slice(0, 2)),
    "7": (slice(6, 8), slice(0, 8)),
}


class Digits(Dataset):
    """Pictures of 1 x 20 x 16 and their digits, the same ones for the same seed."""

    def __init__(self, count, seed):
        random = np.random.default_rng(seed)
        self.labels = random.integers(0, 10, count)
        self.images = random.normal(0.0, 0.35, (count, 1, 20, 16)).astype(np.float32)
        for image, label in zip(self.images, self.labels, strict=True):
            top, left = random.integers(0, 7), random.integers(0, 9)
            for segment in SEGMENTS[label]:
                rows, columns = BARS[segment]
                image[0, top : top + 14, left : left + 8][rows, columns] += random.uniform(0.6, 1.2)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index]), int(self.labels[index])


class Net(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.dropout = nn.Dropout(dropout)
        self.fc1 = nn.Linear(16 * 5 * 4, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.norm(self.conv2(x))), 2)
        x = torch.flatten(x, 1)
        x = self.dropout(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    total = 0.0
    for batch, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if batch % args.log_interval == 0:
            seen = batch * len(data)
            print(f"Train Epoch: {epoch} [{seen}/{len(loader.dataset)}]\tLoss: {loss.item():.6f}")
    return total / len(loader)


def test(model, device, loader):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            correct += (
                output.argmax(dim=1, keepdim=True).eq(target.view_as(output[:, :1])).sum().item()
            )
    count = len(loader.dataset)
    print(f"Test: average loss {loss / count:.6f}, accuracy {100.0 * correct / count:.2f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--test-batch-size", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--train-size", type=int, default=4000)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--no-shuffle", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-interval", type=int, default=10)
    parser.add_argument("--init", help="NumPy file of initial weights")
    parser.add_argument("--checkpoint", help="file to save after each epoch, and to resume from")
    args = parser.parse_args()

    use_cuda = not args.no_cuda and torch.cuda.is_available()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = True
    device = torch.device("cuda" if use_cuda else "cpu")
    loading = {"num_workers": args.workers, "pin_memory": use_cuda}
    train_loader = DataLoader(
        Digits(args.train_size, seed=0), args.batch_size, shuffle=not args.no_shuffle, **loading
    )
    test_loader = DataLoader(Digits(500, seed=1), args.test_batch_size, **loading)

    model = Net(args.dropout).to(device)
    if args.init:
        weights = np.load(args.init)
        model.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights})
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)

    start = 1
    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["epoch"] + 1

    for epoch in range(start, args.epochs + 1):
        loss = train(args, model, device, train_loader, optimizer, epoch)
        print(f"Epoch {epoch}: mean loss {loss:.6f}, rate {scheduler.get_last_lr()[0]:.6f}")
        test(model, device, test_loader)
        scheduler.step()
        if args.checkpoint:
            state = {
                "epoch": epoch,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            }
            torch.save(state, args.checkpoint)


if __name__ == "__main__":
    main()
