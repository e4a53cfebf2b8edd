"""Signatures of Python functions, from the annotations in their source."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stubs.text import Function, Stub


@dataclass
class Source:
    """A parsed module: where each function stands and what each imported name means."""

    module: str
    tree: ast.Module
    functions: dict[int, ast.FunctionDef]
    imported: dict[str, tuple[str, str]]

    def overloads(self, node: ast.FunctionDef) -> list[ast.FunctionDef]:
        """The overloads of a function, or the function itself."""
        found = [
            f
            for f in self.functions.values()
            if f.name == node.name and "overload" in map(ast.unparse, f.decorator_list)
        ]
        return sorted(found, key=lambda f: f.lineno) or [node]


@cache
def source_of(module: str) -> Source:
    """Parses the file of an imported module."""
    path = sys.modules[module].__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    functions, imported = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            functions[min([node.lineno, *(d.lineno for d in node.decorator_list)])] = node
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                imported[name.asname or name.name] = (node.module, name.name)
    return Source(module, tree, functions, imported)


class Resolver(ast.NodeTransformer):
    """Makes an annotation of one module valid in another, importing what it names."""

    def __init__(self, stub: Stub, source: Source, taken: set[str]) -> None:
        self.stub, self.source, self.taken = stub, source, taken

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Imports the name, or spells out a builtin that a member of the class hides."""
        name = node.id
        if name in self.source.imported:
            module, original = self.source.imported[name]
        elif name in vars(sys.modules[self.source.module]):
            module, original = self.source.module, name
        elif name in self.taken:
            self.stub.need("builtins")
            return ast.Name(f"builtins.{name}")
        else:
            return node
        if module != self.stub.module:
            self.stub.need(module, original if original == name else f"{original} as {name}")
        return node


def parameters_of(arguments: ast.arguments, show: Callable[[ast.expr | None], str]) -> list[str]:
    """Parameters as source text; ``show`` turns an annotation into text."""

    def one(argument: ast.arg, default: ast.expr | None = None, stars: str = "") -> str:
        text = (
            stars + argument.arg + (f": {show(argument.annotation)}" if argument.annotation else "")
        )
        equals = " = " if argument.annotation else "="
        return text if default is None else text + equals + ast.unparse(default).replace("'", '"')

    listed = arguments.posonlyargs + arguments.args
    first = len(listed) - len(arguments.defaults)
    out = []
    for i, argument in enumerate(listed):
        out.append(one(argument, arguments.defaults[i - first] if i >= first else None))
        if i + 1 == len(arguments.posonlyargs):
            out.append("/")
    if arguments.vararg:
        out.append(one(arguments.vararg, stars="*"))
    elif arguments.kwonlyargs:
        out.append("*")
    out += [one(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return out + ([one(arguments.kwarg, stars="**")] if arguments.kwarg else [])


def python_function(
    stub: Stub, name: str, function: Any, taken: set[str], method: bool = False
) -> list[Function]:
    """A Python function by its annotations; as a method its first parameter has none."""
    function = inspect.unwrap(function)
    source = source_of(function.__module__)
    node = source.functions[function.__code__.co_firstlineno]
    resolver = Resolver(stub, source, taken)

    def show(annotation: ast.expr | None) -> str:
        if annotation is None:
            return "Any"
        copy = ast.parse(ast.unparse(annotation), mode="eval").body
        return ast.unparse(resolver.visit(copy)).replace("'", '"')

    found = source.overloads(node)
    out = []
    for each in found:
        parameters = parameters_of(each.args, show)
        if method:
            parameters[0] = (each.args.posonlyargs + each.args.args)[0].arg
        out.append(Function(name, parameters, show(each.returns)))
    if len(out) > 1:
        stub.need("typing", "overload")
        for signature in out:
            signature.decorator = "overload"
    return out
