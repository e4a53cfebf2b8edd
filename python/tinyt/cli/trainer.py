"""Training a digits network epoch by epoch, from a state that can be stored and restored."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tinyt import nn
from tinyt.autograd import no_grad
from tinyt.cli.digits import Digits, Part
from tinyt.cli.errors import CommandError
from tinyt.cli.runs import Config
from tinyt.data import DataLoader, TensorDataset
from tinyt.models import DigitsCNN, DigitsMLP
from tinyt.optim import AdamW
from tinyt.optim.lr_scheduler import CosineAnnealingLR
from tinyt.random import default_generator, manual_seed
from tinyt.tensor import Tensor

OnBatch = Callable[[float], None]


def make_model(config: Config) -> nn.Module:
    """The network that `config` names."""
    return DigitsCNN() if config.model == "cnn" else DigitsMLP()


class Trainer:
    """Model, optimiser, schedule and random stream of one run.

    All randomness (initial weights, order, dropout) comes from the default generator, whose state
    is part of the checkpoint: a resumed run repeats an uninterrupted one bit for bit.
    """

    def __init__(self, config: Config, data: Digits) -> None:
        if config.batch_size > len(data.train.labels):
            raise CommandError(
                f"batch size {config.batch_size} is more than the {len(data.train.labels)} "
                "training images"
            )
        manual_seed(config.seed)
        self.config = config
        self.validation = data.validation
        self.model = make_model(config)
        self.optimizer = AdamW(
            self.model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        # A short last batch would make noisy batch statistics; shuffling gives all their turn.
        self.loader = DataLoader(
            TensorDataset(*data.train), config.batch_size, shuffle=True, drop_last=True
        )
        self.scheduler = CosineAnnealingLR(self.optimizer, config.epochs * len(self.loader))
        self.criterion = nn.CrossEntropyLoss(label_smoothing=config.label_smoothing)
        self.epoch = 0
        self.history: list[dict[str, Any]] = []

    @property
    def finished(self) -> bool:
        """Whether every epoch is done."""
        return self.epoch >= self.config.epochs

    def run_epoch(self, on_batch: OnBatch) -> dict[str, Any]:
        """One pass over the training part; returns and records its metrics."""
        started = time.perf_counter()
        self.model.train()
        total = 0.0
        for images, labels in self.loader:
            loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            value = loss.item()
            total += value
            on_batch(value)
        logits = predict(self.model, self.validation.images)
        self.epoch += 1
        record = {
            "epoch": self.epoch,
            "train_loss": total / len(self.loader),
            "validation_loss": self.criterion(logits, self.validation.labels).item(),
            "validation_accuracy": accuracy(logits, self.validation.labels),
            "lr": self.scheduler.get_last_lr()[0],
            "seconds": round(time.perf_counter() - started, 3),
        }
        self.history.append(record)
        return record

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides how training goes on, and how it went."""
        return {
            "epoch": self.epoch,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": default_generator.get_state(),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a `state_dict` of the same configuration."""
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scheduler.load_state_dict(state["scheduler"])
            default_generator.set_state(state["random"])
            self.epoch = int(state["epoch"])
            self.history = list(state["history"])
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CommandError(f"the checkpoint does not fit this run: {error}") from None


def predict(model: nn.Module, images: Tensor) -> Tensor:
    """The logits of `images` with the network in evaluation mode."""
    model.eval()
    with no_grad():
        logits: Tensor = model(images)
    return logits


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """The share of rows whose largest logit is at the label."""
    return float((logits.argmax(dim=1) == labels).sum().item()) / len(labels)


def result_line(logits: Tensor, part: Part) -> str:
    """The result as the command prints it last."""
    return f"test accuracy: {100 * accuracy(logits, part.labels):.2f}%"
