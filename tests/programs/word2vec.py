# Skip-gram with negative sampling over the words of Python's own documentation strings.
import torch, math
import torch.nn as nn, torch.nn.functional as F
import argparse, collections, random, re

CORPUS = ' '.join((f.__doc__ or '') for f in vars(math).values() if callable(f)) + collections.__doc__


def read_words(min_count=2):
    words = re.findall('[a-z]+', CORPUS.lower())
    counts = collections.Counter(words)
    vocab = sorted(w for w, c in counts.items() if c >= min_count)
    word2idx = {w: i for i, w in enumerate(vocab)}
    data = [word2idx[w] for w in words if w in word2idx]
    return data, vocab, torch.tensor([counts[w] for w in vocab])


class SkipGramNeg(nn.Module):
    def __init__(self, n_vocab, n_embed, noise_dist=None):
        super().__init__()
        self.noise_dist = noise_dist
        self.in_embed = nn.Embedding(n_vocab, n_embed)
        self.out_embed = nn.Embedding(n_vocab, n_embed)
        self.in_embed.weight.data.uniform_(-1, 1)
        self.out_embed.weight.data.uniform_(-1, 1)

    def forward_noise(self, batch_size, n_samples):
        noise_words = torch.multinomial(self.noise_dist, batch_size * n_samples, replacement=True)
        return self.out_embed(noise_words).view(batch_size, n_samples, -1)

    def forward(self, centre, context, n_samples):
        v = self.in_embed(centre)
        u = self.out_embed(context)
        noise = self.forward_noise(len(centre), n_samples)
        pos = F.logsigmoid(torch.bmm(u.unsqueeze(1), v.unsqueeze(2)).squeeze())
        neg = F.logsigmoid(torch.bmm(noise.neg(), v.unsqueeze(2)).squeeze()).sum(1)
        return -(pos + neg).mean()


def pairs(data, window, batch_size, rng):
    centre, context = [], []
    while True:
        i = rng.randrange(window, len(data) - window)
        for j in range(1, rng.randint(1, window) + 1):
            for other in (data[i - j], data[i + j]):
                centre.append(data[i]); context.append(other)
                if len(centre) == batch_size:
                    yield torch.LongTensor(centre), torch.LongTensor(context)
                    centre, context = [], []


def train_step(model, optimizer, centre, context, n_samples):
    loss = model(centre, context, n_samples)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def nearest(embedding, word_idx, k=3):
    w = embedding.weight.detach()
    similarity = F.cosine_similarity(w[word_idx].unsqueeze(0), w, dim=1)
    return similarity.topk(k + 1)[1][1:]


if __name__ == '__main__':
    ap = argparse.ArgumentParser()
    ap.add_argument('--steps', type=int, default=60)
    ap.add_argument('--dim', type=int, default=16)
    ap.add_argument('--negatives', type=int, default=5)
    a = ap.parse_args()
    torch.manual_seed(5)
    data, vocab, freqs = read_words()
    unigram = freqs / freqs.sum()
    noise = unigram ** 0.75
    noise = noise / torch.sum(noise)
    model = SkipGramNeg(len(vocab), a.dim, noise_dist=noise)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    print(len(data), 'words,', len(vocab), 'in the vocabulary')
    batches = pairs(data, 3, 64, random.Random(1))
    total = 0.0
    for step, (centre, context) in zip(range(1, a.steps + 1), batches):
        total += train_step(model, optimizer, centre, context, a.negatives).item()
        if step % 20 == 0:
            print('step', step, 'average loss: %.4f' % (total / 20))
            total = 0.0
    found = nearest(model.in_embed, vocab.index('return'))
    print('near "return":', len([vocab[i] for i in found]), 'words')
