"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from tinyt.optim import lr_scheduler, swa_utils
from tinyt.optim.adagrad import Adadelta, Adagrad
from tinyt.optim.adam_variants import Adamax, NAdam, RAdam
from tinyt.optim.adamw import Adam, AdamW
from tinyt.optim.asgd import ASGD
from tinyt.optim.lbfgs import LBFGS
from tinyt.optim.optimizer import Optimizer
from tinyt.optim.rmsprop import RMSprop
from tinyt.optim.rprop import Rprop
from tinyt.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
