"""A captured call: its graph, and what of Python goes in and comes out at every run.

Arguments are stood in for by recorded tensors of the same geometry, floats by numbers that are read
anew. Leaves get their gradients as the function leaves them. Anything else that the function
touches (parameters, optimiser states) is captured: read and written where it lies.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

from tinyt import _core
from tinyt._autograd import is_grad_enabled, next_number
from tinyt._capture import (
    CaptureLog,
    Location,
    SymFloat,
    describe,
    firsts,
    is_plain_leaf,
    overlapping,
    own_attributes,
)
from tinyt._core import CaptureError
from tinyt.compiler.backward import Backward
from tinyt.compiler.capture.arguments import require_unchanged
from tinyt.compiler.capture.fickle import random_state
from tinyt.compiler.capture.guards import StateError
from tinyt.compiler.capture.live_floats import refuse_writes, symbols_at
from tinyt.compiler.capture.recording import recording
from tinyt.compiler.capture.results import ALIAS, ARGUMENT, GRAD, NUMBER, OBJECT, OUTPUT, VIEW
from tinyt.compiler.capture.source_hints import capture_text
from tinyt.compiler.capture.state_tracer import StateTracer
from tinyt.compiler.graph.graph import Graph, place_of
from tinyt.forks import made_once, undone_in_child
from tinyt.ops.autocast import own_casts
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from tinyt._capture import Recorder
    from tinyt._tensor import dtype
    from tinyt.compiler.capture.dynamic import Dynamic
    from tinyt.compiler.capture.sources import Lines, Source
    from tinyt.compiler.passes.recompute import Recomputed

_RECORDED = "tensor(<recorded>"  # what the text of a tensor without values begins with
_ATTRIBUTES = (
    "compile: the function sets attributes of an argument ({}), which a program does not do; set "
    "them outside"
)
_MADE = (
    "compile: the function {} a tensor over the memory of an array that it makes, which each run "
    "would share with the next; use tinyt.tensor(array), which copies"
)
_LEAF_RETURNED = "compile: a result that requires grad is made in the function; make it outside"


def _is_result(value: Any) -> bool:
    return isinstance(value, Tensor) or (type(value) is SymFloat and value.position >= 0)


def _refuse_texts(tree: Any) -> None:
    """CaptureError where a result is the text of a tensor without values."""
    if isinstance(tree, tuple):
        if len(tree) == 3 and tree[0] == "value" and tree[1] is str:
            if _RECORDED in tree[2]:
                raise CaptureError(
                    "compile: a result is the text of a tensor whose value is not known while "
                    "recording; return the tensor and format it outside"
                )
            return
        for part in tree:
            _refuse_texts(part)


class FirstRun(Exception):
    """The function must run before it can be recorded: once, or several times (``may_wait``)."""

    def __init__(self, may_wait: bool) -> None:
        super().__init__()
        self.may_wait = may_wait


class AsWritten(Exception):
    """Why no program follows the call: it runs as it is written, each time."""


class _WantsValues(Exception):
    """Arguments must be known by their values (`Recorder.want_values`)."""

    def __init__(self, numbers: set[int]) -> None:
        super().__init__()
        self.numbers = numbers


class _StandIns:
    """What a recording sees in the place of its arguments."""

    def __init__(
        self,
        recorder: Recorder,
        leaves: Sequence[Any],
        kept: Collection[int],
        valued: Mapping[int, Tensor],
        live: bool,
    ) -> None:
        """``valued``: what has the values of some; ``live``: floats are numbers that are read anew;
        else they are floats, and held."""
        self._recorder, self._live = recorder, live
        self._leaves = leaves
        memories = [first for first, _ in firsts(leaves)]
        several = {first for i, first in enumerate(memories) if first != i}
        self._shared = {i for i, first in enumerate(memories) if first in several}
        self._memories: dict[tuple[int, dtype], Tensor] = {}
        self._known: dict[int, Tensor] = {}
        self._own: dict[int, dict[str, Any]] = {}  # attributes, by the keys of _known
        self._wanting: list[Tensor] = []
        self.all = [
            self._dressed(valued[i], x) if i in valued else x if i in kept else self._stand_in(i, x)
            for i, x in enumerate(leaves)
        ]

    def _stand_in(self, i: int, x: Any) -> Any:
        if isinstance(x, float):
            number = self._recorder.number(x, i)
            if self._live:
                return number
            float(number)  # a guard on its value
            return x
        if id(x) not in self._known:
            if i in self._shared:
                whole = self._memory(i, x)
                place = tuple(x.shape), x.stride(), x.storage_offset()
                self._known[id(x)] = prim.as_strided(whole, *place)
                self._recorder.placeholders.append(self._known[id(x)])
            else:
                self._known[id(x)] = self._recorder.placeholder(x, i)
            if x.requires_grad and x.is_leaf:  # under no_grad(), too: the function may end that
                self._recorder.follow_leaf(self._known[id(x)], x, i)
                self._wanting.append(self._known[id(x)])
            elif x.requires_grad and is_grad_enabled():
                self._known[id(x)].requires_grad_()
                self._wanting.append(self._known[id(x)])
            self._own[id(x)] = own_attributes(x)
            self._dressed(self._known[id(x)], x)
        return self._known[id(x)]

    def _dressed(self, placeholder: Tensor, x: Tensor) -> Tensor:
        """What stands for a tensor, with its class and attributes."""
        if type(placeholder) is not type(x):
            try:
                placeholder.__class__ = type(x)
            except TypeError as error:
                raise CaptureError(
                    f"compile: nothing can stand for an argument of class {type(x).__name__} "
                    f"({error}); pass x.detach()"
                ) from None
        vars(placeholder).update(own_attributes(x))
        return placeholder

    def check(self) -> None:
        """CaptureError where the function changed what an argument's tape is."""
        for key, x in self._known.items():
            wants = any(x is y for y in self._wanting)
            if x.requires_grad != wants or not x.is_leaf:
                raise CaptureError(
                    "compile: an argument does not require grad as it did before the call, which a "
                    "program cannot change; call requires_grad_() outside, and write what requires "
                    "grad into a clone of the argument"
                )
            require_attributes(x, self._own[key])
            if x._hooks or x._post_hooks:
                raise CaptureError(
                    "compile: the function registers a hook of an argument, which a program does "
                    "not do; register it outside"
                )
            if x._grad is not None:
                raise CaptureError(
                    "compile: backward() reaches through an argument that has a tape; detach it, "
                    "or call backward() outside"
                )

    def _memory(self, i: int, x: Tensor) -> Tensor:
        """What stands for a memory that several arguments lie in."""
        key = x._storage_id, x.dtype
        if key not in self._memories:
            if any(storage == key[0] for storage, _ in self._memories):
                raise AsWritten("arguments of different dtypes share memory")
            self._memories[key] = self._recorder.placeholder(whole_memory(x), ("memory", i))
        return self._memories[key]


def _nothing() -> None:
    pass


def require_attributes(x: Tensor, own: dict[str, Any]) -> None:
    """CaptureError where an argument's attributes are no longer these."""
    now = own_attributes(x)
    names = [k for k in {**own, **now} if k not in now or own.get(k, own) is not now[k]]
    if names:
        raise CaptureError(_ATTRIBUTES.format(", ".join(names)))


def whole_memory(x: Tensor) -> Tensor:
    """All elements of a tensor's memory."""
    return prim.as_strided(x.detach(), (x._storage_elements,), (1,), 0)


class _Copies:
    """Of tensors, views of copies of their memory; those of one memory share one."""

    def __init__(self) -> None:
        self._memories: dict[int, Tensor] = {}
        self._views: dict[int, Tensor] = {}

    def of(self, x: Tensor) -> Tensor:
        """The one of a tensor."""
        if x._storage_id not in self._memories:
            self._memories[x._storage_id] = prim.copy(whole_memory(x))
        if id(x) not in self._views:
            place = tuple(x.shape), x.stride(), x.storage_offset()
            self._views[id(x)] = prim.as_strided(self._memories[x._storage_id], *place)
        return self._views[id(x)]


def _require_gone(made: Sequence[ReferenceType[Tensor]]) -> None:
    """CaptureError where a tensor without data outlives the recording."""

    if any(_is_left(ref) for ref in made):
        gc.collect()  # it may be in a cycle of the function's own
    for ref in made:
        if _is_left(ref) and (x := ref()) is not None:
            raise CaptureError(
                f"compile: the function keeps a tensor of shape {tuple(x.shape)} that it computes, "
                f"in {_where(x)}; a program would not renew it. Return it, as it is or in a list, "
                "tuple or dict"
            )


def _is_left(ref: ReferenceType[Tensor]) -> bool:
    x = ref()
    return x is not None and x._is_recorded


def _where(x: Tensor) -> str:
    """What refers to a tensor."""
    for holder in gc.get_referrers(x):
        if isinstance(holder, dict):
            for key, value in holder.items():
                if value is x:
                    return f"item or attribute {key!r}"
        elif not isinstance(holder, FrameType):
            return f"a {type(holder).__name__}"
    return "an object"


class Capture:
    """A call of a function, recorded.

    ``leaves`` are the tensors and floats among its arguments, ``rebuild`` makes the call's
    arguments of what stands for them. An argument whose memory the function reads without it is
    kept: the program holds for this tensor alone. So is a leaf that requires grad where it has a
    class, attributes or hooks of its own, shares memory with another argument, or cannot be stood
    in for, as where its value is looked at. ``objects`` are the other arguments, ``places``
    those of floats that are read anew at every run; ``lines`` gets the user's lines, by nodes.
    ``traced``: sizes are followed (`tinyt.compiler.capture.dynamic`). ``undo`` gets functions that
    undo what recordings have changed of Python's objects, the last one first.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        rebuild: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
        objects: Sequence[Any] = (),
        places: Sequence[Location] = (),
        lines: Lines | None = None,
        traced: bool = False,
        undo: list[Callable[[], None]] | None = None,
    ) -> None:
        self._undo = undo
        self.places, self.lines = places, lines
        self.origins: list[int] = []  # of each planned node, the recorded one (`origins_of`)
        self._is_traced = traced
        self.log: CaptureLog | None = None
        self.dynamic: Dynamic | None = None  # what makes it of other sizes
        # What is planned, where that was made as for other sizes (`Simplified`).
        self.resized: _core.Graph | None = None
        self._made: list[ReferenceType[Tensor]] = []
        self.planned: _core.Graph | None = None  # what its programs are made of
        self.how = ""  # the passes went, for `explain`
        self.recomputed: tuple[Recomputed, ...] = ()
        tensors = {i: x for i, x in enumerate(leaves) if isinstance(x, Tensor)}
        wanting = {i: x for i, x in tensors.items() if x.requires_grad and x.is_leaf}
        memories = Counter(x._storage_id for x in tensors.values())
        self.kept = {
            i: x for i, x in wanting.items() if not is_plain_leaf(x) or memories[x._storage_id] > 1
        }
        self.valued: dict[int, Tensor] = {}  # arguments that are known by their values
        run = partial(self._run, function, leaves, rebuild, objects, tensors)
        self._put_back: Callable[[], None] = _nothing  # what a call has left that failed
        self._has_numbers = self._is_used_elsewhere = False  # that a recording gave, by threads
        self._recorder: Recorder | None = None  # until what objects keep of its numbers is known
        try:
            if len(self.kept) == len(wanting) or not self._stood_in(run):
                self._put_back()
                self.kept, self.valued = wanting, {}
                run()
        except Exception:
            self._put_back()
            raise
        finally:
            self._release()

    def _release(self) -> None:
        """Has plain floats kept where what stands for some is kept: the recording is one of these
        values, then, as other calls keep others."""
        if self._recorder is not None:
            for position in self._recorder.release():
                self.core.guard_on(position)
            self._recorder = None

    def _stood_in(self, run: Callable[[], None]) -> bool:
        """Whether the call can be recorded with what stands for its leaves."""
        changed = ""
        try:
            run()
        except (FirstRun, AsWritten, MemoryError):
            raise
        except StateError as error:
            changed = str(error)
        except Exception:
            return False
        if changed:
            self._release()
            try:  # what is kept of the call must be the leaf itself
                _require_gone(self._made)
            except CaptureError:
                return False
            raise StateError(changed)
        return True

    def _run(
        self,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        rebuild: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
        objects: Sequence[Any],
        tensors: dict[int, Tensor],
    ) -> None:
        """Records the call; again where an argument turns out to be reached without it."""
        self._live = True
        while True:
            self._release()
            own = (v for x in tensors.values() for v in own_attributes(x).values())
            tracer = StateTracer(function, (*objects, *own), self._line_callback())
            if self._undo is not None:
                self._undo.append(tracer.state.undo())
            before = random_state()
            try:
                made = self._typed(partial(self._record, function, leaves, rebuild), tracer)
            except _WantsValues as wanted:
                tracer.state.restore_tensors()
                self._know_by_values(wanted.numbers, leaves, tensors)
                continue
            except Exception:
                tracer.state.restore_tensors()
                raise
            # Whether another recording may not be as this one.
            self.is_fickle = tracer.is_fickle or random_state() != before
            if made is None:
                tracer.state.restore_tensors()
                self._live = False
                continue
            touched = [tensor for _, tensor, *_ in self.core.inputs()]
            touched += [tensor for _, tensor, _ in self.core.writes()]
            self.touched = [x for x in touched if x is not None]
            self.captured = {x._storage_id for x in self.touched}
            self.reached = self._reached | tracer.state.memories()
            aliased = {
                i: x
                for i, x in tensors.items()
                if x._storage_id in self.captured
                or (x.requires_grad and x.is_leaf and x._storage_id in self.reached)
            }
            if aliased.keys() <= self.kept.keys():
                break
            tracer.state.restore_tensors()
            self.kept.update(aliased)
            for i in aliased:
                self.valued.pop(i, None)
        self._put_back = tracer.state.restore_tensors
        self._require_apart(leaves)
        self._require_own_gradients(leaves)
        self._require_values_kept()
        self._made = made
        self.guards = tracer.state.complete(self._reads, self._held, self.tensors)
        self._put_back = _nothing
        del tracer
        self._release()
        _require_gone(made)
        self._made = []

    def _know_by_values(
        self, numbers: set[int], leaves: Sequence[Any], tensors: dict[int, Tensor]
    ) -> None:
        """Has copies recorded in the place of arguments, whose values are part of the call; of one
        in memory that another argument lies in, itself."""
        for i in numbers:
            x = leaves[i]
            alike = [k for k, y in tensors.items() if y._storage_id == x._storage_id]
            if all(tensors[k] is x for k in alike):
                copy = prim.copy(x.detach())
                self.valued.update(dict.fromkeys(alike, copy))
            else:
                self.kept.update({k: tensors[k] for k in alike})

    @made_once
    def graph(self) -> Graph:
        """What was recorded."""
        return Graph.from_core(self.core)

    def _typed(
        self, record: Callable[[StateTracer], list[ReferenceType[Tensor]]], tracer: StateTracer
    ) -> list[ReferenceType[Tensor]] | None:
        """As `_record`; None where the function asks for the type of what stands for a float, gives
        it to code that takes nothing but a float, as the one of `json`, or to another thread."""
        try:
            made = record(tracer)
        except (CaptureError, FirstRun, AsWritten, _WantsValues, MemoryError):
            if not (tracer.types_at and self._live):
                raise
            return None
        except Exception:
            if not (self._live and self._has_numbers):
                raise
            return None
        if self._live and (self._is_used_elsewhere or (tracer.raises_at and self._has_numbers)):
            return None
        if tracer.types_at and not self._live:
            raise CaptureError(
                "compile: the function asks for a type on a line with a number that a program "
                "reads anew, as a tensor's item; use isinstance(), or a line of its own, at "
                f"{tracer.types_at}"
            )
        return None if tracer.types_at else made

    def _record(
        self,
        function: Callable[..., Any],
        leaves: Sequence[Any],
        rebuild: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]],
        tracer: StateTracer,
    ) -> list[ReferenceType[Tensor]]:
        """Records the call; returns references to the tensors that it made."""
        with recording() as (core, recorder), own_casts():
            self.core, self._recorder = core, recorder
            recorder.take_by_value(not self._live)
            self.log = CaptureLog(core) if self._is_traced else None
            if self.lines is not None:
                self.lines.clear()
            first_node = next_number()
            known = _StandIns(recorder, leaves, self.kept, self.valued, self._live)
            args, kwargs = rebuild(list(known.all))
            with symbols_at(self.places if self._live else (), recorder), refuse_writes(recorder):
                try:
                    with tracer, undone_in_child(recorder.restore):
                        result = function(*args, **kwargs)
                    recorder.require_recorded()
                    require_unchanged(function, (args, kwargs), rebuild(list(known.all)))
                except CaptureError as error:
                    if recorder.needs_run:
                        raise FirstRun(recorder.may_wait) from error
                    wanted = {
                        i for i, x in enumerate(known.all) if any(x is y for y in recorder.wanted)
                    }
                    if wanted:
                        raise _WantsValues(wanted) from error
                    error.args = (capture_text(error),)
                    raise
                finally:
                    self._has_numbers = bool(recorder.numbers)
                    self._is_used_elsewhere = recorder.used_elsewhere
                    is_changed = recorder.restore()
                if is_changed:
                    raise CaptureError(
                        "compile: the function writes what requires grad into a tensor that was "
                        "there before; detach it, or return it"
                    )
                known.check()
                self._fresh = {
                    x._storage_id for x, data in recorder.buffers if tracer.state.is_made(data)
                }
                roots = self._take_result(core, recorder, result, known.all)
                self._take_gradients(core, recorder, known.all)
                self.backward = None
                if roots:
                    with tracer:  # hooks of the tape, and backwards of functions
                        self.backward = Backward(core, recorder, roots, first_node, known.all)
                    recorder.require_recorded()
        self.arguments, self.layouts = recorder.arguments, recorder.layouts
        self.numbers, self.draws = recorder.numbers, recorder.draws
        self._reads, self._held = recorder.reads, recorder.held
        self.tensors = list(recorder.tensors.values())
        self._reached = {x._storage_id for x in self.tensors}
        constants = (*recorder.constants, *self.valued.values())
        self.constants = frozenset(map(place_of, constants))
        return recorder.made

    def _require_apart(self, leaves: Sequence[Any]) -> None:
        """AsWritten where memory is written that is another tensor's, too, under another storage,
        as tensors over one array have it; CaptureError where the function has made it."""
        count = len(leaves)
        storages: set[int] = set()
        for _, tensor, argument in self.core.writes():
            if tensor is None:
                source = self.arguments[argument]
                source = source if isinstance(source, int) else source[1]
                tensor = leaves[source] if isinstance(source, int) else source.grad
            storages.add(tensor._storage_id)
        all_of = [*leaves, *self.touched]
        # Numbers of leaves, and beyond these of what is captured.
        self.written = frozenset(
            i for i, x in enumerate(all_of) if isinstance(x, Tensor) and x._storage_id in storages
        )
        found = overlapping(all_of, self.written)
        if found is not None:
            which = f"argument {found}" if found < count else "a tensor that the function reads"
            raise AsWritten(
                f"{which} of shape {tuple(all_of[found].shape)} lies in the memory of an array "
                "that another tensor lies in, too, and one of them is written"
            )
        if any(x._storage_id in self._fresh for x in self.touched if x._storage_id in storages):
            raise CaptureError(_MADE.format("writes into"))

    def _require_own_gradients(self, leaves: Sequence[Any]) -> None:
        """CaptureError where a gradient that is read lies in memory that is used otherwise, too."""
        used = self.captured | {x._storage_id for x in leaves if isinstance(x, Tensor)}
        for source in self.arguments:
            if isinstance(source, tuple) and source[0] == "grad":
                grad = (leaves[source[1]] if isinstance(source[1], int) else source[1]).grad
                if grad._storage_id in used:
                    raise CaptureError(
                        f"compile: a gradient of shape {tuple(grad.shape)} shares memory with "
                        "another tensor that the function uses, which a program does not follow; "
                        "give each gradient memory of its own"
                    )
                used.add(grad._storage_id)

    def _require_values_kept(self) -> None:
        """CaptureError where what is known by its values would be written, or seen later."""
        copies = {x._storage_id for x in self.valued.values()}
        written = [target for _, target, _ in self.core.writes()]
        seen = [what for kind, what in self.results if kind in (OBJECT, ALIAS)]
        for x in (*written, *seen):
            if isinstance(x, Tensor) and x._storage_id in copies:
                raise CaptureError(
                    "compile: the function writes into, or returns a view of, an argument that is "
                    "known by its values, as the batch sizes of a packed sequence; use a clone"
                )

    def _line_callback(self) -> Callable[[Source], None] | None:
        """Notes the lines that run. Does not hold the capture: a generator that waits holds the
        tracer, and so this."""
        if self.lines is None:
            return None
        own = ReferenceType(self)

        def note(place: Source) -> None:
            capture = own()
            if capture is not None and capture.lines is not None:
                capture.lines.note(capture.core.node_count, place)

        return note

    def _take_result(
        self, core: _core.Graph, recorder: Recorder, result: Any, placeholders: list[Any]
    ) -> dict[int, Tensor]:
        """Notes where every leaf of the result comes from; returns those that have a tape, by the
        numbers of their outputs."""
        leaves: list[Any] = []
        self.tree = describe(result, leaves, _is_result)
        _refuse_texts(self.tree)
        self.results: list[tuple[int, Any]] = []
        self._outputs = 0
        known: dict[int, int] = {}
        roots: dict[int, Tensor] = {}
        place = {id(x): i for i, x in enumerate(placeholders)}
        made = {id(ref()) for ref in recorder.made}
        grads = {
            id(row[2]): x
            for x, row in recorder.grads.items()
            if id(x) not in made or recorder.argument_of(x) is not None
        }

        def output(x: Tensor) -> int:
            if id(x) not in known:
                known[id(x)] = self._add_output(core, x)
                if x.requires_grad:
                    roots[known[id(x)]] = x
            return known[id(x)]

        copies = _Copies()
        for x in leaves:
            base = x._base if isinstance(x, Tensor) and x.requires_grad else None
            if id(x) in place:
                self.results.append((ARGUMENT, place[id(x)]))
            elif isinstance(x, SymFloat):
                self.results.append((NUMBER, x.position))
            elif x._is_recorded and not x.requires_grad and id(x) in grads:
                of_grad = grads[id(x)]
                number = recorder.argument_of(of_grad)
                self.results.append((GRAD, of_grad if number is None else number))
            elif not x._is_recorded and id(x) not in made:
                self.results.append((OBJECT, x))
            elif not x._is_recorded and not x.requires_grad and x._storage_id in self._fresh:
                self.results.append((OUTPUT, output(copies.of(x))))
            elif not x._is_recorded and not x.requires_grad:
                self.results.append((ALIAS, x))
            elif base is not None and base.requires_grad:
                of: tuple[int, Any]
                if id(base) in place:
                    of = ARGUMENT, place[id(base)]
                else:
                    of = (OUTPUT, output(base)) if base._is_recorded else (OBJECT, base)
                offset = x.storage_offset() - base.storage_offset()
                # What is repeated is added up as `expand` does it.
                once = tuple(n if s else 1 for n, s in zip(x.shape, x.stride(), strict=True))
                self.results.append((VIEW, (*of, once, tuple(x.shape), x.stride(), offset)))
            else:
                self.results.append((OUTPUT, output(x)))
        for x in roots.values():
            if x.is_leaf:
                raise CaptureError(_LEAF_RETURNED)
        return roots

    def _require_not_returned(self, leaf: Tensor) -> None:
        if any(kind == OBJECT and what is leaf for kind, what in self.results):
            raise CaptureError(_LEAF_RETURNED)

    def _add_output(self, core: _core.Graph, x: Tensor) -> int:
        core.add_output(x)
        self._outputs += 1
        return self._outputs - 1

    def _take_gradients(
        self, core: _core.Graph, recorder: Recorder, placeholders: Sequence[Any]
    ) -> None:
        """Notes what ``.grad`` of every leaf must be before, and is after: an output, argument -2 -
        i, or with -1 a tensor that was there. Leaves that the function makes of captured memory are
        gone afterwards."""
        self.no_grad: list[Tensor | int] = []  # those of arguments by their numbers
        self.set_grads: list[tuple[Tensor | int, int, Tensor | None]] = []
        place = {id(x): i for i, x in enumerate(placeholders)}
        made = {id(ref()) for ref in recorder.made}
        for x, (before, was_read, after) in recorder.grads.items():
            number = recorder.argument_of(x)
            if number is None and id(x) in made:
                self._require_not_returned(x)
                continue
            leaf = x if number is None else number
            if was_read and before is None:
                self.no_grad.append(leaf)
            if was_read and (after is before or recorder.is_grad_of(after, x)):
                continue  # what is set without being read may be another one at the next call
            if id(after) in place and after is not None:
                self.set_grads.append((leaf, -2 - place[id(after)], None))
            elif recorder.is_placeholder(after):
                raise CaptureError(
                    "compile: the gradient of a tensor is set to that of another one, which a "
                    "program does not do; set it to a clone"
                )
            elif after is not None and after._is_recorded:
                self.set_grads.append((leaf, self._add_output(core, after), None))
            else:
                if after is not None and after._storage_id in self._fresh:
                    raise CaptureError(_MADE.format("sets a gradient to"))
                self.set_grads.append((leaf, -1, after))
