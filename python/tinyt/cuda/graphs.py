"""`torch.cuda.graphs`: work of a CUDA device, captured once and launched again and again.

A capture lists what its thread asks of the device, without doing it; `replay` does all of it in one
launch, on the same memory: new inputs are copied into the tensors that were there at the capture,
and results come in those that the capture made. What waits for the device, reads values or copies
to or from the host raises RuntimeError in a capture, which then is of no use.

>>> import tinyt
>>> if tinyt.cuda.is_available():
...     x = tinyt.zeros(3, device="cuda")
...     y = x * 2  # once before: kernels are compiled
...     graph = tinyt.cuda.CUDAGraph()
...     with tinyt.cuda.graph(graph):
...         y = x * 2
...     x.fill_(4.0)
...     graph.replay()  # y is 8
"""

from __future__ import annotations

import gc
import itertools
import warnings
from importlib import import_module
from typing import Any, NoReturn

from tinyt import _core, _tensor, random
from tinyt._tensor import device as Device
from tinyt.cuda.memory import empty_cache
from tinyt.cuda.places import current_index, is_in_use, place_of, refuse
from tinyt.cuda.streams import Stream, StreamContext, current_stream

__all__ = [
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]

_pools = itertools.count(1)  # the next private pool's number; safe from any thread
_MODES = ("global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether this thread's work on the current device is being captured."""
    if not is_in_use():
        return False
    return _core.is_capturing(_tensor.number_of_device(Device("cuda", current_index())))


def graph_pool_handle() -> tuple[int, int]:
    """The handle of a new private pool of memory, which captures may share; DeviceError without a
    device."""
    place_of("graph_pool_handle")
    return 0, next(_pools)


def _pool_number(pool: Any) -> int:
    """Of a handle; TypeError for what is none."""
    if not isinstance(pool, tuple) or [type(part) for part in pool] != [int, int]:
        raise TypeError(
            "CUDAGraph: pool must be a handle of graph_pool_handle() or CUDAGraph.pool(), got "
            f"{pool!r}"
        )
    first, second = int(pool[0]), int(pool[1])
    if min(pool) < 0 or (first > 0) == (second > 0):
        raise ValueError(f"CUDAGraph: there is no pool {pool}")
    return first or second


class CUDAGraph:
    """Captured work of a CUDA device; DeviceError without a device.

    Draws of random numbers go on with each replay: they are the next ones of their generators.
    Everything else that is a number at the capture (a learning rate, a size) stays what it is.

    Args:
        keep_graph: whether the driver's graph is made by `instantiate` or the first `replay`, and
            not by `capture_end`; `raw_cuda_graph` has it.

    >>> import tinyt
    >>> if tinyt.cuda.is_available():
    ...     x = tinyt.ones(3, device="cuda")
    ...     graph = tinyt.cuda.CUDAGraph()
    ...     graph.capture_begin()
    ...     y = x + 1
    ...     graph.capture_end()
    ...     graph.replay()
    """

    _may_be_empty = False  # without a warning

    def __init__(self, keep_graph: bool = False) -> None:
        place_of("CUDAGraph")
        self._keeps_graph = bool(keep_graph)
        self._graph: _core.DeviceGraph | None = None
        self._pool: tuple[int, int] | None = None
        self._draws: random.CapturedDraws | None = None
        self._is_captured = self._is_instantiated = self._is_debugged = False

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Captures what this thread asks of the current device from now on.

        Args:
            pool: of which memory is taken; by default a pool of its own.
            capture_error_mode: PyTorch's; other threads' work is never captured and always allowed.
            check_input_liveness: must be False.

        Raises:
            RuntimeError: it has captured already; another capture of the device is open; the
                current stream is one of another library.
        """
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got "
                f"{capture_error_mode}"
            )
        if check_input_liveness:
            refuse("CUDAGraph.capture_begin(check_input_liveness=True)", "keep the inputs alive")
        if self._graph is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, "
                "create a new instance."
            )
        number = next(_pools) if pool is None else _pool_number(pool)
        place = place_of("CUDAGraph.capture_begin")
        if isinstance(current_stream(place), Stream) and current_stream(place)._queue:
            raise RuntimeError("CUDAGraph: a stream of another library cannot be captured")
        made = _core.DeviceGraph(_tensor.number_of_device(place))
        made.begin_capture(number)
        self._graph, self._pool = made, (number, 0) if pool is None else pool
        self._draws = random.begin_captured_draws()

    def capture_end(self) -> None:
        """Ends it; `replay` may be called then.

        Raises:
            RuntimeError: no capture of it is open in this thread, or it is of no use, as something
                was asked for that no graph can do.
        """
        if self._graph is None or self._is_captured:
            raise RuntimeError("CUDAGraph: capture_begin() comes before capture_end()")
        assert self._draws is not None
        self._draws.end()
        try:
            self._graph.end_capture(self._draws.ranges())
            if not self._keeps_graph:
                self._graph.instantiate()
                self._is_instantiated = True
        except BaseException:
            self.reset()
            raise
        self._is_captured = True
        if self._graph.size == 0 and not self._may_be_empty:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be "
                "captured on wrong device or stream.",
                UserWarning,
                stacklevel=2,
            )

    def instantiate(self) -> None:
        """Makes a kept graph ready to be replayed, again where it was."""
        if self._graph is None or not self._is_captured:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if not self._keeps_graph:
            raise RuntimeError(
                "instantiate() is intended to be called by the user only when keep_graph=true"
            )
        self._graph.instantiate()
        self._is_instantiated = True

    def replay(self) -> None:
        """Does what was captured, after all that the device was asked for before."""
        if self._graph is None or not self._is_captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        assert self._draws is not None
        if not self._is_instantiated:
            self.instantiate()
        with self._draws.values() as values:
            self._graph.launch(values)

    def reset(self) -> None:
        """Gives back what was captured; its memory goes when no tensor holds it any more."""
        if self._draws is not None:
            self._draws.end()
        if self._graph is not None:
            self._graph.reset()
        self._graph = self._pool = self._draws = None
        self._is_captured = self._is_instantiated = False

    def __del__(self) -> None:
        draws: random.CapturedDraws | None = getattr(self, "_draws", None)
        if draws is not None:
            draws.end()

    def pool(self) -> tuple[int, int]:
        """The handle of its private pool."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def register_generator_state(self, generator: random.Generator) -> None:
        """Nothing: each generator that a capture draws from goes on with its replays."""

    def enable_debug_mode(self) -> None:
        """Lets `debug_dump` write."""
        self._is_debugged = True

    def debug_dump(self, debug_path: str) -> None:
        """Writes the kernels, copies and fills in Graphviz's language; a warning, and no file,
        without `enable_debug_mode()`."""
        if not self._is_debugged:
            warnings.warn(
                "CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()",
                UserWarning,
                stacklevel=2,
            )
            return
        if self._graph is None or not self._is_captured:
            raise RuntimeError("CUDAGraph: capture_end() comes before debug_dump()")
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(self._graph.description())

    def raw_cuda_graph(self) -> int:
        """The driver's handle (a `CUgraph`) of a kept graph, from `instantiate` on."""
        if not self._keeps_graph:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized "
                "with keep_graph=true"
            )
        if self._graph is None or not self._is_captured:
            raise RuntimeError(
                "You cannot access the raw cudaGraph_t instance until capture_end() has been called"
            )
        if not self._is_instantiated:
            self.instantiate()
        return self._graph.handle

    def raw_cuda_graph_exec(self) -> int:
        """The driver's handle (a `CUgraphExec`) of the instantiated graph; 0 of an empty one."""
        if self._graph is None or not self._is_instantiated:
            raise RuntimeError(
                "You cannot access the raw cudaGraphExec_t instance until instantiate() has been "
                "called"
            )
        return self._graph.instantiated_handle

    def get_graph_data(self) -> NoReturn:
        """NotImplementedError: debug_dump writes the nodes."""
        refuse("CUDAGraph.get_graph_data", "debug_dump() writes the nodes")


class graph:
    """A block that is captured.

    The cache of the device's memory is emptied first, and cycles of garbage are collected.

    Args:
        cuda_graph: what it is captured into.
        pool: a handle of `graph_pool_handle()` or of a graph's `pool()`; by default a new one.
        stream: the current stream of the block; by default a view of the device's queue.
        capture_error_mode: as of `CUDAGraph.capture_begin`.
        enable_annotations, check_input_liveness: must be False.

    Raises:
        RuntimeError: at the end, where something was asked for that no graph can do.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: tuple[int, int] | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        place_of("graph")
        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(f"cuda.graph: expected a CUDAGraph, got {cuda_graph!r}")
        if enable_annotations or check_input_liveness:
            refuse("graph(enable_annotations=True or check_input_liveness=True)")
        self.cuda_graph = cuda_graph
        self.pool: tuple[tuple[int, int], ...] = () if pool is None else (pool,)
        self.capture_stream = Stream() if stream is None else stream
        self.stream_ctx = StreamContext(self.capture_stream)
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        _tensor.synchronize(self.capture_stream.device)
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(
                self.pool[0] if self.pool else None, self.capture_error_mode
            )
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, *exc: object) -> None:
        try:
            self.cuda_graph.capture_end()
        finally:
            self.stream_ctx.__exit__(*exc)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Functions and modules whose passes are launched as one graph each, forward and backward:
    `tinyt.cuda.graphed`, which loads `tinyt.nn` and says the rest."""
    place_of("make_graphed_callables")
    made = import_module(f"{__package__}.graphed")
    return made.make_graphed_callables(
        callables, sample_args, num_warmup_iters, allow_unused_input, pool
    )
