"""`profile`: which steps of a program are recorded, and what is done with what was."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, NoReturn

from tinyt.autograd import profiler as autograd_profiler
from tinyt.autograd.profiler import record_function
from tinyt.autograd.profiler_util import EventList


class ProfilerAction(Enum):
    """What is done in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """What is profiled: the CPU; the others are not there."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """{ProfilerActivity.CPU}."""
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Which step does what: `skip_first` steps nothing, then over and over `wait` steps nothing,
    `warmup` steps without records, `active` steps with records, the last of which ends with
    `on_trace_ready`.

    Args:
        repeat: how often; 0: without an end.
        skip_first_wait: 1: the first time without the steps of `wait`.

    >>> from tinyt.profiler import schedule
    >>> plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(i).name for i in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    length = wait + warmup + active

    def plan(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat > 0 and step >= repeat * length:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return plan


def _always(step: int) -> ProfilerAction:
    """Everything is recorded."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace to a file of a folder, as TensorBoard's plugin for
    profiles looks for them: ``WORKER.TIME.pt.trace.json``.

    RuntimeError where the folder cannot be made.
    """

    def handle(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """A block whose operations are recorded, all of them or by a schedule of steps.

    Args:
        activities: what is profiled; the CPU is, all of it (a dict's filters have no effect). For
            CUDA alone: AssertionError.
        schedule: from the number of a step to what is done in it; each `step()` begins the next.
            Without one everything is recorded.
        on_trace_ready: called with the profile at the end of each recorded stretch.
        record_shapes: whether shapes and dtypes of operands are kept.
        profile_memory: whether tables show the bytes of the results that operations made.
        with_flops: whether products and sums count their floating-point operations.
        with_stack, with_modules, experimental_config, execution_trace_observer, acc_events,
            use_cuda, custom_trace_id_callback, post_processing_timeout_s: PyTorch's; no effect.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = {
            activity
            for given in activities or supported_activities()
            for activity in (given if isinstance(given, dict) else (given,))
        }
        if not self.activities & supported_activities():
            raise AssertionError("No valid profiler activities found; this build has the CPU alone")
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_flops, self.with_stack, self.with_modules = with_flops, with_stack, with_modules
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: autograd_profiler.profile | None = None
        self._named_steps = schedule is not None
        self._step_block: AbstractContextManager[Any] | None = None
        self._is_on = False
        self._metadata: dict[str, Any] = {}

    # ---- beginning and ending

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins with step 0."""
        self._go_on(None, self.current_action)
        self._enter_step()

    def step(self) -> None:
        """Ends a step and begins the next one."""
        self._leave_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._go_on(before, self.current_action)
        self._enter_step()

    def stop(self) -> None:
        """Ends the last step; what was recorded is ready."""
        self._leave_step()
        self._go_on(self.current_action, None)

    def _enter_step(self) -> None:
        if self._named_steps:
            self._step_block = record_function(f"ProfilerStep#{self.step_num}")
            self._step_block.__enter__()

    def _leave_step(self) -> None:
        if self._step_block is not None:
            self._step_block.__exit__(None, None, None)
            self._step_block = None

    def _go_on(self, before: ProfilerAction | None, after: ProfilerAction | None) -> None:
        """From what was done in one step to what is done in the next."""
        ends = before is ProfilerAction.RECORD_AND_SAVE or after not in _RECORDS
        if self._is_on and ends:
            if before is ProfilerAction.RECORD and after is not None:
                warnings.warn(f"Incorrect schedule: RECORD followed by {after.name}", stacklevel=4)
            self.stop_trace()
            if before in _RECORDS and (before is not ProfilerAction.RECORD or after is None):
                self._ready()
        if after in _RECORDS and not self._is_on:
            self.prepare_trace()
            self.start_trace()

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def prepare_trace(self) -> None:
        """Makes a new recording."""
        self.profiler = autograd_profiler.profile(
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
        )

    def start_trace(self) -> None:
        """Begins to record."""
        self._recording().__enter__()
        self._is_on = True

    def stop_trace(self) -> None:
        """Ends the recording."""
        self._is_on = False
        self._recording().__exit__(None, None, None)

    # ---- what was recorded

    def _recording(self) -> autograd_profiler.profile:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before it is asked for events")
        return self.profiler

    def events(self) -> EventList:
        """The events of the last recorded stretch."""
        return self._recording()._seen()

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums over events of one name; `EventList.key_averages`."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str) -> None:
        """Writes a trace that chrome://tracing and Perfetto open; compressed where it ends in
        ".gz"."""
        self._recording().export_chrome_trace(path, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> NoReturn:
        """NotImplementedError: events have no stacks of Python."""
        self._recording().export_stacks(path, metric)

    def export_memory_timeline(self, path: str, device: str | None = None) -> NoReturn:
        """NotImplementedError: `tinyt.memory` tells what is held."""
        raise NotImplementedError(
            "export_memory_timeline: not recorded; tinyt.memory tells what is held, and "
            "tinyt.compile(f).report() what a program holds at each step"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Puts a text into the traces."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Puts a value, given as JSON, into the traces."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> None:
        """None: traces have no number."""

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> NoReturn:
        """NotImplementedError: leave the block, or use a schedule."""
        raise NotImplementedError("toggle_collection_dynamic: use a schedule, or several profiles")
