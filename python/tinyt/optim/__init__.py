"""Optimisers and learning-rate schedules."""

from __future__ import annotations

import typing as _typing
from importlib import import_module

from tinyt.optim import lr_scheduler, swa_utils
from tinyt.optim.adadelta import Adadelta
from tinyt.optim.adagrad import Adagrad
from tinyt.optim.adam import Adam
from tinyt.optim.adamax import Adamax
from tinyt.optim.adamw import AdamW
from tinyt.optim.asgd import ASGD
from tinyt.optim.nadam import NAdam
from tinyt.optim.optimizer import Optimizer
from tinyt.optim.radam import RAdam
from tinyt.optim.rmsprop import RMSprop
from tinyt.optim.rprop import Rprop
from tinyt.optim.sgd import SGD

if _typing.TYPE_CHECKING:
    from tinyt.optim._adafactor import Adafactor as Adafactor
    from tinyt.optim._muon import Muon as Muon
    from tinyt.optim.lbfgs import LBFGS as LBFGS
    from tinyt.optim.sparse_adam import SparseAdam as SparseAdam

# Classes that are loaded when they are first asked for, and their files.
_LAZY = {
    "Adafactor": "_adafactor",
    "LBFGS": "lbfgs",
    "Muon": "_muon",
    "SparseAdam": "sparse_adam",
}


def __getattr__(name: str) -> _typing.Any:
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
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
