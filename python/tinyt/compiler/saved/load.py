"""``tinyt.compiler.load``: the programs of a file, to be called as the function was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from tinyt import _core
from tinyt._autograd import make_function_node, set_node
from tinyt._capture import CompiledGraph, Location, TensorGuard
from tinyt._core import CaptureError
from tinyt._tensor import device, number_of_device, view_dtype
from tinyt.compiler.backward import Backward, Refusal, Target
from tinyt.compiler.capture.results import ALIAS, ARGUMENT, GRAD, NUMBER, OBJECT, OUTPUT, VIEW
from tinyt.compiler.graph.graph import Graph
from tinyt.compiler.inspect.views import Views
from tinyt.compiler.saved.layout import FORMAT, METADATA, MOST_NAME, SCHEMA, WORDS, fits, one_line
from tinyt.compiler.saved.values import decode, leaves_in, signature
from tinyt.dtypes import ALL
from tinyt.forks import made_once
from tinyt.io import safetensors
from tinyt.io.errors import SerializationError
from tinyt.io.header import parse_json
from tinyt.ops import tensor
from tinyt.parameter import Parameter
from tinyt.random import Generator, default_generator
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from typing_extensions import Self

    from tinyt._tensor import dtype

_DTYPES: dict[str, dtype] = {x.name: x for x in ALL}
_HELD = (KeyError, TypeError, ValueError, IndexError, OverflowError, RuntimeError)


def load(f: str | PathLike[str] | BinaryIO) -> LoadedFunction:
    """Reads the programs that `Compiled.save` wrote, ready to run: nothing is captured, and none of
    the code that they were captured from is needed or run.

    The result is called as the function was. It has tensors of its own: those that programs read
    and write are in ``tensors``, by name. Parameters that programs give gradients to come back as
    parameters; gradients that programs add to are as they were, others None.

    Args:
        f: a path, or a binary file, of which all that follows is read.

    Raises:
        SerializationError: if the file is damaged, holds no programs, or holds those of another
            version's format or operations. The file is distrusted: all of it is checked before it
            is used, and no code is run.
        OSError: if it cannot be read.

    >>> import io, tinyt
    >>> step = tinyt.compile(lambda x: x * 2 + 1)
    >>> step(tinyt.ones(2)).tolist()
    [3.0, 3.0]
    >>> file = io.BytesIO()
    >>> step.save(file)
    >>> again = tinyt.compiler.load(io.BytesIO(file.getvalue()))
    >>> again(tinyt.tensor([1.0, 2.0])).tolist()
    [3.0, 5.0]
    """
    tensors, metadata = safetensors.read(f)
    text = metadata.get(METADATA)
    if text is None:
        raise SerializationError("load: the file holds no programs; tinyt.load reads its tensors")
    content = parse_json(text, "the description of the programs")
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise SerializationError(
            f"load: the programs are in format {found!r:.40}, written by version "
            f"{content.get('version') if isinstance(content, dict) else None!r:.40} of tinyt; this "
            f"version reads format {FORMAT}"
        )
    if not fits(content, SCHEMA):
        raise SerializationError("load: the description of the programs is not in its form")
    try:
        return _Reader(content, tensors).function()
    except _HELD as error:
        what = f"{error!r}" if isinstance(error, (KeyError, IndexError)) else str(error)
    raise SerializationError(
        f"load: the programs, of version {content['version']!r:.40}, cannot be used: {what:.400}"
    )


class LoadedFunction(Views):
    """The programs of a file. A call runs the one that was captured for such arguments; there is no
    Python function that another call could be captured from.

    ``tensors`` are the tensors that programs read and write, by name: the memory itself.
    ``numbers`` are those that programs read at each run, as a learning rate; others may be put
    there.
    """

    def __init__(
        self,
        name: str,
        entries: Iterable[CompiledGraph],
        tensors: dict[str, Tensor],
        numbers: Numbers,
    ) -> None:
        super().__init__(partial(_within, name))
        self.tensors, self._given_name = MappingProxyType(tensors), name
        self.numbers = numbers
        self.entries.extend(entries)
        for entry in entries:
            entry.confirm()

    def save(
        self,
        f: str | PathLike[str] | BinaryIO,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        """As `Compiled.save`, with the tensors and numbers as they are now; by default under the
        names that they have."""
        known = {x._storage_id for entry in self.entries for x in entry.capture.touched}
        for name, x in self.tensors.items():
            if x._storage_id not in known:
                raise RuntimeError(
                    f"save: the tensor {name} has been given other memory than the programs use, "
                    "as by `.data =`; write into it instead, with copy_()"
                )
        super().save(f, self.tensors if tensors is None else tensors)

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any], profile: Any = None) -> Any:
        """The error of a call that no program stands for."""
        whys = [_why(entry, args, kwargs) for entry in self.entries]
        raise ValueError(
            f"{self._given_name}: no program of the file is for this call: {'; '.join(whys)}; the "
            "function must be called with such arguments before it is saved"
        )

    def _name(self) -> str:
        return self._given_name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._given_name}: {len(self.entries)} programs>"


def _why(entry: CompiledGraph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Why a program is not for a call."""
    found = entry.reason(args, kwargs)
    if found is None:
        missing = sum(
            1
            for x in entry.capture.arguments
            if isinstance(x, tuple) and isinstance(x[1], Tensor) and x[1].grad is None
        )
        there = any(isinstance(x, Tensor) and x.grad is not None for x in entry.capture.no_grad)
        if missing:
            found = f"{missing} gradients that it adds to are None; set them to zeros"
        elif there:
            found = "gradients are there already; set them to None"
        else:
            found = "a number is one for which the function does something else"
    return f"{found} (the program for {signature(entry.description, entry.facts)})"


def _within(name: str, *args: Any, **kwargs: Any) -> Any:
    """What stands for the function: another function that is compiled calls it."""
    raise CaptureError(
        f"compile: {name} is a program of a file, which cannot be a part of another one; call it "
        "outside the compiled function"
    )


class Numbers(MutableMapping[str, float]):
    """Those that programs read at each run, by name: floats, of which others may be put there."""

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values  # what programs read

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __setitem__(self, name: str, value: float) -> None:
        if name not in self._values:
            raise KeyError(f"no program reads a number {name!r}; there are {', '.join(self)}")
        if isinstance(value, (str, bytes)):  # which float() reads, too
            raise TypeError(f"the number {name!r} must be a float, got {value!r:.80}")
        self._values[name] = float(value)

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"programs read the number {name!r}; it cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __ior__(self, values: Mapping[str, float]) -> Self:
        self.update(values)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values})"

    def location(self, name: str) -> Location:
        """Where one lies."""
        return Location(self._values, name)


class SavedCapture:
    """What a program takes and gives (`tinyt.compiler.capture.capture.Capture`)."""

    guards = recomputed = origins = ()
    lines = dynamic = resized = None
    how = ""

    def __init__(self, core: _core.Graph, touched: list[Tensor]) -> None:
        self.core = self.planned = core
        self.touched = touched
        self.kept: dict[int, Tensor] = {}
        self.valued: dict[int, Tensor] = {}
        self.captured = self.reached = {x._storage_id for x in touched}
        self.arguments: list[Any] = []
        self.layouts: list[TensorGuard] = []
        self.numbers: list[int | Location] = []
        self.draws: list[tuple[Generator, int]] = []
        self.no_grad: list[Tensor | int] = []
        self.set_grads: list[tuple[Tensor | int, int, Tensor | None]] = []
        self.results: list[tuple[int, Any]] = []
        self.tree: Any = None
        self.backward: Backward | None = None

    @property
    def places(self) -> list[Location]:
        """Where the numbers lie that each run reads."""
        return [x for x in self.numbers if isinstance(x, Location)]

    @made_once
    def graph(self) -> Graph:
        """What was planned."""
        return Graph.from_core(self.core)

    def find_written(self, count: int) -> None:
        """Notes which of ``count`` leaves of the arguments, and of what is captured beyond these,
        a run writes to."""
        storages = {x._storage_id for _, x, _ in self.core.writes() if x is not None}
        sources = [self.arguments[number] for _, x, number in self.core.writes() if x is None]
        self.written = frozenset(
            [x for x in sources if isinstance(x, int)]
            + [count + i for i, x in enumerate(self.touched) if x._storage_id in storages]
        )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)


class _Reader:
    """Makes what the JSON of a file says, over its tensors."""

    def __init__(self, content: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.content, self.file = content, tensors
        _require(
            content["name"] == one_line(content["name"]),
            f"the function's name is not a printable line of at most {MOST_NAME} characters",
        )
        for number, name in content["devices"].items():
            here = number_of_device(device(name).require_present())
            _require(str(here) == number, f"{name} has another number in this process")
        self.memories = {
            name: tensors[name] if place == "cpu" else tensors[name].to(device(place))
            for name, place in content["memories"].items()
        }
        self.leaves = [self._leaf_tensor(row) for row in content["leaves"]]
        self.tensors: dict[str, Tensor] = {
            name: self._leaf_number(x) if isinstance(x, int) else self.memories[x]
            for name, x in content["tensors"].items()
        }
        self.numbers = Numbers({name: float.fromhex(x) for name, x in content["numbers"].items()})
        self.generators = [
            default_generator if state is None else _generator(state)
            for state in content["generators"]
        ]

    def function(self) -> LoadedFunction:
        """All of it."""
        programs = self.content["programs"]
        _require(len(programs) > 0, "there is no program")
        entries = [self._entry(i, program) for i, program in enumerate(programs)]
        return LoadedFunction(self.content["name"], entries, self.tensors, self.numbers)

    def _leaf_tensor(self, row: dict[str, Any]) -> Tensor:
        memory = self.memories[row["memory"]]
        shape, stride, offset = row["place"]
        t = _DTYPES[row["dtype"]]
        if memory.dtype is not t:
            memory = view_dtype(prim.reshape(memory, (memory.numel(),)), t)
        x = prim.as_strided(memory, tuple(shape), tuple(stride), offset)
        if row["parameter"]:
            x = Parameter(x, row["requires_grad"])
        elif row["requires_grad"]:
            x.requires_grad_()
        if row["grad"] is not None:
            x.grad = self.file[row["grad"]].to(x.device)
        return x

    def _leaf_number(self, number: int) -> Tensor:
        _require(0 <= number < len(self.leaves), "there is no such tensor")
        found: Tensor = self.leaves[number]
        return found

    # ---- one program

    def _entry(self, number: int, program: dict[str, Any]) -> CompiledGraph:
        memories = [self.memories[name] for name in program["memories"]]
        words = self.file[f"{WORDS}{number}"]
        core = _core.deserialized(words, program["operations"], memories, len(program["draws"]))
        self.facts = [_stand_in(fact) for fact in program["facts"]]
        self.outputs = len(core.outputs())
        if program["backward"] is not None:
            self.outputs = core.split_point()[1]
        args, kwargs = [decode(x) for x in program["arguments"]]
        _require(args[0] is tuple and kwargs[0] is dict, "the arguments are no call's")
        _require(
            leaves_in(args) + leaves_in(kwargs) == len(self.facts),
            "the arguments have another number of tensors and floats",
        )
        capture = self._capture(core, memories, program)
        plan = _core.Program(core, 0 if capture.backward is None else 1)
        _check_arguments(plan, capture, is_call=True)
        if capture.backward is not None and capture.backward.error is None:
            _check_arguments(capture.backward.program, capture, is_call=False)
        return CompiledGraph(capture, plan, (args, kwargs), program["modes"], self.facts)

    def _capture(
        self, core: _core.Graph, memories: list[Tensor], program: dict[str, Any]
    ) -> SavedCapture:
        capture = SavedCapture(core, memories)
        _require(len(program["sources"]) == core.arguments, "the sources of arguments are others")
        for row in program["sources"]:
            self._add_source(capture, *row)
        count, given = core.number_parts()[0], program["numbers"]
        _require(len(given) == count, f"a run reads {count} numbers, there are {len(given)}")
        capture.numbers = [self._number(x) for x in given]
        capture.draws = [(self.generators[i], _count(n)) for i, n in program["draws"]]
        capture.no_grad = [self._leaf(x) for x in program["no_grad"]]
        capture.set_grads = [self._set_grad(*row) for row in program["set_grads"]]
        capture.tree = decode(program["result"])
        capture.results = [(kind, self._result(core, kind, x)) for kind, x in program["results"]]
        _require(leaves_in(capture.tree) == len(capture.results), "the results are others")
        if program["backward"] is not None:
            capture.backward = self._backward(core, program)
        capture.find_written(len(self.facts))
        return capture

    def _argument(self, number: int) -> int:
        """That of a tensor among the arguments."""
        _require(0 <= number < len(self.facts), f"there is no argument {number}")
        _require(isinstance(self.facts[number], Tensor), f"argument {number} is no tensor")
        return number

    def _leaf(self, row: Sequence[Any]) -> Tensor | int:
        kind, number = row
        if kind == "argument":
            return self._argument(number)
        _require(kind == "leaf", "there is no such tensor")
        return self._leaf_number(number)

    def _add_source(self, capture: SavedCapture, kind: str, what: Any, fact: Any = None) -> None:
        if kind == "argument":
            capture.arguments.append(self._argument(what))
            capture.layouts.append(TensorGuard(self.facts[what]))
            return
        _require(kind in ("grad", "seed") and fact is not None, "there is no such source")
        like = _stand_in(fact)
        if not isinstance(like, Tensor):
            raise ValueError("a gradient is a float")
        _require(isinstance(what, int) == (kind == "seed"), "there is no such source")
        capture.arguments.append((kind, what if kind == "seed" else self._leaf(what)))
        capture.layouts.append(TensorGuard(like))

    def _number(self, source: int | str) -> int | Location:
        if isinstance(source, str):
            _require(source in self.numbers, f"there is no number {source!r:.80}")
            return self.numbers.location(source)
        is_float = 0 <= source < len(self.facts) and isinstance(self.facts[source], float)
        _require(is_float, f"argument {source} is no float")
        return source

    def _output(self, number: int) -> int:
        _require(0 <= number < self.outputs, f"there is no output {number}")
        return number

    def _set_grad(
        self, leaf: Sequence[Any], output: int, fixed: Sequence[Any] | None
    ) -> tuple[Tensor | int, int, Tensor | None]:
        if output >= 0:
            self._output(output)
        elif output < -1:
            self._argument(-2 - output)
        there = None if fixed is None else self._leaf(fixed)
        if isinstance(there, int):
            raise ValueError("a gradient that was there is no argument")
        return self._leaf(leaf), output, there

    def _result(self, core: _core.Graph, kind: int, what: Any) -> Any:
        is_number = isinstance(what, int)
        if kind == OUTPUT and is_number:
            return self._output(what)
        if kind == ARGUMENT and is_number:
            _require(0 <= what < len(self.facts), f"there is no argument {what}")
            return what
        if kind == NUMBER and is_number:
            _require(0 <= what < len(core.scalars()), f"there is no number {what}")
            return what
        _require(kind in (OBJECT, VIEW, ALIAS, GRAD) and not is_number, "there is no such result")
        if kind == VIEW:
            return self._view(core, *what)
        leaf = self._leaf(what)
        _require(kind == GRAD or isinstance(leaf, Tensor), "a result is no tensor of the file")
        return leaf

    def _view(self, core: _core.Graph, of: int, which: Any, *geometry: Any) -> tuple[Any, ...]:
        once, shape, stride, offset = geometry
        _require(of in (OUTPUT, ARGUMENT, OBJECT), "there is no such view")
        base = self._argument(which) if of == ARGUMENT else self._result(core, of, which)
        return of, base, tuple(once), tuple(shape), tuple(stride), offset

    def _backward(self, core: _core.Graph, program: dict[str, Any]) -> Backward:
        row = program["backward"]
        later = len(core.outputs()) - self.outputs
        shapes = [(tuple(shape), _DTYPES[t], place) for shape, t, place in row["shapes"]]
        seeds = [x for x in program["sources"] if x[0] == "seed"]
        _require(len(shapes) == len(seeds) == len(row["roots"]), "the gradients are others")
        _require(row["outputs"] == self.outputs, "the outputs are others")
        for k in (*row["roots"], *row["spent"]):
            self._output(k)
        targets = []
        for leaf, position, output, reach in row["targets"]:
            _require(-1 <= output < later, f"there is no gradient {output}")
            of = None if leaf is None else self._leaf(leaf)
            if isinstance(of, int):
                raise ValueError("a target is no tensor of the file")
            position = self._argument(position) if of is None else -1
            targets.append(Target(of, position, output, reach))
        found = Backward.restored(
            row["error"], targets, row["spent"], row["roots"], shapes, self.outputs
        )
        found.plan(core)
        return found


def _check_arguments(plan: _core.Program, capture: SavedCapture, is_call: bool) -> None:
    """ValueError where what a program reads is not what its arguments are; a call has no gradients
    of its results yet."""
    rows = zip(plan.arguments(), plan.uses(), capture.arguments, capture.layouts, strict=is_call)
    for i, ((wanted, _), is_used, source, layout) in enumerate(rows):
        if not is_used:
            continue
        is_seed = isinstance(source, tuple) and source[0] == "seed"
        _require(not (is_call and is_seed), f"a call reads the gradient of a result, argument {i}")
        _, _, t, shape, stride, *_ = layout.row()
        _, _, read_shape, read_stride, read_t = wanted
        is_same = t == read_t and list(shape) == list(read_shape)
        is_same = is_same and (0 in shape or list(stride) == list(read_stride))
        _require(is_same, f"argument {i} of the program has another shape, strides or dtype")


def _count(number: int) -> int:
    _require(0 <= number < 2**48, f"no program takes {number} counters")
    return number


def _generator(state: list[int]) -> Generator:
    _require(0 <= state[1] < 2**62, f"no generator stands at {state[1]}")
    made = Generator()
    made.set_state(tensor(state))
    return made


def _stand_in(fact: Any) -> Tensor | float:
    """What has the geometry of an argument, and says whether it requires grad."""
    if isinstance(fact, str):
        _require(fact == "float", "an argument is neither a tensor nor a float")
        return 0.0
    name, shape, stride, place, wants = fact
    made = _core.stand_in(shape, stride, _DTYPES[name].number, place)
    if wants == 1:
        set_node(made, make_function_node(Refusal("the argument of a program"), [], 1), 0)
    elif wants == 2:
        made.requires_grad_()
    _require(0 <= wants <= 2, "an argument requires grad or does not")
    return made
