"""Neural ODE (Chen et al., 2018): RK4 or Euler forward, the adjoint equation backward."""
import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser('ODE demo')
parser.add_argument('--method', type=str, choices=['euler', 'rk4'], default='rk4')
parser.add_argument('--niters', type=int, default=30)
parser.add_argument('--batch_size', type=int, default=10)
parser.add_argument('--viz', action='store_true')
args = parser.parse_args()


def euler_step(f, t, dt, y):
    return y + dt * f(t, y)


def rk4_step(f, t, dt, y):
    k1 = f(t, y)
    k2 = f(t + dt / 2, y + dt * k1 / 2)
    k3 = f(t + dt / 2, y + dt * k2 / 2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


STEPS = {'euler': euler_step, 'rk4': rk4_step}


def odeint(func, y0, t, method='rk4'):
    ys = [y0]
    for t0, t1 in zip(t[:-1], t[1:]):
        ys.append(STEPS[method](func, t0, t1 - t0, ys[-1]))
    return torch.stack(ys)


def flatten(tensors):
    return torch.cat([x.reshape(-1) for x in tensors])


class OdeintAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, t, method, *params):
        ctx.func, ctx.method = func, method
        with torch.no_grad():
            ans = odeint(func, y0, t, method)
        ctx.save_for_backward(t, ans, *params)
        return ans

    @staticmethod
    def backward(ctx, grad_output):
        t, ans, *params = ctx.saved_tensors
        func, method = ctx.func, ctx.method
        shape, n = ans[0].shape, ans[0].numel()

        def augmented(time, state):
            y, adj = state[:n].view(shape), state[n:2 * n].view(shape)
            with torch.enable_grad():
                y = y.detach().requires_grad_(True)
                value = func(time, y)
                grads = torch.autograd.grad(value, [y] + params, -adj, allow_unused=True)
            grads = [torch.zeros_like(p) if g is None else g for g, p in zip(grads, [y] + params)]
            return flatten([value.detach()] + grads)

        with torch.no_grad():
            adj = grad_output[-1]
            adj_params = [torch.zeros_like(p) for p in params]
            for i in range(len(t) - 1, 0, -1):
                state = flatten([ans[i], adj] + adj_params)
                state = STEPS[method](augmented, t[i], t[i - 1] - t[i], state)
                adj = state[n:2 * n].view(shape) + grad_output[i - 1]
                sizes = [p.numel() for p in params]
                adj_params = [s.view_as(p) for s, p in zip(state[2 * n:].split(sizes), params)]
        return (None, adj, None, None, *adj_params)


def odeint_adjoint(func, y0, t, method='rk4'):
    return OdeintAdjoint.apply(func, y0, t, method, *func.parameters())


class ODEFunc(nn.Module):
    def __init__(self):
        super(ODEFunc, self).__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y ** 3)


true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t = torch.linspace(0., 6., 61)
with torch.no_grad():
    true_y = odeint(lambda t, y: torch.mm(y ** 3, true_A), torch.tensor([[2., 0.]]), t)


def get_batch(batch_time=6):
    s = torch.randint(0, len(t) - batch_time, (args.batch_size,)).tolist()
    batch_y0 = torch.stack([true_y[i] for i in s]).squeeze(1)
    batch_y = torch.stack([true_y[i:i + batch_time, 0] for i in s], dim=1)
    return batch_y0, t[:batch_time], batch_y


def train_step(func, optimizer, batch_y0, batch_t, batch_y):
    optimizer.zero_grad()
    pred_y = odeint_adjoint(func, batch_y0, batch_t, args.method)
    loss = torch.mean(torch.abs(pred_y - batch_y))
    loss.backward()
    optimizer.step()
    return loss.detach()


if __name__ == '__main__':
    torch.manual_seed(9)
    func = ODEFunc()
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-2)

    # the adjoint's gradient agrees with that of the steps themselves
    y0, bt, by = get_batch()
    g1 = torch.autograd.grad(odeint(func, y0, bt).sum(), list(func.parameters()))
    g2 = torch.autograd.grad(odeint_adjoint(func, y0, bt).sum(), list(func.parameters()))
    error = max((a - b).abs().max().item() for a, b in zip(g1, g2))
    print('adjoint close to backpropagation:', error < 0.05 and math.isfinite(error))

    for itr in range(1, args.niters + 1):
        loss = train_step(func, optimizer, *get_batch())
        if itr % 10 == 0:
            print('Iter {:04d} | Batch Loss {:.6f}'.format(itr, loss.item()))
    with torch.no_grad():
        pred_y = odeint(func, true_y[0], t, args.method)
        print('Total Loss {:.6f}'.format(torch.mean(torch.abs(pred_y - true_y)).item()))
