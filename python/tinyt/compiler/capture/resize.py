"""Recordings of one function that differ in sizes alone: what passes made of the first one is made
of the others in the core, as long as every pass would decide as it did.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tinyt.compiler.capture import cache
from tinyt.compiler.capture.sources import origins_of
from tinyt.compiler.passes import decompose, rewrites, simplify

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt._capture import SizeGuards
    from tinyt.compiler.capture.capture import Capture

_KEPT = 8  # ways in which passes have simplified a function


class Simplified:
    """What passes have made of recordings of a function, the last ones."""

    def __init__(self) -> None:
        self._known: deque[tuple[SizeGuards, list[int]]] = deque(maxlen=_KEPT)

    def core_of(self, capture: Capture) -> tuple[_core.Graph, str]:
        """The graph that a program of a recording is planned from, and for `explain` how it came
        to be; nothing of the first one."""
        # What these put in is recorded anew for the shapes that it is put at.
        if rewrites.REGISTERED or decompose.applies(capture.core):
            return self._simplified(capture), ""
        why = ""
        for sizes, origins in self._known:
            found = sizes.of(capture.core)
            if isinstance(found, bytes):
                capture.origins = origins
                capture.resized = capture.core.rewritten(found)
                return capture.resized, "; simplified as before, with other sizes"
            why = why or f"; simplified anew: {found}"
        if capture.graph.inside:  # sizes in what control flow runs are not noted
            return self._simplified(capture), why
        if (known := cache.find(capture.core)) is not None:
            core, capture.origins = known
            return core, f"{why}; simplified by an earlier process"
        graph = simplify(capture.graph.noting_sizes())
        flat = graph.to_bytes()
        core = capture.core.rewritten(flat)
        assert graph.sizes is not None
        capture.origins = origins_of(graph)
        self._known.appendleft((graph.sizes, capture.origins))
        cache.keep(capture.core, cache.Cached(flat, capture.origins))
        return core, why

    def _simplified(self, capture: Capture) -> _core.Graph:
        graph = simplify(capture.graph)
        capture.origins = origins_of(graph)
        return graph.to_core()
