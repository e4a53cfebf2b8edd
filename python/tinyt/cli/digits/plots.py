"""The picture of the misread digits."""

from __future__ import annotations

import math
from pathlib import Path

from tinyt.cli.digits.data import Part
from tinyt.cli.plots import figure
from tinyt.tensor import Tensor

_MAX_TILES = 40
_COLUMNS = 8


def plot_misread(part: Part, logits: Tensor, path: Path) -> None:
    """The images whose label was missed, each with its label and what was read."""
    read = logits.argmax(dim=1)
    missed = (read != part.labels).tolist()
    indices = [i for i, wrong in enumerate(missed) if wrong]
    shown = indices[:_MAX_TILES]
    columns = min(max(len(shown), 4), _COLUMNS)
    rows = max(1, math.ceil(len(shown) / columns))
    picture = figure(1.3 * columns, 1.6 * rows + 0.6)
    picture.suptitle(f"{len(indices)} of {len(missed)} test digits misread")
    for axes in picture.subplots(rows, columns, squeeze=False).flat:
        axes.set_axis_off()
    for axes, i in zip(picture.axes, shown, strict=False):
        axes.imshow(part.images[i, 0].numpy(), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(f"{part.labels[i].item()} read as {read[i].item()}", fontsize=9)
    picture.savefig(path)
