"""Data-parallel training that also runs as one process: python ddp_train.py"""
import argparse
import os
import socket

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Spirals(Dataset):
    def __init__(self, n):
        t = torch.linspace(0.5, 3.0, n // 2)
        arm = torch.stack([t * torch.cos(2 * t), t * torch.sin(2 * t)], dim=1) / 3
        self.x = torch.cat([arm, -arm]) + 0.02 * torch.randn(2 * (n // 2), 2)
        self.y = torch.cat([torch.zeros(n // 2), torch.ones(n // 2)]).long()

    def __len__(self):
        return self.x.size(0)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ddp_setup():
    rank = int(os.environ.get("RANK", 0))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(free_port()))
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return dist.get_rank(), dist.get_world_size()


class ToyModel(nn.Module):
    def __init__(self):
        super(ToyModel, self).__init__()
        self.net1 = nn.Linear(2, 24)
        self.bn = nn.BatchNorm1d(24)
        self.net2 = nn.Linear(24, 24)
        self.net3 = nn.Linear(24, 2)

    def forward(self, x):
        x = F.relu(self.bn(self.net1(x)))
        return self.net3(F.relu(self.net2(x)))


def reduce_mean(value):
    value = value.detach().clone()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value / dist.get_world_size()


class Trainer:
    def __init__(self, model, train_data, optimizer, rank, save_every):
        self.rank = rank
        self.train_data = train_data
        self.optimizer = optimizer
        self.save_every = save_every
        self.model = DDP(model)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        output = self.model(source)
        loss = F.cross_entropy(output, targets)
        loss.backward()
        self.optimizer.step()
        return loss

    def _run_epoch(self, epoch):
        self.train_data.sampler.set_epoch(epoch)
        total = torch.zeros(())
        for source, targets in self.train_data:
            total += reduce_mean(self._run_batch(source, targets))
        if self.rank == 0:
            b_sz = len(next(iter(self.train_data))[0])
            print(f"[RANK{self.rank}] Epoch {epoch} | Batchsize: {b_sz} | "
                  f"Steps: {len(self.train_data)} | loss {total.item() / len(self.train_data):.4f}")

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
            if self.rank == 0 and epoch % self.save_every == 0:
                ckp = self.model.module.state_dict()
                print(f"Epoch {epoch} | checkpoint with {len(ckp)} entries")
            dist.barrier()


def main(args):
    rank, world_size = ddp_setup()
    torch.manual_seed(args.seed + rank)
    dataset = Spirals(160)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=False, sampler=sampler)
    model = ToyModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    Trainer(model, loader, optimizer, rank, args.save_every).train(args.total_epochs)

    flag = torch.tensor([1.0])
    dist.broadcast(flag, src=0)
    gathered = [torch.zeros(1) for _ in range(world_size)]
    dist.all_gather(gathered, flag)
    print("gathered", [g.item() for g in gathered], "world size", world_size)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description='simple distributed training job')
    parser.add_argument('--total_epochs', default=5, type=int)
    parser.add_argument('--save_every', default=2, type=int)
    parser.add_argument('--batch_size', default=20, type=int)
    parser.add_argument('--seed', default=0, type=int)
    main(parser.parse_args())
