"""The curves of a run. matplotlib is imported here alone, and only when called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyt.cli.errors import require


@dataclass(frozen=True)
class Panel:
    """One diagram over the epochs: figures of the records by their label."""

    title: str
    unit: str
    curves: dict[str, str]
    scale: float = 1.0


def plot_curves(history: list[dict[str, Any]], panels: list[Panel], path: Path) -> None:
    """Draws the panels side by side."""
    shown = figure(4.5 * len(panels), 3.5)
    epochs = [record["epoch"] for record in history]
    for panel, axes in zip(panels, shown.subplots(1, len(panels), squeeze=False)[0], strict=True):
        for label, name in panel.curves.items():
            values = [panel.scale * record[name] for record in history]
            axes.plot(epochs, values, ".-", label=label or None)
        axes.set(xlabel="epoch", ylabel=panel.unit, title=panel.title)
        if len(panel.curves) > 1:
            axes.legend()
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
    shown.savefig(path)


def figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of that many inches."""
    # A Figure of its own, not pyplot's: no window system, no global state.
    kind = require("matplotlib.figure", "matplotlib", "the pictures").Figure
    return kind(figsize=(width, height), dpi=120, layout="constrained")
