"""`tinyt compile`: a graph, a text or one of a file of programs, as C, as kernels of a GPU's
language, or as a report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tinyt
from tinyt.cli.errors import CommandError
from tinyt.compiler import export

if TYPE_CHECKING:
    from tinyt.compiler import Graph

# Names of targets, and of the languages that the core prints.
_LANGUAGES = {"opencl": "opencl", "cuda": "cuda", "hip": "hip", "msl": "metal", "wgsl": "wgsl"}
TARGETS = ("c", *_LANGUAGES, "report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those of `tinyt compile`."""
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        help="a file as docs/graph-text.md says; or one of programs, whose last used one is taken",
    )
    parser.add_argument(
        "--target",
        choices=TARGETS,
        default="report",
        help="c: a project in C; a GPU's language: the fused kernels; report: what steps work on",
    )
    parser.add_argument(
        "--tensors", metavar="FILE", help="a safetensors file with the tensors that the text names"
    )
    parser.add_argument(
        "--out", metavar="PATH", help="folder (of C) or file to write; others are printed"
    )
    parser.add_argument("--name", metavar="NAME", help="what names in C begin with (the file's)")
    parser.set_defaults(command=compile_graph)


def _graph_in(path: Path, tensors: str | None) -> Graph:
    content = path.read_bytes()
    if content[8:9] == b"{" and content[4:8] == bytes(4):  # a header's length, then its JSON
        if tensors:
            raise ValueError("--tensors is for a text: a file of programs has its own")
        graph: Graph = tinyt.compiler.load(path).entries[0].capture.graph
        return graph
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("this is neither a text in UTF-8 nor a file of programs") from None
    return tinyt.compiler.parse(text, tinyt.load(tensors) if tensors else None)


def compile_graph(args: argparse.Namespace) -> int:
    """Writes or prints what the target says."""
    path = Path(args.graph)
    try:
        graph = _graph_in(path, args.tensors)
        if args.target == "c":
            name = export.api.name_in_c(path.stem.replace(".", "_"), args.name)
            for file in export.graphs.export_graph(graph, args.out or name, name):
                print(file)
            return 0
        language = _LANGUAGES.get(args.target)
        made = (
            export.graphs.report_of(graph)
            if language is None
            else export.graphs.kernels_of(graph, language)
        )
    except (NotImplementedError, ValueError, RuntimeError, TypeError, SyntaxError) as error:
        raise CommandError(f"{path}: {error}") from None
    if args.out:
        Path(args.out).write_text(made, encoding="utf-8")
    else:
        sys.stdout.write(made if made.endswith("\n") else made + "\n")
    return 0
