"""What a compiled function shows of its programs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, BinaryIO

from tinyt import _core
from tinyt._autograd import GradMode
from tinyt._capture import CompiledBase, describe
from tinyt.compiler import export, inspect, saved
from tinyt.compiler.capture.dynamic import marks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from tinyt._capture import CompiledGraph
    from tinyt.compiler.capture.dynamic import Marks
    from tinyt.compiler.inspect.picture import Picture
    from tinyt.compiler.inspect.report import Report
    from tinyt.tensor import Tensor


class Profile:
    """Measures one call: its program, and that of its backward pass once it has run."""

    def __init__(self) -> None:
        self.call: _core.Measures | None = None
        self.backward: _core.Measures | None = None

    def start(self, program: _core.Program) -> int:
        """Before the run of a call's program; returns where its measures are taken."""
        self.call = _core.Measures(program)
        return self.call.address

    @property
    def complete(self) -> bool:
        """Whether a program has run to its end."""
        return self.call is not None and self.call.complete


class Views(CompiledBase):
    """The part of a compiled function that reports. All but `measure`, `report` with arguments and
    `profile` only look."""

    def measure(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function and keeps what its program measured, step by step, for `report` and
        `graph`: one call as any other, with its result; a backward pass of the result is measured,
        too. A call that no program stands for yet runs as it would, unmeasured."""
        return self.call_measured(Profile(), args, kwargs)

    def report(self, *args: Any, **kwargs: Any) -> Report:
        """What each step of the last used program works on, moves, computes, and why it ends.

        With arguments the function is called with them, once, as by `measure`: the report has that
        call's times and its ``result``. Where no program stood for the call yet (the first one), it
        has no times. Without arguments nothing is run; times are those of the last measured call.
        RuntimeError where there is no program yet.
        """
        result = self.measure(*args, **kwargs) if args or kwargs else None
        return inspect.report.make_report(inspect.facts.read_entry(self._last("report")), result)

    def graph(self) -> Picture:
        """The last used program as a graph of its steps, to be saved as a page or as DOT; with
        times and first values where a call has been measured. RuntimeError where there is none."""
        return inspect.picture.Picture(inspect.facts.read_entry(self._last("graph")), self._name())

    def profile(self, path: str | PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """Calls the function once and writes the run as a Chrome trace (JSON, also for Perfetto).

        Returns the call's result. RuntimeError, before anything is run, where the function has no
        program yet; after it where this call had to be recorded anew and ran without one.
        """
        import json

        self._last("profile")
        profile = Profile()
        with open(path, "w", encoding="utf-8") as file:
            result = self.call_measured(profile, args, kwargs)
            if not profile.complete:
                raise RuntimeError(
                    "profile: the call has run, but no program stood for it: it was recorded, and "
                    "another call has one, or runs as written; explain() says why"
                )
            program = inspect.facts.read_entry(self._last("profile"))[0]
            events = inspect.trace.trace_events(program, self._name())
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)
        return result

    def export_c(
        self,
        directory: str | PathLike[str],
        /,
        *args: Any,
        name: str | None = None,
        weights: str | None = None,
        **kwargs: Any,
    ) -> list[Path]:
        """Writes the last used program as C99 into a directory, and returns the files.

        ``name``.h and ``name``.c (by default the function's name) hold one function
        ``name_run(inputs..., outputs...)`` over one static array of a fixed size, without
        allocation and any library but ``libm``; a CMake file builds it, with a test program that
        has the arguments given here (or drawn ones) and their results in it. ``weights``:
        ``"arrays"`` puts captured tensors into a C file, ``"file"`` into one that is read at the
        start; by default arrays up to 1 MiB. What the program writes to, as parameters in a
        training step, stays where it is from run to run.

        With arguments, the program is that of a call with them, which is made where there is none
        yet, or none for the sizes that they are marked for. RuntimeError where there is no program;
        NotImplementedError where a step has no form in C; ValueError where the directory holds
        another export. Where the result requires grad, it is exported without its backward pass; a
        whole training step, which calls ``backward()`` itself, is one program. See docs/export.md.
        """
        if args or kwargs or not self.entries:
            entry, leaves = self._entry_for(args, kwargs)
            backward = entry.capture.backward
            if backward is not None and backward.roots:  # the result alone is wanted
                with GradMode(False):
                    entry, leaves = self._entry_for(args, kwargs)
        else:
            entry, leaves = self._last("export_c"), None
        return export.api.export_entry(entry, directory, self._name(), name, weights, leaves)

    def save(
        self,
        f: str | PathLike[str] | BinaryIO,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Writes all programs that the function has, for `tinyt.compiler.load`, into a safetensors
        file; to a path whole or not at all.

        With them go the tensors that they read and write, as parameters and the states of an
        optimiser, the numbers that each run reads, and how arguments and results are nested; no
        code. Which tensors a program reads, and what it was captured for, stays as it is now.

        Args:
            f: a path, or a binary file that is open for writing.
            tensors: names for tensors of the file, as `model.state_dict()`; others are ``t0``,
                ``t1``, ... What the programs do not use is left out.

        Raises:
            RuntimeError: where the function has no program yet; its first call makes one.
            NotImplementedError: for what a file does not hold: custom operations, arguments that
                are objects (a model, say), parameters that are passed in, arguments that share
                memory.
            OSError: if the file cannot be written.

        >>> import tinyt
        >>> w = tinyt.ones(2)
        >>> double = tinyt.compile(lambda x: x * w)
        >>> _ = double(tinyt.ones(2))
        >>> double.save("double.tinyt", {"weight": w})  # doctest: +SKIP
        """
        self._last("save")
        saved.save.save_entries(f, self._name(), self.entries, tensors)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that a run of the last used program holds at once, with as many threads as
        there are now: arena, blocks, results, and the scratch memory of kernels. Known before it
        runs, to the byte: the peak that `memory.statistics` shows. Where data decides what runs
        (`cond`, `while_loop`), the larger case; what a custom op allocates itself is not known, and
        products that meet infinities or NaN may take more. RuntimeError where there is no program
        yet."""
        peak: int = self._last("peak_bytes").program_object.peak_bytes
        return peak

    def _last(self, what: str) -> CompiledGraph:
        if not self.entries:
            raise RuntimeError(
                f"{what}: {self._name()} has no program yet; its first call makes one"
            )
        return self.entries[0]

    def _entry_for(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CompiledGraph, list[Any]]:
        """The program of a call with these arguments, and the leaves of the call."""
        leaves: list[Any] = []
        describe(args, leaves), describe(kwargs, leaves)
        found = [entry for entry in self.entries if entry.reason(args, kwargs) is None]
        if not found:
            self(*args, **kwargs)
            found = [self._last("export_c")]
        for entry in found:
            if self._has_marks_of(leaves, entry):
                return entry, leaves
        made = self._marked_anew(args, kwargs)
        self.entries.remove(found[0])  # which stands for these arguments, too
        return made, leaves

    def _has_marks_of(self, leaves: list[Any], entry: CompiledGraph) -> bool:
        """Whether sizes that are marked with a bound are those of a program, with these bounds."""
        dynamic = entry.capture.dynamic
        own = {} if dynamic is None else dynamic.marks
        marks = self._marks(leaves)
        return all(own.get(key) == bounds for key, bounds in marks.items() if bounds[1] != inf)

    def _marks(self, leaves: Sequence[Any]) -> Marks:
        """The sizes of a call's arguments that others may take the place of."""
        return marks_of(leaves, False)

    def _marked_anew(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CompiledGraph:
        """A program of a call that has one, with the marks that its arguments have now."""
        raise NotImplementedError(
            f"export_c: {self._name()} is a program of a file, whose sizes are fixed; export it "
            "from the compiled function, or give arguments without marks"
        )

    def _name(self) -> str:
        """What messages call the function."""
        raise NotImplementedError
