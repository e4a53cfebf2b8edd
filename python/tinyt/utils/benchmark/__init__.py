"""PyTorch's `torch.utils.benchmark`: times of statements, and tables that compare them.

>>> from tinyt.utils.benchmark import Timer
>>> timer = Timer("x @ x", globals={"x": __import__("tinyt").rand(4, 4)}, label="product")
>>> measurement = timer.blocked_autorange(min_run_time=0.001)
>>> measurement.median > 0
True
"""

from __future__ import annotations

from tinyt.utils.benchmark.compare import Compare
from tinyt.utils.benchmark.measurement import Measurement, TaskSpec, select_unit, unit_to_english
from tinyt.utils.benchmark.timer import Language, Timer, timer

__all__ = [
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "select_unit",
    "timer",
    "unit_to_english",
]
