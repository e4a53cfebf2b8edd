"""Recorded programs: capture a function, interpret its graph, run it planned.

``tinyt.compile`` will be built from these parts; for now they are the seam that its tests hold.
"""

from __future__ import annotations

from tinyt.compiler.graph import Graph, Node, Value
from tinyt.compiler.interpret import interpret
from tinyt.compiler.record import Recording, record

__all__ = ["Graph", "Node", "Recording", "Value", "interpret", "record"]
