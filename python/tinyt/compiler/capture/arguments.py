"""Lists and dicts among a compiled function's arguments, which it must not change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any

from tinyt._core import CaptureError


def require_unchanged(
    function: Callable[..., Any],
    given: tuple[tuple[Any, ...], dict[str, Any]],
    before: tuple[tuple[Any, ...], dict[str, Any]],
) -> None:
    """CaptureError where the function has changed a list or dict among its arguments: it has got a
    copy, and a program changes none."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[isinstance(function, MethodType) : code.co_argcount] if code else ()
    by_place: list[tuple[str, Any, Any]] = [
        (repr(names[i]) if i < len(names) else str(i), now, then)
        for i, (now, then) in enumerate(zip(given[0], before[0], strict=True))
    ]
    by_name = [(repr(name), given[1][name], then) for name, then in before[1].items()]
    for name, now, then in by_place + by_name:
        place = _changed_at(now, then, "")
        if place is not None:
            raise CaptureError(
                f"compile: the function changes argument {name}{place and f' at {place}'}, which a "
                "program does not do; return what is new, and put it there outside the compiled "
                "function"
            )


def _changed_at(now: Any, before: Any, place: str) -> str | None:
    """Which part of a nested argument is not what it was; None where all of it is."""
    if now is before:
        return None
    if type(now) is not type(before):
        return place
    keys: Iterable[Any]
    if isinstance(before, (dict, tuple)) and hasattr(before, "__dict__"):
        at = _changed_at(vars(now), vars(before), f"{place}.__dict__")
        if at is not None:
            return at
    if isinstance(before, dict):
        if len(now) != len(before) or any(x is not y for x, y in zip(now, before, strict=True)):
            return place
        keys, parts = before, zip(dict.values(now), dict.values(before), strict=True)
    elif isinstance(before, (list, tuple)):
        if len(now) != len(before):
            return place
        keys, parts = range(len(before)), zip(now, before, strict=True)
    elif isinstance(before, slice):
        keys = ("start", "stop", "step")
        parts = zip(*((x.start, x.stop, x.step) for x in (now, before)), strict=True)
    else:
        return place
    found = (
        _changed_at(x, y, f"{place}[{key!r}]") for key, (x, y) in zip(keys, parts, strict=True)
    )
    return next((at for at in found if at is not None), None)
