"""Model-agnostic meta-learning (Finn et al., 2017) of sine waves, with second derivatives."""
import argparse
import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import autograd, nn, optim


class SineTask:
    def __init__(self):
        self.amplitude = 0.1 + 4.9 * torch.rand(())
        self.phase = math.pi * torch.rand(())

    def sample(self, k):
        x = torch.rand(k, 1) * 10 - 5
        return x, self.amplitude * torch.sin(x + self.phase)


class Model(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.features = nn.Sequential(OrderedDict([
            ('lin1', nn.Linear(1, hidden)),
            ('relu1', nn.ReLU()),
            ('lin2', nn.Linear(hidden, hidden)),
            ('relu2', nn.ReLU()),
            ('lin3', nn.Linear(hidden, 1)),
        ]))

    def forward(self, x, params=None):
        if params is None:
            return self.features(x)
        x = F.relu(F.linear(x, params['features.lin1.weight'], params['features.lin1.bias']))
        x = F.relu(F.linear(x, params['features.lin2.weight'], params['features.lin2.bias']))
        return F.linear(x, params['features.lin3.weight'], params['features.lin3.bias'])


def adapt(model, x, y, steps, step_size, first_order=False):
    params = OrderedDict(model.named_parameters())
    for _ in range(steps):
        loss = F.mse_loss(model(x, params), y)
        grads = autograd.grad(loss, list(params.values()), create_graph=not first_order)
        params = OrderedDict((name, p - step_size * g)
                             for (name, p), g in zip(params.items(), grads))
    return params


def train_step(model, optimizer, batch, steps, step_size, first_order):
    outer_loss = 0.
    for (x_support, y_support), (x_query, y_query) in batch:
        params = adapt(model, x_support, y_support, steps, step_size, first_order)
        outer_loss = outer_loss + F.mse_loss(model(x_query, params), y_query)
    outer_loss = outer_loss / len(batch)
    optimizer.zero_grad()
    outer_loss.backward()
    optimizer.step()
    return outer_loss.detach()


def main():
    parser = argparse.ArgumentParser('MAML')
    parser.add_argument('--num-batches', type=int, default=30)
    parser.add_argument('--tasks', type=int, default=4)
    parser.add_argument('--shots', type=int, default=8)
    parser.add_argument('--inner-steps', type=int, default=2)
    parser.add_argument('--step-size', type=float, default=0.01)
    parser.add_argument('--first-order', action='store_true')
    args = parser.parse_args()
    torch.manual_seed(13)
    model = Model()
    meta_optimizer = optim.Adam(model.parameters(), lr=2e-3)
    for i in range(args.num_batches):
        tasks = [SineTask() for _ in range(args.tasks)]
        batch = [(task.sample(args.shots), task.sample(args.shots)) for task in tasks]
        loss = train_step(model, meta_optimizer, batch, args.inner_steps, args.step_size,
                          args.first_order)
        if i % 10 == 9:
            print(f'batch {i + 1}: outer loss {loss.item():.4f}')

    task = SineTask()
    x, y = task.sample(args.shots)
    before = F.mse_loss(model(x), y)
    params = adapt(model, x, y, 5, args.step_size, first_order=True)
    after = F.mse_loss(model(x, params), y)
    print('adaptation helps:', bool(after < before))


if __name__ == '__main__':
    main()
