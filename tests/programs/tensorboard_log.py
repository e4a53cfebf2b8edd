"""Regression with a validation loss, learning-rate schedule and early stopping, in TensorBoard."""
import argparse
import glob
import os
import tempfile

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.tensorboard import SummaryWriter


class Regressor(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(1, hidden), nn.Tanh(),
            nn.Linear(hidden, hidden), nn.Tanh(),
            nn.Linear(hidden, 1))

    def forward(self, x):
        return self.layers(x)


class EarlyStopping:
    def __init__(self, patience=5):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        self.bad = 0 if value < self.best else self.bad + 1
        self.best = min(self.best, value)
        return self.bad > self.patience


def make_data(n=200):
    x = torch.linspace(-2, 2, n).unsqueeze(1)
    y = torch.sin(3 * x) + 0.05 * torch.randn_like(x)
    return TensorDataset(x, y)


def train_step(model, criterion, optimizer, x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def validate(model, criterion, loader):
    model.eval()
    total = sum(criterion(model(x), y).item() * len(x) for x, y in loader)
    model.train()
    return total / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--logdir", type=str, default=None)
    args = parser.parse_args()
    torch.manual_seed(2)
    data = make_data()
    train_set, val_set = random_split(data, [160, 40])
    train_loader = DataLoader(train_set, batch_size=20, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=40)

    model = Regressor()
    criterion = nn.MSELoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    scheduler = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
    stop = EarlyStopping()

    with tempfile.TemporaryDirectory() as folder:
        logdir = args.logdir or os.path.join(folder, "runs")
        writer = SummaryWriter(log_dir=logdir)
        writer.add_text("config", str(vars(args)))
        global_step = 0
        for epoch in range(args.epochs):
            for x, y in train_loader:
                loss = train_step(model, criterion, optimizer, x, y)
                writer.add_scalar("train/loss", loss, global_step)
                global_step += 1
            val_loss = validate(model, criterion, val_loader)
            scheduler.step(val_loss)
            writer.add_scalar("val/loss", val_loss, epoch)
            writer.add_scalar("lr", optimizer.param_groups[0]["lr"], epoch)
            for name, param in model.named_parameters():
                writer.add_histogram(name, param, epoch)
                writer.add_histogram(name + ".grad", param.grad, epoch)
            print("epoch %d: val loss %.5f, lr %g" % (
                epoch, val_loss, optimizer.param_groups[0]["lr"]))
            if stop(val_loss):
                print("stopped early")
                break
        curve = model(torch.linspace(-2, 2, 64).unsqueeze(1)).detach().reshape(1, 8, 8)
        writer.add_image("curve", (curve - curve.min()) / (curve.max() - curve.min()), 0)
        writer.add_hparams({"lr": 5e-3, "batch": 20}, {"hparam/val": val_loss})
        writer.flush()
        writer.close()
        files = glob.glob(os.path.join(logdir, "**", "events.out.tfevents.*"), recursive=True)
        print("event files:", len(files) > 0, "written:", sum(map(os.path.getsize, files)) > 1000)


if __name__ == "__main__":
    main()
