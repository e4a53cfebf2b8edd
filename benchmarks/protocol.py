"""What `compare` and its workers say to each other: a job in, one row a case out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SMALLEST = 1 << 20
"""Bytes of a process's growth below which allocators' own steps are all one sees."""


PATIENCE = 30.0
"""Seconds of a case, after which it gets no more than three rounds."""

RUNS = 3
"""What is to count as slow must be so in that many runs."""

PEERS = ("torch.compile", "jax")
"""What compiled cases can be timed beside, too."""


@dataclass(frozen=True)
class Job:
    """What one worker process is to do."""

    threads: int
    isa: str
    seed: int
    cases: tuple[str, ...]
    """Their ids."""
    rounds: int
    seconds: float
    """For each library in each round."""
    memory: bool
    """Measure peak memory where a case asks for it."""
    peers: tuple[str, ...] = ()
    """Of `PEERS`."""


@dataclass(frozen=True)
class Compiled:
    """A compiled function beside tinyt's own eager one."""

    eager: float
    """Seconds of one call."""
    ratio: float
    """Eager's time by the compiled function's."""
    upper: float
    first: float
    """Seconds that the first two calls take beyond two eager ones."""
    peak: int
    """Bytes of tensors alive at the highest point of later calls, by `tinyt.memory`."""
    eager_peak: int
    system_allocations: int
    """How often later calls ask the system for memory."""


@dataclass(frozen=True)
class Peer:
    """Another compiler's function."""

    seconds: float
    """One call."""
    first: float
    """Its first two calls, compilation included."""


@dataclass(frozen=True)
class Row:
    """Seconds of one call; ratios are PyTorch's figure by tinyt's: above 1 tinyt is better."""

    group: str
    name: str
    tinyt: float = 0.0
    torch: float = 0.0
    ratio: float = 0.0
    upper: float = 0.0
    """95% upper bound of the ratio."""
    limit: float | None = None
    """The least seconds the machine would need."""
    demand: str = ""
    tinyt_bytes: int | None = None
    torch_bytes: int | None = None
    """Peak memory of a training step."""
    error: str = ""
    part: str = ""
    """As in `Case`."""
    compiled: Compiled | None = None
    peers: dict[str, Peer] = field(default_factory=dict)
    """Those of the job's that have the case."""

    @classmethod
    def read(cls, values: dict[str, Any]) -> Row:
        """A row from what JSON makes of it."""
        compiled = values.get("compiled")
        peers = {name: Peer(**found) for name, found in values.get("peers", {}).items()}
        return cls(**values | {"compiled": compiled and Compiled(**compiled), "peers": peers})

    @property
    def key(self) -> str:
        """Of its floor, in `floors.FLOORS`."""
        return self.part or self.group

    @property
    def id(self) -> str:
        return f"{self.group}/{self.name}"

    @property
    def share(self) -> float | None:
        """The part of the machine's limit that tinyt reaches."""
        return None if self.limit is None or self.error else self.limit / self.tinyt

    @property
    def memory_ratio(self) -> float | None:
        """PyTorch's peak memory by tinyt's; None where both are too small to tell."""
        if self.tinyt_bytes is None or self.torch_bytes is None:
            return None
        if max(self.tinyt_bytes, self.torch_bytes) < SMALLEST:
            return None
        return self.torch_bytes / max(self.tinyt_bytes, 1)
