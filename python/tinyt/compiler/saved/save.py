"""``step.save``: the programs of a compiled function in a safetensors file (docs/export.md)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, BinaryIO

from tinyt import _core
from tinyt._capture import Location
from tinyt.compiler.capture.capture import whole_memory
from tinyt.compiler.capture.results import ALIAS, GRAD, OBJECT, VIEW
from tinyt.compiler.saved.layout import FORMAT, GRADIENTS, METADATA, OWN, WORDS, one_line
from tinyt.compiler.saved.values import encode
from tinyt.dtypes import ALL
from tinyt.io import safetensors
from tinyt.parameter import Parameter
from tinyt.random import default_generator
from tinyt.tensor import Tensor, node_of
from tinyt.version import __version__

if TYPE_CHECKING:
    from tinyt._capture import CompiledGraph, TensorGuard
    from tinyt.compiler.backward import Backward
    from tinyt.compiler.capture.capture import Capture
    from tinyt.random import Generator


def save_entries(
    f: str | PathLike[str] | BinaryIO,
    name: str,
    entries: Sequence[CompiledGraph],
    tensors: Mapping[str, Tensor] | None,
) -> None:
    """Writes the programs; see `Compiled.save`."""
    named = {} if tensors is None else _checked_names(tensors)
    writer = _Writer(named)
    programs = writer.programs(entries)
    content = {
        "format": FORMAT,
        "version": __version__,
        "name": one_line(name),
        "memories": {name: str(x.device) for name, x in writer.memories.items()},
        "leaves": writer.leaves,
        "tensors": writer.tensors(),
        "numbers": writer.numbers,
        "generators": writer.generators,
        "devices": writer.devices,
        "programs": programs,
    }
    safetensors.write(f, writer.memories | writer.own, {METADATA: safetensors.to_json(content)})


def _checked_names(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The names that the user gives."""
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save: tensors must map names to tensors, as a state_dict(), got a "
            f"{type(tensors).__name__}"
        )
    for name, x in tensors.items():
        if not isinstance(name, str) or not isinstance(x, Tensor):
            raise TypeError(f"save: tensors must map names to tensors, got {name!r:.80}")
        if name.startswith(OWN):
            raise ValueError(f"save: names that begin with {OWN!r} are the file's own")
    return tensors


def _shows_all(x: Tensor) -> bool:
    return x._storage_elements == x.numel() and x.is_contiguous()


class _Writer:
    """Collects what the programs share: memory, leaves, numbers and generators."""

    def __init__(self, named: Mapping[str, Tensor]) -> None:
        self.named = named
        self._by_memory: dict[int, tuple[str, Tensor]] = {}
        for name, x in named.items():
            if _shows_all(x):
                self._by_memory.setdefault(x._storage_id, (name, x))
        self.memories: dict[str, Tensor] = {}
        self.own: dict[str, Tensor] = {}  # words and gradients
        self.leaves: list[dict[str, Any]] = []
        self.numbers: dict[str, str] = {}
        self.generators: list[list[int] | None] = []  # states; None: the default one
        self.devices: dict[str, str] = {}  # by the numbers that the words have for them
        self._name_of: dict[int, str] = {}  # of a memory
        self._leaf_of: dict[int, int] = {}  # by id of the tensor
        self._number_of: dict[tuple[int, Any, int], str] = {}
        self._generator_of: dict[int, int] = {}
        self._held: list[Any] = []  # whose ids are known
        self._next = 0  # of names t0, t1, ...

    def programs(self, entries: Sequence[CompiledGraph]) -> list[dict[str, Any]]:
        """What a file says of all programs: of those that no call tells apart the last used one."""
        found: list[dict[str, Any]] = []
        keys = set()
        for entry in entries:
            row = self._program(len(found), entry)
            key = safetensors.to_json([row[x] for x in ("modes", "arguments", "facts", "no_grad")])
            if not entry.capture.core.number_parts()[4]:  # its numbers tell it apart
                key += safetensors.to_json([x for x in row["sources"] if x[0] == "grad"])
                if key in keys:
                    warnings.warn(
                        "save: two programs are for the same arguments, and what told them apart "
                        "was Python's state, as whether a module trains, which a file does not "
                        "hold; it has the last used one. Save a function for each",
                        stacklevel=4,
                    )
                    del self.own[f"{WORDS}{len(found)}"]
                    continue
                keys.add(key)
            found.append(row)
        return found

    def _program(self, number: int, entry: CompiledGraph) -> dict[str, Any]:
        capture = entry.capture
        _require_plain(capture)
        self._capture, self._entry = capture, entry
        leaves = self._own_leaves()  # first: the file has memory in the shape of what is known
        words, operations, memories = _core.serialized(capture.planned)
        self.own[f"{WORDS}{number}"] = words
        for place in capture.planned.devices():
            self.devices[str(place)] = str(_core.stand_in([], [], 0, place).device)
        return {
            "operations": operations,
            "memories": [self.memory(x) for x in memories],
            "modes": entry.modes,
            "arguments": [encode(x, "an argument") for x in entry.description],
            "facts": [fact_of(x, f"argument {i}") for i, x in enumerate(entry.facts)],
            "numbers": [self._number(x) for x in capture.numbers],
            "draws": [[self._generator(x), count] for x, count in capture.draws],
            "result": encode(capture.tree, "a result"),
            **leaves,
        }

    def _own_leaves(self) -> dict[str, Any]:
        capture = self._capture
        return {
            "no_grad": [self.leaf(x) for x in capture.no_grad],
            "set_grads": [
                [self.leaf(x), output, None if fixed is None else self.leaf(fixed)]
                for x, output, fixed in capture.set_grads
            ],
            "results": [[kind, self._result(kind, what)] for kind, what in capture.results],
            "sources": [
                self._source(x, layout)
                for x, layout in zip(capture.arguments, capture.layouts, strict=True)
            ],
            "backward": self._backward(capture.backward),
        }

    # ---- what programs share

    def memory(self, x: Tensor) -> str:
        """The name of the tensor that is all of a memory."""
        known = self._name_of.get(x._storage_id)
        if known is not None:
            return known
        name, whole = self._by_memory.get(x._storage_id, ("", x))
        if not name or name in self.memories:
            name = self._free_name()
        self._name_of[x._storage_id] = name
        self.memories[name] = whole.detach()
        self._held.append(x)
        return name

    def _free_name(self) -> str:
        while f"t{self._next}" in self.named:
            self._next += 1
        self._next += 1
        return f"t{self._next - 1}"

    def tensors(self) -> dict[str, int | str]:
        """What each name stands for: the leaf that shows all of a memory, best one that gets
        gradients, or the memory; names of views have leaves of their own."""
        views: dict[str, int] = {}
        for name, x in self.named.items():
            if name not in self.memories and x._storage_id in self._name_of:
                views[name] = self._leaf_like(x)
        seen = {self.leaves[k]["memory"] for k in views.values()}
        found: dict[str, int | str] = {}
        for name, memory in self.memories.items():
            best = [
                (row["requires_grad"], row["parameter"], -k)
                for k, row in enumerate(self.leaves)
                if row["memory"] == name
                and row["dtype"] == memory.dtype.name
                and row["place"][:1] == [list(memory.shape)]
                and row["place"][2] == 0
            ]
            if best:
                found[name] = -max(best)[2]
            elif name in self.named or name not in seen:
                found[name] = name
        return found | views

    def _leaf_like(self, x: Tensor) -> int:
        """The leaf that is where a tensor is, or a new one."""
        row = self._row(x)
        for k, other in enumerate(self.leaves):
            if all(row[key] == other[key] for key in ("memory", "dtype", "place")):
                return k
        self.leaves.append(row)
        return len(self.leaves) - 1

    def leaf(self, x: Tensor | int) -> list[Any]:
        """An argument by its number, or another tensor by that of its row."""
        if isinstance(x, int):
            return ["argument", x]
        if id(x) not in self._leaf_of:
            if node_of(x) is not None:
                raise NotImplementedError(
                    "save: a result or gradient is a tensor with a tape that was made outside of "
                    "the compiled function; return a clone of it"
                )
            self._leaf_of[id(x)] = len(self.leaves)
            self._held.append(x)
            self.leaves.append(self._row(x))
        return ["leaf", self._leaf_of[id(x)]]

    def _row(self, x: Tensor) -> dict[str, Any]:
        return {
            "memory": self.memory(x if _shows_all(x) else whole_memory(x)),
            "dtype": x.dtype.name,
            "place": [list(x.shape), list(x.stride()), x.storage_offset()],
            "parameter": isinstance(x, Parameter),
            "requires_grad": x.requires_grad,
            "grad": None,
        }

    def _number(self, source: int | Location) -> Any:
        if isinstance(source, int):
            return source
        key = id(source.holder), source.key, source.index
        if key not in self._number_of:
            base = "number" if source.key is None else str(source.key)
            base += f"[{source.index}]" if source.index >= 0 else ""
            names = (f"{base}_{i}" if i else base for i in range(2**62))
            name = next(n for n in names if n not in self.numbers)
            self._number_of[key] = name
            self._held.append(source)
            value = source()
            if not isinstance(value, (int, float)):
                raise TypeError(f"save: the number {name} is no float, got {value!r:.80}")
            self.numbers[name] = float(value).hex()
        return self._number_of[key]

    def _generator(self, generator: Generator) -> int:
        if id(generator) not in self._generator_of:
            self._generator_of[id(generator)] = len(self.generators)
            is_default = generator is default_generator
            self.generators.append(None if is_default else generator.get_state().tolist())
            self._held.append(generator)
        return self._generator_of[id(generator)]

    # ---- what one program takes and gives

    def _source(self, source: Any, layout: TensorGuard) -> list[Any]:
        if isinstance(source, int):
            return ["argument", source]
        kind, what = source
        if kind == "seed":
            return ["seed", what, fact_of(layout, "a gradient")]
        if kind == "grad":
            of = self.leaf(what)
            if isinstance(what, Tensor) and what.grad is not None:
                name = f"{GRADIENTS}{of[1]}"
                self.own[name] = what.grad.detach()
                self.leaves[of[1]]["grad"] = name
            return ["grad", of, fact_of(layout, "a gradient")]
        raise NotImplementedError("save: two arguments share memory; pass clones")

    def _result(self, kind: int, what: Any) -> Any:
        if kind == VIEW:
            of, which, *geometry = what
            return [of, self.leaf(which) if of == OBJECT else which, *geometry]
        return self.leaf(what) if kind in (OBJECT, ALIAS, GRAD) else what

    def _backward(self, backward: Backward | None) -> dict[str, Any] | None:
        if backward is None:
            return None
        return {
            "error": backward.error,
            "roots": backward.roots,
            "spent": backward.spent,
            "outputs": backward.outputs,
            "shapes": [[list(shape), t.name, place] for shape, t, place in backward.shapes],
            "targets": [
                [None if t.leaf is None else self.leaf(t.leaf), t.position, t.output, t.reach]
                for t in backward.targets
            ],
        }


def _require_plain(capture: Capture) -> None:
    """NotImplementedError for a program that stands for one argument alone."""
    for i in sorted({*capture.kept, *capture.valued}):
        raise NotImplementedError(
            f"save: argument {i} is a tensor that the program is captured for: a parameter that is "
            "passed in, one that the function reads by itself, too, or one whose values it looks "
            "at; let the function come to it by itself, or pass a clone"
        )


def fact_of(guard: TensorGuard | type, where: str) -> Any:
    """What an argument must be: "float", or dtype, shape, strides, device, and whether it requires
    grad."""
    if isinstance(guard, type):
        if guard is not float:
            raise NotImplementedError(f"save: {where} is a {guard.__name__}; pass a float")
        return "float"
    kind, own, dtype, shape, strides, place, wants = guard.row()
    if kind is not Tensor or own:
        raise NotImplementedError(
            f"save: {where} is a {kind.__name__}, or has attributes, which a file does not hold; "
            "pass x.detach()"
        )
    if guard.shared:
        raise NotImplementedError(f"save: {where} shares memory with another one; pass clones")
    return [ALL[dtype].name, list(shape), list(strides), place, wants]
