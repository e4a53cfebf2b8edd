"""Interrupts (Ctrl-C) at chosen steps of modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any


def interrupted_at(
    step: int, modules: Collection[ModuleType], run: Callable[[], Any], spared: Collection[str] = ()
) -> bool:
    """Whether `run()`, interrupted at the given call or return from C in modules (where Python
    looks for signals), got there; functions of the names `spared` are not interrupted."""
    left, watched = step, {module.__name__ for module in modules}

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal left
        if frame.f_globals.get("__name__") not in watched or event not in ("call", "c_return"):
            return
        left -= frame.f_code.co_name not in spared
        if left == 0:
            sys.setprofile(None)
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False
