"""Where the nodes of a recording come from: lines of the user's code, and modules."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from tinyt import _core
    from tinyt.compiler.graph.graph import Graph


_FARTHEST = 8  # frames around a call in which a module's name is looked for


class Source(NamedTuple):
    """A line of the user's code, and the module whose ``forward`` ran then, by its path as
    ``model.layers.0`` ("" outside of modules)."""

    file: str
    line: int
    module: str = ""

    def __str__(self) -> str:
        where = f"{os.path.basename(self.file)}:{self.line}"
        return f"{self.module} {where}" if self.module else where


class Lines:
    """The sources that the nodes of a recording were made at."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._places: list[Source] = []

    def note(self, count: int, place: Source) -> None:
        """From the node of that number on."""
        if self._counts and self._counts[-1] == count:  # the line before made none
            self._places[-1] = place
        else:
            self._counts.append(count)
            self._places.append(place)

    def clear(self) -> None:
        """The recording begins anew."""
        self._counts.clear()
        self._places.clear()

    def source(self, node: int) -> Source | None:
        """Of a recorded node; None where it is not known."""
        at = bisect_right(self._counts, node) - 1 if node >= 0 else -1
        return self._places[at] if at >= 0 else None

    def of(self, node: int) -> str:
        """File and line of a recorded node; empty where it is not known."""
        found = self.source(node)
        return f"{found.file}:{found.line}" if found is not None else ""


def origins_of(graph: Graph) -> list[int]:
    """Of each node of a simplified graph the recorded one that does the same; of those that a pass
    made, the last one of those that they read of; -1 of others."""
    of_value: dict[int, int] = {}
    found = []
    for node in graph.nodes:
        origin = node.origin
        if origin < 0:
            origin = max((of_value.get(value, -1) for value in node.inputs), default=-1)
        of_value.update(dict.fromkeys(node.outputs, origin))
        found.append(origin)
    return found


def sources_of(
    program: _core.Program, origins: Sequence[int], lines: Lines | None
) -> list[tuple[Source, ...]]:
    """Of each step of a program what its nodes come from, in their order; none where that is not
    known."""
    found: list[dict[Source, None]] = [{} for _ in program.steps()]
    steps = program.steps_of_nodes()
    if lines is not None and len(steps) == len(origins):
        for step, origin in zip(steps, origins, strict=True):
            source = lines.source(origin)
            if 0 <= step < len(found) and source is not None:
                found[step][source] = None
    return [tuple(x) for x in found]


class ModuleStack:
    """The modules whose ``forward`` runs, by the calls that a tracer sees."""

    def __init__(self) -> None:
        self._frames: list[tuple[FrameType, Any, str]] = []

    @property
    def path(self) -> str:
        """Of the innermost module, from the outermost one's name on."""
        return self._frames[-1][2] if self._frames else ""

    def enter(self, frame: FrameType) -> None:
        """A call begins; nothing unless it is a module's ``forward``."""
        code = frame.f_code
        if code.co_name != "forward" or not code.co_argcount:
            return
        module = frame.f_locals.get(code.co_varnames[0])
        if not isinstance(getattr(module, "_modules", None), dict):
            return
        if self._frames:
            _, parent, path = self._frames[-1]
            name = _path_in(parent, module) if parent is not module else ""
            full = path if name == "" else f"{path}.{name or type(module).__name__}"
        else:
            full = _name_outside(frame.f_back, module) or type(module).__name__
        self._frames.append((frame, module, full))

    def leave(self, frame: FrameType) -> None:
        """A call ends."""
        if self._frames and self._frames[-1][0] is frame:
            self._frames.pop()

    def clear(self) -> None:
        """Forgets the frames."""
        self._frames.clear()


def _path_in(parent: Any, module: Any) -> str | None:
    """The path of a module in another one; None where it is not in there."""
    waiting, seen = [("", parent)], {id(parent)}
    for path, holder in waiting:  # the list grows: breadth first
        for name, child in holder._modules.items():
            if child is module:
                return f"{path}{name}"
            if id(child) not in seen and isinstance(getattr(child, "_modules", None), dict):
                seen.add(id(child))
                waiting.append((f"{path}{name}.", child))
    return None


def _name_outside(frame: FrameType | None, module: Any) -> str:
    """The variable, or the attribute of a method's object, that a module is called by."""
    for _ in range(_FARTHEST):
        if frame is None:
            break
        for names in (frame.f_locals, frame.f_globals):
            for name, value in names.items():
                if value is module and name != "self":
                    return name
        owner = getattr(frame.f_locals.get("self"), "__dict__", None)
        for name, value in owner.items() if isinstance(owner, dict) else ():
            if value is module:
                return f"self.{name}"
        frame = frame.f_back
    return ""
