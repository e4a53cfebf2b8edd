"""Graph networks by scatter_add and index_add, with helpers from a package named torch_helpers."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_helpers
from torch_helpers.meters import AverageMeter


class GCNConv(nn.Module):
    """Kipf & Welling: D^-1/2 (A + I) D^-1/2 X W."""

    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n).expand(2, n)
        src, dst = torch.cat([edge_index, loops], dim=1)
        ones = torch.ones(src.numel(), dtype=x.dtype)
        deg = torch.zeros(n, dtype=x.dtype).scatter_add_(0, dst, ones)
        norm = deg.pow(-0.5)
        weight = norm[src] * norm[dst]
        h = self.lin(x)
        out = torch.zeros_like(h).index_add_(0, dst, h[src] * weight.unsqueeze(-1))
        return out + self.bias


class GATConv(nn.Module):
    """Velickovic et al.: attention over the edges of each node, one softmax a node."""

    def __init__(self, in_dim, out_dim, heads):
        super().__init__()
        self.heads, self.out_dim = heads, out_dim
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att_src = nn.Parameter(torch.empty(1, heads, out_dim))
        self.att_dst = nn.Parameter(torch.empty(1, heads, out_dim))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x, edge_index):
        n = x.size(0)
        src, dst = edge_index[0], edge_index[1]
        h = self.lin(x).view(n, self.heads, self.out_dim)
        alpha = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = F.leaky_relu(alpha, 0.2)
        index = dst.unsqueeze(-1).expand_as(alpha)
        high = torch.full((n, self.heads), float('-inf'), dtype=x.dtype)
        high = high.scatter_reduce(0, index, alpha.detach(), reduce='amax', include_self=True)
        alpha = (alpha - high[dst]).exp()
        total = torch.zeros(n, self.heads, dtype=x.dtype).scatter_add(0, index, alpha)
        alpha = alpha / (total[dst] + 1e-16)
        out = torch.zeros_like(h).index_add(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self, in_dim, hidden, classes, dropout=0.2):
        super().__init__()
        self.conv1 = GCNConv(in_dim, hidden)
        self.conv2 = GATConv(hidden, classes, heads=2)
        self.out = nn.Linear(2 * classes, classes)
        self.dropout = dropout

    def forward(self, x, edge_index):
        x = F.dropout(x, self.dropout, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, self.dropout, training=self.training)
        return F.log_softmax(self.out(self.conv2(x, edge_index)), dim=-1)


def train_step(model, optimizer, x, edge_index, y, train_idx):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(x, edge_index)[train_idx], y[train_idx])
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def accuracy(model, x, edge_index, y, idx):
    model.eval()
    pred = model(x, edge_index)[idx].max(1)[1]
    return pred.eq(y[idx]).double().mean().item()


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=40)
    parser.add_argument('--hidden', type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(6)
    x, y, edge_index = torch_helpers.ring_of_communities()
    perm = torch.randperm(x.size(0))
    train_idx, test_idx = perm[:24], perm[24:]
    model = Net(x.size(1), args.hidden, int(y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    meter = AverageMeter('Loss', ':.4e')
    print('nodes', x.size(0), 'classes', int(y.max()) + 1)
    for epoch in range(args.epochs):
        meter.update(train_step(model, optimizer, x, edge_index, y, train_idx).item())
        if (epoch + 1) % 10 == 0:
            print(f'Epoch {epoch + 1:03d}', meter)
    print('Test accuracy: %.3f' % accuracy(model, x, edge_index, y, test_idx))
