"""A small training run for valgrind: every family of kernels once, forward and backward."""

import tinyt
from tinyt import nn, optim
from tinyt.nn import functional as F


class Net(nn.Module):
    """Convolution, normalisation, pooling, dropout and attention in a few hundred parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(3 * 3 * 3, 5)

    def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
        """(N, 1, 7, 7) float32 -> (N, 5) float32."""
        x = F.max_pool2d(F.gelu(self.norm(self.conv(x))), 2)
        tokens = x.reshape(x.shape[0], 3, -1)
        tokens = F.scaled_dot_product_attention(tokens, tokens, tokens)
        return self.head(F.dropout(tokens.flatten(1), 0.1))


tinyt.manual_seed(0)
model = Net()
optimizer = optim.AdamW(model.parameters(), lr=0.01)
images, labels = tinyt.randn(7, 1, 7, 7), tinyt.arange(7) % 5
for _ in range(3):
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

odd = tinyt.randn(67, 5)
views = (odd[::3, 1:], odd.t(), odd.expand(2, 67, 5), odd[5:5])
total = sum(v.exp().sum().item() for v in views)
print(f"loss {loss.item():.3f}, sums {total:.3f}, {tinyt.cat(views[:1]).sort(0)[1].shape}")
