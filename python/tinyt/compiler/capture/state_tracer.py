"""Tracer of the user's lines while a call is recorded: which Python state each line reads.

The byte code says which chains of names, attributes and constant items a line reads (reads.py); the
tracer follows them, before the line runs, from the frame's variables and has each step guarded
(guards.py).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, FunctionType
from typing import Any

from tinyt._capture import MISSING, SymFloat, stop_tracing
from tinyt.compiler.capture.fickle import is_fickle
from tinyt.compiler.capture.guards import (
    CONTAINERS,
    StateGuards,
    is_untraced,
    items_of,
    user_line,
)
from tinyt.compiler.capture.reads import GLOBAL, LOOSE, Chain, Reads, reads_of
from tinyt.compiler.capture.source_hints import PACKAGE, in_library, user_frame
from tinyt.compiler.capture.sources import ModuleStack, Source

_BY_NAME = set(map(id, (getattr, hasattr, setattr, delattr)))
_MODULE_FILE = os.path.join(PACKAGE, "nn", "module.py")


class StateTracer:
    """Trace function (`sys.settrace`) of a recording, while its block runs.

    ``state``: the guards. ``types_at``: a line that asks for the type of a symbolic float.
    ``raises_at``: a line where C code may have refused a symbolic float or size. ``is_fickle``:
    whether a clock or foreign random numbers may have been read. ``roots`` outlive the call;
    ``line`` is told of the user's lines as they run.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        roots: Iterable[Any],
        line: Callable[[Source], None] | None = None,
    ) -> None:
        self.state = StateGuards((*roots, function))
        self.state.look(function)
        self.types_at = self.raises_at = ""
        self.is_fickle = False
        self._line = line
        self._modules = ModuleStack()
        self._inner: set[CodeType] = set()  # of functions that are made in the call
        # Code that ran, by its id (code is slow to hash); what it reads, None where it is untraced.
        self._codes: dict[int, tuple[CodeType, Reads | None]] = {}
        # Of a frame, by its id: its line, names that are read of what a call there returns, and
        # whether it asks for attributes that may be absent.
        self._left: dict[int, tuple[int, list[str], bool]] = {}

    def __enter__(self) -> StateTracer:
        self._before = sys.gettrace()
        try:
            sys.settrace(self._trace)
            return self
        except BaseException:  # an interrupt: no block ends what has begun
            sys.settrace(self._before)
            raise

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)
        self.state.frame = None
        self._modules.clear()

    # ---- frames

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The global trace function: a call begins."""
        code = frame.f_code
        if id(code) not in self._codes:
            is_traced = not is_untraced(code)
            self._codes[id(code)] = code, reads_of(code) if is_traced else None
            if is_traced:
                self._find_closures(code)
        reads = self._codes[id(code)][1]
        if event != "call" or reads is None:
            return None
        if code.co_name == "__getattr__" and code.co_filename == _MODULE_FILE:
            self.state.frame = frame
            module, name = frame.f_locals["self"], frame.f_locals["name"]
            self._returned(frame.f_back, self.state.attribute(module, name))
            return None
        frame.f_trace_lines = True
        frame.f_trace_opcodes = bool(reads.again)
        if self._line is not None:
            self._modules.enter(frame)
        return self._local

    def _find_closures(self, code: CodeType) -> None:
        """Finds the cells of a function that no chain led to: a hook, property or operator."""
        self._inner.update(x for x in code.co_consts if isinstance(x, CodeType))
        free = set(code.co_freevars) - {"__class__"}
        if not free or id(code) in self.state.closures or code in self._inner:
            return
        for function in gc.get_referrers(code):
            if isinstance(function, FunctionType) and function.__code__ is code:
                self.state.keep(function)
                self.state.look(function)

    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The local trace function of a frame: a line, an opcode, an exception, a return."""
        reads = self._codes[id(frame.f_code)][1]
        if self._line is not None and event in ("line", "return"):
            self._tell(frame if event == "line" else frame.f_back, self._line)
        if event == "exception" and issubclass(arg[0], (TypeError, ValueError)):
            self.raises_at = user_line(frame)
            stop_tracing(f"an error is raised at {self.raises_at}")
        if event == "return":
            self._modules.leave(frame)
            self._returned(frame.f_back, arg)
        elif reads is not None and (event == "line" or frame.f_lasti in reads.again):
            self.state.frame = frame
            left = self._follow_line(frame, reads.chains.get(frame.f_lineno, ()))
            self._left[id(frame)] = frame.f_lineno, *left
        return self._local

    def _returned(self, caller: FrameType | None, value: Any) -> None:
        """Guards what a call returns, and what the rest of the caller's line reads of it."""
        self.state.look(value)
        line, names, absent = self._left.get(id(caller), (0, [], False))
        if caller is not None and line == caller.f_lineno and names:
            self.state.frame = caller
            if type(value) is SymFloat and "__class__" in names and not in_library(caller):
                self.types_at = user_line(caller)
            is_made = type(value) in (tuple, list) and not self.state.lasts(value)
            for part in value if is_made else (value,):
                self.state.attributes(part, names, absent)

    def _tell(self, frame: FrameType | None, line: Callable[[Source], None]) -> None:
        """Tells ``line`` of the user's line that a frame runs for."""
        frame = user_frame(frame)
        if frame is not None:
            line(Source(frame.f_code.co_filename, frame.f_lineno, self._modules.path))

    # ---- lines

    def _follow_line(self, frame: FrameType, chains: Iterable[Chain]) -> tuple[list[str], bool]:
        """Guards what the chains of a line read; returns the names of attributes that are read of
        anything else on the line, and whether they may be absent."""
        through: list[Any] = []  # values along the chains
        ends: list[Any] = []
        loose: list[str] = []
        for chain in chains:
            if chain.kind == LOOSE:
                loose.append(chain.name)
            elif (end := self._follow(frame, chain, through, loose)) is not MISSING:
                ends.append(end)
        absent = any(id(end) in _BY_NAME for end in ends)
        if absent:
            loose += [end for end in ends if type(end) is str]  # names in variables
        if any(type(end) is FunctionType and end.__module__ == "json" for end in ends):
            self.raises_at = user_line(frame)  # or has another function give a text for a float
        self.is_fickle = self.is_fickle or any(map(is_fickle, (*through, *ends)))
        if ("__class__" in loose or any(end is type for end in ends)) and not in_library(frame):
            loose.append("__class__")
            ends += self._types(frame, (*through, *ends))
        loose = list(dict.fromkeys(loose))
        if loose:
            for value in (*(x for x in through if isinstance(x, CONTAINERS)), *ends):
                self.state.attributes(value, loose, absent)
        return loose, absent

    def _types(self, frame: FrameType, values: Iterable[Any]) -> list[type]:
        """The classes of values on a line that asks for a type."""
        stop_tracing(f"types are asked for at {user_line(frame)}")
        parts = [x for v in values for x in (items_of(v) if isinstance(v, CONTAINERS) else (v,))]
        if any(type(part) is SymFloat for part in parts):
            self.types_at = user_line(frame)
        return [*dict.fromkeys(type(x) for x in values if type(x) is not SymFloat)]

    def _follow(self, frame: FrameType, chain: Chain, through: list[Any], loose: list[str]) -> Any:
        """Guards the steps of a chain, as far as no code must run; returns the value at its end (of
        a method of a container the container) or MISSING, and adds the values along it and the
        names of the steps that are left."""
        value = self._root(frame, chain)
        for i, (kind, what) in enumerate(chain.steps):
            if value is MISSING:
                return MISSING
            through.append(value)
            holder, is_attribute = value, kind == "attr"
            value = (self.state.attribute if is_attribute else self.state.item)(holder, what)
            if value is MISSING:
                left = chain.steps[i + (what != "__class__") :]
                loose += (what if kind == "attr" else "" for kind, what in left)
                return holder if isinstance(holder, CONTAINERS) else MISSING
        if value is not MISSING:
            self.state.look(value)
            through.append(value)
        return value

    def _root(self, frame: FrameType, chain: Chain) -> Any:
        """The value of a chain's name: guarded where it is a global or a closure's variable."""
        code, name = frame.f_code, chain.name
        if chain.kind == GLOBAL:
            names: dict[str, Any] = frame.f_globals
            if names.get("__name__") in sys.modules:  # those of `eval` may be made in the call
                self.state.keep(names)
            if name in names:
                return self.state.note("item", names, name, names[name])
            return frame.f_builtins.get(name, MISSING)
        if name in code.co_freevars:
            for cells in self.state.closures.get(id(code), ()):
                self.state.cell(cells[code.co_freevars.index(name)])
        return frame.f_locals.get(name, MISSING)
