"""Draws call number k of a seed."""

from __future__ import annotations

import functools
import inspect
import random
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

from fuzz.calls.expr import Expr, call, sequence
from fuzz.calls.targets import EMPTY, Target, find_targets, parameters
from fuzz.calls.values import (
    DATASET,
    DTYPES,
    HOWS,
    MODULE,
    OPTIMIZER,
    PARAMETER,
    REPETITIONS,
    SCHEDULER,
    hostile,
    plausible,
    repeated,
    tensor,
)
from layer_samples import LAYERS
from op_samples import ALIASES, BY_NAME
from sampling import Const, DTypeName

# Receivers that no constructor with drawn arguments would give. Of other classes, one is drawn.
INSTANCES: dict[str, tuple[str, ...]] = {
    "tinyt.GradScaler": ("tinyt.GradScaler('cpu')", "tinyt.GradScaler('cpu', init_scale=2.0)"),
    "tinyt.Size": ("tinyt.Size((2, 3))",),
    "tinyt.autograd.FunctionCtx": ("tinyt.autograd.FunctionCtx()",),
    "tinyt.autograd.graph.Node": (
        "T((2,), 'float32', 'result').grad_fn",
        "T((2, 3), 'float64', 'grad').sum(0).grad_fn",
        "tinyt.cat([T((2,), 'float32', 'grad')] * 2).grad_fn",
    ),
    "tinyt.compiler.Graph": ("tinyt.compiler.record(lambda x: x * 2 + 1, tinyt.ones(3)).graph",),
    "tinyt.compiler.Recording": ("tinyt.compiler.record(lambda x: x * 2 + 1, tinyt.ones(3))",),
    "tinyt.data.ChainDataset": ("tinyt.data.ChainDataset([[1, 2], [3]])",),
    "tinyt.device": ("tinyt.device('cpu')",),
    "tinyt.dtype": ("tinyt.float32", "tinyt.bool", "tinyt.complex64"),
    "tinyt.finfo": ("tinyt.finfo(tinyt.float16)",),
    "tinyt.layout": ("tinyt.strided",),
    "tinyt.memory.Arena": ("tinyt.memory.Arena(1000)", "bare(tinyt.memory.Arena)"),
    "tinyt.memory_format": ("tinyt.channels_last",),
    "tinyt.nn.Module": MODULE,
    "tinyt.nn.ModuleDict": ("tinyt.nn.ModuleDict({'a': tinyt.nn.Linear(2, 2)})",),
    "tinyt.nn.ModuleList": ("tinyt.nn.ModuleList([tinyt.nn.ReLU(), tinyt.nn.ReLU()])",),
    "tinyt.nn.ParameterDict": (f"tinyt.nn.ParameterDict({{'a': {PARAMETER}}})",),
    "tinyt.nn.ParameterList": (f"tinyt.nn.ParameterList([{PARAMETER}])",),
    "tinyt.nn.Sequential": MODULE[1:],
    "tinyt.optim.Optimizer": OPTIMIZER,
    "tinyt.optim.lr_scheduler.LRScheduler": (SCHEDULER,),
    "tinyt.data.Dataset": DATASET[:1],
}
# Where functions of the table of operations are, besides `tinyt` itself.
OPERATIONS = ("tinyt.Tensor.", "tinyt.nn.functional.", "tinyt.linalg.", "tinyt.special.")


class Drawer:
    """The calls of one seed."""

    def __init__(self, seed: int, targets: list[Target] | None = None) -> None:
        self._seed = seed
        self.targets = find_targets() if targets is None else targets
        self._classes = {t.path: t for t in self.targets if t.kind == "class"}
        self._layers: dict[str, list[tuple[Expr, tuple[int, ...] | int]]] = {}
        for name, args, kwargs, shape in LAYERS:
            made = self._call_of(f"tinyt.nn.{name}", args, kwargs)
            self._layers.setdefault(f"tinyt.nn.{name}", []).append((made, shape))
        self._inputs = [row[3] for row in LAYERS]

    def call(self, number: int) -> Expr:
        """Call `number`: it depends on that and the seed alone."""
        rng = random.Random(f"{self._seed} {number}")
        target = rng.choice(self.targets)
        expr = self._drawn(rng, target)
        way = rng.random()
        if way < 0.06 and target.kind in ("function", "method"):
            wrapper = "compiled" if way < 0.04 else "in_lazy"
            function = Expr(expr.head.removesuffix("("))
            expr = replace(expr, head=f"{wrapper}(", items=(("", function), *expr.items))
        return call("exercise", expr) if rng.random() < 0.5 else expr

    def _drawn(self, rng: random.Random, target: Target) -> Expr:
        if target.kind == "attribute":
            owner, name = self.instance(rng, target.owner), Expr(repr(target.name))
            if rng.random() < 0.5:
                return call("getattr", owner, name)
            return call("changed", owner, name, hostile(rng))
        if target.name in ("__enter__", "__exit__"):  # one without the other would last
            return call("entered", self.instance(rng, target.owner))
        if target.kind == "class" and target.path in self._layers and rng.random() < 0.5:
            layer, shape = rng.choice(self._layers[target.path])
            layer = self._spoiled(rng, layer)
            return call("applied", layer, input_of(rng, shape)) if rng.random() < 0.6 else layer
        sample = self._sample(rng, target)
        if sample is not None and rng.random() < 0.6:
            return self._spoiled(rng, sample) if rng.random() < 0.8 else sample
        args, kwargs = self._arguments(rng, target)
        if target.kind == "method" and rng.random() < 0.95:
            args = [self.instance(rng, target.owner), *args[1:]]
        return call(target.path, *args, **kwargs)

    # ------------------------------------------------------------------ arguments

    def _arguments(
        self, rng: random.Random, target: Target, spoil: float = 0.3
    ) -> tuple[list[Expr], dict[str, Expr]]:
        """Arguments for the parameters; so many of them hostile."""
        args: list[Expr] = []
        kwargs: dict[str, Expr] = {}
        found = parameters(target.value)
        if found is None:
            count = rng.randrange(1, 4)
            return [tensor(rng) if rng.random() < 0.6 else hostile(rng) for _ in range(count)], {}
        positional = True
        for p in found:
            if p.kind is p.VAR_POSITIONAL:
                args += [self._argument(rng, p, spoil) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
            elif p.kind is p.VAR_KEYWORD:
                continue
            elif p.default is not EMPTY and rng.random() < 0.6:
                positional = False
            elif positional and p.kind is not p.KEYWORD_ONLY:
                args.append(self._argument(rng, p, spoil))
            elif p.kind is not p.POSITIONAL_ONLY:
                kwargs[p.name] = self._argument(rng, p, spoil)
        if spoil and rng.random() < 0.03 and args:
            args.pop()
        return args, kwargs

    def _argument(self, rng: random.Random, p: inspect.Parameter, spoil: float) -> Expr:
        if rng.random() >= spoil:
            drawn = plausible(rng, p)
        else:
            drawn = repeated(rng) if REPETITIONS.search(p.name) else hostile(rng)
        return call("ending", drawn) if p.name == "cond_fn" else drawn  # else loops may last

    def _spoiled(self, rng: random.Random, sample: Expr) -> Expr:
        """The sample with one or two arguments exchanged, or their tensors laid out otherwise."""
        items = list(sample.items)
        for _ in range(rng.choice((1, 1, 2))):
            if not items:
                break
            i = rng.randrange(len(items))
            prefix, item = items[i]
            if REPETITIONS.search(prefix):
                item = repeated(rng)
            elif item.head == "T(" and rng.random() < 0.6:
                dtype = rng.choice(DTYPES) if rng.random() < 0.4 else "float32"
                item = tensor(rng, item.items[0][1].text(), dtype, rng.choice(HOWS))
            elif item.head in ("[", "(") and item.items and rng.random() < 0.5:
                item = self._spoiled(rng, item)
            else:
                item = hostile(rng)
            items[i] = prefix, item
        return replace(sample, items=tuple(items))

    def instance(self, rng: random.Random, path: str) -> Expr:
        """An expression for an object of a class, or of one derived from it."""
        if path == "tinyt.Tensor":
            return tensor(rng)
        if rng.random() < 0.02:
            return Expr(f"bare({path})")
        if path.startswith("type("):
            return Expr(path[len("type(") : -1])
        if path == "tinyt.nn.Module" and rng.random() < 0.5:
            path = rng.choice(sorted(self._layers))
        if path in self._layers:
            return rng.choice(self._layers[path])[0]
        if path in INSTANCES:
            return Expr(rng.choice(INSTANCES[path]))
        if path not in self._classes:  # a callable object
            return Expr(path)
        args, kwargs = self._arguments(rng, self._classes[path], spoil=0.0)
        return call(path, *args, **kwargs)

    # ------------------------------------------------------------------ samples

    def _sample(self, rng: random.Random, target: Target) -> Expr | None:
        """A sensible call from the table of operations or of layers."""
        if target.kind == "method" and target.name == "forward" and target.owner in self._layers:
            x = input_of(rng, rng.choice(self._inputs))
            return call(target.path, self.instance(rng, target.owner), x)
        if not target.path.startswith(OPERATIONS) and target.path.count(".") > 1:
            return None
        name = ALIASES.get(target.name, target.name)
        if name not in BY_NAME and target.path.startswith("tinyt.linalg."):
            name = f"linalg.{name}"
        if name not in BY_NAME:
            name = name.removesuffix("_")
        samples = _samples(name)
        if not samples:
            return None
        args, kwargs = rng.choice(samples)
        return self._call_of(target.path, args, kwargs)

    def _call_of(self, path: str, args: Any, kwargs: Any) -> Expr:
        named = {name: written(value) for name, value in kwargs.items()}
        return call(path, *[written(value) for value in args], **named)


def input_of(rng: random.Random, shape: tuple[int, ...] | int) -> Expr:
    """A layer's input, as the table of layers has it."""
    of_ints = Expr(f"tinyt.arange({shape})")
    return of_ints if isinstance(shape, int) else tensor(rng, repr(shape), "float32", "grad")


@functools.cache
def _samples(name: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The samples of an operation that can be written down."""
    if name not in BY_NAME:
        return []
    op = BY_NAME[name]
    found = []
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for sample in op.samples(rng, op.dtypes[0]):
        try:
            written([*sample.args, *sample.kwargs.values()])
        except TypeError:
            continue
        found.append((sample.args, sample.kwargs))
    return found


def written(value: Any) -> Expr:
    """An argument of a sample as an expression."""
    if isinstance(value, Const):
        return written(value.array)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iub" and value.size <= 12 and value.size:
            return call(
                "tinyt.tensor", Expr(str(value.tolist())), dtype=Expr(f"tinyt.{value.dtype}")
            )
        dtype = [] if value.dtype == np.float32 else [Expr(repr(str(value.dtype)))]
        return call("T", Expr(repr(value.shape)), *dtype)
    if isinstance(value, DTypeName):
        return Expr(f"tinyt.{value}")
    if isinstance(value, (list, tuple)):
        return sequence([written(item) for item in value], type(value))
    if isinstance(value, float) and not np.isfinite(value):
        return Expr(f"float('{value}')")
    if value is Ellipsis:
        return Expr("...")
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return Expr(repr(value))
    if isinstance(value, slice):
        return call("slice", *[written(x) for x in (value.start, value.stop, value.step)])
    raise TypeError(f"no text for {type(value).__name__}")
