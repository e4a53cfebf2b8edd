"""Floats that a program reads anew at each run, where they lie in options, containers and cells.

While a call is recorded, a symbolic float takes the place of each, and the function must not write
there: a program does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tinyt._capture import OPTIMIZERS, Guard, Location, Recorder, is_same
from tinyt._core import CaptureError
from tinyt.forks import run_lock, undone_in_child

_SETS = (
    "compile: the function sets {}, from which a program reads a number at each run; set it "
    "outside the compiled function"
)
_setting = run_lock()
# (id of an option group, key) -> the object stored there for recordings, and how many they are.
_lent: dict[tuple[int, Any], list[Any]] = {}


@contextmanager
def symbols_at(places: Iterable[Location], recorder: Recorder) -> Iterator[None]:
    """Stores symbolic floats at these places while the block runs. CaptureError where the function
    stores something else there."""
    floats = [(place, value) for place in places if type(value := place()) is float]
    numbers = [recorder.number(value, place) for place, value in floats]

    def put_back() -> None:
        for place, value in floats:
            place.put(value)

    try:
        with undone_in_child(put_back):
            for (place, _), number in zip(floats, numbers, strict=True):
                place.put(number)
            yield
        for (place, _), number in zip(floats, numbers, strict=True):
            if place() is not number:
                raise CaptureError(_SETS.format(_named(place.holder, place.key)))
    finally:
        put_back()


@contextmanager
def refuse_writes(recorder: Recorder) -> Iterator[None]:
    """CaptureError where the block writes an option of an optimiser that it also reads a number
    from, even with the same value."""
    own: dict[tuple[int, Any], Any] = {}
    with _setting:
        # Other threads may be making some, or changing them.
        found = [reference() for reference in OPTIMIZERS.valuerefs()]
        for holder in [group for x in found for group in list(getattr(x, "param_groups", ()))]:
            for key, value in list(holder.items()):
                if type(value) in (float, tuple):
                    own[id(holder), key] = _own_object(holder, key, value)
    try:
        yield
        for place in recorder.numbers:
            if not isinstance(place, Location):
                continue
            holder, key = place.holder, place.key
            if (id(holder), key) in own and holder[key] is not own[id(holder), key]:
                raise CaptureError(_SETS.format(_named(holder, key)))
    finally:
        with _setting:
            for where in own:
                _lent[where][1] -= 1
                if _lent[where][1] == 0:
                    del _lent[where]


def _own_object(holder: dict[str, Any], key: str, value: Any) -> Any:
    """Replaces an option by an equal object that lies nowhere else, so that a write shows; shared
    with recordings of other threads."""
    known = _lent.get((id(holder), key))
    if known is None or known[0] is not value:
        holder[key] = value = value * 1.0 if type(value) is float else tuple([*value])
        _lent[id(holder), key] = known = [value, 0 if known is None else known[1]]
    known[1] += 1
    return value


def _named(holder: Any, key: Any) -> str:
    """The place of a float in words, for a message."""
    if key is None:
        return "a closure's variable"
    return repr(key) if isinstance(key, str) else f"item {key!r} of a {type(holder).__name__}"


def changed_floats(guard: Guard) -> Iterator[Location]:
    """Locations of the floats of a guard that are other floats now."""
    now: tuple[Any, ...] = (guard.now(),)
    keys: tuple[Any, ...] = (guard.what,)
    expected: tuple[Any, ...] = (guard.expected,)
    if guard.kind == "contents" and type(guard.place) in (list, dict):
        is_dict = type(guard.place) is dict
        keys = tuple(guard.place) if is_dict else tuple(range(len(guard.place)))
        now = tuple(guard.place.values()) if is_dict else guard.now()
        expected = tuple(value for _, value in guard.expected) if is_dict else guard.expected
    elif guard.kind not in ("item", "cell"):
        return
    for key, old, new in zip(keys, expected, now, strict=False):
        if type(old) is float and type(new) is float and not is_same(old, new):
            yield Location(guard.place, key)
