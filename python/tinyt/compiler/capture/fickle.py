"""What is another at each call of a function, and none of this library's: clocks, and generators of
random numbers."""

from __future__ import annotations

import ctypes
import datetime
import random
import sys
import time
from types import BuiltinMethodType, MethodType
from typing import Any


def is_fickle(value: Any) -> bool:
    """Whether it is, or belongs to, a clock or a generator of random numbers that is none of this
    library's."""
    if type(value) in (BuiltinMethodType, MethodType):
        value = value.__self__
    kind = type(value)
    return id(value) in _CLOCKS or random.Random in kind.__mro__ or kind.__module__ in _NUMPY


_CLOCKS = {id(time), id(datetime.datetime), id(datetime.date)}
_NUMPY = {"numpy.random.mtrand", "numpy.random._generator"}


def random_state() -> tuple[Any, Any]:
    """The states of Python's generator of random numbers and of NumPy's."""
    return random.getstate(), numpy_state()


def numpy_state() -> Any:
    """The state of NumPy's global generator, None where that is not loaded. The second one of a
    pair of normal numbers changes nothing of it."""
    numpy = sys.modules.get("numpy.random")
    if numpy is None:
        return None
    generator = numpy.get_bit_generator()
    if type(generator).__name__ != "MT19937":
        return _plain(numpy.get_state(legacy=False))
    # 624 words and a position. NumPy's own functions take a hundred times as long to copy them.
    return ctypes.string_at(generator.ctypes.state_address, 4 * 625)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [_plain(x) for x in value.values()]
    return value.tobytes() if hasattr(value, "tobytes") else value  # what compares
