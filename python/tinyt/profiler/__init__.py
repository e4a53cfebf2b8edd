"""PyTorch's `torch.profiler`: profiles of eager work, step by step.

>>> import tinyt
>>> from tinyt.profiler import ProfilerActivity, profile, record_function
>>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
...     with record_function("model"):
...         y = tinyt.ones(4, 3) @ tinyt.ones(3, 2)
>>> [e.input_shapes for e in prof.events() if e.name == "matmul"]
[[[4, 3], [3, 2]]]
>>> print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=3))  # doctest: +SKIP
"""

from __future__ import annotations

from tinyt.autograd.profiler import kineto_available, record_function
from tinyt.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
