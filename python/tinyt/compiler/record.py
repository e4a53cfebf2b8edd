"""Capture: runs a function in record mode, where operations become nodes instead of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt import _core
from tinyt._tensor import GradMode
from tinyt.compiler.graph import Graph
from tinyt.tensor import Tensor


class Recording:
    """A captured function. Its inputs are the tensors that it touched, as they are at each run."""

    def __init__(self, core: _core.Graph) -> None:
        self._core = core
        self.graph = Graph.from_core(core)
        self._program = _core.Program(core)

    def run(self) -> tuple[Tensor, ...]:
        """Runs the planned program: fused regions in tiles, the same bits as eager."""
        return self._program.run()

    def steps(self) -> list[tuple[str, ...]]:
        """The op names of every step; more than one where ops were fused."""
        return self._program.steps()


def record(function: Callable[..., Any], *args: Any) -> Recording:
    """Records ``function(*args)``, which returns a tensor or a sequence of tensors.

    Nothing is computed and no memory is written. CaptureError where the function looks at a value
    (``item``, ``numpy``, ``if tensor``) or at a size that depends on data.
    """
    core = _core.Graph()
    core.begin()
    try:
        with GradMode(False):
            result = function(*args)
        outputs = [result] if isinstance(result, Tensor) else list(result or ())
        for i, x in enumerate(outputs):
            if not isinstance(x, Tensor):
                raise _core.CaptureError(
                    f"record: the function must return tensors, got {type(x).__name__} at {i}"
                )
            core.add_output(x)
    finally:
        core.end()
    return Recording(core)
