"""Copies, and what moves elements."""

from __future__ import annotations

from tinyt.compiler.export.calls import Call, emits


@emits("copy", "cast", "to_device")
def _copy(call: Call) -> None:
    call.copy(call.x[0], call.y[0])
