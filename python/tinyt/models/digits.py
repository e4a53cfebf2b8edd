"""Networks for 8x8 grey images of handwritten digits."""

# ruff: noqa: D102
# (forward is described by the class.)

from __future__ import annotations

from tinyt import nn
from tinyt.tensor import Tensor

CLASSES = 10
SIDE = 8


class DigitsCNN(nn.Module):
    """Two 3x3 convolutions with batch normalisation, one pooling, one linear layer.

    Shapes: input (N, 1, 8, 8), output logits (N, 10).
    """

    def __init__(self, channels: tuple[int, int] = (32, 64), dropout: float = 0.3) -> None:
        super().__init__()
        first, second = channels
        self.features = nn.Sequential(
            nn.Conv2d(1, first, 3, padding=1),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=1),
            nn.BatchNorm2d(second),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(dropout), nn.Linear(second * (SIDE // 2) ** 2, CLASSES)
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(images))
        return logits


class DigitsMLP(nn.Module):
    """Two hidden layers with batch normalisation.

    Shapes: input (N, 1, 8, 8), output logits (N, 10).
    """

    def __init__(self, hidden: tuple[int, int] = (256, 128), dropout: float = 0.2) -> None:
        super().__init__()
        first, second = hidden
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(SIDE * SIDE, first),
            nn.BatchNorm1d(first),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(first, second),
            nn.BatchNorm1d(second),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(second, CLASSES),
        )

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits
