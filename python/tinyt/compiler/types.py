"""What users of compiled functions meet, and nothing that takes time to load."""

from __future__ import annotations

from typing import NamedTuple

from tinyt._core import OutOfMemoryError


class MemoryLimitError(OutOfMemoryError):
    """No program of a compiled function fits into its ``max_memory``."""


class CacheInfo(NamedTuple):
    """Calls that a program stood for, calls that it did not, and how many programs there are."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class VerificationError(RuntimeError):
    """A compiled function does not do what the function does.

    ``stage`` says where that begins: "capture", "pass", "region" (a step of the program), "plan"
    (where values lie) or "node" (an operation itself, against float64). ``name`` is the pass, or
    the operations of the step or node; ``number`` counts the pass, step or node; ``position`` is
    that of the first wrong element, None where more than elements differ.
    """

    def __init__(
        self, message: str, stage: str, name: str, number: int, position: tuple[int, ...] | None
    ) -> None:
        super().__init__(message)
        self.stage, self.name, self.number, self.position = stage, name, number, position
