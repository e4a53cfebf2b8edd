"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from tinyt.optim import lr_scheduler
from tinyt.optim.adamw import Adam, AdamW
from tinyt.optim.optimizer import Optimizer
from tinyt.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
