"""PyTorch's `torch.autograd.profiler`: which operations ran, and for how long.

Eager operations are timed by the core, around their kernels: an event is a kernel's call, its name
that of the operation. Views take no kernel, and no event; a run of a compiled function is one event
(its steps are told by its own `profile()`). Blocks are named with `record_function`.

>>> import tinyt
>>> with tinyt.autograd.profiler.profile() as prof:
...     x = tinyt.ones(8, 8)
...     with tinyt.autograd.profiler.record_function("product"):
...         y = x @ x
>>> sorted((e.key, e.count) for e in prof.key_averages())
[('fill', 1), ('matmul', 1), ('product', 1)]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, NamedTuple, NoReturn

from tinyt import _core
from tinyt._autograd import name_backward
from tinyt.autograd import tape
from tinyt.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    write_trace,
)
from tinyt.dtypes import ALL
from tinyt.forks import moment_lock
from tinyt.nvtx_library import nvtx_library

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


class _Mark(NamedTuple):
    """One block of `record_function`: nanoseconds of the core's clock."""

    name: str
    begin: int
    end: int
    thread: int


class _Session:
    """One profile that is on."""

    def __init__(self) -> None:
        self.marks: list[_Mark] = []


_lock = moment_lock()
_session: _Session | None = None
_nvtx: Any = None  # the library, in a block of emit_nvtx


def _name_ranges() -> None:
    """Lets the tape and optimisers name what they do where somebody looks."""
    is_seen = _session is not None or _nvtx is not None
    tape.profile_range = record_function if is_seen else None
    name_backward(is_seen)


class record_function(ContextDecorator):
    """A block (or function) that a profile shows as an event of this name.

    In a block of `emit_nvtx` it is a range of NVTX, too. Without either it costs a few attribute
    lookups.

    Args:
        name: what the event is called.
        args: PyTorch's; not shown.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._session: _Session | None = None
        self._nvtx: Any = None
        self._begin = 0

    def __enter__(self) -> record_function:
        self._session, self._nvtx = _session, _nvtx
        if self._nvtx is not None:
            self._nvtx.nvtxRangePushA(self.name.encode())
        if self._session is not None:
            self._begin = _core.profile_clock()
        return self

    def __exit__(self, *error: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            end = _core.profile_clock()
            mark = _Mark(self.name, self._begin, end, _core.profile_thread())
            session.marks.append(mark)
        nvtx, self._nvtx = self._nvtx, None
        if nvtx is not None:
            nvtx.nvtxRangePop()

    def _recreate_cm(self) -> record_function:
        """A decorated function may call itself: each call has a block of its own."""
        return record_function(self.name, self.args)


class profile:
    """A block whose operations are noted.

    Args:
        enabled: False: a block that does nothing.
        use_cuda, use_device: warn: there is no GPU.
        record_shapes: whether shapes and dtypes of operands are kept.
        with_flops: whether operations count floating-point operations: products and elementwise
            additions and multiplications do; needs shapes, which are kept then.
        profile_memory: whether tables show the bytes of the results that operations made (what
            an elementwise one writes to `out` among them).
        with_stack, with_modules, use_kineto, use_cpu, acc_events, experimental_config,
            custom_trace_id_callback, post_processing_timeout_s, activity_filters: PyTorch's; no
            effect.

    One profile can be on in a process at a time: RuntimeError for a second one.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.function_events: EventList | None = None
        self.entered = False
        self._session: _Session | None = None
        self._begin = self._end = 0
        if use_cuda or use_device == "cuda":
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)

    def __enter__(self) -> profile:
        if self.enabled:
            if self.entered:
                raise RuntimeError("Profiler context manager is not reentrant")
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            self._stop()

    def _start(self) -> None:
        global _session
        with _lock:
            _core.start_profile(self.record_shapes)
            self._session = _session = _Session()
            _name_ranges()
        self.entered = True
        self._begin = _core.profile_clock()

    def _stop(self) -> None:
        global _session
        self._end = _core.profile_clock()
        with _lock:
            _session = None
            _name_ranges()
            rows = _core.stop_profile()
        session, self._session = self._session, None
        marks = [] if session is None else session.marks
        self.function_events = _events(rows, marks, self)

    # ---- what was seen

    def _seen(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def __repr__(self) -> str:
        if self.function_events is None:
            return "<unfinished tinyt.autograd.profiler.profile>"
        return str(self.function_events)

    __str__ = __repr__

    def table(self, *args: Any, **kwargs: Any) -> str:
        """All events as text; `EventList.table`."""
        return self._seen().table(*args, **kwargs)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums over events of one name; `EventList.key_averages`."""
        return self._seen().key_averages(group_by_input_shape)

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events."""
        return self._seen().total_average()

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Writes a trace that chrome://tracing and Perfetto open; compressed where it ends in
        ".gz"."""
        write_trace(path, self._seen(), metadata or {})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> NoReturn:
        """NotImplementedError: events have no stacks of Python."""
        self._seen().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all events."""
        return self._seen().self_cpu_time_total


def _events(rows: list[Any], marks: list[_Mark], owner: profile) -> EventList:
    """Everything that was noted, in the order of its beginnings."""
    found: list[FunctionEvent] = []
    for name, begin, end, thread, nbytes, shapes, dtypes in rows:
        found.append(
            FunctionEvent(
                0,
                name,
                thread,
                begin / 1000,
                end / 1000,
                shapes if owner.record_shapes else (),
                [ALL[i].name for i in dtypes],
                nbytes,
                flops=flops_of(name, shapes) if owner.with_flops else 0,
            )
        )
    for mark in marks:
        found.append(
            FunctionEvent(
                0, mark.name, mark.thread, mark.begin / 1000, mark.end / 1000,
                is_user_annotation=True,
            )
        )  # fmt: skip
    found.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
    for i, event in enumerate(found):
        event.id = i + 1
    events = EventList(found, owner.profile_memory, owner.with_flops)
    events.nest()
    return events


def flops_of(name: str, shapes: tuple[tuple[int, ...], ...]) -> int:
    """Floating-point operations of a call: of products two for each pair of factors, of elementwise
    additions and multiplications one an element; 0 for what is not counted."""
    if (
        name in ("matmul", "linear", "matmul_add")
        and len(shapes) >= 2
        and min(map(len, shapes[:2]))
    ):
        left, right = shapes[0], shapes[1]
        batch = max(math.prod(left[:-2]), math.prod(right[:-2]))
        rows = left[-2] if len(left) > 1 else 1
        cols = 1 if len(right) == 1 else right[-2 if name == "linear" else -1]
        return 2 * batch * rows * left[-1] * cols
    if name in ("add", "mul", "sub"):
        return max((math.prod(shape) for shape in shapes), default=0)
    return 0


class _NeedsTool:
    """A block for a tool of GPUs' makers, which is not there."""

    _tool = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> _NeedsTool:
        if self.enabled:
            raise RuntimeError(
                f"{type(self).__name__}: this build has no {self._tool}; use profiler.profile"
            )
        return self

    def __exit__(self, *error: object) -> None:
        return None


class emit_nvtx:
    """A block in which `record_function`, gradients and optimisers' steps are ranges of NVTX
    (`tinyt.cuda.nvtx`), which NVIDIA's tools show. Single operations are none.

    Args:
        enabled: False: a block that does nothing.
        record_shapes: PyTorch's; not shown.

    RuntimeError where there is no NVTX, and in another such block.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        global _nvtx
        if self.enabled:
            found = nvtx_library()
            with _lock:
                if _nvtx is not None:
                    raise RuntimeError("NVTX annotation context manager is not reentrant")
                _nvtx = found
                _name_ranges()
        return self

    def __exit__(self, *error: object) -> None:
        global _nvtx
        if self.enabled:
            with _lock:
                _nvtx = None
                _name_ranges()


class emit_itt(_NeedsTool):
    """RuntimeError: there is no ITT."""

    _tool = "ITT"


def kineto_available() -> bool:
    """False: the core's own clock is used."""
    return False
