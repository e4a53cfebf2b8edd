"""VQ-VAE (van den Oord et al., 2017) with a codebook by moving averages, on small patterns."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class VectorQuantizerEMA(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, commitment_cost, decay, epsilon=1e-5):
        super(VectorQuantizerEMA, self).__init__()
        self._embedding_dim = embedding_dim
        self._num_embeddings = num_embeddings
        self._embedding = nn.Embedding(self._num_embeddings, self._embedding_dim)
        self._embedding.weight.data.normal_()
        self._commitment_cost = commitment_cost
        self.register_buffer('_ema_cluster_size', torch.zeros(num_embeddings))
        self._ema_w = nn.Parameter(torch.Tensor(num_embeddings, self._embedding_dim))
        self._ema_w.data.normal_()
        self._decay = decay
        self._epsilon = epsilon

    def forward(self, inputs):
        inputs = inputs.permute(0, 2, 3, 1).contiguous()
        input_shape = inputs.shape
        flat_input = inputs.view(-1, self._embedding_dim)
        distances = (torch.sum(flat_input ** 2, dim=1, keepdim=True)
                     + torch.sum(self._embedding.weight ** 2, dim=1)
                     - 2 * torch.matmul(flat_input, self._embedding.weight.t()))
        encoding_indices = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(encoding_indices.shape[0], self._num_embeddings,
                                device=inputs.device)
        encodings.scatter_(1, encoding_indices, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(input_shape)

        # Use EMA to update the embedding vectors
        if self.training:
            with torch.no_grad():
                self._ema_cluster_size.mul_(self._decay).add_(
                    torch.sum(encodings, 0), alpha=1 - self._decay)
                n = torch.sum(self._ema_cluster_size)
                size = ((self._ema_cluster_size + self._epsilon)
                        / (n + self._num_embeddings * self._epsilon) * n)
                dw = torch.matmul(encodings.t(), flat_input)
                self._ema_w.mul_(self._decay).add_(dw, alpha=1 - self._decay)
                self._embedding.weight.data.copy_(self._ema_w / size.unsqueeze(1))

        e_latent_loss = F.mse_loss(quantized.detach(), inputs)
        loss = self._commitment_cost * e_latent_loss
        # Straight Through Estimator
        quantized = inputs + (quantized - inputs).detach()
        avg_probs = torch.mean(encodings, dim=0)
        perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return loss, quantized.permute(0, 3, 1, 2).contiguous(), perplexity, encodings


class Residual(nn.Module):
    def __init__(self, channels):
        super(Residual, self).__init__()
        self._block = nn.Sequential(
            nn.ReLU(False),
            nn.Conv2d(channels, channels // 2, kernel_size=3, padding=1, bias=False),
            nn.ReLU(True),
            nn.Conv2d(channels // 2, channels, kernel_size=1, bias=False))

    def forward(self, x):
        return x + self._block(x)


class Model(nn.Module):
    def __init__(self, hidden=8, dim=4, codes=12):
        super(Model, self).__init__()
        self._encoder = nn.Sequential(
            nn.Conv2d(1, hidden, kernel_size=4, stride=2, padding=1), Residual(hidden),
            nn.Conv2d(hidden, dim, kernel_size=1))
        self._vq_vae = VectorQuantizerEMA(codes, dim, 0.25, 0.95)
        self._decoder = nn.Sequential(
            nn.Conv2d(dim, hidden, kernel_size=3, padding=1), Residual(hidden), nn.ReLU(inplace=True),
            nn.ConvTranspose2d(hidden, 1, kernel_size=4, stride=2, padding=1))

    def forward(self, x):
        loss, quantized, perplexity, _ = self._vq_vae(self._encoder(x))
        return loss, self._decoder(quantized), perplexity


def patterns(n, size=8):
    kind = torch.randint(0, 3, (n, 1, 1, 1))
    i = torch.arange(size)
    stripes = (i % 2).float().expand(size, size)
    checks = ((i[:, None] + i[None, :]) % 2).float()
    x = torch.where(kind == 0, stripes, torch.where(kind == 1, stripes.t(), checks))
    return x - 0.5 + 0.05 * torch.randn(n, 1, size, size)


def train_step(model, optimizer, data, data_variance):
    optimizer.zero_grad()
    vq_loss, data_recon, perplexity = model(data)
    recon_error = F.mse_loss(data_recon, data) / data_variance
    loss = recon_error + vq_loss
    loss.backward()
    optimizer.step()
    return recon_error.detach(), perplexity.detach()


def main(num_training_updates=40, learning_rate=3e-3):
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data_variance = torch.var(patterns(64)).item()
    model = Model().to(device)
    optimizer = optim.Adam(model.parameters(), lr=learning_rate, amsgrad=False)
    model.train()
    recon, perplexities = [], []
    for i in range(num_training_updates):
        recon_error, perplexity = train_step(model, optimizer, patterns(16).to(device), data_variance)
        recon.append(recon_error.item())
        perplexities.append(perplexity.item())
        if (i + 1) % 10 == 0:
            print('%d iterations' % (i + 1))
            print('recon_error: %.3f' % (sum(recon[-10:]) / 10))
            print('perplexity: %.3f' % (sum(perplexities[-10:]) / 10))
    print(sorted(name for name, _ in model.named_buffers()))


if __name__ == '__main__':
    main()
