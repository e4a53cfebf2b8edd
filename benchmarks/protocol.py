"""What `compare` and its workers say to each other: a job in, one row a case out."""

from __future__ import annotations

from dataclasses import dataclass

SMALLEST = 1 << 20
"""Bytes of a process's growth below which allocators' own steps are all one sees."""


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
