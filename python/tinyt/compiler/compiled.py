"""A compiled function: its programs, and what happens to a call that none stands for."""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import update_wrapper
from typing import Any

from tinyt import _core, autograd
from tinyt._capture import (
    ByIdentity,
    CompiledGraph,
    Location,
    describe,
    modes,
    own_attributes,
    rebuild,
)
from tinyt._core import CaptureError
from tinyt.compiler.capture.capture import AsWritten, Capture, FirstRun, require_attributes
from tinyt.compiler.capture.compare import difference, same_results
from tinyt.compiler.capture.dynamic import Dynamic, Marks, marks_of
from tinyt.compiler.capture.fickle import numpy_state
from tinyt.compiler.capture.guards import StateError
from tinyt.compiler.capture.live_floats import changed_floats
from tinyt.compiler.capture.recording import collection_paused
from tinyt.compiler.capture.resize import Simplified
from tinyt.compiler.capture.source_hints import line_of
from tinyt.compiler.capture.sources import Lines, origins_of
from tinyt.compiler.inspect.views import Profile, Views
from tinyt.compiler.passes import simplify
from tinyt.compiler.passes.recompute import MemoryLimit, fit, refusal
from tinyt.compiler.switches import compiling, is_off, suppresses_errors
from tinyt.compiler.types import CacheInfo, MemoryLimitError, VerificationError
from tinyt.compiler.verify.verify import Verification, Verifier
from tinyt.tensor import Tensor

__all__ = ["Compiled", "Verification"]


_DIFFERS = (
    "compile: the second call is not as the first: {}. What comes of a clock, of Python's own "
    "random numbers or as a new object is not made anew by a program: pass it as an argument, or "
    "make it outside"
)


class Compiled(Views):
    """A compiled function. Called as the function is; see :func:`compile`."""

    def __init__(
        self,
        function: Callable[..., Any],
        limit: int = 64,
        name: str | None = None,
        verify: bool = False,
        max_memory: int | None = None,
        dynamic: bool | None = None,
    ) -> None:
        super().__init__(function)
        self._max_memory, self._dynamic = max_memory, dynamic
        self._verifier = Verifier(function, _gradients) if verify else None
        self._verifications: deque[Verification] = deque(maxlen=2 * limit)
        self._limit, self._given_name = limit, name
        self._places: dict[tuple[int, Any], Location] = {}  # of floats that have changed once
        self._reasons: deque[str] = deque(maxlen=2 * limit)
        self._simplified = Simplified()
        self._captures = self._derivations = self._as_written = 0
        self._warm = False
        self._is_fickle = False  # whether random numbers that are not this library's were drawn
        self._has_given_up = False  # of `suppress_errors`
        self._undo: list[Callable[[], None]] | None = None
        update_wrapper(self, function, updated=())

    def cache_info(self) -> CacheInfo:
        """How often a program was there, as ``functools.lru_cache`` tells it."""
        return CacheInfo(self.hits, self.misses, self._limit, len(self.entries))

    def cache_clear(self) -> None:
        """Forgets all programs."""
        self.entries.clear()
        self._places.clear()
        self._reasons.clear()
        self._verifications.clear()
        self._simplified = Simplified()
        self._captures = self._derivations = self._as_written = 0
        self._warm = self._has_given_up = False
        self.hits = self.misses = 0

    def explain(self) -> str:
        """A line for each call that was captured: which one, and why no program stood for it."""
        return "\n".join(self._reasons)

    def verifications(self) -> tuple[Verification, ...]:
        """What ``verify=True`` has compared so far; the last ones where there are many."""
        return tuple(self._verifications)

    def miss(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], profile: Profile | None = None
    ) -> Any:
        """The result of a call that no program stands for yet."""
        if self._has_given_up or is_off():
            return self.function(*args, **kwargs)
        if not suppresses_errors():
            return self._missed(args, kwargs, profile, [])
        result: list[Any] = []
        self._undo = []
        try:
            return self._missed(args, kwargs, profile, result)
        except CaptureError as error:
            self._undo_recordings()
            self._give_up(error)
            return result[0] if result else self.function(*args, **kwargs)
        finally:
            self._undo = None

    def _missed(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        profile: Profile | None,
        run: list[Any],
    ) -> Any:
        """As `miss`; ``run`` gets the result as soon as the function has run."""
        reason = self._reason(args, kwargs)
        self._find_changed_floats()
        leaves: list[Any] = []
        description = describe(args, leaves), describe(kwargs, leaves)
        stays_as_written = False
        if self._warm:
            derived, why = self._derived(args, kwargs, reason)
            if derived is not None:
                return derived.call(leaves, profile)
            try:
                entry = self._captured(description, leaves, reason + why)
                if not entry.capture.core.has_effects():
                    return entry.call(leaves, profile)
            except AsWritten as error:
                self._runs_as_written(error)
                stays_as_written = True
            except (CaptureError, VerificationError, MemoryLimitError):
                raise
            except Exception:  # the function's own, perhaps: then the call below has it, too
                pass
            else:  # what has an effect is not called twice
                return entry.call(leaves, profile)
        self._undo_recordings()
        # Run once: what later calls find, as the states of an optimiser, comes to exist.
        own = [(x, own_attributes(x)) for x in leaves if _is_stood_in(x)]
        random = numpy_state()
        result = self._eager(args, kwargs)
        self._is_fickle |= numpy_state() != random
        run.append(result)
        self._warm = True
        if stays_as_written:
            return result
        try:
            for x, before in own:
                require_attributes(x, before)
            self._captured(description, leaves, reason, result)
        except AsWritten as error:
            self._runs_as_written(error)
        except (VerificationError, MemoryError):  # MemoryLimitError, too
            raise
        except Exception as error:
            if isinstance(error, FirstRun):
                if error.may_wait:
                    self._warm = False
                    self._undo_recordings()
                    return result
                error = CaptureError(
                    "step: the optimiser has no states yet, and running the function has made "
                    "none; make the optimiser outside the compiled function"
                )
            raise self._refusal(error) from error
        return result

    def _find_changed_floats(self) -> None:
        """From now on programs read floats anew that have changed since they were captured."""
        for entry in self.entries:
            for guard in entry.capture.guards:
                for place in changed_floats(guard):
                    self._places[id(place.holder), place.key] = place

    def _refusal(self, error: Exception) -> CaptureError:
        """What is raised where a call that has run could not be captured."""
        what = str(error)
        if not isinstance(error, CaptureError):
            where = line_of(error)
            what = f"compile: {error!r}" + (f", at {where}" if where else "")
        return CaptureError(f"{what} (while {self._name()} was captured; the call has run)")

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself, called for its program."""
        with compiling():
            return self.function(*args, **kwargs)

    def _runs_as_written(self, error: AsWritten) -> None:
        """Says so: in `explain`, and in a warning the first time."""
        if not self._as_written:
            warnings.warn(
                f"compile: {self._name()} runs as written: {error}; a clone of one of them would "
                "have a program",
                stacklevel=4,
            )
        self._as_written += 1
        self._note(f"runs as written: {error}")

    def _undo_recordings(self) -> None:
        """With `suppress_errors`: puts back what recordings of this call have changed."""
        while self._undo:
            self._undo.pop()()

    def _give_up(self, error: CaptureError) -> None:
        """With `suppress_errors`: calls without a program run as written from now on."""
        self._has_given_up = True
        what = str(error).removeprefix("compile: ")
        warnings.warn(
            f"compile: {self._name()} runs as written from now on, since errors are suppressed: "
            f"{what}",
            stacklevel=3,
        )
        self._reasons.append(f"runs as written: {what}")

    def _note(self, reason: str) -> None:
        """A line of `explain`."""
        number = self._captures + self._derivations + self._as_written
        self._reasons.append(f"{number}: {reason}")

    def confirm(self, entry: CompiledGraph, leaves: Sequence[Any]) -> None:
        """Captures again, and CaptureError where that differs: with ``verify=True``, where a clock
        or random numbers that are none of this library's were read, and where the call before has
        returned something else than its recording."""
        given = entry.given(leaves)
        lines = Lines()
        try:
            with collection_paused():
                again = self._capture(entry.description, leaves, entry.capture.places, lines)
            if not entry.capture.core.holds(given):
                return
            found = difference(entry.capture, again, lines)
            if found is not None:
                raise CaptureError(_DIFFERS.format(found))
        except CaptureError:
            if self._undo is not None:
                self.entries.remove(entry)
            raise
        entry.confirm()
        try:
            self._verify(entry, leaves, "first run")
        except (VerificationError, MemoryError):
            self.entries.remove(entry)
            raise

    def _marks(self, leaves: Sequence[Any]) -> Marks:
        """The sizes of a call's arguments that others may take the place of."""
        if self._dynamic is False or self._max_memory is not None:
            return {}
        return marks_of(leaves, self._dynamic is True)

    def _marked_anew(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CompiledGraph:
        leaves: list[Any] = []
        description = describe(args, leaves), describe(kwargs, leaves)
        return self._captured(description, leaves, "other sizes are marked")

    def _traced(self, description: Any, leaves: Sequence[Any], lines: Lines) -> Capture:
        """The capture of a call; one that can be made of other sizes, where some are marked."""
        places = list(self._places.values())
        marks = self._marks(leaves)
        failure = ""
        if marks:
            try:
                capture = self._capture(description, leaves, places, lines, traced=True)
                assert capture.log is not None
                failure = capture.log.failure
            except (FirstRun, AsWritten, MemoryError):
                raise
            except Exception as error:
                failure = str(error)
            if not failure:
                again = Dynamic(capture, marks).resized([], leaves)
                why = again if isinstance(again, str) else difference(capture, again)
                # A copy: it would hold itself.
                capture.dynamic = Dynamic(None if why else copy.copy(capture), marks, why or "")
                return capture
        capture = self._capture(description, leaves, places, lines)
        if failure:
            capture.dynamic = Dynamic(None, marks, failure)
        return capture

    def _derived(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
    ) -> tuple[CompiledGraph | None, str]:
        """A program for a call that differs from an earlier one in marked sizes alone, made without
        the function; or why there is none, for `explain`."""
        why = ""
        known: list[Dynamic] = []
        for earlier in self.entries:
            dynamic = earlier.capture.dynamic
            if dynamic is None or any(dynamic is x for x in known) or not earlier.confirmed:
                continue
            leaves: list[Any] = []
            sizes = earlier.other_sizes(args, kwargs, leaves)
            if sizes is None:
                continue
            known.append(dynamic)
            found = dynamic.resized(sizes, leaves)
            if not isinstance(found, str) and not found.core.holds(earlier.given(leaves)):
                found = "a number is another"
            if isinstance(found, str):
                why = why or f"; captured anew: {found}"
                continue
            with collection_paused():
                entry = self._entry(found, earlier.description, leaves, None)
            if not entry.ready(leaves):
                why = why or "; captured anew: a gradient that it takes"
                continue
            entry.confirm()
            self._derivations += 1
            self._add(entry, f"{reason}; derived")
            return entry, ""
        return None, why

    def _verify(self, entry: CompiledGraph, leaves: Sequence[Any], when: str) -> None:
        """With ``verify=True``: VerificationError where the program is not the function."""
        if self._verifier is not None:
            found = self._verifier.check(entry, leaves, when)
            if found is not None:
                self._verifications.append(found)

    def _reason(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if not self.entries:
            return "the first call"
        return self.entries[0].reason(args, kwargs) or "a number or gradient that it depends on"

    def _captured(
        self, description: Any, leaves: Sequence[Any], reason: str, *result: Any
    ) -> CompiledGraph:
        """A new program, for these arguments, confirmed at once where errors are suppressed;
        ``result``: what the function has just returned."""
        lines = Lines()
        with collection_paused():
            capture = self._traced(description, leaves, lines)
            entry = self._entry(capture, description, leaves, lines)
        self._captures += 1
        self._add(entry, reason)
        is_same = all(same_results(describe(x, [], _is_tensor), capture.tree) for x in result)
        self._is_fickle |= capture.is_fickle
        if self._verifier is None and is_same and not self._is_fickle:
            entry.confirm()
        if self._captures == self._limit + 1:
            warnings.warn(
                f"compile: {self._name()} has been captured {self._captures} times, the last "
                f"time because of: {reason}. Each time takes milliseconds; explain() lists all",
                stacklevel=4,
            )
        if self._undo is not None and not entry.confirmed and entry.ready(leaves):
            self.confirm(entry, leaves)
        return entry

    def _entry(
        self, capture: Capture, description: Any, leaves: Sequence[Any], lines: Lines | None
    ) -> CompiledGraph:
        """The program of a capture, checked."""
        core, capture.how = self._planned(capture, lines)
        capture.planned = core
        if capture.backward is not None:
            capture.backward.plan(core)
        program = _core.Program(core, 0 if capture.backward is None else 1)
        entry = CompiledGraph(capture, program, description, modes(), leaves)
        self._verify(entry, leaves, "captured")
        return entry

    def _add(self, entry: CompiledGraph, reason: str) -> None:
        """Keeps a program, and says why it was made."""
        self._note(f"{reason}{entry.capture.how}")
        self.entries.insert(0, entry)
        if len(self.entries) > self._limit:
            self.entries.pop()

    def _planned(self, capture: Capture, lines: Lines | None) -> tuple[_core.Graph, str]:
        """What programs are made of, simplified and within the limit of memory if there is one; and
        how it came to be, for `explain`."""
        if self._max_memory is None or lines is None:
            return self._simplified.core_of(capture)
        try:
            found = fit(simplify(capture.graph), self._max_memory)
        except MemoryLimit as error:
            text = refusal(error, self._max_memory, self._name(), lines)
            raise MemoryLimitError(text) from None
        capture.recomputed, capture.origins = found.recomputed, origins_of(found.graph)
        return found.core, ""

    def _capture(
        self,
        description: Any,
        leaves: Sequence[Any],
        places: Sequence[Location],
        lines: Lines | None = None,
        traced: bool = False,
    ) -> Capture:
        """Records the call; twice where it has set what it reads, as ``model.train()`` does: the
        second time finds it so."""
        try:
            return self._capture_once(description, leaves, places, lines, traced)
        except StateError:
            return self._capture_once(description, leaves, places, lines, traced)

    def _capture_once(
        self,
        description: Any,
        leaves: Sequence[Any],
        places: Sequence[Location],
        lines: Lines | None,
        traced: bool,
    ) -> Capture:
        def arguments(placeholders: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            args: tuple[Any, ...]
            args, kwargs = rebuild((tuple, description), placeholders)
            return args, kwargs

        objects = list(_objects_of(description))
        return Capture(self.function, leaves, arguments, objects, places, lines, traced, self._undo)

    def __reduce__(self) -> Any:  # a copy captures anew
        verify = self._verifier is not None
        options = self._limit, self._given_name, verify, self._max_memory, self._dynamic
        return Compiled, (self.function, *options)

    def _name(self) -> str:
        default = type(self.function).__qualname__
        return self._given_name or str(getattr(self.function, "__qualname__", default))


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def _is_stood_in(x: Any) -> bool:
    """Whether it is a tensor, and no leaf that requires grad."""
    return isinstance(x, Tensor) and not (x.requires_grad and x.is_leaf)


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], grads: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Those of inputs that outputs depend on."""
    return autograd.grad(outputs, inputs, grads, allow_unused=True)


def _objects_of(description: Any) -> Iterator[Any]:
    """The objects that a description holds."""
    if isinstance(description, ByIdentity):
        yield description.held
    elif isinstance(description, tuple):
        for part in description:
            yield from _objects_of(part)
