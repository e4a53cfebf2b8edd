#!/usr/bin/env python3
"""Character LSTM with truncated backpropagation through time, on Python's own source text."""
import argparse
import inspect
import sys
try:
    import torch
    import torch.nn as nn
except ImportError:
    sys.exit("this program needs PyTorch")
try:
    from tqdm_that_nobody_has import tqdm
except ImportError:
    tqdm = lambda it, **kwargs: it

if sys.version_info >= (3, 6):
    from torch.nn import functional as F


def load_text(length):
    import textwrap
    return inspect.getsource(textwrap)[:length]


class CharLSTM(nn.Module):
    def __init__(self, vocab_size, embed_size, hidden_size, num_layers):
        super(CharLSTM, self).__init__()
        self.embed = nn.Embedding(vocab_size, embed_size)
        self.lstm = nn.LSTM(embed_size, hidden_size, num_layers, batch_first=True)
        self.linear = nn.Linear(hidden_size, vocab_size)

    def forward(self, x, h):
        x = self.embed(x)
        out, (h, c) = self.lstm(x, h)
        out = out.reshape(out.size(0) * out.size(1), out.size(2))
        return self.linear(out), (h, c)


# Truncated backpropagation
def detach(states):
    return [state.detach() for state in states]


def train_step(model, optimizer, inputs, targets, states):
    states = detach(states)
    outputs, states = model(inputs, states)
    loss = F.cross_entropy(outputs, targets.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss.detach(), states[0].detach(), states[1].detach()


def generate(model, stoi, itos, start, length, temperature=0.8):
    from torch.distributions import Categorical
    state = tuple(torch.zeros(model.lstm.num_layers, 1, model.lstm.hidden_size) for _ in range(2))
    text, x = start, torch.tensor([[stoi[c] for c in start]])
    with torch.no_grad():
        for _ in range(length):
            output, state = model(x, state)
            index = Categorical(logits=output[-1] / temperature).sample()
            text += itos[index.item()]
            x = index.view(1, 1)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--epochs', type=int, default=3)
    parser.add_argument('--seq-length', type=int, default=20)
    parser.add_argument('--batch-size', type=int, default=8)
    parser.add_argument('--hidden', type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(1111)

    text = load_text(2000)
    itos = sorted(set(text))
    stoi = {c: i for i, c in enumerate(itos)}
    ids = torch.LongTensor([stoi[c] for c in text])
    num_batches = ids.size(0) // args.batch_size
    ids = ids[:num_batches * args.batch_size].view(args.batch_size, -1)

    model = CharLSTM(len(itos), 16, args.hidden, num_layers=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        states = (torch.zeros(2, args.batch_size, args.hidden),
                  torch.zeros(2, args.batch_size, args.hidden))
        starts = range(0, ids.size(1) - args.seq_length, args.seq_length)
        total = 0.
        for i in tqdm(starts, desc='epoch %d' % epoch):
            inputs = ids[:, i:i + args.seq_length]
            targets = ids[:, (i + 1):(i + 1) + args.seq_length]
            loss, *states = train_step(model, optimizer, inputs, targets, states)
            total += loss.item()
        mean = total / len(starts)
        print('Epoch [{}/{}], Loss: {:.4f}, Perplexity: {:5.2f}'.format(
            epoch + 1, args.epochs, mean, torch.tensor(mean).exp().item()))
    print('generated', len(generate(model, stoi, itos, 'def ', 20)), 'characters')


if __name__ == '__main__':
    main()
