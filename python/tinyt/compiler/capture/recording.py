"""Capture: runs a function in record mode, where operations become nodes instead of numbers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyt import _core
from tinyt._autograd import GradMode
from tinyt._capture import Recorder
from tinyt.compiler.graph.graph import Graph
from tinyt.compiler.passes import simplify
from tinyt.forks import undone_in_child
from tinyt.tensor import Tensor


@contextmanager
def recording() -> Iterator[tuple[_core.Graph, Recorder]]:
    """Records the operations of the block."""
    core, recorder = _core.Graph(), Recorder()
    try:
        core.begin(recorder)
        yield core, recorder
    finally:
        core.end()
        recorder.forgive()  # it holds the frames that it went through, and they the recorder


@contextmanager
def collection_paused() -> Iterator[None]:
    """Garbage in cycles waits until the block is done: a graph is made of so many objects that are
    kept that looking through them again and again would take most of the time."""
    was_enabled = gc.isenabled()
    resume = gc.enable if was_enabled else gc.disable
    with undone_in_child(resume):
        try:
            gc.disable()
            yield
        finally:
            resume()


class Recording:
    """A captured function. Its inputs are the tensors that it touched, as they are at each run."""

    def __init__(self, core: _core.Graph, recorder: Recorder, simplified: bool = True) -> None:
        self.graph = Graph.from_core(core)
        self._recorder = recorder
        self._program = _core.Program(simplify(self.graph).to_core() if simplified else core)

    def run(self) -> tuple[Tensor, ...]:
        """Runs the planned program: fused regions in tiles, the same bits as eager."""
        recorder = self._recorder
        arguments = [leaf._grad for _, leaf in recorder.arguments]
        given = [source() for source in recorder.numbers]
        draws = [generator.take(count) for generator, count in recorder.draws]
        results = self._program.run(arguments, given, draws)
        if results is not None:
            return results
        raise _core.CaptureError("record: a number that was recorded is another now")

    def steps(self) -> list[tuple[str, ...]]:
        """The op names of every step; more than one where ops were fused."""
        return self._program.steps()


def record(function: Callable[..., Any], *args: Any, simplified: bool = True) -> Recording:
    """Records ``function(*args)``, which returns a tensor or a sequence of tensors. Its program is
    planned from the graph as passes simplify it, unless ``simplified`` is false.

    Nothing is computed and no memory is written. CaptureError where the function looks at a value
    (``item``, ``numpy``, ``if tensor``) or at a size that depends on data.
    """
    with recording() as (core, recorder):
        with GradMode(False):
            result = function(*args)
        recorder.require_recorded()
        outputs = [result] if isinstance(result, Tensor) else list(result or ())
        for i, x in enumerate(outputs):
            if not isinstance(x, Tensor):
                raise _core.CaptureError(
                    f"record: the function must return tensors, got {type(x).__name__} at {i}"
                )
            core.add_output(x)
    return Recording(core, recorder, simplified)
