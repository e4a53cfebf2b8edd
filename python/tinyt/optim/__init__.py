"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt.optim import lr_scheduler, swa_utils
from tinyt.optim.adagrad import Adadelta, Adagrad
from tinyt.optim.adam_variants import Adamax, NAdam, RAdam
from tinyt.optim.adamw import Adam, AdamW
from tinyt.optim.asgd import ASGD
from tinyt.optim.optimizer import Optimizer
from tinyt.optim.rmsprop import RMSprop
from tinyt.optim.rprop import Rprop
from tinyt.optim.sgd import SGD

if TYPE_CHECKING:
    from tinyt.optim.adafactor import Adafactor as Adafactor
    from tinyt.optim.lbfgs import LBFGS as LBFGS
    from tinyt.optim.muon import Muon as Muon

# Classes that are loaded when they are first asked for, and their files.
_LAZY = {"Adafactor": "adafactor", "LBFGS": "lbfgs", "Muon": "muon"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
