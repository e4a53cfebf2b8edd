"""``step.export_c``: what a compiled function's program is as a project in C."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyt import _core
from tinyt.compiler.capture.results import OUTPUT
from tinyt.compiler.export.calls import EMITTERS
from tinyt.compiler.export.checks import Recorded
from tinyt.compiler.export.literals import whole
from tinyt.compiler.export.program import Draft, Exported, draft_program, export_program
from tinyt.compiler.export.project import write_project
from tinyt.compiler.export.sizes import export_sized, sizes_of
from tinyt.compiler.passes import decompose, simplify
from tinyt.compiler.saved.layout import one_line
from tinyt.ops.creation.filled import empty_strided
from tinyt.ops.random.draws import randn
from tinyt.random import Generator

if TYPE_CHECKING:
    from tinyt._capture import CompiledGraph
    from tinyt.compiler.capture.capture import Capture
    from tinyt.compiler.export.program import Port
    from tinyt.tensor import Tensor


# Headers of ISO C, of POSIX, and what C libraries include for them: a project's folder is searched
# before theirs, so that a header of such a name would take their place.
_HEADER_NAMES = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath
threads time uchar wchar wctype
aio cpio devctl dirent dlfcn endian fcntl fmtmsg fnmatch ftw glob grp iconv langinfo libgen libintl
monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched search semaphore spawn strings
stropts syslog tar termios trace ulimit unistd utime utmpx wordexp
alloca availability byteswap corecrt crtdefs features immintrin intrin io malloc memory newlib
process sal values vcruntime x86intrin xlocale
"""
_HEADERS = frozenset(_HEADER_NAMES.split())
_MOST_NAME = 100  # characters: files have names that are little longer


def export_entry(
    entry: CompiledGraph,
    directory: str | PathLike[str],
    function: str,
    name: str | None,
    weights: str | None,
    leaves: Sequence[Any] | None,
) -> list[Path]:
    """Writes the project of a captured call; see `Compiled.export_c`."""
    if weights not in (None, "arrays", "file"):
        raise ValueError(f'export_c: weights must be "arrays", "file" or None, got {weights!r}')
    name = name_in_c(function, name)
    capture = entry.capture
    if capture.backward is not None and capture.backward.roots:
        raise NotImplementedError(
            "export_c: the result requires grad, and backward() would be another program; export "
            "a call under no_grad, or a whole training step"
        )
    own = program, wanted, graph = _planned(capture)
    if sizes := sizes_of(entry):

        def draft_of(other: Capture, into: Draft | None) -> Draft:
            taken = [n for _, n in other.draws]
            return draft_program(*(own if other is capture else _planned(other)), taken, into)

        shown, parts = export_sized(entry, sizes, draft_of)
    else:
        shown = parts = export_program(program, wanted, graph, [n for _, n in capture.draws])
    held = {x._storage_id for x in capture.touched}
    for w in parts.weights:
        if w.is_fresh and w.tensor._storage_id not in held:
            w.tensor.zero_()  # the program's own, which nothing has written yet
    given = [_argument(x, i, capture, leaves) for i, x in enumerate(parts.inputs)]
    for i, x in sorted({**capture.kept, **capture.valued}.items()):
        if not x.requires_grad:  # a parameter is a weight, argument or not
            raise NotImplementedError(
                f"export_c: argument {i} is a tensor that the program is captured for: the "
                "function reads it by itself, too, or looks at its values; pass a clone"
            )
    try:
        numbers = entry.given([] if leaves is None else leaves)
    except IndexError:
        raise RuntimeError(
            "export_c: the function takes numbers; give the arguments of a call"
        ) from None
    expected, after = run_once(program, graph, parts, given, numbers, wanted)
    title = title_of(function)
    check = Recorded(parts, given, expected, after)
    return write_project(Path(directory), name, shown, title, weights, check)


def _planned(capture: Capture) -> tuple[_core.Program, list[int], _core.Graph]:
    """The program of a capture, the numbers of its results that the function returns, and what it
    was planned from."""
    graph, wanted = _graph_of(capture)
    return _core.Program(graph, 1 if graph.split_point()[0] >= 0 else 0), wanted, graph


def title_of(what: str) -> str:
    """The first line of a project's files, which is a comment."""
    level = _core.build_info()["isa"]
    return f"{one_line(what)}, by tinyt, planned at level {level}."


def _graph_of(capture: Any) -> tuple[_core.Graph, list[int]]:
    """What is planned, with what has no form in C decomposed, and which of its results the function
    returns."""
    graph = simplify(capture.graph)
    taken = decompose.only(graph, EMITTERS)
    if taken is not graph:
        graph = simplify(taken)
    wanted = []
    for kind, what in capture.results:
        if kind != OUTPUT:
            raise NotImplementedError(
                "export_c: the function returns an argument, a captured tensor or a number as it "
                "is; return a clone"
            )
        wanted.append(what)
    return graph.to_core(), wanted


def _argument(port: Port, number: int, capture: Any, leaves: Sequence[Any] | None) -> Tensor:
    """An argument for the test: the one that is given, or one that is drawn."""
    source = capture.arguments[number]
    if not isinstance(source, int):
        raise NotImplementedError(_SOURCES.get(source[0], f"export_c: no form for {source[0]}"))
    if leaves is not None:
        return _copy(leaves[source].detach())
    return drawn(port, number)


def drawn(port: Port, number: int) -> Tensor:
    """Drawn floats, or zeros, that lie as a port does."""
    made = empty_strided(port.shape, port.stride, dtype=port.dtype)
    if not port.dtype.is_floating_point:
        return made.zero_()
    return made.copy_(randn(port.shape, generator=Generator().manual_seed(number)))


_SOURCES = {
    "memory": "export_c: two arguments are one tensor, or share memory; pass clones",
    "grad": "export_c: the program adds to gradients that are there before it; clear them first, "
    "with zero_grad(), whose set_to_none is True by default",
}


def _copy(x: Tensor) -> Tensor:
    """A copy that lies as the tensor does."""
    return whole(x).clone().as_strided(x.shape, x.stride()) if x.numel() else x.clone()


def run_once(
    program: _core.Program,
    graph: _core.Graph,
    parts: Exported,
    given: Sequence[Tensor],
    numbers: Sequence[float],
    wanted: Sequence[int],
) -> tuple[list[Tensor], list[Tensor]]:
    """The results of a run, and what it writes of the weights, which are as they were then."""
    before = [(w.tensor, w.tensor.clone()) for w in parts.weights if w.written]
    draws = [(0, 0)] * len(parts.generators)
    arguments = [_copy(x) if p.written else x for x, p in zip(given, parts.inputs, strict=True)]
    try:
        results = program.run(arguments, numbers, draws)
        after = [tensor.clone() for tensor, _ in before]
    finally:
        for tensor, was in before:
            tensor.copy_(was)
    if results is None:
        raise _core.CaptureError("export_c: a number that was captured is another now")
    return [results[i].detach().contiguous().clone() for i in wanted], after


def name_in_c(function: str, name: str | None) -> str:
    """What names of a project begin with: ``name`` if it is one of C, else ValueError; without one
    the function's, changed so that it is one."""
    if name is None:
        found = re.sub(r"[^A-Za-z0-9_]+", "_", function.rpartition(".")[2]).strip("_")[:_MOST_NAME]
        is_name = found[:1].isalpha() and found.lower() not in (*_HEADERS, "lambda")
        return found if is_name else f"program_{found}".rstrip("_")
    if not isinstance(name, str) or re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is None:
        raise ValueError(f"export_c: name must be a name in C, got {name!r:.100}")
    if len(name) > _MOST_NAME:
        raise ValueError(f"export_c: name must have at most {_MOST_NAME} characters")
    if name.lower() in _HEADERS:
        raise ValueError(
            f"export_c: name must not be that of a header of C or of a system, got {name!r}"
        )
    return name


__all__ = ["export_entry"]
