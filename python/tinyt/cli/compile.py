"""`tinyt compile`: a graph that is a text, as C, as kernels of a GPU's language, or as a report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tinyt
from tinyt.cli.errors import CommandError
from tinyt.compiler import export

# Names of targets, and of the languages that the core prints.
_LANGUAGES = {"opencl": "opencl", "cuda": "cuda", "hip": "hip", "msl": "metal", "wgsl": "wgsl"}
TARGETS = ("c", *_LANGUAGES, "report")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those of `tinyt compile`."""
    parser.add_argument("graph", metavar="GRAPH", help="a file as docs/graph-text.md says")
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


def compile_graph(args: argparse.Namespace) -> int:
    """Writes or prints what the target says."""
    path = Path(args.graph)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{path} is no text in UTF-8") from None
    tensors = tinyt.load(args.tensors) if args.tensors else None
    try:
        graph = tinyt.compiler.parse(text, tensors)
        if args.target == "c":
            name = args.name or path.stem
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
