"""Training a character transformer on a text."""

# ruff: noqa: D102
# (methods are described by Trainer.)

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyt import nn, ops
from tinyt.autograd import no_grad
from tinyt.cli.chars.data import Vocabulary, Windows, cut, digest, read_text
from tinyt.cli.errors import CommandError
from tinyt.cli.plots import Panel, plot_curves
from tinyt.cli.task import Config, Loader, Task, Trainer, option
from tinyt.models import CharTransformer
from tinyt.nn import functional as F
from tinyt.tensor import Tensor

_EVAL_BATCH = 64


@dataclass(frozen=True)
class CharsConfig(Config):
    """Settings of a run on a text."""

    text: str = option("", "text to learn, UTF-8 (default: Python's own documentation)")
    epochs: int = option(12, "passes over the text", smallest=1)
    batch_size: int = option(16, "windows per update", smallest=2)
    weight_decay: float = option(0.1, "shrinks the weights", smallest=0.0)
    context: int = option(64, "characters that a prediction sees", smallest=2)
    width: int = option(128, "length of the vector of a character", smallest=4)
    layers: int = option(4, "transformer blocks", smallest=1, largest=1000)
    heads: int = option(4, "attention heads per block", smallest=1)
    dropout: float = option(0.0, "share of values dropped in training", smallest=0.0, largest=0.9)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise CommandError(
                f"width must be a multiple of heads, got {self.width} and {self.heads}"
            )


class CharsTrainer(Trainer):
    """Trains on the first nine tenths of the text; the last tenth is held out."""

    config: CharsConfig
    figures = ("held_out_bits",)

    def build(self) -> tuple[nn.Module, Loader]:
        text = read_text(self.config.text)
        self.digest = digest(text)
        self.vocabulary = Vocabulary.of(text) if text else Vocabulary(" ")
        at = len(text) * 9 // 10
        self.held_out = self.vocabulary.encode(text[at:])
        loader = Windows(
            self.vocabulary.encode(text[:at]), self.config.context, self.config.batch_size
        )
        if not loader or len(self.held_out) < 2:
            raise CommandError(
                f"a text of {len(text)} characters is too short for batches of "
                f"{self.config.batch_size} windows of {self.config.context}"
            )
        self.title = f"transformer, {len(self.vocabulary)} characters"
        return make_model(self.config, self.vocabulary), loader

    def loss(self, batch: Any) -> Tensor:
        inputs, targets = batch
        logits: Tensor = self.model(inputs)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def validate(self) -> dict[str, float]:
        return {"held_out_bits": self.bits_per_character(self.held_out)}

    def summary(self, record: Mapping[str, Any]) -> str:
        bits = record["train_loss"] / math.log(2)
        return f"bits per character {bits:.3f}  held out {record['held_out_bits']:.3f}"

    def finish(self) -> dict[str, Any]:
        bits = self.bits_per_character(self.held_out)
        return {"held_out_bits": bits, "held_out_characters": len(self.held_out) - 1}

    def result_line(self, result: Mapping[str, Any]) -> str:
        return f"held-out bits per character: {result['held_out_bits']:.3f}"

    def draw(self, folder: Path) -> list[Path]:
        path = folder / "curves.png"
        to_bits = 1 / math.log(2)
        panels = [
            Panel("Training", "bits per character", {"": "train_loss"}, to_bits),
            Panel("Held out", "bits per character", {"": "held_out_bits"}),
        ]
        plot_curves(self.history, panels, path)
        return [path]

    def bits_per_character(self, text: Tensor) -> float:
        """Mean of -log2 p over every character of `text` but the first.

        The text is cut into windows, so a character sees less than the whole context.
        """
        self.model.eval()
        context, count = self.config.context, len(text) - 1
        starts = list(range(0, count - context + 1, context))
        total = 0.0
        with no_grad():
            for i in range(0, len(starts), _EVAL_BATCH):
                batch = cut(text, ops.tensor(starts[i : i + _EVAL_BATCH]), context)
                total += self.loss(self.placed(batch)).item() * batch[0].numel()
            rest = count % context
            if rest:
                batch = cut(text, ops.tensor([count - rest]), rest)
                total += self.loss(self.placed(batch)).item() * rest
        return total / count / math.log(2)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "vocabulary": self.vocabulary.characters,
            "text_sha256": self.digest,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state.get("text_sha256") != self.digest:
            raise CommandError(
                f"the checkpoint does not fit: the text ({self.config.text or 'built in'}) is not "
                "the one that the run began with"
            )
        super().load_state_dict(state)


def make_model(config: CharsConfig, vocabulary: Vocabulary) -> CharTransformer:
    """The network that `config` describes."""
    return CharTransformer(
        len(vocabulary), config.context, config.width, config.layers, config.heads, config.dropout
    )


class Chars(Task):
    """The next character of a text."""

    name = "chars"
    help = "the next character of any text"
    description = (
        "Train a small transformer to predict the next character of a text. The last tenth of the "
        "text is held out. The last line printed is the bits per character there. Then: "
        "tinyt generate RUN PROMPT."
    )
    config = CharsConfig
    trainer = CharsTrainer
