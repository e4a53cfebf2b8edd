"""PyTorch's settings of `torch._dynamo`: they may be set, and two of them do something.

``disable``: from then on `tinyt.compile` returns functions as they are, and calls that no program
stands for yet run as they are written. ``suppress_errors``: so does a function that cannot be
captured, with a warning in the place of the CaptureError. For the others see `compile`'s own
arguments, ``recompile_limit`` and ``dynamic``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
disable = False
error_on_recompile = False
fail_on_recompile_limit_hit = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
optimize_ddp = True
recompile_limit = 8
suppress_errors = False
verbose = False


@contextmanager
def patch(arg: str | dict[str, Any] | None = None, val: Any = None, **more: Any) -> Iterator[None]:
    """Settings within a block, or a function that it decorates, and what they were after it.

    Args:
        arg: name of a setting, whose value is ``val``; or a dict of settings.
        val: see ``arg``.
        more: settings by name.

    Raises:
        AttributeError: there is no such setting.

    >>> from tinyt._dynamo import config
    >>> with config.patch(suppress_errors=True):
    ...     config.suppress_errors
    True
    >>> config.suppress_errors
    False
    """
    given = {arg: val} if isinstance(arg, str) else arg or {}
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in {**given, **more}}
    vars(module).update(given, **more)
    try:
        yield
    finally:
        vars(module).update(before)
