"""Makes graphs of the statements of a text (docs/graph-text.md), checked by the core's inference.

A recording has the inputs, results, writes and what only a recording can have (draws, control
flow); the nodes of the text then take the place of its own, as those of a pass do.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from tinyt import _core
from tinyt.compiler.graph.build_flow import check_draws, check_flow, record_flow
from tinyt.compiler.graph.build_values import (
    Kind,
    Refusals,
    compare,
    constant,
    numel_of,
    recording,
)
from tinyt.compiler.graph.expand import Input, Step, expanded
from tinyt.compiler.graph.graph import FLOW, OPS, Graph, Node, SplitPoint, Value
from tinyt.compiler.graph.text import CPU, STEPS, numbers_of_step
from tinyt.dtypes import float32
from tinyt.tensor import prim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tinyt.compiler.graph.expand import Program
    from tinyt.compiler.graph.statements import Body, Definition, Hold, Live, Part
    from tinyt.tensor import Tensor

_RANDOM = {name for name, row in OPS.items() if "random" in row["flags"]}
_ANY_NUMBER = {name for name, row in OPS.items() if row["inputs"] < 0}
_MOST_GENERATORS = 1 << 16
_STEPS = {row: (rule, name) for rule, (name, row) in enumerate(STEPS.items())}
_GIVEN = 5


class Builder:
    """The graph of a body: that of a whole text, or of a part of control flow."""

    def __init__(
        self,
        body: Body,
        definitions: Mapping[str, Definition],
        tensors: Mapping[str, Tensor],
        part: Part | None = None,
        live: Sequence[Live] = (),
        holds: Sequence[Hold] = (),
    ) -> None:
        self.live, self.holds = live, holds
        self.definitions, self.tensors, self.is_part = definitions, tensors, part is not None
        self.generators = _MOST_GENERATORS if part is None else len(part.draws)
        self.program: Program = expanded(body, definitions)
        self.kinds: list[Kind] = []
        # Of inputs: the tensor, None of an argument.
        self.held: dict[int, Tensor | None] = {}
        self.placeholders: dict[int, Tensor] = {}  # of arguments, while the recording is made
        self.parts: dict[int, tuple[Graph, ...]] = {}  # by number of the step
        self.values: list[int] = []
        self.origins: dict[int, int] = {}
        self.cells: set[int] = set()

    def build(self) -> Graph:
        """The graph; GraphSyntaxError where there is none."""
        for i, step in enumerate(self.program.steps):
            if step.op in FLOW:
                self.parts[i] = tuple([self._part(part) for part in step.parts])
        self.kinds = [Kind((), float32, CPU)] * self.program.values  # not known yet
        self._make_inputs()
        self._infer()
        self._check_ends()
        with recording() as core:
            if self.live:
                self._set_numbers(core)
            self._record(core)
        return self._rewritten(core)

    def _set_numbers(self, core: _core.Graph) -> None:
        """Gives the recording its numbers that are read anew."""
        rows, items = [], []
        for x in self.live:
            left = x.left
            if x.tensor:
                memory = self.tensors.get(x.tensor)
                if memory is None:
                    raise x.at.error(f"parse was given no tensor named {x.tensor!r}")
                with Refusals(x.at):
                    items.append(prim.as_strided(memory.detach(), (), (), x.left))
                left = len(items) - 1
            form = "<d" if isinstance(x.value, float) else "<q"
            (bits,) = struct.unpack("<q", struct.pack(form, x.value))
            rows.append((x.op, left, x.right, bits))
        given = 1 + max([x.left for x in self.live if x.op == _GIVEN], default=-1)
        guards = [(x.test, x.outcome, x.left, x.right) for x in self.holds]
        with Refusals(self.live[0].at):
            core.set_numbers(given, rows, items, guards)

    def _part(self, part: Part) -> Graph:
        return Builder(part.body, self.definitions, self.tensors, part).build()

    # ---- inputs

    def _make_inputs(self) -> None:
        memories: dict[int, str] = {}
        arguments = 0
        for x in self.program.inputs:
            self.kinds[x.value] = Kind(x.type.shape, x.type.dtype, x.type.device)
            numel_of(x.type)
            if x.op == "argument":
                (number,) = x.payload
                if number != arguments:
                    raise x.at.error(f"arguments are numbered in their order, expected {arguments}")
                arguments += 1
                self.held[x.value] = None
            elif x.op == "tensor":
                self.held[x.value] = self._given(x, memories)
            elif x.op == "cell":
                self.held[x.value] = self._cell(x)
            else:
                self.held[x.value] = constant(x)

    def _cell(self, x: Input) -> Tensor:
        """What stands for a number that is read anew until the recording has it."""
        (number,) = x.payload
        if self.is_part or number >= len(self.live):
            raise x.at.error(f"there is no live number {number} here")
        if number in self.cells:
            raise x.at.error(f"the live number {number} has a cell already")
        self.cells.add(number)
        return constant(x._replace(op="number", payload=(1.5,)))

    def _given(self, x: Input, memories: dict[int, str]) -> Tensor:
        (name,) = x.payload
        tensor = self.tensors.get(name)
        if tensor is None:
            raise x.at.error(f"parse was given no tensor named {name!r}")
        found = Kind(tuple(tensor.shape), tensor.dtype, tensor._device_code)
        if found != self.kinds[x.value]:
            raise x.type.at.error(f"the tensor {name!r} is {found}, not {self.kinds[x.value]}")
        whole = tensor.numel() == tensor._storage_elements and tensor.storage_offset() == 0
        if not (whole and tensor.is_contiguous()):
            raise x.at.error(f"the tensor {name!r} is a view; pass a contiguous clone of it")
        other = memories.setdefault(tensor._storage_id, name)
        if other != name:
            raise x.at.error(f"the tensors {other!r} and {name!r} lie in one memory")
        return tensor.detach()

    # ---- types

    def _infer(self) -> None:
        with recording():
            operands: dict[int, Tensor] = {}

            def operand(value: int) -> Tensor:
                """A dense tensor without elements of its own; a number is itself."""
                if value not in operands:
                    held = self.held.get(value)
                    is_number = value in self.program.numbers
                    operands[value] = held if held is not None and is_number else self._fill(value)
                return operands[value]

            for i, step in enumerate(self.program.steps):
                if step.op in FLOW:
                    kinds = [self.kinds[v] for v in step.inputs]
                    found = check_flow(step, self.parts[i], kinds, self.generators)
                    made = [Kind(*kind) for kind in found]
                elif step.op in _STEPS:
                    written = _record_step(step, [operand(v) for v in step.inputs])
                    made = [self.kinds[v] for v in step.inputs[:written]]
                else:
                    check_arity(step, self.generators)
                    made = _inferred(step, [operand(v) for v in step.inputs])
                if len(made) != len(step.outputs):
                    raise step.at.error(
                        f"{step.op} makes {len(made)} values, not {len(step.outputs)}"
                    )
                for value, kind in zip(step.outputs, made, strict=True):
                    self.kinds[value] = kind
                for value, said in step.said:
                    compare(self.kinds[value], said, step.op)

    def _fill(self, value: int) -> Tensor:
        shape, t, device = self.kinds[value]
        return prim.fill(shape, t.number, 0.0, 0, 0.0, device)

    def _check_ends(self) -> None:
        """Of writes and results: shapes, and that nothing is read after it is written."""
        program = self.program
        written: set[int] = set()
        for value, target, at in program.writes:
            if target not in self.held or target in program.constants:
                raise at.error("only an argument or a tensor can be written to")
            if target in written:
                raise at.error("a memory can be written to once")
            written.add(target)
            if self.kinds[value] != self.kinds[target]:
                raise at.error(f"writes {self.kinds[value]} to {self.kinds[target]}")
        for value, _, at in program.writes:
            if value in written or value in program.numbers:
                raise at.error("writes what a memory held before it is written; write copy() of it")
        if self.is_part:
            if any(geometry is not None for _, geometry, _ in program.returns):
                raise program.at.error("a part of control flow returns dense values")
            return
        for value, _, at in program.returns:
            if value in written or value in program.numbers:
                raise at.error("returns a number, or what is written to; return copy() of it")

    # ---- the recording

    def _record(self, core: _core.Graph) -> None:
        program = self.program
        split = program.split
        if split is None:
            self._record_range(core, program.inputs, range(len(program.steps)))
            self._record_writes([w[:2] for w in program.writes])
            self._record_results(core, 0, len(program.returns))
            return
        if split.results > len(program.returns):
            raise split.at.error(f"the text returns {len(program.returns)} values")
        early = {v for step in program.steps[: split.step] for v in step.outputs}
        early |= {x.value for x in program.inputs}
        before = [w[:2] for w in program.writes if w[0] in early]
        late_inputs = {x.value for x in program.inputs[split.inputs :]}
        for value, target, at in program.writes:
            if value in early and (target in late_inputs or value in late_inputs):
                raise at.error("writes over the split; write copy() of it")
        self._record_range(core, program.inputs[: split.inputs], range(split.step))
        self._record_writes(before)
        self._record_results(core, 0, split.results)
        core.set_mark()
        steps = range(split.step, len(program.steps))
        self._record_range(core, program.inputs[split.inputs :], steps)
        self._record_writes([w[:2] for w in program.writes if w[0] not in early])
        self._record_results(core, split.results, len(program.returns))

    def _record_range(self, core: _core.Graph, inputs: Sequence[Input], steps: range) -> None:
        for x in inputs:
            held, (shape, t, device) = self.held[x.value], self.kinds[x.value]
            if x.op == "cell":
                with Refusals(x.at):
                    self.held[x.value] = core.cell(x.payload[0])
            elif held is None:
                self.placeholders[x.value] = core.add_argument(list(shape), t.number, device)
            else:
                prim.copy(held)
        for i in steps:
            step = self.program.steps[i]
            if step.op not in FLOW and step.op not in _RANDOM and step.op not in _STEPS:
                continue
            operands = [self._operand(v) for v in step.inputs]
            if step.op in FLOW:
                record_flow(step, self.parts[i], operands)
            elif step.op in _STEPS:
                _record_step(step, operands)
            else:
                _call(step, operands)
            self.origins[i] = core.node_count - 1

    def _operand(self, value: int) -> Tensor:
        held = self.held.get(value)
        return held if held is not None and value in self.program.numbers else self._fill(value)

    def _memory(self, value: int) -> Tensor | None:
        """The memory of an input; None of other values."""
        return self.placeholders.get(value) if self.held.get(value) is None else self.held[value]

    def _record_writes(self, writes: Sequence[tuple[int, int]]) -> None:
        for value, target in writes:
            memory = self._memory(target)
            assert memory is not None
            memory._assign(self._fill(value))

    def _record_results(self, core: _core.Graph, first: int, last: int) -> None:
        targets = {value: target for value, target, _ in reversed(self.program.writes)}
        for value, geometry, at in self.program.returns[first:last]:
            if self.is_part:
                core.add_result(self._fill(value))
                continue
            # What is written, or an input, is returned as the memory itself.
            memory = self._memory(targets.get(value, value))
            x = self._fill(value) if memory is None else memory
            with Refusals(at):
                core.add_output(x if geometry is None else prim.as_strided(x, *geometry))

    # ---- the nodes

    def _rewritten(self, core: _core.Graph) -> Graph:
        made = Graph.from_core(core)
        known = len(made.values)
        self.values = [-1] * self.program.values
        for x, row in zip(self.program.inputs, made.inputs, strict=True):
            self.values[x.value] = row.value
        values = list(made.values)
        nodes = []
        for i, step in enumerate(self.program.steps):
            for v in step.outputs:
                self.values[v] = len(values)
                shape, t, device = self.kinds[v]
                values.append(Value(shape, t, i, device))
            read, made_here = self._numbers(step.inputs), self._numbers(step.outputs)
            nodes.append(Node(step.op, step.attrs, read, made_here, self.origins.get(i, -1)))
        returned = self._numbers([value for value, *_ in self.program.returns])
        numbers = {self.values[target]: self.values[v] for v, target, _ in self.program.writes}
        split = self.program.split
        graph = made._replace(
            nodes=nodes,
            values=values,
            outputs=[o._replace(value=v) for o, v in zip(made.outputs, returned, strict=True)],
            writes=[w._replace(value=numbers[_target(made, w)]) for w in made.writes],
            split_point=SplitPoint(split.step, split.results) if split else made.split_point,
            recorded=known,
            inside={},
        )
        with Refusals(self.program.at):
            found = Graph.from_core(graph.to_core())
        if split is None:
            return found
        early = [x for x in self.program.inputs[: split.inputs] if x.op == "argument"]
        return found._replace(split_point=found.split_point._replace(argument=len(early)))

    def _numbers(self, values: Sequence[int]) -> tuple[int, ...]:
        return tuple([self.values[v] for v in values])


def _target(graph: Graph, write: Any) -> int:
    """The input that a write is to."""
    for item in graph.inputs:
        x = item.tensor
        if item.argument == write.argument and (
            x is None or (not item.weak and x._storage_id == write.target._storage_id)
        ):
            return item.value
    raise AssertionError


def check_arity(step: Step, generators: int) -> None:
    """Operands, results and generators as the op table has them."""
    row = OPS[step.op]
    wanted, got = row["inputs"], len(step.inputs)
    if got != wanted if wanted >= 0 else got == 0:
        many = "at least 1 value" if wanted < 0 else f"{wanted} values"
        raise step.at.error(f"{step.op} takes {many}, got {got}")
    if step.op in _RANDOM:
        check_draws(step.at, step.attrs[-2:], generators)


def _record_step(step: Step, operands: Sequence[Tensor]) -> int:
    """Records a step of an optimiser; how many of its operands it writes."""
    if not operands:
        raise step.at.error(f"{step.op} takes at least 1 value")
    rule, name = _STEPS[step.op]
    with Refusals(step.at):
        return _core.record_step(name, numbers_of_step(rule, step.attrs), list(operands))


def _call(step: Step, operands: Sequence[Tensor]) -> tuple[Tensor, ...]:
    run = getattr(prim, step.op)
    if step.op in _ANY_NUMBER:
        return (run(tuple(operands), *step.attrs),)
    results = run(*operands, *step.attrs)
    return results if isinstance(results, tuple) else (results,)


def _inferred(step: Step, operands: Sequence[Tensor]) -> list[Kind]:
    with Refusals(step.at):
        results = _call(step, operands)
    made = [Kind(tuple(x.shape), x.dtype, x._device_code) for x in results]
    if step.op == "cat" and any([x.dtype is not made[0].dtype for x in operands]):
        raise step.at.error("cat takes values of one dtype; cast them first")
    return made
