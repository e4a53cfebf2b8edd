"""Control flow that depends on data: functions that a compiled program runs as one node each."""

from __future__ import annotations

from tinyt.control.branches import cond
from tinyt.control.loops import while_loop
from tinyt.control.scans import scan

__all__ = ["cond", "scan", "while_loop"]
