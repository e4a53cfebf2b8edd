"""Training a network on the digits."""

# ruff: noqa: D102
# (methods are described by Trainer.)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyt import nn
from tinyt.autograd import no_grad
from tinyt.cli.digits.data import Part, load_digits
from tinyt.cli.digits.plots import plot_misread
from tinyt.cli.errors import CommandError
from tinyt.cli.plots import Panel, plot_curves
from tinyt.cli.task import Config, Loader, Task, Trainer, option
from tinyt.data import DataLoader, TensorDataset
from tinyt.models import DigitsCNN, DigitsMLP
from tinyt.tensor import Tensor

MODELS: dict[str, type[nn.Module]] = {"cnn": DigitsCNN, "mlp": DigitsMLP}


@dataclass(frozen=True)
class DigitsConfig(Config):
    """Settings of a run on the digits."""

    model: str = option("cnn", "network to train", choices=tuple(MODELS))
    label_smoothing: float = option(0.1, "share of every label", smallest=0.0, largest=1.0)


class DigitsTrainer(Trainer):
    """Trains on the training part, is watched on the validation part, ends on the test part."""

    config: DigitsConfig
    figures = ("validation_loss", "validation_accuracy")

    def build(self) -> tuple[nn.Module, Loader]:
        data = load_digits()
        if self.config.batch_size > len(data.train.labels):
            raise CommandError(
                f"batch size {self.config.batch_size} is more than the {len(data.train.labels)} "
                "training images"
            )
        self.validation, self.test = data.validation, data.test
        self.criterion = nn.CrossEntropyLoss(label_smoothing=self.config.label_smoothing)
        self.title = self.config.model
        # A short last batch would make noisy batch statistics; shuffling gives all their turn.
        loader = DataLoader(
            TensorDataset(*data.train), self.config.batch_size, shuffle=True, drop_last=True
        )
        return MODELS[self.config.model](), loader

    def loss(self, batch: Any) -> Tensor:
        images, labels = batch
        loss: Tensor = self.criterion(self.model(images), labels)
        return loss

    def validate(self) -> dict[str, float]:
        logits = self.predict(self.validation)
        return {
            "validation_loss": self.criterion(logits, self.validation.labels).item(),
            "validation_accuracy": accuracy(logits, self.validation),
        }

    def summary(self, record: Mapping[str, Any]) -> str:
        percent = 100 * record["validation_accuracy"]
        return f"loss {record['train_loss']:.4f}  validation {percent:5.1f}%"

    def finish(self) -> dict[str, Any]:
        accurate = accuracy(self.predict(self.test), self.test)
        return {"test_accuracy": accurate, "test_images": len(self.test.labels)}

    def result_line(self, result: Mapping[str, Any]) -> str:
        return f"test accuracy: {100 * result['test_accuracy']:.2f}%"

    def draw(self, folder: Path) -> list[Path]:
        curves, misread = folder / "curves.png", folder / "misread.png"
        loss = Panel("Loss", "loss", {"training": "train_loss", "validation": "validation_loss"})
        share = Panel("Validation accuracy", "%", {"": "validation_accuracy"}, scale=100)
        plot_curves(self.history, [loss, share], curves)
        plot_misread(self.test, self.predict(self.test), misread)
        return [curves, misread]

    def predict(self, part: Part) -> Tensor:
        """The logits of a part's images with the network in evaluation mode."""
        self.model.eval()
        with no_grad():
            logits: Tensor = self.model(part.images.to(self.place))
        return logits.cpu()


def accuracy(logits: Tensor, part: Part) -> float:
    """The share of rows whose largest logit is at the label."""
    return float((logits.argmax(dim=1) == part.labels).sum().item()) / len(part.labels)


class Digits(Task):
    """Handwritten digits."""

    name = "digits"
    help = "8x8 images of handwritten digits"
    description = (
        "Train on the 1,797 handwritten digits that scikit-learn carries. A fifth is held out and "
        "looked at only at the end. The last line printed is the test accuracy."
    )
    config = DigitsConfig
    trainer = DigitsTrainer
