"""Guards on Python state: the objects that a recorded call read, and what it read of each.

A guard holds a place (an entry of a dict, a cell, the contents of a container, ...) and the value
that it had: numbers and strings by value, all else by identity. Later calls check the guards in C
(guard.pxi). Only places that outlive the call are guarded: those reached from the arguments, from
globals and from closures.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

from tinyt._capture import MISSING, Guard, SymFloat, bytes_of, class_attribute, contents_of
from tinyt._core import CaptureError
from tinyt._tensor import TensorBase
from tinyt.compiler.capture.source_hints import LIBRARY, PACKAGE, folder, is_python, user_frame
from tinyt.compiler.capture.undo import put_back

CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_INDEXED = (list, tuple, dict, deque)  # containers with constant keys
_GETITEMS = [kind.__getitem__ for kind in _INDEXED]
_BY_VALUE = (int, bool, float, complex, str, bytes, type(None))  # nothing in them to guard
_BUFFERS = (bytearray, memoryview, array)
_METHODS_OF_C: tuple[Any, ...] = (BuiltinMethodType, MethodWrapperType)
_SLOTS = ("member_descriptor", "_tuplegetter")
_ITERATORS = ("builtins", "itertools")  # modules of iterators that Python code cannot see into
_MODULE_TABLES = ("_parameters", "_buffers", "_modules")  # searched by Module.__getattr__
_DEPTH = 8  # containers and attributes that `attributes` follows, one inside the other
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class whose attributes can be set
# Of the library only modules and schedules hold what users set; optimisers report their own reads.
_TRACED = (folder(PACKAGE, "nn"), folder(PACKAGE, "optim", "lr_scheduler"))
_untraced_files: dict[str, bool] = {}


def is_untraced(code: CodeType) -> bool:
    """Whether a function's reads need no guards: Python's own code, and most of this library's."""
    name = os.path.normcase(code.co_filename)
    if name not in _untraced_files:
        is_ours = name.startswith(LIBRARY)
        _untraced_files[name] = not name.startswith(_TRACED) if is_ours else is_python(name)
    return _untraced_files[name]


def user_line(frame: FrameType | None) -> str:
    """File and line of the user's code that a frame runs for."""
    frame = user_frame(frame)
    return "the call itself" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_placeholder(value: Any) -> bool:
    """Whether a value is a tensor of the recording, which must not outlive it."""
    return isinstance(value, TensorBase) and value._is_recorded


def items_of(container: Any) -> tuple[Any, ...]:
    """The items of a container, the values of a dict."""
    is_dict = isinstance(container, dict)
    return tuple(dict.values(container)) if is_dict else contents_of(container)


class StateError(CaptureError):
    """The function changes what it reads; perhaps only once."""


class StateGuards:
    """The guards of one recording, and the objects that outlive it.

    ``frame``: the frame whose line is read, for the text of guards. ``iterator``: an iterator of C
    that was read, and where. ``closures``: the cells of functions reached, by ids of their code.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.frame: FrameType | None = None
        self.iterator = ""
        self.closures: dict[int, list[tuple[CellType, ...]]] = {}
        self._guards: dict[tuple[str, int, Any], Guard] = {}
        self._lasting: dict[int, Any] = {}  # objects that outlive the call, by their ids
        self._looked: set[int] = set()  # ids of objects whose own guards are made
        for root in roots:
            self.keep(root)

    # ---- the guards

    def complete(
        self,
        reads: Iterable[tuple[dict[str, Any], str, Any]],
        held: Iterable[dict[Any, Any]],
        tensors: Iterable[TensorBase],
    ) -> list[Guard]:
        """All guards, with those of the library's own reads: (dict, key, value), dicts, tensors.

        CaptureError where an iterator was read, StateError where a guard no longer holds.
        """
        if self.iterator:
            raise CaptureError(
                f"compile: the function reads {self.iterator}, which a program cannot advance; "
                "call next() outside and pass in what it gives"
            )
        for x in tensors:
            self.keep(x)
            self.note("tensor", x, None, None)
        for place, key, value in reads:
            self.keep(place)
            self.note("item", place, key, value)
            self.look(value)
        self._look_all(held)
        for guard in self._guards.values():
            if not guard.holds():
                raise StateError(
                    f"compile: the function changes what it reads, which a program cannot do: "
                    f"{guard}; do it outside the compiled function"
                )
        return list(self._guards.values())

    def note(self, kind: str, place: Any, what: Any, value: Any) -> Any:
        """Guards a place that outlives the call; returns the value that is there."""
        if _is_placeholder(value) or type(value) is SymFloat or not self.lasts(place):
            return value
        key = (kind, id(place), what)
        if key not in self._guards:
            self._guards[key] = Guard(kind, place, what, value, user_line(self.frame))
        self.keep(value)
        return value

    def undo(self) -> Callable[[], None]:
        """A function that gives every guarded place the value that it had."""
        return partial(put_back, self._guards.values())

    def restore_tensors(self) -> None:
        """Gives attributes that hold a tensor without a value what they held before."""
        guards = (guard for guard in self._guards.values() if guard.kind == "item")
        put_back(guard for guard in guards if _is_placeholder(guard.now()))

    # ---- objects that outlive the call

    def keep(self, value: Any) -> None:
        """Adds an object to those that outlive the call."""
        if value is not MISSING and type(value) not in _BY_VALUE and not _is_placeholder(value):
            self._lasting[id(value)] = value

    def lasts(self, value: Any) -> bool:
        """Whether an object outlives the call."""
        return id(value) in self._lasting

    def memories(self) -> set[int]:
        """The storages of tensors that outlive the call."""
        found = (x for x in self._lasting.values() if isinstance(x, TensorBase))
        return {x._storage_id for x in found if not x._is_recorded}

    def is_made(self, value: Any) -> bool:
        """Whether no base of an array or buffer outlives the call."""
        while value is not None:
            if self.lasts(value):
                return False
            value = getattr(value, "base", getattr(value, "obj", None))
        return True

    # ---- reads

    def look(self, value: Any) -> None:
        """Guards what a value itself is: the contents of a container, the hooks of a tensor, the
        bytes of an array, the code, defaults and closure of a function."""
        kind = type(value)
        if isinstance(value, ModuleType):
            self.keep(value)
        if not self.lasts(value) or id(value) in self._looked:
            return
        self._looked.add(id(value))
        if kind.__flags__ & _HEAP_TYPE:
            self.keep(kind)
        if not isinstance(value, type):
            self.keep(getattr(value, "__dict__", None))
        if isinstance(value, CONTAINERS):
            self.note("contents", value, None, contents_of(value))
            for item in items_of(value):
                self.keep(item)
        elif isinstance(value, TensorBase):
            self._look_all((value._hooks or {}).values())
            self._look_all((value._post_hooks or {}).values())
        elif kind is MethodType:
            self._look_all((value.__self__, value.__func__))
        elif kind in _METHODS_OF_C:
            self._look_all((value.__self__,))
        elif isinstance(value, partial):
            self._look_all((value.func, value.args, value.keywords))
            self._look_all((*value.args, *value.keywords.values()))
        elif isinstance(value, _BUFFERS) or any(_is_array(base) for base in kind.__mro__):
            self.note("array", value, None, bytes_of(value))
        elif kind is FunctionType and not is_untraced(value.__code__):
            self._function(value)
        elif kind.__module__ in _ITERATORS and hasattr(kind, "__next__"):
            self.iterator = f"the iterator of type {kind.__name__} at {user_line(self.frame)}"

    def attribute(self, value: Any, name: str) -> Any:
        """The value of an attribute, guarded; MISSING where a property or method must run."""
        self.look(value)
        if isinstance(value, type):
            return self._class_attribute(value, name)
        if isinstance(value, ModuleType):
            names = vars(value)  # a name that is missing is perhaps loaded when it is read
            return self.note("item", names, name, names[name]) if name in names else MISSING
        own = getattr(value, "__dict__", None)
        if name == "__dict__" and isinstance(own, dict):
            return own
        is_tensor = isinstance(value, TensorBase)
        if is_tensor and not name.endswith("_"):  # x.add_() writes
            self.note("tensor", value, None, None)
        found = class_attribute(type(value), name)
        if hasattr(type(found), "__set__"):
            self._class_attribute(type(value), name)
            if type(found).__name__ not in _SLOTS:
                return MISSING
            return self.note("slot", value, name, getattr(value, name, MISSING))
        if isinstance(own, dict) and (name in own or not is_tensor):
            item = self._instance_attribute(own, name, _MODULE_TABLES if found is MISSING else ())
            if item is not MISSING:
                return item
        self.look(self._class_attribute(type(value), name))
        return MISSING if hasattr(type(found), "__get__") else found

    def item(self, container: Any, key: Any) -> Any:
        """The item of a container under a constant key, or MISSING; its contents are guarded."""
        self.look(container)
        if isinstance(container, _INDEXED) and type(container).__getitem__ in _GETITEMS:
            try:
                if isinstance(container, dict):
                    return dict.get(container, key, MISSING)
                return container[key]
            except (LookupError, TypeError):
                pass
        return MISSING

    def attributes(
        self,
        value: Any,
        names: Iterable[str],
        absent: bool = False,
        depth: int = _DEPTH,
        seen: dict[int, int] | None = None,
    ) -> None:
        """Guards attributes by these names: of a value, of the items of a container, and of what
        such an attribute holds in turn; with ``absent`` also those that are not there yet.
        ``seen``: objects, and to which depth they were followed."""
        if isinstance(value, type):  # perhaps of an instance that is made here
            for name in filter(None, names):
                self.look(self._class_attribute(value, name))
            return
        seen = {} if seen is None else seen
        if not self.lasts(value) or seen.get(id(value), 0) >= depth:
            return
        seen[id(value)] = depth
        if isinstance(value, CONTAINERS):
            self.look(value)
            for item in items_of(value):
                self.attributes(item, names, absent, depth - 1, seen)
            return
        for name in names:
            if (absent and name) or _has(value, name):
                found = self.attribute(value, name)
                self.look(found)
                self.attributes(found, names, absent, depth - 1, seen)

    def _instance_attribute(self, own: dict[str, Any], name: str, tables: Iterable[str]) -> Any:
        """An entry of an instance dict or, of a module, of its tables; guarded."""
        found = self.note("item", own, name, own.get(name, MISSING))
        for key in tables:
            table = own.get(key)
            if found is MISSING and isinstance(table, dict):
                self.note("item", own, key, table)
                found = self.note("item", table, name, table.get(name, MISSING))
        return found

    def _class_attribute(self, cls: type, name: str) -> Any:
        """What a class or one of its bases has under a name, guarded; MISSING where none has it."""
        known = self._guards.get(("class", id(cls), name))
        if known is not None:
            return known.expected
        return self.note("class", cls, name, class_attribute(cls, name))

    def _function(self, function: FunctionType) -> None:
        """Guards the code and defaults of a function; cells are guarded where they are read."""
        made_of = function.__code__, function.__defaults__, function.__kwdefaults__
        self.note("function", function, None, made_of)
        self.keep(function.__globals__)
        for cell in function.__closure__ or ():
            self.keep(cell)
        self.closures.setdefault(id(function.__code__), []).append(function.__closure__ or ())
        self._look_all(x for x in (function.__defaults__, function.__kwdefaults__) if x)

    def cell(self, cell: CellType) -> None:
        """Guards the contents of a closure's cell."""
        try:
            self.note("cell", cell, None, cell.cell_contents)
        except ValueError:
            self.note("cell", cell, None, MISSING)

    def _look_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.keep(value)
            self.look(value)


def _is_array(kind: type) -> bool:
    """Whether a class is NumPy's array; NumPy need not be installed."""
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy"


def _has(value: Any, name: str) -> bool:
    """Whether an object, its class, or a table of a module has an attribute; runs no code."""
    own = getattr(value, "__dict__", None)
    tables = [own, *map(own.get, _MODULE_TABLES)] if isinstance(own, dict) else []
    is_own = any(isinstance(table, dict) and name in table for table in tables)
    return is_own or class_attribute(type(value), name) is not MISSING
