"""U-Net segmentation of discs, with the mixed-precision code that runs on a GPU switched off."""
import argparse
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim, Tensor
from torch.cuda.amp import GradScaler as _OldGradScaler
from torch.utils.data import DataLoader, Dataset, random_split


class Discs(Dataset):
    def __init__(self, n, size=20):
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing='ij')
        c = torch.randint(5, size - 5, (n, 2))
        r = torch.randint(2, 5, (n,))
        d = (yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2
        self.masks = (d <= r[:, None, None] ** 2).long()
        self.images = (self.masks + 0.3 * torch.randn(n, size, size)).unsqueeze(1)

    def __len__(self):
        return len(self.masks)

    def __getitem__(self, idx):
        return {'image': self.images[idx].contiguous(), 'mask': self.masks[idx].contiguous()}


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True)
        )

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(in_channels, out_channels))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels, n_classes):
        super().__init__()
        self.inc = DoubleConv(n_channels, 4)
        self.down1 = Down(4, 8)
        self.down2 = Down(8, 8)
        self.up1 = Up(16, 4)
        self.up2 = Up(8, 4, bilinear=True)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


def dice_loss(input: Tensor, target: Tensor, epsilon: float = 1e-6):
    inter = 2 * (input * target).sum(dim=(-1, -2))
    sets_sum = input.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return 1 - ((inter + epsilon) / (sets_sum + epsilon)).mean()


def train_step(model, criterion, optimizer, scaler, images, masks, amp=False):
    with torch.autocast(device_type='cpu', enabled=amp):
        masks_pred = model(images)
        loss = criterion(masks_pred, masks)
        onehot = F.one_hot(masks, 2).permute(0, 3, 1, 2).float()
        loss = loss + dice_loss(F.softmax(masks_pred, dim=1).float(), onehot)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Train the UNet on images and target masks')
    parser.add_argument('--epochs', '-e', type=int, default=4)
    parser.add_argument('--amp', action='store_true', default=False)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format='%(levelname)s: %(message)s')
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    torch.manual_seed(0)
    dataset = Discs(80)
    train_set, val_set = random_split(dataset, [64, 16], generator=torch.Generator().manual_seed(0))
    loader_args = dict(batch_size=8, num_workers=0, pin_memory=False)
    train_loader = DataLoader(train_set, shuffle=True, **loader_args)
    model = UNet(1, 2).to(memory_format=torch.channels_last, device=device)
    logging.info(f'Using device {device}')
    optimizer = optim.RMSprop(model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    grad_scaler = torch.amp.GradScaler('cpu', enabled=args.amp)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, args.epochs + 1):
        model.train()
        epoch_loss = 0
        for batch in train_loader:
            images = batch['image'].to(device=device, memory_format=torch.channels_last)
            masks = batch['mask'].to(device=device, dtype=torch.long)
            loss = train_step(model, criterion, optimizer, grad_scaler, images, masks, args.amp)
            epoch_loss += loss.item()
        scheduler.step()
        print(f'Epoch {epoch}/{args.epochs} loss (batch) {epoch_loss / len(train_loader):.4f}')
    model.eval()
    with torch.no_grad():
        batch = next(iter(DataLoader(val_set, batch_size=16)))
        pred = model(batch['image']).argmax(dim=1)
    print('pixels right: %.3f' % (pred == batch['mask']).float().mean().item())
