"""What a task of `tinyt train` is: its settings, and a trainer that goes epoch by epoch."""

from __future__ import annotations

import argparse
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tinyt import nn
from tinyt._tensor import device
from tinyt.cli.errors import CommandError
from tinyt.optim import AdamW
from tinyt.optim.lr_scheduler import CosineAnnealingLR
from tinyt.printing import abbreviated
from tinyt.random import default_generator, manual_seed
from tinyt.tensor import Tensor

OnBatch = Callable[[float], None]
Step = Callable[[Any], Tensor]
_LARGEST = 2**63 - 1


def option(
    default: Any,
    help: str,
    *,
    smallest: float = -math.inf,
    largest: float = math.inf,
    choices: tuple[str, ...] = (),
) -> Any:
    """A setting: a field of a :class:`Config` that is an option of the command too."""
    facts = {"help": help, "smallest": smallest, "largest": largest, "choices": choices}
    return field(default=default, metadata=facts)


@dataclass(frozen=True)
class Config:
    """Settings of a training run; equal settings give equal results, bit for bit."""

    seed: int = option(0, "seed of all randomness", smallest=0)
    epochs: int = option(20, "passes over the training data", smallest=1)
    batch_size: int = option(64, "samples per update", smallest=2)
    lr: float = option(3e-3, "first learning rate", smallest=1e-12)
    weight_decay: float = option(1e-2, "shrinks the weights", smallest=0.0)

    def __post_init__(self) -> None:
        for f in fields(self):
            value, kind = getattr(self, f.name), type(f.default)
            if type(value) is not kind:
                raise CommandError(
                    f"{f.name} must be of type {kind.__name__}, got {abbreviated(value)}"
                )
            problem = _problem(value, f)
            if problem:
                raise CommandError(f"{f.name} {problem}, got {abbreviated(value)}")

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Declares an option for each setting.

        Defaults are None, so that --resume can tell what was asked for.
        """
        for f in fields(cls):
            shown = f" (default: {f.default})" if f.default != "" else ""
            parser.add_argument(
                "--" + f.name.replace("_", "-"),
                type=_parser(f),
                choices=f.metadata["choices"] or None,
                metavar=None if f.metadata["choices"] else _METAVARS[type(f.default)],
                help=f.metadata["help"] + shown,
            )

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> Config:
        """The settings that a command line asks for."""
        given = {f.name: getattr(args, f.name) for f in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})


_METAVARS = {int: "N", float: "X", str: "FILE"}


def _is_path(f: Field[Any]) -> bool:
    return isinstance(f.default, str) and not f.metadata["choices"]


def _problem(value: Any, f: Field[Any]) -> str:
    """What is wrong with a setting's value; "" for nothing."""
    if isinstance(value, str):
        choices = f.metadata["choices"]
        return "" if not choices or value in choices else f"must be one of {', '.join(choices)}"
    low = f.metadata["smallest"]
    high = min(f.metadata["largest"], _LARGEST)
    if low <= value <= high:
        return ""
    return f"must be at least {low} and at most {high if high < _LARGEST else '2**63 - 1'}"


def _parser(f: Field[Any]) -> Callable[[str], Any]:
    kind: Callable[[str], Any] = type(f.default)

    def parse(text: str) -> Any:
        value = kind(text)
        if _is_path(f):
            return str(Path(text).resolve())  # a resumed run may start elsewhere
        problem = "" if f.metadata["choices"] else _problem(value, f)
        if problem:
            raise argparse.ArgumentTypeError(f"{problem}, got {value}")
        return value

    parse.__name__ = {"int": "integer", "float": "number", "str": "text"}[type(f.default).__name__]
    return parse


class Loader(Sized, Iterable[Any], Protocol):
    """Gives the batches of an epoch."""


class Trainer(ABC):
    """Model, optimiser, schedule and random stream of one run.

    All randomness (initial weights, order, dropout) comes from the default generator, whose state
    is part of the checkpoint: a resumed run repeats an uninterrupted one bit for bit.
    """

    title: str
    figures: ClassVar[tuple[str, ...]] = ()  # the names that validate() gives

    def __init__(self, config: Config, place: device) -> None:
        manual_seed(config.seed)
        self.config, self.place = config, place
        self.model, self.loader = self.build()
        self.model.to(place)
        self.optimizer = AdamW(
            self.model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        self.scheduler = CosineAnnealingLR(self.optimizer, config.epochs * len(self.loader))
        self.epoch = 0
        self.history: list[dict[str, Any]] = []

    @abstractmethod
    def build(self) -> tuple[nn.Module, Loader]:
        """Reads the data; makes the network and what gives its batches."""

    @abstractmethod
    def loss(self, batch: Any) -> Tensor:
        """The loss of one batch."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Figures of the network as it is, on data that it was not trained on."""

    @abstractmethod
    def summary(self, record: Mapping[str, Any]) -> str:
        """One epoch's record in a line."""

    @abstractmethod
    def finish(self) -> dict[str, Any]:
        """The result of the run, from data that is looked at here alone."""

    @abstractmethod
    def result_line(self, result: Mapping[str, Any]) -> str:
        """The result as the command prints it last."""

    @abstractmethod
    def draw(self, folder: Path) -> list[Path]:
        """Draws pictures of the run; returns their files."""

    @property
    def finished(self) -> bool:
        """Whether every epoch is done."""
        return self.epoch >= self.config.epochs

    def run_epoch(self, step: Step, on_batch: OnBatch) -> dict[str, Any]:
        """One pass over the training data by :meth:`step`, which may be compiled; returns and
        records its metrics."""
        started = time.perf_counter()
        self.model.train()
        total = 0.0
        for batch in self.loader:
            loss = step(self.placed(batch))
            self.scheduler.step()
            value = loss.item()
            total += value
            on_batch(value)
        self.model.eval()
        self.epoch += 1
        record = {
            "epoch": self.epoch,
            "train_loss": total / len(self.loader),
            **self.validate(),
            "lr": self.scheduler.get_last_lr()[0],
            "seconds": round(time.perf_counter() - started, 3),
        }
        self.history.append(record)
        return record

    def placed(self, batch: Iterable[Tensor]) -> tuple[Tensor, ...]:
        """A batch where the network is."""
        return tuple(part.to(self.place) for part in batch)

    def step(self, batch: Any) -> Tensor:
        """One update of the network; its loss before."""
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a `state_dict` of the same configuration, which is distrusted."""
        try:
            epoch = state["epoch"]
            if type(epoch) is not int or not 0 <= epoch <= self.config.epochs:
                raise ValueError(f"its epoch is {abbreviated(epoch)} of {self.config.epochs}")
            self._check_history(state["history"], epoch)
            check_like(self.scheduler.state_dict(), state["scheduler"], "scheduler")
            if state["scheduler"]["last_epoch"] != epoch * len(self.loader):
                raise ValueError("its scheduler is not at the end of its epoch")
            self._check_optimizer(state["optimizer"])
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.scheduler.load_state_dict(state["scheduler"])
            default_generator.set_state(state["random"])
            self.epoch, self.history = epoch, list(state["history"])
        except UNFIT as error:
            raise unfit(error) from None
        self.model.eval()

    def _check_history(self, history: Any, epoch: int) -> None:
        names = {"epoch", "train_loss", *self.figures, "lr", "seconds"}
        if not isinstance(history, list) or len(history) != epoch:
            raise ValueError(f"its history is not that of {epoch} epochs")
        for number, record in enumerate(history, 1):
            if (
                not isinstance(record, dict)
                or not names <= set(record)
                or not all(type(value) in (int, float) for value in record.values())
                or record["epoch"] != number
            ):
                raise ValueError(f"its history has no valid record of epoch {number}")

    def _check_optimizer(self, state: Any) -> None:
        fresh = self.optimizer.state_dict()
        check_like(fresh["param_groups"], state["param_groups"], "optimizer.param_groups")
        parameters = list(self.model.parameters())
        for number, slots in state["state"].items():
            like = parameters[number]
            for name in ("step", "exp_avg", "exp_avg_sq"):
                value = slots[name]
                if isinstance(value, Tensor) and name != "step" and value.shape != like.shape:
                    raise ValueError(
                        f"its optimizer's {name} of parameter {number} has shape "
                        f"{abbreviated(list(value.shape))}"
                    )
                if name != "step" and not isinstance(value, Tensor):
                    raise TypeError(f"its optimizer's {name} of parameter {number} is no tensor")


# What a state of wrong types, keys or sizes raises.
UNFIT = (
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
)


def unfit(error: Exception) -> CommandError:
    """The error of a checkpoint that is not one of its run."""
    return CommandError(f"the checkpoint does not fit its run: {error or type(error).__name__}")


def check_like(fresh: Any, given: Any, where: str) -> None:
    """Checks that a state has the keys, lengths and types of a fresh one."""
    numbers = (int, float)
    if isinstance(fresh, dict):
        if not isinstance(given, dict) or set(given) != set(fresh):
            raise ValueError(f"its {where} has other keys")
        for key, value in fresh.items():
            check_like(value, given[key], f"{where}.{key}")
    elif isinstance(fresh, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(fresh):
            raise ValueError(f"its {where} has another length")
        for i, (value, other) in enumerate(zip(fresh, given, strict=True)):
            check_like(value, other, f"{where}.{i}")
    elif type(fresh) in numbers:
        if type(given) not in numbers or not abs(given) < _LARGEST:
            raise ValueError(f"its {where} is {abbreviated(given)}")
    elif type(given) is not type(fresh) or (isinstance(fresh, bool) and given is not fresh):
        raise ValueError(f"its {where} is {abbreviated(given)}")


class Task:
    """A task: a subclass names its parts; it is never instantiated."""

    name: ClassVar[str]
    help: ClassVar[str]
    description: ClassVar[str]
    config: ClassVar[type[Config]]
    trainer: ClassVar[type[Trainer]]

    @classmethod
    def make_trainer(cls, config: Config, place: device) -> Trainer:
        """A trainer with these settings, which may ask for more than there is, on a device."""
        try:
            return cls.trainer(config, place)
        except (MemoryError, ArithmeticError, ValueError, RuntimeError) as error:
            raise CommandError(
                f"no network can be made with these settings: {error or type(error).__name__}"
            ) from None
