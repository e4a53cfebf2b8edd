"""Runs a program of this folder, unchanged, with one library, and writes down its losses.

    python harness.py LIBRARY PROGRAM [--own-draws] [--compile] [--record FILE]

LIBRARY is `tinyt` or `torch`. The program runs in float64 with all random draws from one NumPy
stream (harness_draws.py), and what `backward` and `autograd.grad` are called on is recorded: two
libraries that compute the same record the same losses.

With `--own-draws` the program runs as a user would run it, in its own dtype and with the library's
own draws; recorded are the results of its function `train_step`. `--compile` puts `torch.compile`
around that function, besides.

FILE gets {"losses": [...], "programs": how many compiled programs there were, "hits": how many
calls they stood for} as JSON, which keeps every bit of a float.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from harness_draws import Stream, plain

MARK = "__train_step__"  # what the program's own `train_step` is decorated with


class Recorder:
    """The losses of a run, in the order in which they were computed."""

    def __init__(self, lib: Any, name: str) -> None:
        self.lib, self.name = lib, name
        self.losses: list[float] = []
        self.compiled: list[Any] = []

    def watch_gradients(self, stream: Stream) -> None:
        """Records every tensor that gradients are asked of."""
        backward, grad = self.lib.Tensor.backward, self.lib.autograd.grad

        def recorded_backward(loss: Any, *args: Any, **named: Any) -> Any:
            self.add(loss)
            return backward(loss, *args, **named)

        def recorded_grad(outputs: Any, *args: Any, **named: Any) -> Any:
            self.add(outputs)
            return grad(outputs, *args, **named)

        self.lib.Tensor.backward = plain(recorded_backward)
        stream.replace(self.lib.autograd, "grad", recorded_grad)

    def watch_steps(self, compiled: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator that records the results of a function, and compiles it before."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            step = self.lib.compile(function) if compiled else function
            if compiled:
                self.compiled.append(step)

            @wraps(function)
            def call(*args: Any, **named: Any) -> Any:
                result = step(*args, **named)
                self.add(result)
                return result

            return call

        return decorate

    def add(self, result: Any) -> None:
        """Takes the numbers of a result: tensors, floats, tuples and dicts of these."""
        if isinstance(result, self.lib.Tensor):
            self.losses.append(float(result.detach().double().sum()))
        elif isinstance(result, (int, float)):
            self.losses.append(float(result))
        elif isinstance(result, dict):
            self.add(list(result.values()))
        elif isinstance(result, (tuple, list)):
            for part in result:
                self.add(part)

    def write(self, path: Path) -> None:
        """Writes the record to a file."""
        info = [step.cache_info() for step in self.compiled]
        found = {
            "losses": self.losses,
            "programs": sum(i.currsize for i in info),
            "hits": sum(i.hits for i in info),
        }
        path.write_text(json.dumps(found), encoding="utf-8")


def train_steps(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """The functions and methods named `train_step` at the top level of a program."""
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef) and inner.name == "train_step":
                yield inner


def execute(path: Path, decorator: Callable[..., Any] | None) -> None:
    """Runs a program as `__main__`; `decorator` goes around its `train_step`."""
    tree = ast.parse(path.read_bytes(), str(path))
    module: Any = ModuleType("__main__")
    module.__file__ = str(path)
    if decorator is not None:
        setattr(module, MARK, decorator)
        for node in train_steps(tree):
            mark = ast.copy_location(ast.Name(MARK, ast.Load()), node)
            node.decorator_list.insert(0, mark)
    sys.modules["__main__"] = module
    sys.argv = [str(path)]
    sys.path[0] = os.fspath(path.parent)
    exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", choices=["tinyt", "torch"])
    parser.add_argument("program", type=Path)
    parser.add_argument("--own-draws", action="store_true")
    parser.add_argument("--compile", action="store_true", help="implies --own-draws")
    parser.add_argument("--record", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.library == "tinyt":
        importlib.import_module("tinyt.as_torch")
    lib = importlib.import_module("torch")
    importlib.import_module("torch.utils.data")
    recorder = Recorder(lib, args.library)
    path = args.program.resolve()
    if args.own_draws or args.compile:
        lib.manual_seed(0)
        execute(path, recorder.watch_steps(args.compile))
    else:
        lib.set_default_dtype(lib.float64)
        lib.Tensor.float = lib.Tensor.double  # "the default dtype", as programs mean it
        stream = Stream(lib, args.library)
        stream.install()
        recorder.watch_gradients(stream)
        execute(path, None)
        stream.check()
    if args.record:
        recorder.write(args.record)


if __name__ == "__main__":
    main()
