"""Anomaly mode: finds the forward line whose gradient became NaN."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tinyt._autograd import GradMode, Node, set_anomaly_hooks
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    import traceback

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_mode = {"enabled": False, "check_nan": True}
_observer: Callable[[Node, Sequence[Tensor | None]], None] | None = None


def _trace() -> list[traceback.FrameSummary]:
    """Where the user's code is: the frames outside this package, outermost first."""
    import traceback

    frames = traceback.extract_stack()
    return [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]


def _has_nan(x: Tensor) -> bool:
    if x._is_recorded or not (x.dtype.is_floating_point or x.dtype.is_complex):
        return False
    with GradMode(False):
        return bool(prim.sum(prim.ne(x, x), tuple(range(x.dim())), False).item())


def _check(node: Node, grads: Sequence[Tensor | None]) -> None:
    for i, grad in enumerate(grads):
        if grad is None or not _has_nan(grad):
            continue
        frames: list[traceback.FrameSummary] = node.trace or []
        where = ""
        if frames:
            import traceback

            warnings.warn(
                f"Error detected in {node.name()}. Traceback of forward call that caused the "
                "error:\n" + "".join(traceback.format_list(frames)),
                UserWarning,
                stacklevel=2,
            )
            last = frames[-1]
            where = f" The forward call is at {last.filename}:{last.lineno}: {last.line}"
        raise RuntimeError(
            f"Function '{node.name()}' returned nan values in its {i}th output.{where}"
        )


def _set(enabled: bool, check_nan: bool) -> None:
    for name, value in (("mode", enabled), ("check_nan", check_nan)):
        if not isinstance(value, bool):
            kind = type(value).__name__
            raise TypeError(f"set_detect_anomaly: {name} must be True or False, got {kind}")
    _mode.update(enabled=enabled, check_nan=check_nan)
    _install()


def _install() -> None:
    enabled, check_nan = _mode["enabled"], _mode["check_nan"]
    look: Callable[[Node, Sequence[Tensor | None]], None] | None
    look = _check if enabled and check_nan else None
    if _observer is not None:
        look = _both if look else _observer
    set_anomaly_hooks(_trace if enabled else None, look)


def _both(node: Node, grads: Sequence[Tensor | None]) -> None:
    if _observer is not None:
        _observer(node, grads)
    _check(node, grads)


def set_observer(observer: Callable[[Node, Sequence[Tensor | None]], None] | None) -> None:
    """Has every backward pass call a function with each node and the list of the gradients that it
    gave, in which the function may put others; None for no function."""
    global _observer
    if observer is not _observer:
        _observer = observer
        _install()


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turns anomaly mode on or off; see :class:`set_detect_anomaly`."""
    _set(enabled, check_nan)


class set_detect_anomaly:
    """Turns anomaly mode on or off at once; as a block, restores it at the end.

    In this mode each recorded call remembers where it was made, and a gradient with NaN raises
    RuntimeError that names the operation and that line. It is slow: for debugging.

    Args:
        mode: on or off.
        check_nan: whether NaN is an error.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = dict(_mode)
        _set(mode, check_nan)

    def __enter__(self) -> None:
        """The mode was set when the object was made."""

    def __exit__(self, *exc: object) -> None:
        _set(**self._before)


class detect_anomaly:
    """Anomaly mode for a block; see :class:`set_detect_anomaly`."""

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before: list[dict[str, bool]] = []

    def __enter__(self) -> None:
        self._before.append(dict(_mode))
        try:
            _set(True, self._check_nan)
        except BaseException:  # an interrupt: no block ends what has begun
            _set(**self._before.pop())
            raise

    def __exit__(self, *exc: object) -> None:
        _set(**self._before.pop())


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return _mode["enabled"]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaN is an error in anomaly mode."""
    return _mode["check_nan"]
