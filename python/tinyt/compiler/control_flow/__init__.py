"""Control flow that depends on data: functions that a compiled program runs as one node each."""

from __future__ import annotations

from tinyt.compiler.control_flow.branches import cond
from tinyt.compiler.control_flow.loops import while_loop
from tinyt.compiler.control_flow.scans import scan

__all__ = ["cond", "scan", "while_loop"]
