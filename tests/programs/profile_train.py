"""Where does the time of a training step go? A residual network under torch.profiler."""
import argparse
import json
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, record_function, schedule


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != self.expansion * planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, self.expansion * planes, kernel_size=1, stride=stride, bias=False),
                nn.BatchNorm2d(self.expansion * planes)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, block, num_blocks, num_classes=3):
        super(ResNet, self).__init__()
        self.in_planes = 4
        self.conv1 = nn.Conv2d(1, 4, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = self._make_layer(block, 4, num_blocks[0], stride=1)
        self.layer2 = self._make_layer(block, 8, num_blocks[1], stride=2)
        self.linear = nn.Linear(8 * block.expansion, num_classes)

    def _make_layer(self, block, planes, num_blocks, stride):
        layers = []
        for stride in [stride] + [1] * (num_blocks - 1):
            layers.append(block(self.in_planes, planes, stride))
            self.in_planes = planes * block.expansion
        return nn.Sequential(*layers)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer2(self.layer1(out))
        out = F.adaptive_avg_pool2d(out, 1)
        return self.linear(out.view(out.size(0), -1))


def batch_of(n):
    labels = torch.randint(0, 3, (n,))
    x = torch.randn(n, 1, 10, 10) + labels.view(n, 1, 1, 1)
    return x, labels


def train_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--steps', type=int, default=30)
    parser.add_argument('--row-limit', type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = ResNet(BasicBlock, [1, 1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)

    traces = []
    with tempfile.TemporaryDirectory() as folder:
        def on_trace_ready(prof):
            path = os.path.join(folder, 'trace_%d.json' % len(traces))
            prof.export_chrome_trace(path)
            with open(path) as f:
                traces.append(len(json.load(f)['traceEvents']))

        with profile(activities=[ProfilerActivity.CPU],
                     schedule=schedule(wait=1, warmup=1, active=2, repeat=1),
                     on_trace_ready=on_trace_ready, record_shapes=True) as prof:
            for step in range(args.steps):
                x, y = batch_of(8)
                with record_function('train_step'):
                    loss = train_step(model, optimizer, x, y)
                prof.step()
                if step % 10 == 9:
                    print('step', step + 1, 'loss %.4f' % loss.item())

    averages = prof.key_averages()
    table = averages.table(sort_by='cpu_time_total', row_limit=args.row_limit)
    own = [event for event in averages if event.key == 'train_step']
    print('traces:', len(traces), 'with events:', traces[0] > 10)
    print('train_step was called', own[0].count, 'times while recording')
    print('the table names it:', 'train_step' in table, 'CPU total' in table)

    with profile(activities=[ProfilerActivity.CPU]) as prof:
        with record_function('inference'), torch.no_grad():
            model(batch_of(4)[0])
    print('inference took time:', any(e.key == 'inference' and e.cpu_time_total > 0
                                      for e in prof.key_averages()))


if __name__ == '__main__':
    main()
