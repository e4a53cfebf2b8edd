"""The pictures of a run. matplotlib is imported here alone, and only when called."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tinyt.cli.digits import Part
from tinyt.cli.errors import require
from tinyt.tensor import Tensor

_MAX_TILES = 40
_COLUMNS = 8


def plot_curves(history: list[dict[str, Any]], path: Path) -> None:
    """Loss and validation accuracy by epoch."""
    figure = _figure(9, 3.5)
    epochs = [record["epoch"] for record in history]
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [record["train_loss"] for record in history], ".-", label="training")
    left.plot(epochs, [record["validation_loss"] for record in history], ".-", label="validation")
    left.set(xlabel="epoch", ylabel="loss", title="Loss", ylim=(0, None))
    left.legend()
    percent = [100 * record["validation_accuracy"] for record in history]
    right.plot(epochs, percent, ".-", color="tab:green")
    right.set(xlabel="epoch", ylabel="%", title="Validation accuracy")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    figure.savefig(path)


def plot_misread(part: Part, logits: Tensor, path: Path) -> None:
    """The images whose label was missed, each with its label and what was read."""
    read = logits.argmax(dim=1)
    missed = (read != part.labels).tolist()
    indices = [i for i, wrong in enumerate(missed) if wrong]
    shown = indices[:_MAX_TILES]
    columns = min(max(len(shown), 4), _COLUMNS)
    rows = max(1, math.ceil(len(shown) / columns))
    figure = _figure(1.3 * columns, 1.6 * rows + 0.6)
    figure.suptitle(f"{len(indices)} of {len(missed)} test digits misread")
    for axes in figure.subplots(rows, columns, squeeze=False).flat:
        axes.set_axis_off()
    for axes, i in zip(figure.axes, shown, strict=False):
        axes.imshow(part.images[i, 0].numpy(), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(f"{part.labels[i].item()} read as {read[i].item()}", fontsize=9)
    figure.savefig(path)


def _figure(width: float, height: float) -> Any:
    # A Figure of its own, not pyplot's: no window system, no global state.
    figure = require("matplotlib.figure", "matplotlib", "the pictures").Figure
    return figure(figsize=(width, height), dpi=120, layout="constrained")
