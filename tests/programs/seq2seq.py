"""Sequence to sequence with attention, packed sequences and teacher forcing: reversing digits."""
from __future__ import unicode_literals, print_function, division
import argparse
import random

import torch
import torch.nn as nn
from torch import optim
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD_token, SOS_token, EOS_token = 0, 1, 2


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super(EncoderRNN, self).__init__()
        self.embedding = nn.Embedding(input_size, hidden_size, padding_idx=PAD_token)
        self.gru = nn.GRU(hidden_size, hidden_size, bidirectional=True)
        self.fc = nn.Linear(hidden_size * 2, hidden_size)

    def forward(self, input, lengths):
        packed = pack_padded_sequence(self.embedding(input), lengths, enforce_sorted=False)
        outputs, hidden = self.gru(packed)
        outputs, _ = pad_packed_sequence(outputs, total_length=input.size(0))
        hidden = torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))
        return outputs, hidden.unsqueeze(0)


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super(BahdanauAttention, self).__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size * 2, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2)
        weights = F.softmax(scores.masked_fill(mask, -1e9), dim=0)
        return torch.einsum('tb,tbh->bh', weights, keys).unsqueeze(0)


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super(AttnDecoderRNN, self).__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(3 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, step_input, hidden, encoder_outputs, mask):
        context = self.attention(hidden, encoder_outputs, mask)
        input_gru = torch.cat((self.embedding(step_input).unsqueeze(0), context), dim=2)
        output, hidden = self.gru(input_gru, hidden)
        return self.out(output[0]), hidden


def make_batch(batch_size, max_length=7, digits=8):
    sources, targets = [], []
    for _ in range(batch_size):
        seq = [random.randrange(3, 3 + digits) for _ in range(random.randint(2, max_length))]
        sources.append(torch.tensor(seq))
        targets.append(torch.tensor(seq[::-1] + [EOS_token]))
    lengths = torch.tensor([len(s) for s in sources])
    return pad_sequence(sources, padding_value=PAD_token), lengths, \
        pad_sequence(targets, padding_value=PAD_token)


def run(encoder, decoder, source, lengths, target, teacher_forcing):
    encoder_outputs, hidden = encoder(source, lengths)
    mask = source == PAD_token
    step_input = torch.full((source.size(1),), SOS_token, dtype=torch.long)
    loss, outputs = 0, []
    for di in range(target.size(0)):
        output, hidden = decoder(step_input, hidden, encoder_outputs, mask)
        loss += F.cross_entropy(output, target[di], ignore_index=PAD_token, reduction='sum')
        outputs.append(output.argmax(dim=1))
        step_input = target[di] if teacher_forcing else outputs[-1].detach()
    return loss / (target != PAD_token).sum(), torch.stack(outputs)


def train_step(encoder, decoder, encoder_optimizer, decoder_optimizer, batch, teacher_forcing):
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    loss, _ = run(encoder, decoder, *batch, teacher_forcing)
    loss.backward()
    for model in (encoder, decoder):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.)
    encoder_optimizer.step()
    decoder_optimizer.step()
    return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--iters', type=int, default=30)
    parser.add_argument('--hidden', type=int, default=24)
    parser.add_argument('--teacher-forcing-ratio', type=float, default=0.7)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    encoder, decoder = EncoderRNN(11, args.hidden), AttnDecoderRNN(args.hidden, 11)
    optimizers = [optim.Adam(m.parameters(), lr=0.01) for m in (encoder, decoder)]
    plot_losses, total = [], 0
    for it in range(1, args.iters + 1):
        forced = random.random() < args.teacher_forcing_ratio
        total += train_step(encoder, decoder, *optimizers, make_batch(16), forced).item()
        if it % 10 == 0:
            plot_losses.append(total / 10)
            print('%d %d%% %.4f' % (it, it / args.iters * 100, plot_losses[-1]))
            total = 0
    with torch.no_grad():
        source, lengths, target = make_batch(32)
        loss, outputs = run(encoder, decoder, source, lengths, target, False)
        right = ((outputs == target) & (target != PAD_token)).sum() / (target != PAD_token).sum()
    print('tokens right %.3f, loss %.3f' % (right.item(), loss.item()))


if __name__ == '__main__':
    main()
