"""What a recorded call read of Python's objects: whether it is so still, a later call asks.

A tracer follows the lines of the user's own code while a call is recorded and notes every value
that it reads of objects that outlive the call: globals, closures, attributes, items, contents of
containers, the functions it calls. Values that compare (numbers, strings) are held by value, all
others by identity.
"""

from __future__ import annotations

import copy
import gc
import os
import sys
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import resolve_name
from operator import attrgetter, itemgetter, methodcaller
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

from tinyt._capture import (
    MISSING,
    OPTIMIZERS,
    Guard,
    Location,
    Recorder,
    SymFloat,
    bytes_of,
    class_attribute,
    contents_of,
    is_same,
    stop_tracing,
)
from tinyt._core import CaptureError
from tinyt._tensor import TensorBase
from tinyt.compiler.capture.fickle import is_fickle
from tinyt.compiler.capture.reads import (
    IMPORT,
    LOCAL,
    LOOSE,
    PATTERN,
    WHOLE,
    Chain,
    Reads,
    reads_of,
)
from tinyt.compiler.capture.source_hints import LIBRARY, folder, in_library, is_python
from tinyt.compiler.capture.sources import ModuleStack, Source
from tinyt.compiler.capture.undo import put_back
from tinyt.forks import run_lock, undone_in_child

_BY_VALUE = (int, bool, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_INDEXED = (list, tuple, dict, deque)  # with items that constants are keys of
_ITEM_OF = [kind.__getitem__ for kind in _INDEXED]
_WRAPPERS = {UserDict, UserList, ChainMap}  # containers whose lines are Python's own
_OF_PYTHON = ("builtins", "itertools")  # where iterators come from that run unseen
_METHODS_OF_C: tuple[Any, ...] = (BuiltinMethodType, MethodWrapperType)
_OF_DICT = (sys.modules.keys(), sys.modules.values(), sys.modules.items())
_VIEWS = (MappingProxyType, *map(type, _OF_DICT))
_BUFFERS = (bytearray, memoryview, array)
# Of containers in containers that an attribute of "something on this line" is looked for in.
_DEPTH = 3
_LONG = 5  # so many attributes, one after another, are followed of what a call gives
# These read or write attributes whose names are computed, of what they are given; the last ones of
# what that holds as well.
_BY_NAME: tuple[Any, ...] = (getattr, hasattr, setattr, delattr, vars, dir, copy.copy)
_BY_NAME += (object.__getattribute__, attrgetter, itemgetter, methodcaller)
_DEEP: tuple[Any, ...] = (copy.deepcopy, repr, str, format)
_READERS = {**{id(x): 1 for x in _BY_NAME}, **{id(x): _DEPTH for x in _DEEP}}
# So do these of a module that takes as long to import as all of this one.
_OF_DATACLASSES = {"replace": 1, "asdict": _DEPTH, "astuple": _DEPTH}
_METHODS = {"__getattribute__", "format"}  # so do these
_CLASS = vars(object)["__class__"]
_HOOKS = (
    "_call_hooks"  # of a module; of the class of modules, the hooks of all, which are set later
)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class whose attributes can be set
# Code that is not looked into: Python's own, and of this library all but modules and schedules,
# which hold what the user sets (an optimiser says itself what it reads).
_HERE = os.path.dirname(os.path.abspath(str(sys.modules["tinyt"].__file__)))


_MODULE = os.path.join(_HERE, "nn", "module.py")
_SEEN = (folder(_HERE, "nn"), folder(_HERE, "optim", "lr_scheduler"))


def _is_library(code: CodeType) -> bool:
    name = os.path.normcase(code.co_filename)
    if name not in _known:
        seen = name.startswith(_SEEN) if name.startswith(LIBRARY) else not is_python(name)
        _known[name] = not seen
    return _known[name]


_known: dict[str, bool] = {}  # files


@contextmanager
def in_place_of(places: Iterable[Location], recorder: Recorder) -> Iterator[None]:
    """While the block runs, numbers that a program reads anew lie where the floats do."""
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
def options_kept(recorder: Recorder) -> Iterator[None]:
    """CaptureError where the block stores something at a place in the options of an optimiser that
    it reads a number from, the same value too: a program does not."""
    lying: dict[tuple[int, Any], Any] = {}
    with _setting:
        # Other threads may be making some, or changing them.
        found = [reference() for reference in OPTIMIZERS.valuerefs()]
        for holder in [group for x in found for group in list(getattr(x, "param_groups", ()))]:
            for key, value in list(holder.items()):
                if type(value) in (float, tuple):
                    lying[id(holder), key] = _own_object(holder, key, value)
    try:
        yield
        for place in recorder.numbers:
            if not isinstance(place, Location):
                continue
            holder, key = place.holder, place.key
            if (id(holder), key) in lying and holder[key] is not lying[id(holder), key]:
                raise CaptureError(_SETS.format(_named(holder, key)))
    finally:
        with _setting:
            for where in lying:
                _lent[where][1] -= 1
                if _lent[where][1] == 0:
                    del _lent[where]


_SETS = (
    "compile: the function sets {}, from which a program reads a number at each run; set it "
    "outside the compiled function"
)
_setting = run_lock()
_lent: dict[tuple[int, Any], list[Any]] = {}  # what lies where for recordings, and for how many


def _own_object(holder: dict[str, Any], key: str, value: Any) -> Any:
    """An object that lies nowhere else, of the same value, in its place; that of another thread's
    recording is one."""
    known = _lent.get((id(holder), key))
    if known is None or known[0] is not value:
        holder[key] = value = value * 1.0 if type(value) is float else tuple([*value])
        _lent[id(holder), key] = known = [value, 0 if known is None else known[1]]
    known[1] += 1
    return value


def _named(holder: Any, key: Any) -> str:
    """A place in words."""
    if key is None:
        return "a closure's variable"
    return repr(key) if isinstance(key, str) else f"item {key!r} of a {type(holder).__name__}"


def changed_floats(guard: Guard) -> Iterator[Location]:
    """Where floats lie that are other floats now."""
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


def _is_wrapper(value: Any) -> bool:
    return not _WRAPPERS.isdisjoint(type(value).__mro__)  # `isinstance` asks abstract classes


def _parts(container: Any) -> tuple[Any, ...]:
    """The values in a container."""
    if _is_wrapper(container):
        return tuple(vars(container).values())
    if isinstance(container, dict):
        return tuple(dict.values(container))
    return contents_of(container)


def _own(value: Any) -> dict[str, Any] | None:
    """The attributes that a plain object has itself."""
    own = getattr(value, "__dict__", None)
    is_plain = isinstance(own, dict) and not isinstance(value, (TensorBase, ModuleType, type))
    return own if is_plain else None


def _behind(value: Any) -> Any:
    """The object that a method of C or a view reads; of anything else itself."""
    kind = type(value)
    if kind in _METHODS_OF_C and not isinstance(value.__self__, ModuleType):
        return value.__self__
    return gc.get_referents(value)[0] if kind in _VIEWS else value


def _is_ours(cls: type) -> bool:
    return f"{cls.__module__}.".startswith("tinyt.")


def _is_array(kind: type) -> bool:
    """Whether it is NumPy's, which need not be there."""
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy"


def _user_line(frame: FrameType | None) -> str:
    """The line of the user's own code that a frame runs for."""
    while frame is not None and in_library(frame):
        frame = frame.f_back
    return "the call itself" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _depth_of(value: Any) -> int:
    """How much of what a line comes to is read where it comes to this."""
    if isinstance(value, (itemgetter, methodcaller)):
        return 1
    if getattr(value, "__module__", None) == "dataclasses" and isinstance(value, FunctionType):
        return _OF_DATACLASSES.get(value.__name__, 0)
    return _READERS.get(id(value), 0)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _undo(guards: dict[tuple[str, int, Any], Guard]) -> None:
    put_back(guards.values())


class StateError(CaptureError):
    """The function changes what it reads; perhaps only once."""


class Tracer:
    """Collects guards while it is the trace function; ``roots`` are objects that outlive the
    call. ``line`` is told of the user's lines as they run."""

    def __init__(
        self,
        function: Callable[..., Any],
        roots: Iterable[Any],
        line: Callable[[Source], None] | None = None,
    ) -> None:
        self._line = line
        self._modules = ModuleStack()
        self._guards: dict[tuple[str, int, Any], Guard] = {}
        self._lasting: dict[int, Any] = {}
        self._closures: dict[CodeType, list[tuple[CellType, ...]]] = {}
        self._inner: set[CodeType] = set()  # of functions that are made in the call
        # id -> code that ran, and what it reads; None where it is not looked into. (Code is slow to
        # hash: by all that it holds.)
        self._codes: dict[int, tuple[CodeType, Reads | None]] = {}
        self._looked: set[int] = set()  # ids of what lasts
        self._iterator = ""  # one that was read, and where
        self._frame: FrameType | None = None  # whose line is followed
        # id of a frame -> its line, and the names that were left there
        self._left: dict[int, tuple[int, list[str]]] = {}
        self.types_at = ""  # where the type of what stands for a float was asked for
        # Where code of C may have refused what stands for a float or size.
        self.raises_at = ""
        self.is_fickle = False  # whether a clock or other random numbers may have been read
        for root in roots:
            self._keep(root)
        self._keep(function)
        self._look(function)

    def __enter__(self) -> Tracer:
        self._before = sys.gettrace()
        try:
            sys.settrace(self._trace)
            return self
        except BaseException:  # an interrupt: no block ends what has begun
            sys.settrace(self._before)
            raise

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)
        self._frame = None
        self._modules.clear()

    def guards(
        self,
        reads: Iterable[tuple[dict[str, Any], str, Any]],
        held: Iterable[dict[Any, Any]],
        tensors: Iterable[TensorBase],
    ) -> list[Guard]:
        """What was read, with what the library says itself that it read: (dict, key, value), whole
        dicts, and tensors.

        CaptureError where the call itself has changed it.
        """
        if self._iterator:
            raise CaptureError(
                f"compile: the function reads {self._iterator}, which a program cannot advance; "
                "call next() outside and pass in what it gives"
            )
        for x in tensors:
            self._note("tensor", x, None, None)
        for place, key, value in reads:
            self._note("item", place, key, value)
            self._look(value)
        self._all(held)
        for guard in self._guards.values():
            if not guard.holds():
                raise StateError(
                    f"compile: the function changes what it reads, which a program cannot do: "
                    f"{guard}; do it outside the compiled function"
                )
        return list(self._guards.values())

    def memories(self) -> set[int]:
        """The storages of tensors that were there and that the call has come to."""
        found = (x for x in self._lasting.values() if isinstance(x, TensorBase))
        return {x._storage_id for x in found if not x._is_recorded}

    def put_back(self) -> None:
        """Gives attributes back the tensors that they had before the call, where it has left what
        has no value."""
        for guard in self._guards.values():
            place, name = guard.place, guard.what
            if guard.kind == "item" and type(place) is dict and name in place:
                found = place[name]
                if isinstance(found, TensorBase) and found._is_recorded:
                    if guard.expected is MISSING:
                        del place[name]
                    else:
                        place[name] = guard.expected

    def undo(self) -> Callable[[], None]:
        """A function that undoes what the call has changed, as far as that was read."""
        return partial(_undo, self._guards)

    def is_made(self, value: Any) -> bool:
        """Whether the memory of an array or buffer has come to be in the call, as far as is
        seen."""
        while value is not None:
            if self._lasts(value):
                return False
            value = getattr(value, "base", getattr(value, "obj", None))
        return True

    # ---- frames

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if id(code) not in self._codes:
            is_seen = not _is_library(code)
            self._codes[id(code)] = code, reads_of(code) if is_seen else None
            if is_seen:
                self._enter(code)
        reads = self._codes[id(code)][1]
        if event != "call" or reads is None:
            return None
        if code.co_name == "__getattr__" and code.co_filename == _MODULE:  # of each part and weight
            self._frame = frame
            self._of_tables(frame, frame.f_locals["self"], frame.f_locals["name"])
            return None
        frame.f_trace_lines = True
        frame.f_trace_opcodes = bool(reads.again)
        if self._line is not None:
            self._modules.enter(frame)
        return self._local

    def _of_tables(self, frame: FrameType, module: Any, name: str) -> None:
        """What the `__getattr__` of modules reads: its tables, in order, up to the one that has the
        name."""
        if not self._lasts(module):
            return
        own = vars(module)
        self._keep(own)
        self._note("item", own, name, MISSING)
        for key in ("_parameters", "_buffers", "_modules"):
            if isinstance(table := self._note("item", own, key, own.get(key, MISSING)), dict):
                found = self._note("item", table, name, table.get(name, MISSING))
                if found is not MISSING:
                    self._look(found)
                    return self._returned(frame.f_back, found)

    def _enter(self, code: CodeType) -> None:
        """Finds the closures of a function that came to run through no chain: as a hook, a
        property, an operator, behind a decorator of Python's."""
        self._inner.update(x for x in code.co_consts if isinstance(x, CodeType))
        free = set(code.co_freevars) - {"__class__"}
        if not free or code in self._closures or code in self._inner:
            return
        for function in gc.get_referrers(code):
            if isinstance(function, FunctionType) and function.__code__ is code:
                self._keep(function)
                self._look(function)

    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        reads = self._codes[id(frame.f_code)][1]
        if self._line is not None and event in ("line", "return"):
            self._tell(frame if event == "line" else frame.f_back, self._line)
        if event == "exception" and issubclass(arg[0], (TypeError, ValueError)):
            self.raises_at = _user_line(frame)
            stop_tracing(f"an error is raised at {self.raises_at}")
        if event == "return":
            self._modules.leave(frame)
            self._returned(frame.f_back, arg)
        elif reads is not None and (event == "line" or frame.f_lasti in reads.again):
            self._frame = frame
            left = self._follow_all(frame, reads.chains.get(frame.f_lineno, ()))
            self._left[id(frame)] = frame.f_lineno, left
        return self._local

    def _returned(self, caller: FrameType | None, value: Any) -> None:
        """What a call gives, and what the rest of the line that called reads of it."""
        if self._lasts(value):
            self._whole(value)
        line, names = self._left.get(id(caller), (0, []))
        if caller is not None and line == caller.f_lineno and names:
            self._frame = caller
            if type(value) is SymFloat and "__class__" in names and not in_library(caller):
                self.types_at = _user_line(caller)
            is_made = type(value) in (tuple, list) and not self._lasts(value)
            for part in value if is_made else (value,):
                self._loosely(part, names, _LONG)

    def _tell(self, frame: FrameType | None, line: Callable[[Source], None]) -> None:
        """Of a line that runs; in the library's own code, of the one that called it."""
        while frame is not None and in_library(frame):
            frame = frame.f_back
        if frame is not None:
            line(Source(frame.f_code.co_filename, frame.f_lineno, self._modules.path))

    def _follow_all(self, frame: FrameType, chains: Iterable[Chain]) -> list[str]:
        """Notes what the chains of a line read; returns the names that are read of something else
        on the line."""
        through: list[Any] = []
        ends: list[Any] = []
        loose: list[str] = []
        pattern: list[str] = []
        whole = 0
        for chain in chains:
            if chain.kind == LOOSE:
                loose.append(chain.name)
            elif chain.kind == PATTERN:
                pattern.append(chain.name)
            elif chain.kind == WHOLE:
                whole = _DEPTH
            elif (end := self._follow(frame, chain, through, loose)) is not MISSING:
                ends.append(end)
                by_name = bool(chain.steps) and chain.steps[-1][1] in _METHODS
                whole = max(whole, _depth_of(end), by_name)
                if end is super:
                    ends += self._bases(frame)
                elif isinstance(end, attrgetter):
                    loose += (name for path in end.__reduce__()[1] for name in path.split("."))
        if any(type(end) is FunctionType and end.__module__ == "json" for end in ends):
            self.raises_at = _user_line(frame)  # or has another function give a text for a float
        self.is_fickle = self.is_fickle or any(map(is_fickle, (*through, *ends)))
        asks = "__class__" in loose or any(end is type for end in ends)
        if asks and not in_library(frame):
            ends += self._types(frame, [*through, *ends])
        if whole or not _METHODS.isdisjoint(loose):
            for value in ends:
                self._whole(value, max(whole, 1) + isinstance(value, _CONTAINERS))
            if loose:  # an attribute of one of them
                ends += [x for end in ends if self._lasts(end) for x in _parts(_own(end) or ())]
        if loose:
            for value in (*(x for x in through if isinstance(x, _CONTAINERS)), *ends):
                self._loosely(value, loose, _DEPTH)
        if pattern:
            self._match([x for x in ends if isinstance(x, type)], pattern)
        return [*dict.fromkeys([*loose, *(["__class__"] if asks else ())])]

    def _types(self, frame: FrameType, values: list[Any]) -> list[type]:
        """What a line may find that asks for types, of what it comes to."""
        stop_tracing(f"types are asked for at {_user_line(frame)}")
        for value in values:
            parts = _parts(value) if isinstance(value, _CONTAINERS) else (value,)
            if any(type(part) is SymFloat for part in parts):
                self.types_at = _user_line(frame)
        return [x for x in map(type, values) if x.__flags__ & _HEAP_TYPE and x is not SymFloat]

    def _bases(self, frame: FrameType) -> tuple[type, ...]:
        """Where `super` looks."""
        receiver = frame.f_locals.get("".join(frame.f_code.co_varnames[:1]))
        cls = receiver if isinstance(receiver, type) else type(receiver)
        return cls.__mro__[1:]

    def _follow(self, frame: FrameType, chain: Chain, through: list[Any], loose: list[str]) -> Any:
        """Notes what a chain reads, as far as it can be looked at without running code; returns
        where it ends (at a method of a container, there) and adds what it leads through and the
        names that are left."""
        value = self._root(frame, chain)
        for i, (kind, what) in enumerate(chain.steps):
            if value is MISSING:
                break
            if chain.stores and i == len(chain.steps) - 1 and not self._lasts(value):
                break
            through.append(value)
            holder = value
            value = self._attribute(value, what) if kind == "attr" else self._item(value, what)
            if value is MISSING:
                loose += (what if kind == "attr" else "" for kind, what in chain.steps[i + 1 :])
                is_held = isinstance(holder, _CONTAINERS) or what in _METHODS
                return holder if is_held else MISSING
        if value is not MISSING:
            self._look(value)
            through.append(value)
        return value

    def _root(self, frame: FrameType, chain: Chain) -> Any:
        code, name = frame.f_code, chain.name
        if chain.kind == IMPORT:
            return self._module(frame, name)
        if chain.kind != LOCAL:
            return self._global(frame, name)
        if name in code.co_freevars:
            for cells in self._closures.get(code, ()):
                cell = cells[code.co_freevars.index(name)]
                self._note("cell", cell, None, _contents(cell))
        return frame.f_locals.get(name, MISSING)

    def _module(self, frame: FrameType, name: str) -> Any:
        name = resolve_name(name, frame.f_globals.get("__package__"))
        if name not in sys.modules:
            return MISSING
        return self._note("item", sys.modules, name, sys.modules[name])

    def _loosely(self, value: Any, names: list[str], depth: int) -> None:
        """An attribute or item is read of something that a line has come to: of an object on the
        line, or of what is in it."""
        if self._lasts(value) and (behind := _behind(value)) is not value:
            self._look(value)
            self._loosely(behind, names, depth)
        elif isinstance(value, type):  # perhaps of an instance that is made here
            for name in names:
                self._look(self._of_class(value, name))
        elif depth == 0 or not self._lasts(value) or isinstance(value, (ModuleType, *_BY_VALUE)):
            return
        elif isinstance(value, _CONTAINERS) or _is_wrapper(value):
            self._look(value)
            for item in _parts(value):
                self._loosely(item, names, depth - 1)
        else:
            for name in names:
                if self._has(value, name):
                    found = self._attribute(value, name)
                    self._look(found)
                    self._loosely(found, names, depth - 1)

    def _match(self, classes: list[type], names: list[str]) -> None:
        """A class pattern reads attributes of an instance of its class."""
        for cls in classes:
            by_position = class_attribute(cls, "__match_args__") if "" in names else ()
            wanted = [*names, *(by_position if isinstance(by_position, tuple) else ())]
            for value in list(self._lasting.values()):
                if cls in type(value).__mro__:
                    self._loosely(value, wanted, _DEPTH)

    def _global(self, frame: FrameType, name: str) -> Any:
        names: dict[str, Any] = frame.f_globals
        if name in names:  # of `eval` they may be made in the call
            is_kept = names.get("__name__") in sys.modules or self._lasts(names)
            return self._note("item", names, name, names[name]) if is_kept else names[name]
        return frame.f_builtins.get(name, MISSING)

    # ---- objects

    def _attribute(self, value: Any, name: str) -> Any:
        if isinstance(value, ModuleType):
            return self._of_module(value, name)
        if isinstance(value, type):
            return self._of_class(value, name)
        self._look(value)
        lasts = self._lasts(value)
        own = getattr(value, "__dict__", None)
        if name == "__dict__" and lasts:
            self._whole(value)
            return MISSING if own is None else own
        is_read = not name.endswith("_")  # not a method that writes
        if isinstance(value, TensorBase) and lasts and is_read and not value._is_recorded:
            self._note("tensor", value, None, None)
        if name == "__class__" and class_attribute(type(value), name) is _CLASS:
            return self._class_of(value)
        where = self._registered(own, name) if isinstance(own, dict) else {}
        found = self._of_class(type(value), name, is_there=name in where)
        if found is not MISSING and hasattr(type(found), "__set__"):
            # A property's own lines are seen; a slot is read here.
            is_slot = type(found).__name__ in ("member_descriptor", "_tuplegetter")
            if is_slot and lasts:
                return self._note("slot", value, name, getattr(value, name, MISSING))
            return getattr(value, name, MISSING) if is_slot else MISSING
        if isinstance(own, dict):
            item = where.get(name, MISSING)
            # What is not there hides the class's as soon as it is set.
            if lasts and (item is not MISSING or not isinstance(value, TensorBase)):
                self._note("item", where, name, item)
            if item is not MISSING:
                return item
        if isinstance(found, FunctionType):
            self._look(found)
            return MISSING
        return MISSING if hasattr(type(found), "__get__") else found

    def _class_of(self, value: Any) -> type:
        """What ``value.__class__`` gives."""
        cls = type(value)
        if type(value) is SymFloat:
            self.types_at = _user_line(self._frame)
            return float
        if "<locals>" not in cls.__qualname__:  # else it may be made in the call
            self._keep(cls)
        return cls

    def _has(self, value: Any, name: str) -> bool:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict) and name in self._registered(own, name):
            return True
        return bool(name) and class_attribute(type(value), name) is not MISSING

    def _registered(self, own: dict[str, Any], name: str) -> Mapping[str, Any]:
        """Where an object keeps an attribute: a module its parameters, buffers and parts apart."""
        if name not in own:
            for table in ("_parameters", "_buffers", "_modules"):
                found: Mapping[str, Any] = own.get(table, {})
                if isinstance(found, dict) and name in found:
                    return found
        return own

    def _of_module(self, module: ModuleType, name: str) -> Any:
        names = vars(module)
        return self._note("item", names, name, names[name]) if name in names else MISSING

    def _of_class(self, cls: type, name: str, is_there: bool = False) -> Any:
        """What a class has under a name; where an instance has it too, only that counts."""
        if (known := self._guards.get(("class", id(cls), name))) is not None:
            return known.expected
        found = class_attribute(cls, name)
        is_fixed = not cls.__flags__ & _HEAP_TYPE or issubclass(cls, TensorBase)
        if is_fixed or (is_there and found is MISSING) or not name:
            return found
        if "<locals>" in cls.__qualname__ and not self._lasts(cls):  # perhaps made in the call
            return found
        if name.startswith("_"):
            holder = next((c for c in cls.__mro__ if name in vars(c)), object)
            if name == _HOOKS and _is_ours(holder):
                return self._note("class", holder, name, found)
            if any(name in vars(c) for c in cls.__mro__ if _is_ours(c)):
                return found
        return self._note("class", cls, name, found)

    def _item(self, value: Any, key: Any) -> Any:
        """An item of a container; the container's contents are held by then."""
        self._look(value)
        if isinstance(value, MappingProxyType):
            return self._item(gc.get_referents(value)[0], key)
        if isinstance(value, _INDEXED) and type(value).__getitem__ in _ITEM_OF:
            try:
                return dict.get(value, key, MISSING) if isinstance(value, dict) else value[key]
            except (LookupError, TypeError):
                pass
        return MISSING

    def _look(self, value: Any) -> None:
        """Notes what is in a container that lasts, what a function is made of, what an object is an
        instance of."""
        kind = type(value)
        # What is made in the call is made anew at the next one.
        if not self._lasts(value) or id(value) in self._looked:
            return
        self._looked.add(id(value))
        if isinstance(value, TensorBase):
            for hook in (*(value._hooks or {}).values(), *(value._post_hooks or {}).values()):
                self._keep(hook)
                self._look(hook)
            return
        cls = value if isinstance(value, type) else kind
        if cls.__flags__ & _HEAP_TYPE:
            for base in cls.__mro__:
                self._keep(base)
            if cls is kind:
                self._note("type", value, None, kind)
        if isinstance(value, _CONTAINERS):
            self._note("contents", value, None, contents_of(value))
            for item in _parts(value):
                self._keep(item)
        elif _is_wrapper(value):
            self._note("contents", vars(value), None, contents_of(vars(value)))
            for part in _parts(value):
                self._keep(part)
                self._loosely(part, [""], _DEPTH)
        elif (behind := _behind(value)) is not value:
            self._all((behind,))
        elif kind is MethodType:
            self._all((value.__self__, value.__func__))
        elif isinstance(value, partial):
            self._all((value.func, value.args, value.keywords))
            self._all((*value.args, *value.keywords.values()))
        elif isinstance(value, _BUFFERS) or any(map(_is_array, kind.__mro__)):
            self._note("array", value, None, bytes_of(value))
        elif kind is FunctionType and not _is_library(value.__code__):
            self._function(value)
        elif kind.__module__ in _OF_PYTHON and hasattr(kind, "__next__"):
            self._iterator = f"the iterator of type {kind.__name__} at {_user_line(self._frame)}"

    def _all(self, parts: Iterable[Any]) -> None:
        for part in parts:
            self._keep(part)
            self._look(part)

    def _function(self, function: FunctionType) -> None:
        made_of = function.__code__, function.__defaults__, function.__kwdefaults__
        self._note("function", function, None, made_of)
        self._keep(function.__globals__)
        self._closures.setdefault(function.__code__, []).append(function.__closure__ or ())
        self._all(x for x in (function.__defaults__, function.__kwdefaults__) if x)

    def _whole(self, value: Any, depth: int = 1) -> None:
        """All attributes of an object are read, or all that a container holds, and at a greater
        depth all that these are."""
        self._look(value)
        if depth == 0 or not self._lasts(value):
            return
        own = _own(value)
        if own is not None:
            self._keep(own)
            self._look(own)
        for item in _parts(value if isinstance(value, _CONTAINERS) else own or ()):
            self._keep(item)
            if depth > 1:
                self._whole(item, depth - 1)

    def _note(self, kind: str, place: Any, what: Any, value: Any) -> Any:
        if type(value) is SymFloat or (isinstance(value, TensorBase) and value._is_recorded):
            return value  # it stands for another one in this call alone
        key = (kind, id(place), what)
        if key not in self._guards:
            self._guards[key] = Guard(kind, place, what, value, _user_line(self._frame))
        self._keep(value)
        return value

    def _keep(self, value: Any) -> None:
        if isinstance(value, TensorBase) and value._is_recorded:
            return  # made in the call, and must not outlive it
        if not isinstance(value, _BY_VALUE):
            self._lasting[id(value)] = value

    def _lasts(self, value: Any) -> bool:
        return id(value) in self._lasting
