# MLP-Mixer; pictures are classified by the quadrant that is brightest.
import torch
from torch import nn
from functools import partial
from einops.layers.torch import Rearrange, Reduce
from einops import reduce

pair = lambda x: x if isinstance(x, tuple) else (x, x)


class PreNormResidual(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.fn(self.norm(x)) + x


def FeedForward(dim, expansion_factor=4, dropout=0., dense=nn.Linear):
    inner_dim = int(dim * expansion_factor)
    return nn.Sequential(
        dense(dim, inner_dim),
        nn.GELU(approximate="tanh"),
        nn.Dropout(dropout),
        dense(inner_dim, dim),
        nn.Dropout(dropout)
    )


def MLPMixer(*, image_size, channels, patch_size, dim, depth, num_classes,
             expansion_factor=4, expansion_factor_token=0.5, dropout=0.):
    image_h, image_w = pair(image_size)
    assert (image_h % patch_size) == 0 and (image_w % patch_size) == 0
    num_patches = (image_h // patch_size) * (image_w // patch_size)
    chan_first, chan_last = partial(nn.Conv1d, kernel_size=1), nn.Linear

    return nn.Sequential(
        Rearrange('b c (h p1) (w p2) -> b (h w) (p1 p2 c)', p1=patch_size, p2=patch_size),
        nn.Linear((patch_size ** 2) * channels, dim),
        *[nn.Sequential(
            PreNormResidual(dim, FeedForward(num_patches, expansion_factor, dropout, chan_first)),
            PreNormResidual(dim, FeedForward(dim, expansion_factor_token, dropout, chan_last))
        ) for _ in range(depth)],
        nn.LayerNorm(dim),
        Reduce('b n c -> b c', 'mean'),
        nn.Linear(dim, num_classes)
    )


def batch_of(n):
    images = torch.rand(n, 1, 16, 16)
    quadrants = reduce(images, 'b c (h i) (w j) -> b (c h w)', 'mean', i=8, j=8)
    labels = quadrants.argmax(dim=-1)
    return (images - 0.5) * 2, labels


model = MLPMixer(image_size=16, channels=1, patch_size=4, dim=24, depth=2, num_classes=4,
                 dropout=0.05)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
loss_fn = nn.CrossEntropyLoss()


def train_step(images, labels):
    pred = model(images)
    loss = loss_fn(pred, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


model.train()
n_params = sum(p.numel() for p in model.parameters())
print('parameters:', n_params)
for step in range(40):
    images, labels = batch_of(32)
    loss = train_step(images, labels)
    if step % 10 == 9:
        print('step', step + 1, 'loss', round(loss.item(), 4))

model.eval()
with torch.inference_mode():
    images, labels = batch_of(128)
    correct = (model(images).argmax(-1) == labels).sum().item()
print('test accuracy: %.1f%%' % (100 * correct / len(labels)))
