"""`torch.cuda.random`: seeds and states.

Random numbers are the CPU's on every device: the same seed gives the same numbers. So all devices
draw from the process's one stream, `tinyt.default_generator`, and what seeds or sets the stream of
a CUDA device seeds or sets that one. Without a device these functions change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinyt.cuda.places import count, index_of, refuse
from tinyt.random import default_generator
from tinyt.tensor import Tensor

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Starts the stream of all devices, the CPU included, from a seed; nothing without a device."""
    if count():
        default_generator.manual_seed(seed)


def seed() -> None:
    """Starts it from a seed of the operating system; nothing without a device."""
    if count():
        default_generator.seed()


manual_seed_all, seed_all = manual_seed, seed


def initial_seed() -> int:
    """The seed that the stream started from; DeviceError without a device."""
    index_of("initial_seed")
    return default_generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The stream's state, on the CPU; DeviceError without a device."""
    index_of("get_rng_state", device)
    return default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Goes back to a state of `get_rng_state`; DeviceError without a device."""
    index_of("set_rng_state", device)
    default_generator.set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state for each device: all are the same."""
    return [default_generator.get_state() for _ in range(count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Goes back to states of `get_rng_state_all`, of which the last is taken; DeviceError for any
    without a device."""
    states = list(new_states)
    if states and not count():
        refuse("set_rng_state_all")
    for state in states:
        default_generator.set_state(state)
